-- Console: the data of the status page. Every count is bounded and every list is short, so that the page stays cheap
-- when a million records wait.

-- name: topics_lately
-- Return the topics of the last thousand events, newest first.
SELECT topic, max(id) AS last_id, max(accepted_at) AS last_accepted_at,
       count(*) FILTER (WHERE accepted_at > now() - interval '1 minute') AS last_minute
FROM (SELECT e.id, e.topic, e.accepted_at FROM hookwire.events e WHERE e.tenant = $1 ORDER BY e.id DESC LIMIT 1000) AS last
GROUP BY topic ORDER BY last_id DESC LIMIT $2;

-- name: totals
SELECT (SELECT count(*) FROM (SELECT FROM hookwire.topics WHERE tenant = $1 LIMIT $2) AS few) AS topics,
       (SELECT count(*) FROM (SELECT FROM hookwire.dead_letters WHERE kind <> 'gone' AND NOT on_purpose LIMIT $2) AS few) AS dead_letters,
       (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM hookwire.event_id) AS accepted,
       now() AS at;

-- name: last_subscriptions
SELECT r.* FROM (SELECT s.id FROM hookwire.subscriptions s WHERE s.tenant = $1 AND s.state <> 'deleted' ORDER BY s.id DESC LIMIT $2) AS s
CROSS JOIN LATERAL (SELECT * FROM hookwire.receivers y WHERE y.id = s.id LIMIT 1) AS r ORDER BY r.id DESC;

-- name: open_deliveries
-- Return deliveries of the oldest events.
SELECT d.event_id, d.subscription_id, d.attempts, d.last_outcome, d.last_status, nullif(d.due_at, 'infinity') AS due_at,
       d.created_at, d.parked_at, d.fence IS NOT NULL AS is_claimed, s.public_id, s.callback,
       s.protocol, s.subscription_state, s.state_reason, s.lease_until, s.paused_until, s.breaker_until, s.rate_until, s.now
FROM (SELECT * FROM hookwire.deliveries ORDER BY event_id, subscription_id LIMIT $1) AS d
CROSS JOIN LATERAL (SELECT * FROM hookwire.receivers y WHERE y.id = d.subscription_id LIMIT 1) AS s
ORDER BY d.event_id, d.subscription_id;

-- name: last_dead_letters
-- Return dead letters of the newest events.
SELECT l.event_id, l.subscription_id, l.kind, l.attempts, l.last_outcome, l.last_status, l.detail, l.died_at,
       s.public_id, s.callback, e.topic
FROM (SELECT * FROM hookwire.dead_letters WHERE kind NOT IN ('gone', 'erased') ORDER BY event_id DESC, subscription_id DESC LIMIT $1) AS l
CROSS JOIN LATERAL (SELECT x.public_id, x.callback FROM hookwire.subscriptions x WHERE x.id = l.subscription_id LIMIT 1) AS s
LEFT JOIN LATERAL (
    SELECT x.topic FROM hookwire.events x WHERE x.id BETWEEN l.event_id AND l.event_id ORDER BY x.id LIMIT 1
) AS e ON true
ORDER BY l.event_id DESC, l.subscription_id DESC;
