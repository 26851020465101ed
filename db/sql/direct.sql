-- The direct path: publish events and create their deliveries, already claimed by the worker of the same process (ADR
-- 47).

-- name: publish
-- As event.publish_batch, but events may bypass the outbox under the conditions in $12 to $17, for the member $18. Return a row for each
-- item. For an item with deliveries, return a row for each delivery, with the columns of delivery.claim. is_owed: the
-- item has a row in the outbox.
SELECT p.item, p.outcome, p.event_id, p.accepted_at, p.ordered, p.in_flight, p.is_owed,
       c.subscription_id, p.fence, c.version, c.lease_seconds, 1 AS schedule_position, false AS is_replay,
       c.lane IS NOT NULL AS is_in_lane, false AS is_held, false AS is_probe, 0::double precision AS age_seconds,
       NULL::double precision AS planned_seconds
FROM hookwire.publish_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10,
                            ROW($12::bigint, $13::uuid, $14::double precision, $15::double precision, $16::integer,
                                $17::integer)::hookwire.direct_terms, publishers => $11, member => $18::integer) AS p
LEFT JOIN LATERAL unnest(p.claims) AS c ON true;
