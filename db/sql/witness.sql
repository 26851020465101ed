-- The witness's questions to a database that it watches: publish as a foreign service, and check whether all is quiet.

-- name: publish
SELECT hookwire.publish($1, $2::bytea, key => $3, content_type => 'application/json');

-- name: burst
-- Publish many events in one transaction, in this order.
SELECT hookwire.publish($1, item.payload, key => item.key, content_type => 'application/json')
FROM unnest($2::text[], $3::bytea[]) WITH ORDINALITY AS item (key, payload, place) ORDER BY item.place;

-- name: window
-- Return the records of a sink's manifests: the records that its leader may have in flight.
SELECT coalesce(sum(cardinality(ids)), 0) FROM hookwire.relay_batches WHERE sink = $1;

-- name: pending
-- Count everything that is still open; all zero is quiescence (I13). ``on_their_way`` counts each event for each sink and
-- receiver that it is owed to. Before its fan-out, an event is owed to every subscription, so that the count only falls.
WITH owed AS (
    SELECT sink FROM hookwire.outbox UNION ALL SELECT sink FROM hookwire.held
), receivers AS (
    SELECT count(*) AS count FROM hookwire.subscriptions WHERE state = 'active'
)
SELECT (SELECT coalesce(sum(CASE WHEN o.sink = 'webhooks' THEN greatest(r.count, 1) ELSE 1 END), 0)::bigint
        FROM owed o, receivers r) + (SELECT count(*) FROM hookwire.deliveries) AS on_their_way,
       (SELECT count(*) FROM hookwire.holds) AS holds,
       (SELECT count(*) FROM hookwire.relay_batches) AS manifests,
       (SELECT count(*) FROM hookwire.fanout_cursors) AS fanouts;

-- name: on_their_way
-- Return the events of a topic that a sink is still owed: in the outbox, behind a hold, or as open deliveries. Only
-- deliveries have a callback; other events of webhooks have yet to be fanned out to all of them.
SELECT o.sink, NULL AS callback, e.payload
FROM (SELECT sink, id FROM hookwire.outbox UNION SELECT sink, id FROM hookwire.held) o
CROSS JOIN LATERAL (
    SELECT x.topic, x.payload FROM hookwire.events x WHERE x.id BETWEEN o.id AND o.id ORDER BY x.id LIMIT 1) e
WHERE e.topic = $1
UNION ALL
SELECT 'webhooks', s.callback, e.payload
FROM hookwire.deliveries d
CROSS JOIN LATERAL (
    SELECT x.topic, x.payload FROM hookwire.events x WHERE x.id BETWEEN d.event_id AND d.event_id ORDER BY x.id LIMIT 1) e
CROSS JOIN LATERAL (
    SELECT x.callback FROM hookwire.subscriptions x WHERE x.id BETWEEN d.subscription_id AND d.subscription_id
    ORDER BY x.id LIMIT 1) s
WHERE e.topic = $1;

-- name: archive
-- Return every stored event of a topic in id order, as the arrival log of one more sink.
SELECT id, payload, ordered FROM hookwire.events WHERE tenant = 'default' AND topic = $1 ORDER BY id;

-- name: dead_letters
SELECT s.callback, e.id, e.payload
FROM hookwire.dead_letters l
JOIN hookwire.events e ON e.id = l.event_id
JOIN hookwire.subscriptions s ON s.id = l.subscription_id
WHERE e.topic = $1 ORDER BY e.id, s.id;

-- name: unanswered
-- Return attempts whose answer did not come in time. Their events may have arrived, and are sent again.
SELECT count(*) FROM hookwire.attempts WHERE outcome = 'timeout';

-- name: leader
-- Return the process that leads a sink's first partition group, as "<host>-<pid>", or nothing.
SELECT owner FROM hookwire.relay_terms WHERE sink = $1 AND grp = 0 AND lease_until > clock_timestamp();
