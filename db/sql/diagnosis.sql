-- Diagnosis: all that is known of one topic and one callback, for the page that shows it (UD-12).

-- name: subscription
SELECT id, public_id, protocol, topic, topic_url, callback, state, state_reason, lease_until, paused_until, identity, created_at
FROM hookwire.subscriptions WHERE tenant = $1 AND public_id = $2 AND state <> 'deleted';

-- name: subscription_of_pair
-- The latest one, whatever has become of it.
SELECT id, public_id, protocol, topic, topic_url, callback, state, state_reason, lease_until, paused_until, identity, created_at
FROM hookwire.subscriptions WHERE tenant = $1 AND topic = $2 AND identity = $3 AND protocol = 'websub' ORDER BY id DESC LIMIT 1;

-- name: requests
-- Decided ones are kept for a day.
SELECT mode, stage, state, reason, attempts, created_at, decided_at, CASE WHEN decided_at IS NULL THEN due_at END AS next_try_at
FROM hookwire.intents WHERE tenant = $1 AND identity = $2 ORDER BY id DESC LIMIT $3;

-- name: attempts
-- Of the latest events.
SELECT event_id, number, started_at, status, outcome, decision, total_seconds, detail
FROM hookwire.attempts WHERE subscription_id = $1 ORDER BY event_id DESC, number DESC LIMIT $2;

-- name: owed
SELECT d.event_id, d.attempts, d.last_outcome, d.last_status, nullif(d.due_at, 'infinity') AS due_at, d.created_at
FROM hookwire.deliveries d WHERE d.subscription_id = $1 ORDER BY d.due_at, d.event_id LIMIT $2;

-- name: now
SELECT now();
