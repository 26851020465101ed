-- Administration of deliveries: list them, retry or end a delivery by hand, cancel deliveries of ended subscriptions.

-- name: list
-- Open, delivered, ended and dead deliveries with the same columns, newest first; keyset on (event_id, subscription_id).
-- Each branch has its own limit, so that a page does not sort all rows. Dropped deliveries are found by event or by
-- subscription: otherwise a page of ended ones would read all attempts. $9 are the events of a topic, and $10 is the
-- outcome of the last attempt. ($8, $11) is the lowest event and subscription, as delivery.examined returns them.
SELECT * FROM (
    (SELECT d.event_id, d.subscription_id, d.state, d.attempts, d.last_outcome, d.last_status, d.last_seconds,
            nullif(d.due_at, 'infinity') AS due_at, d.created_at AS at, NULL::text AS kind, NULL::text AS detail, d.parked_at,
            d.fence IS NOT NULL AS is_claimed
     FROM (SELECT *, CASE WHEN o.parked_at IS NOT NULL THEN 'parked' WHEN o.attempts = 0 THEN 'pending' WHEN o.fence IS NOT NULL THEN 'sending' ELSE 'retrying' END AS state
           FROM hookwire.deliveries o) AS d
     WHERE d.tenant = $1 AND ($2::bigint IS NULL OR d.event_id = $2) AND ($3::bigint IS NULL OR d.subscription_id = $3)
       AND ($4::text IS NULL OR ($4 IN ('pending', 'sending', 'retrying', 'parked') AND d.state = $4))
       -- The same conditions on columns, so that an index can be used.
       AND ($4 IS DISTINCT FROM 'parked' OR d.parked_at IS NOT NULL)
       AND ($4 IS DISTINCT FROM 'sending' OR (d.attempts > 0 AND d.fence IS NOT NULL AND d.parked_at IS NULL))
       AND ($4 IS DISTINCT FROM 'retrying' OR (d.attempts > 0 AND d.fence IS NULL AND d.parked_at IS NULL))
       AND (d.event_id, d.subscription_id) < ($5, $6) AND (d.event_id, d.subscription_id) >= ($8, $11)
       AND d.event_id BETWEEN $8 AND $5 -- for the index of one subscription
       AND ($9::bigint[] IS NULL OR d.event_id = ANY ($9)) AND ($10::text IS NULL OR d.last_outcome = $10)
     ORDER BY d.event_id DESC, d.subscription_id DESC LIMIT $7)
    UNION ALL
    (SELECT a.event_id, a.subscription_id, CASE a.decision WHEN 'dropped' THEN 'ended' ELSE 'delivered' END,
            a.number - (a.decision = 'dropped')::integer, a.outcome, a.status, a.total_seconds, NULL, a.started_at, NULL, a.detail, NULL,
            false
     FROM hookwire.attempts a
     WHERE a.tenant = $1 AND ($2::bigint IS NULL OR a.event_id = $2) AND ($3::bigint IS NULL OR a.subscription_id = $3)
       -- False at once for other states: no plan would see that from an empty list.
       AND ($4::text IS NULL OR $4 = 'delivered' OR ($4 = 'ended' AND ($2::bigint IS NOT NULL OR $3::bigint IS NOT NULL)))
       AND a.decision = ANY (CASE WHEN $4::text IS NULL THEN '{delivered,dropped}'::text[] WHEN $4 = 'delivered' THEN '{delivered}'
                                  WHEN $4 = 'ended' AND ($2::bigint IS NOT NULL OR $3::bigint IS NOT NULL) THEN '{dropped}' END)
       AND (a.event_id, a.subscription_id) < ($5, $6) AND (a.event_id, a.subscription_id) >= ($8, $11)
       AND a.event_id BETWEEN $8 AND $5 -- for the index of one subscription
       -- Delivered is the outcome of a delivery that was: no other one is looked for among all attempts.
       AND ($9::bigint[] IS NULL OR a.event_id = ANY ($9)) AND ($10::text IS NULL OR ($10 = 'delivered' AND a.outcome = $10))
     ORDER BY a.event_id DESC, a.subscription_id DESC LIMIT $7)
    UNION ALL
    (SELECT l.event_id, l.subscription_id, CASE WHEN l.kind IN ('gone', 'erased') THEN 'ended' ELSE 'dead' END, l.attempts, l.last_outcome, l.last_status, NULL, NULL, l.died_at,
            l.kind, l.detail, NULL, false
     FROM hookwire.dead_letters l
     WHERE l.tenant = $1 AND ($2::bigint IS NULL OR l.event_id = $2) AND ($3::bigint IS NULL OR l.subscription_id = $3)
       AND ($4::text IS NULL OR ($4 = 'dead' AND l.kind NOT IN ('gone', 'erased')) OR ($4 = 'ended' AND l.kind IN ('gone', 'erased')))
       AND (l.event_id, l.subscription_id) < ($5, $6) AND (l.event_id, l.subscription_id) >= ($8, $11)
       AND l.event_id BETWEEN $8 AND $5 -- for the index of one subscription
       AND ($9::bigint[] IS NULL OR l.event_id = ANY ($9)) AND ($10::text IS NULL OR l.last_outcome = $10)
     ORDER BY l.event_id DESC, l.subscription_id DESC LIMIT $7)
) AS every
CROSS JOIN LATERAL (
    SELECT y.id, y.public_id, y.callback, y.topic, y.protocol, y.subscription_state, y.state_reason, y.lease_until, y.paused_until,
           y.breaker_until, y.rate_until, y.now
    FROM hookwire.receivers y WHERE y.id = every.subscription_id LIMIT 1
) AS s
ORDER BY every.event_id DESC, every.subscription_id DESC
LIMIT $7;

