-- Undelivered: accepted events that have not reached a subscription, with the reason. There are three parts: not fanned
-- out yet, open, given up. A page reads only as much of each index as it shows. The last two parameters of each are the
-- lowest event and, exclusive, the highest.

-- name: queued
-- Return events that the fan-out has not reached yet, by id; for one subscription, those whose topic may match.
SELECT q.id AS event_id, e.topic, e.key, e.accepted_at
FROM (SELECT x.id FROM generate_series(0, 63) AS g(shard) CROSS JOIN LATERAL (
          SELECT o.id FROM hookwire.outbox o WHERE o.sink = 'webhooks' AND o.shard = g.shard AND o.id > $3 AND o.id >= $5 AND o.id < $6 ORDER BY o.id LIMIT $4
      ) AS x ORDER BY x.id LIMIT $4) AS q
CROSS JOIN LATERAL (SELECT y.* FROM hookwire.events y WHERE y.id = q.id LIMIT 1) AS e
WHERE e.tenant = $1
  AND ($2::bigint IS NULL OR EXISTS (SELECT FROM hookwire.subscriptions s WHERE s.id = $2
                                     AND (s.topic = e.topic OR (s.topic_regex IS NOT NULL AND e.topic ~ s.topic_regex))))
ORDER BY q.id;

-- name: open
-- Return open deliveries, by event.
SELECT d.event_id, d.subscription_id, s.public_id, s.callback, s.topic, d.attempts, d.last_outcome, d.last_status,
       d.fence IS NOT NULL AS is_claimed, d.parked_at, nullif(d.due_at, 'infinity') AS due_at,
       s.protocol, s.subscription_state, s.state_reason, s.lease_until, s.paused_until, s.breaker_until, s.rate_until, s.now
FROM (SELECT x.* FROM hookwire.deliveries x WHERE x.tenant = $1 AND (x.event_id, x.subscription_id) > ($2, $3)
        AND x.event_id >= $5 AND x.event_id < $6
      ORDER BY x.event_id, x.subscription_id LIMIT $4) AS d
CROSS JOIN LATERAL (SELECT * FROM hookwire.receivers y WHERE y.id = d.subscription_id LIMIT 1) AS s
ORDER BY d.event_id, d.subscription_id;

-- name: open_of
-- Return open deliveries of one subscription by due time, after $3 microseconds since 1970 and event $4. Deliveries
-- that wait behind others of their key come last, at $5.
SELECT d.event_id, d.subscription_id, s.public_id, s.callback, d.attempts, d.last_outcome, d.last_status,
       d.fence IS NOT NULL AS is_claimed, d.parked_at, nullif(d.due_at, 'infinity') AS due_at,
       s.protocol, s.subscription_state, s.state_reason, s.lease_until, s.paused_until, s.breaker_until, s.rate_until, s.now,
       CASE WHEN isfinite(d.due_at) THEN (extract(epoch FROM d.due_at) * 1000000)::bigint ELSE $5::bigint END AS due_us
FROM (SELECT x.* FROM hookwire.deliveries x
      WHERE x.tenant = $1 AND x.subscription_id = $2
        AND x.event_id >= $7 AND x.event_id < $8
        AND (x.due_at, x.event_id) > (CASE WHEN $3::bigint = $5::bigint THEN 'infinity'::timestamptz
                                           ELSE 'epoch'::timestamptz + $3::bigint * interval '1 microsecond' END, $4)
      ORDER BY x.due_at, x.event_id LIMIT $6) AS d
CROSS JOIN LATERAL (SELECT * FROM hookwire.receivers y WHERE y.id = d.subscription_id LIMIT 1) AS s
ORDER BY d.due_at, d.event_id;

-- name: dead
-- Return deliveries that were given up, by event; those that ended with their subscription ask for no action.
SELECT l.event_id, l.subscription_id, s.public_id, s.callback, s.topic, l.attempts, l.last_outcome, l.last_status, l.kind, l.detail,
       l.died_at AS at, 'dead' AS state
FROM (SELECT x.* FROM hookwire.dead_letters x WHERE x.tenant = $1 AND (x.event_id, x.subscription_id) > ($2, $3)
        AND x.event_id >= $5 AND x.event_id < $6
        AND x.kind NOT IN ('gone', 'erased')
      ORDER BY x.event_id, x.subscription_id LIMIT $4) AS l
JOIN hookwire.subscriptions s ON s.id = l.subscription_id
ORDER BY l.event_id, l.subscription_id;

-- name: dead_of
-- Return deliveries of one subscription that were given up.
SELECT l.event_id, l.subscription_id, s.public_id, s.callback, l.attempts, l.last_outcome, l.last_status, l.kind, l.detail,
       l.died_at AS at, 'dead' AS state
FROM (SELECT x.* FROM hookwire.dead_letters x WHERE x.tenant = $1 AND x.subscription_id = $2 AND x.event_id > $3
        AND x.event_id >= $5 AND x.event_id < $6
        AND x.kind NOT IN ('gone', 'erased')
      ORDER BY x.event_id LIMIT $4) AS l
JOIN hookwire.subscriptions s ON s.id = l.subscription_id
ORDER BY l.event_id;
