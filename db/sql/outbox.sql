-- What a sink is still owed. Reads check the term without a lock (RR-08); claims start at the low-water mark of
-- each shard, one LATERAL per shard (RR-07).
-- A process remembers ids from one statement to the next: where it begins to read, what is in flight, what was acknowledged.
-- Each statement that is given such ids names their origin, and fails where another one answers (FC-01, migration 39).
-- Each event is looked up by itself (LATERAL with a LIMIT): a plain join may be merged, and a merge reads every event from
-- the beginning of the partition, those of weeks ago too. By a range, in order: only the primary key gives that.
--
-- Whatever takes records of a batch out of a table that may hold millions, here and in manifest.sql, hold.sql and
-- delivery.*.sql, looks each up by its whole key, in a LATERAL with LIMIT 1 that no planner can turn into a join, and deletes
-- by place (ctid). As a join it would be one that reads the whole backlog for each batch whenever it was planned while
-- the table was empty, until that plan is dropped (RP-03, tests/db/test_stale_plans.py).
--
-- A place is that of the version which this statement's snapshot sees, and no other row can stand there before the
-- statement ends. Who else deletes the row meanwhile has deleted it once: it is not returned here, and the ledger counts
-- what is returned. Who else moves it (layout.hash_owed to another shard, hold.rekey, layout.move_held) gives it another
-- place, and it stays: it is owed still, and whoever leads then claims it again (RR-01). Releases of PostgreSQL that do
-- not look at the place again delete the new version instead, and return it; it is the same record.

-- name: claim
-- Ends with the record that crosses $9 bytes of payload, so that a batch fits into memory. A record whose event was
-- deleted comes without a topic: it must be seen, or it would stand before all later ones for ever.
SELECT id, shard, tenant, topic, key, content_type, headers, payload, accepted_at, ordered,
       topic_known, kafka_topic, amqp_exchange, amqp_routing_key, amqp_exchange_type
FROM (
    SELECT c.id, c.shard, e.tenant, e.topic, e.key, e.content_type, e.headers, e.payload, e.accepted_at, e.ordered,
           t.name IS NOT NULL AS topic_known, t.kafka_topic, t.amqp_exchange, t.amqp_routing_key, t.amqp_exchange_type,
           coalesce(sum(octet_length(e.payload)) OVER (ORDER BY c.id ROWS UNBOUNDED PRECEDING) - octet_length(e.payload), 0) AS before
    FROM (
        SELECT o.id, o.shard
        FROM unnest($2::smallint[], $3::bigint[]) AS s(shard, low)
        CROSS JOIN LATERAL (
            SELECT o.id, o.shard FROM hookwire.outbox o
            WHERE o.sink = $1 AND o.shard = s.shard AND o.id >= s.low AND o.id NOT IN (SELECT unnest($4::bigint[]))
            ORDER BY o.id LIMIT $5
        ) AS o
        WHERE EXISTS (SELECT FROM hookwire.relay_terms r WHERE r.sink = $1 AND r.grp = $6 AND r.term = $7)
          AND (SELECT hookwire.assert_origin($10, (SELECT max(m.low) - 1 FROM unnest($3::bigint[]) AS m(low))))
        ORDER BY o.id LIMIT $8
    ) AS c
    LEFT JOIN LATERAL (
        SELECT x.tenant, x.topic, x.key, x.content_type, x.headers, x.payload, x.accepted_at, x.ordered
        FROM hookwire.events x WHERE x.id BETWEEN c.id AND c.id ORDER BY x.id LIMIT 1
    ) AS e ON true
    LEFT JOIN hookwire.topics t ON t.tenant = e.tenant AND t.name = e.topic
) AS batch
WHERE before < $9
ORDER BY id;

-- name: claim_heads
SELECT c.id, c.shard, e.tenant, e.topic, e.key, t.name IS NOT NULL AS topic_known
FROM (
    SELECT o.id, o.shard
    FROM unnest($2::smallint[], $3::bigint[]) AS s(shard, low)
    CROSS JOIN LATERAL (
        SELECT o.id, o.shard FROM hookwire.outbox o
        WHERE o.sink = $1 AND o.shard = s.shard AND o.id >= s.low AND o.id NOT IN (SELECT unnest($4::bigint[]))
        ORDER BY o.id LIMIT $5
    ) AS o
    WHERE EXISTS (SELECT FROM hookwire.relay_terms r WHERE r.sink = $1 AND r.grp = $6 AND r.term = $7)
      AND (SELECT hookwire.assert_origin($9, (SELECT max(m.low) - 1 FROM unnest($3::bigint[]) AS m(low))))
    ORDER BY o.id LIMIT $8
) AS c
LEFT JOIN LATERAL (
    SELECT x.tenant, x.topic, x.key FROM hookwire.events x WHERE x.id BETWEEN c.id AND c.id ORDER BY x.id LIMIT 1
) AS e ON true
LEFT JOIN hookwire.topics t ON t.tenant = e.tenant AND t.name = e.topic
ORDER BY c.id;