-- name: examined
-- Return the delivery of the attempt that is $6 attempts behind ($3, $4): a page of deliveries looks no further. No row:
-- there are fewer. Otherwise a page of an endpoint that never answered would read all its attempts.
SELECT a.event_id, a.subscription_id FROM hookwire.attempts a
WHERE a.tenant = $1 AND ($2::bigint IS NULL OR a.subscription_id = $2) AND (a.event_id, a.subscription_id) < ($3, $4)
  AND a.event_id BETWEEN $5 AND $3
ORDER BY a.event_id DESC, a.subscription_id DESC OFFSET $6 LIMIT 1;

-- name: get
-- Return one open delivery. is_probing: a delivery that the open breaker let pass is being sent.
SELECT d.event_id, d.subscription_id, d.attempts, d.last_outcome, d.last_status, coalesce(d.available_at, d.lease_until) AS due_at,
       d.parked_at, d.state = 'claimed' AND d.lease_until > now() AS is_claimed, s.protocol, s.subscription_state, s.state_reason,
       s.lease_until, s.paused_until, s.breaker_until, s.rate_until, s.now,
       s.breaker_until IS NOT NULL AND EXISTS (
           SELECT FROM hookwire.open_deliveries x
           WHERE x.subscription_id = d.subscription_id AND x.state = 'claimed' AND x.lease_until > now()
       ) AS is_probing
FROM hookwire.open_deliveries d CROSS JOIN LATERAL (SELECT * FROM hookwire.receivers y WHERE y.id = d.subscription_id LIMIT 1) AS s
WHERE d.tenant = $1 AND d.event_id = $2 AND d.subscription_id = $3;

-- name: attempts
SELECT number, started_at, outcome, decision, status, trigger, worker, address, detail, connect_seconds, first_byte_seconds,
       total_seconds, response_headers, response_body
FROM hookwire.attempts WHERE tenant = $1 AND event_id = $2 AND subscription_id = $3 ORDER BY number LIMIT 200;

-- name: insert_test
-- Owe one event to one subscription. Its topic and filter do not count.
INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant) VALUES ($2, $3, now(), now(), $1);

-- name: retry_now
-- Make a waiting or parked delivery due now, before all others of its subscription. A parked delivery restarts its retry
-- schedule. An open breaker lets the delivery pass as its probe.
WITH tried AS (
    UPDATE hookwire.deliveries d
    SET due_at = least(now(), (SELECT x.due_at - interval '1 millisecond' FROM hookwire.deliveries x
                               WHERE x.subscription_id = $3 ORDER BY x.due_at LIMIT 1)),
        planned_at = NULL, parked_at = NULL,
        free_attempts = CASE WHEN d.parked_at IS NULL THEN d.free_attempts ELSE d.attempts END,
        created_at = CASE WHEN d.parked_at IS NULL THEN d.created_at ELSE now() END
    WHERE d.tenant = $1 AND d.event_id = $2 AND d.subscription_id = $3 AND d.fence IS NULL
      AND (isfinite(d.due_at) OR d.parked_at IS NOT NULL)
    RETURNING d.event_id, d.subscription_id
), probing AS (
    UPDATE hookwire.delivery_gates g SET open_until = now()
    FROM tried t WHERE g.subscription_id = t.subscription_id AND g.trips > 0 AND g.open_until > now()
), audited AS (
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason)
    SELECT $1, $4, 'delivery.try', 'dlv_' || t.event_id || '_' || t.subscription_id, $5 FROM tried t
)
SELECT t.subscription_id FROM tried t;

