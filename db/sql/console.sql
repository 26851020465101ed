-- Console: the data of the status page. Every count is bounded and every list is short, so that the page stays cheap
-- when a million records wait.

-- name: topics_lately
-- Return the topics of the last thousand events, newest first.
SELECT topic, max(id) AS last_id, max(accepted_at) AS last_accepted_at,
       count(*) FILTER (WHERE accepted_at > now() - interval '1 minute') AS last_minute
FROM (SELECT e.id, e.topic, e.accepted_at FROM hookwire.events e WHERE e.tenant = $1 ORDER BY e.id DESC LIMIT 1000) AS last
GROUP BY topic ORDER BY last_id DESC LIMIT $2;

-- name: totals
SELECT (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM hookwire.event_id) AS accepted,
       now() AS at;

-- Each of the next five counts up to a bound, in the order of an index. None takes long.

-- name: topics
SELECT count(*) FROM (SELECT FROM hookwire.topics WHERE tenant = $1 LIMIT $2) AS few;

-- name: open
SELECT count(*) FROM (SELECT FROM hookwire.deliveries d WHERE d.event_id > 0 ORDER BY d.event_id LIMIT $1) AS few;

-- name: dead
-- Count the dead letters of the list: without those that ended with their subscription or their contents.
SELECT count(*) FROM (
    SELECT FROM unnest('{exhausted,too_late,declined,aborted,given_up,internal}'::text[]) AS k (kind)
    CROSS JOIN LATERAL (SELECT FROM hookwire.dead_letters l WHERE l.kind = k.kind ORDER BY l.kind, l.event_id LIMIT $1) AS few
    UNION ALL
    (SELECT FROM hookwire.relay_dead_letters r WHERE r.event_id > 0 LIMIT $1)
    LIMIT $1) AS few;

-- name: sinks
-- Count the records that wait for each sink, and those that are held.
SELECT s.name AS sink,
       (SELECT count(*) FROM (SELECT FROM hookwire.outbox o WHERE o.sink = s.name ORDER BY o.sink, o.shard, o.id LIMIT $1) AS few) AS backlog,
       (SELECT count(*) FROM (SELECT FROM hookwire.held h WHERE h.sink = s.name ORDER BY h.sink, h.id LIMIT $1) AS few) AS held
FROM hookwire.sinks s;

-- name: waiting
-- Count the open deliveries of a subscription.
SELECT count(*) FROM (SELECT FROM hookwire.deliveries d WHERE d.subscription_id = $1
                      ORDER BY d.subscription_id, d.due_at, d.event_id LIMIT $2) AS few;

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
SELECT l.event_id, 'webhooks' AS sink, l.subscription_id, l.kind, l.attempts, l.last_outcome, l.last_status, l.detail, l.died_at,
       s.public_id, s.callback, e.topic
FROM (SELECT * FROM hookwire.dead_letters WHERE kind NOT IN ('gone', 'erased') ORDER BY event_id DESC, subscription_id DESC LIMIT $1) AS l
CROSS JOIN LATERAL (SELECT x.public_id, x.callback FROM hookwire.subscriptions x WHERE x.id = l.subscription_id LIMIT 1) AS s
LEFT JOIN LATERAL (
    SELECT x.topic FROM hookwire.events x WHERE x.id BETWEEN l.event_id AND l.event_id ORDER BY x.id LIMIT 1
) AS e ON true
ORDER BY l.event_id DESC, l.subscription_id DESC;
