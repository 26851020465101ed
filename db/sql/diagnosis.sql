-- Diagnosis: all that is known of one topic and one callback, for the page that shows it (UD-12).

-- name: subscription
SELECT r.*, s.state, s.topic_url, s.identity, s.created_at
FROM hookwire.subscriptions s CROSS JOIN LATERAL (SELECT * FROM hookwire.receivers y WHERE y.id = s.id LIMIT 1) AS r
WHERE s.tenant = $1 AND s.public_id = $2 AND s.state <> 'deleted';

-- name: subscription_of_pair
-- Return the latest subscription of the pair, in any state.
SELECT r.*, s.state, s.topic_url, s.identity, s.created_at
FROM (SELECT * FROM hookwire.subscriptions x
      WHERE x.tenant = $1 AND x.topic = $2 AND x.identity = $3 AND x.protocol = 'websub' ORDER BY x.id DESC LIMIT 1) AS s
CROSS JOIN LATERAL (SELECT * FROM hookwire.receivers y WHERE y.id = s.id LIMIT 1) AS r;

-- name: requests
-- Return the pair's requests. Decided requests are kept for a day.
SELECT mode, stage, state, reason, attempts, created_at, decided_at, CASE WHEN decided_at IS NULL THEN due_at END AS next_attempt_at
FROM hookwire.intents WHERE tenant = $1 AND identity = $2 ORDER BY id DESC LIMIT $3;

-- name: attempts
-- Return the attempts of the newest events.
SELECT event_id, number, started_at, status, outcome, decision, total_seconds, detail
FROM hookwire.attempts WHERE subscription_id = $1 ORDER BY event_id DESC, number DESC LIMIT $2;

-- name: owed
SELECT d.event_id, d.attempts, d.last_outcome, d.last_status, nullif(d.due_at, 'infinity') AS due_at, d.created_at, d.parked_at,
       d.fence IS NOT NULL AS is_claimed, s.protocol, s.subscription_state, s.state_reason, s.lease_until, s.paused_until,
       s.breaker_until, s.rate_until, s.now
FROM (SELECT * FROM hookwire.deliveries x WHERE x.subscription_id = $1 ORDER BY x.due_at, x.event_id LIMIT $2) AS d
CROSS JOIN LATERAL (SELECT * FROM hookwire.receivers y WHERE y.id = d.subscription_id LIMIT 1) AS s ORDER BY d.due_at, d.event_id;

-- name: now
SELECT now();