-- name: dead_letter
-- Make a waiting or parked delivery a dead letter. The next delivery of its lane is due.
WITH ended AS (
    DELETE FROM hookwire.deliveries d
    WHERE d.tenant = $1 AND d.event_id = $2 AND d.subscription_id = $3 AND d.fence IS NULL
    RETURNING d.*
), promoted AS (
    UPDATE hookwire.deliveries d SET due_at = now()
    FROM ended e CROSS JOIN LATERAL hookwire.next_in_lane(e.subscription_id, e.lane, e.event_id) AS next
    WHERE d.ctid = next.place AND NOT isfinite(d.due_at) AND d.parked_at IS NULL AND isfinite(coalesce(e.parked_at, e.due_at))
), buried AS (
    INSERT INTO hookwire.dead_letters (event_id, subscription_id, tenant, kind, attempts, last_status, last_outcome, detail, on_purpose,
                                       incident_id)
    SELECT e.event_id, e.subscription_id, e.tenant, 'exhausted', e.attempts, e.last_status, e.last_outcome, 'given up by ' || $4, true,
           e.incident_id
    FROM ended e
    ON CONFLICT DO NOTHING
), audited AS (
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason)
    SELECT $1, $4, 'delivery.give_up', 'dlv_' || e.event_id || '_' || e.subscription_id, $5 FROM ended e
)
SELECT e.subscription_id FROM ended e;

-- name: ended_subscriptions
-- Return ended subscriptions that still have open deliveries. The cause is an end that was interrupted, or a fan-out that
-- ran at the same time as the end.
WITH RECURSIVE walk AS (
    (SELECT subscription_id FROM hookwire.deliveries ORDER BY subscription_id LIMIT 1)
    UNION ALL
    SELECT n.subscription_id
    FROM walk w CROSS JOIN LATERAL (
        SELECT d.subscription_id FROM hookwire.deliveries d
        WHERE d.subscription_id > w.subscription_id ORDER BY d.subscription_id LIMIT 1
    ) AS n
)
SELECT w.subscription_id AS id FROM walk w
WHERE (SELECT s.state IN ('gone', 'expired', 'denied', 'deleted') FROM hookwire.subscriptions s WHERE s.id = w.subscription_id);

-- name: cancel_ended
-- End up to $2 deliveries of ended subscriptions. They become dead letters with the reason of the end. Deliveries of
-- WebSub and of subscriptions with drops_at_end are dropped, and leave an attempt that says so. Subscriptions to
-- RabbitHub queues are left out: their messages return to the queue.
WITH owed AS MATERIALIZED (
    SELECT q.event_id, q.subscription_id, s.protocol <> 'websub' AND NOT s.drops_at_end AS is_kept, s.state_reason
    FROM hookwire.subscriptions s JOIN hookwire.deliveries q ON q.subscription_id = s.id
    WHERE s.id = ANY ($1::bigint[]) AND s.state IN ('gone', 'expired', 'denied', 'deleted')
      AND NOT EXISTS (SELECT FROM hookwire.rabbithub_subscriptions r
                      JOIN hookwire.rabbithub_resources x ON x.id = r.resource_id AND x.kind = 'q' WHERE r.subscription_id = s.id)
    LIMIT $2
    FOR UPDATE OF q SKIP LOCKED
), gone AS (
    DELETE FROM hookwire.deliveries d USING owed o
    WHERE d.event_id = o.event_id AND d.subscription_id = o.subscription_id
    RETURNING d.event_id, d.subscription_id, d.tenant, d.attempts, d.last_status, d.last_outcome, o.is_kept, o.state_reason
), buried AS (
    INSERT INTO hookwire.dead_letters (event_id, subscription_id, tenant, kind, attempts, last_status, last_outcome, detail)
    SELECT event_id, subscription_id, tenant, 'gone', attempts, last_status, last_outcome, state_reason
    FROM gone WHERE is_kept
    ON CONFLICT DO NOTHING
), dropped AS (
    INSERT INTO hookwire.attempts (event_id, subscription_id, started_at, number, total_seconds, tenant, outcome, decision, trigger,
                                   worker, detail)
    SELECT g.event_id, g.subscription_id, clock_timestamp(), g.attempts + 1, 0, g.tenant, 'ended', 'dropped', 'end', 'hookwire',
           'the subscription is ' || s.state || coalesce(': ' || s.state_reason, '')
    FROM gone g JOIN hookwire.subscriptions s ON s.id = g.subscription_id WHERE NOT g.is_kept
    ON CONFLICT DO NOTHING
)
SELECT count(*) FROM gone;