-- name: purge
-- Of acknowledged records; needs no term, because what was acknowledged is owed by nobody. Leaves its ledger entry.
WITH purged AS (
    DELETE FROM hookwire.outbox
    WHERE ctid = ANY (ARRAY(
        SELECT found.place FROM unnest($2::smallint[], $3::bigint[]) AS a(shard, id)
        CROSS JOIN LATERAL (
            SELECT o.ctid AS place FROM hookwire.outbox o
            WHERE o.sink = $1 AND o.shard = a.shard AND o.id = a.id LIMIT 1
        ) AS found)) AND (SELECT hookwire.assert_origin($4, 0))
    RETURNING id
)
INSERT INTO hookwire.ledger_entries (sink, outcome, ids) SELECT $1, 'sent', array_agg(id) FROM purged HAVING count(*) > 0;

-- name: ensure_topics
-- Topics first used by plain SQL get their row here, outside every publishing transaction (RR-04).
INSERT INTO hookwire.topics (tenant, name)
SELECT DISTINCT d.tenant, d.name FROM unnest($1::text[], $2::text[]) AS d(tenant, name)
ON CONFLICT DO NOTHING;

-- name: mark_horizon
-- The highest id ever drawn; of a fresh sequence none was.
SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM hookwire.event_id;

-- name: draw_xid
-- On disk when it is answered, with all that was drawn before it: no crash takes the sequence back below a horizon that was
-- noted earlier. A server that does not wait for its disk is told to wait this once.
SELECT pg_current_xact_id()::text
FROM setval('hookwire.horizon', 1),
     set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'local'), true);

-- name: origin
-- Of the ids that are read from now on.
SELECT hookwire.origin();

-- name: low_water
-- Once every transaction older than ours has ended, nothing below the marked id can still appear except what this
-- very snapshot sees: the shard's lowest record, or else everything after the mark.
SELECT s.shard, coalesce(
           (SELECT o.id FROM hookwire.outbox o
            WHERE o.sink = $1 AND o.shard = s.shard AND o.id >= s.low AND o.id <= $5 ORDER BY o.id LIMIT 1),
           $5 + 1) AS low
FROM unnest($2::smallint[], $3::bigint[]) AS s(shard, low)
WHERE pg_snapshot_xmin(pg_current_snapshot()) >= $4::text::xid8
  AND (SELECT hookwire.assert_origin($6, (SELECT max(m.low) - 1 FROM unnest($3::bigint[]) AS m(low))));

-- name: oldest
-- Per sink: how many records wait (counted up to a bound) and since when the oldest does. Where none does nothing is looked
-- for a second time: it would be read past every dead row that somebody's snapshot keeps.
SELECT s.name AS sink, s.configured, w.records AS backlog,
       (SELECT count(*) FROM (SELECT FROM hookwire.held h WHERE h.sink = s.name LIMIT $1) AS few) AS held,
       CASE WHEN w.records > 0 THEN (
            SELECT e.accepted_at FROM hookwire.events e WHERE e.id = (
                SELECT min(first.id) FROM generate_series(0, 63) AS g(shard)
                CROSS JOIN LATERAL (SELECT o.id FROM hookwire.outbox o
                                    WHERE o.sink = s.name AND o.shard = g.shard ORDER BY o.id LIMIT 1) AS first)) END AS oldest_at,
       r.term, r.owner, r.led
FROM hookwire.sinks s
CROSS JOIN LATERAL (
    SELECT count(*) AS records FROM (SELECT FROM hookwire.outbox o WHERE o.sink = s.name LIMIT $1) AS few
) AS w
CROSS JOIN LATERAL (
    -- The latest term of its groups, and everybody who leads one.
    SELECT max(t.term) AS term, string_agg(DISTINCT t.owner, ', ' ORDER BY t.owner) AS owner,
           bool_or(t.lease_until > clock_timestamp()) AS led
    FROM hookwire.relay_terms t WHERE t.sink = s.name
) AS r
ORDER BY s.name;
