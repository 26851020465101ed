-- RabbitHub: exchanges, queues, their subscriptions, and the messages of queues on their way to a consumer.

-- name: resource
SELECT id, vhost, kind, name, exchange_type, source, mirror FROM hookwire.rabbithub_resources
WHERE tenant = $1 AND vhost = $2 AND kind = $3 AND name = $4;

-- name: resource_by_id
SELECT id, vhost, kind, name, exchange_type, source, mirror FROM hookwire.rabbithub_resources WHERE tenant = $1 AND id = $2;

-- name: make_exchange
INSERT INTO hookwire.rabbithub_resources (tenant, vhost, kind, name, exchange_type) VALUES ($1, $2, 'x', $3, $4)
ON CONFLICT DO NOTHING RETURNING id;

-- name: ensure_built_in_exchanges
SELECT hookwire.ensure_built_in_exchanges($1, $2);

-- name: set_mirror
UPDATE hookwire.rabbithub_resources SET mirror = $2 WHERE id = $1 AND mirror IS DISTINCT FROM $2;

-- name: ask_declare
-- Ask the relay to look for a mirrored exchange in AMQP, and to declare a missing one. $2: whether exchanges of / are mirrored by
-- default. Return whether a relay has the sink; no row if the exchange is not mirrored.
WITH asked AS (
    UPDATE hookwire.rabbithub_resources r SET declared_at = NULL, declare_problem = NULL
    WHERE r.id = $1 AND r.kind = 'x' AND r.name <> '' AND coalesce(r.mirror, $2::boolean AND r.vhost = '/')
    RETURNING r.id
)
SELECT s.configured, pg_notify('hookwire_mirrors', '') FROM asked CROSS JOIN hookwire.sinks s WHERE s.name = 'amqp';

-- name: declaration
SELECT declared_at IS NOT NULL AS is_declared, declare_problem FROM hookwire.rabbithub_resources WHERE id = $1;

-- name: mirrored
-- Return the mirrored exchanges: all, or those that somebody has asked for and no relay has answered. Those with a problem are
-- last, so that they delay no other.
SELECT r.id, r.vhost, r.name, r.exchange_type, r.declared_at FROM hookwire.rabbithub_resources r
WHERE r.kind = 'x' AND r.name <> '' AND coalesce(r.mirror, $1::boolean AND r.vhost = '/')
  AND ($3::boolean OR (r.declared_at IS NULL AND r.declare_problem IS NULL))
ORDER BY r.declare_problem IS NOT NULL, r.declared_at NULLS FIRST, r.id LIMIT $2;

-- name: declared
-- Note that the broker has the exchange, or why it has not. $3: declared_at as it was read. A problem does not undo what
-- another relay has declared since.
UPDATE hookwire.rabbithub_resources r
SET declared_at = CASE WHEN $2::text IS NULL THEN clock_timestamp() END, declare_problem = $2
WHERE r.id = $1 AND CASE WHEN $2::text IS NULL THEN r.declared_at IS NULL
                         ELSE r.declared_at IS NOT DISTINCT FROM $3::timestamptz END;

-- name: make_source
INSERT INTO hookwire.subscriptions (public_id, tenant, protocol, topic, callback, state)
VALUES ($1, $2, 'pull', $1, '', 'active') RETURNING id;

-- name: make_queue
INSERT INTO hookwire.rabbithub_resources (tenant, vhost, kind, name, source) VALUES ($1, $2, 'q', $3, $4)
ON CONFLICT DO NOTHING RETURNING id;

-- name: point_source
-- A queue's topic is found by its number.
UPDATE hookwire.subscriptions SET topic = $2 WHERE id = $1;

-- name: drop_source
DELETE FROM hookwire.subscriptions WHERE id = $1;

-- name: waiting
SELECT count(*) FROM (SELECT FROM hookwire.deliveries d WHERE d.subscription_id = $1 LIMIT 1001) AS counted;

-- name: delete_resource
-- Delete a resource; its subscriptions and bindings end with it.
WITH resource AS (
    DELETE FROM hookwire.rabbithub_resources WHERE id = $1 RETURNING source
)
UPDATE hookwire.subscriptions s
SET state = 'deleted', state_reason = 'the resource was deleted', version = s.version + 1, updated_at = clock_timestamp()
WHERE s.id = ANY (ARRAY(
    SELECT r.subscription_id FROM hookwire.rabbithub_subscriptions r WHERE r.resource_id = $1
    UNION ALL SELECT r.subscription_id FROM hookwire.rabbithub_subscriptions r WHERE r.queue_id = $1
    UNION ALL SELECT source FROM resource));

-- name: ensure_topic
-- Events published here go to subscribers, and to AMQP where the exchange is mirrored. $3 names the exchange there, and $6
-- its virtual host.
INSERT INTO hookwire.topics (tenant, name, sinks, amqp_exchange, amqp_exchange_type, amqp_routing_key, amqp_vhost, made_by, used_on)
VALUES ($1, $2, CASE WHEN $3::text IS NULL THEN '{webhooks}' ELSE '{amqp,webhooks}' END::text[], $3, $4, $5, $6, $7, current_date)
ON CONFLICT DO NOTHING;

-- name: mirror_topic
-- Apply a mirror setting that has changed since the topic was created. Waiting records are still sent after the mirror
-- was turned off.
UPDATE hookwire.topics t
SET sinks = CASE WHEN $3::text IS NULL THEN array_remove(t.sinks, 'amqp') ELSE array_remove(t.sinks, 'amqp') || '{amqp}'::text[] END,
    amqp_exchange = coalesce($3, t.amqp_exchange), amqp_exchange_type = coalesce($4, t.amqp_exchange_type),
    amqp_routing_key = coalesce($5, t.amqp_routing_key), amqp_vhost = coalesce($6, t.amqp_vhost), version = t.version + 1, updated_at = now()
WHERE t.tenant = $1 AND t.name = $2 AND t.sinks IS NOT NULL
  AND CASE WHEN $3::text IS NULL THEN t.amqp_exchange_type IS NOT NULL AND 'amqp' = ANY (t.sinks)
           ELSE t.amqp_exchange_type IS NULL OR 'amqp' <> ALL (t.sinks) END;

-- name: is_bound
SELECT EXISTS (SELECT FROM hookwire.rabbithub_subscriptions r JOIN hookwire.subscriptions s ON s.id = r.subscription_id
               WHERE r.queue_id = $2 AND r.resource_id = $1 AND r.hub_topic = $3 AND s.state = 'active');

-- name: room
-- Return how many consumers the queue $1 has, and how many messages they have or will get now. Messages of the queue wait as
-- deliveries of $2. One that waits for its next attempt needs nobody yet. Event $3 counts until it is a delivery.
WITH consumers AS MATERIALIZED (
    SELECT s.id FROM hookwire.rabbithub_subscriptions r JOIN hookwire.subscriptions s ON s.id = r.subscription_id
    WHERE r.resource_id = $1 AND s.state = 'active' AND s.lease_until > now() AND (s.paused_until IS NULL OR s.paused_until <= now())
      AND NOT EXISTS (SELECT FROM hookwire.delivery_gates g WHERE g.subscription_id = s.id AND g.open_until > now())
)
SELECT (SELECT count(*) FROM consumers) AS consumers,
       (SELECT count(*) FROM consumers c CROSS JOIN LATERAL (
            SELECT FROM hookwire.deliveries d WHERE d.subscription_id = c.id LIMIT 1000) AS held)
           + (SELECT count(*) FROM (
                  SELECT FROM hookwire.deliveries d WHERE d.subscription_id = $2 AND d.due_at <= now() LIMIT 1000) AS due)
           + (SELECT count(*) FROM generate_series(0, 63) AS g(shard) CROSS JOIN LATERAL (
                  SELECT FROM hookwire.outbox o WHERE o.sink = 'webhooks' AND o.shard = g.shard AND o.id = $3 LIMIT 1) AS owed)
           AS messages;

-- name: accept
INSERT INTO hookwire.intents (tenant, mode, topic, topic_url, callback, callback_host, identity, lease_seconds,
                              signature_method, verify_token, key_id, sealed, due_at, created_at, verify, rabbithub)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'sha256', $9, $10, $11, clock_timestamp(), clock_timestamp(), $12, $13::text::jsonb)
RETURNING id;

-- name: activate
INSERT INTO hookwire.subscriptions AS s (public_id, tenant, protocol, topic, topic_regex, topic_url, callback, state,
                                         lease_until, identity, filter_path, rate_per_second)
SELECT $1, $2, 'rabbithub', j.made->>'topic', j.made->>'regex', j.made->>'address', $4, 'active', $5, $6,
       (j.made->>'filter')::jsonpath, nullif((j.made->'details'->>'max_tps')::double precision, 0)
FROM (SELECT $3::text::jsonb AS made) AS j
ON CONFLICT (tenant, identity) WHERE protocol = 'rabbithub' AND state <> 'deleted' DO UPDATE
SET callback = excluded.callback, state = 'active', state_reason = NULL, lease_until = excluded.lease_until,
    paused_until = NULL, rate_per_second = excluded.rate_per_second, version = s.version + 1, updated_at = clock_timestamp()
RETURNING s.id, s.public_id,
          (SELECT coalesce(max(k.number), 0) + 1 FROM hookwire.subscription_secrets k WHERE k.subscription_id = s.id)
          AS secret_number;

-- name: describe
INSERT INTO hookwire.rabbithub_subscriptions AS r (subscription_id, resource_id, hub_topic, lease_seconds, details)
SELECT $1, (j.made->>'resource')::bigint, j.made->>'hub_topic', $3, j.made->'details'
FROM (SELECT $2::text::jsonb AS made) AS j
ON CONFLICT (subscription_id) DO UPDATE
SET lease_seconds = excluded.lease_seconds, details = excluded.details, error_count = 0, first_error_at = NULL,
    last_error_at = NULL, last_error = NULL, window_from = NULL, window_errors = 0;

-- name: authorization
-- Return the sealed headers of a subscription.
SELECT s.id, s.headers_key_id, s.headers_sealed FROM hookwire.subscriptions s
WHERE s.tenant = $1 AND s.identity = $2 AND s.protocol = 'rabbithub' AND s.state <> 'deleted' AND s.headers_sealed IS NOT NULL;

-- name: bind
-- Bind a queue to an exchange.
INSERT INTO hookwire.subscriptions AS s (public_id, tenant, protocol, topic, topic_regex, topic_url, callback, state,
                                         identity, filter_path)
SELECT $1, $2, 'pull', j.made->>'topic', j.made->>'regex', j.made->>'address', $4, 'active', $5, (j.made->>'filter')::jsonpath
FROM (SELECT $3::text::jsonb AS made) AS j
ON CONFLICT (tenant, identity) WHERE protocol = 'pull' AND state <> 'deleted' AND identity IS NOT NULL DO UPDATE
SET updated_at = clock_timestamp()
RETURNING s.id;

-- name: describe_binding
INSERT INTO hookwire.rabbithub_subscriptions (subscription_id, resource_id, hub_topic, lease_seconds, queue_id)
VALUES ($1, $2, $3, 0, $4) ON CONFLICT (subscription_id) DO NOTHING;

-- name: move_bound
-- Move events that exchanges have routed to bindings into their queues: once per queue, however many of its bindings
-- match.
WITH routed AS MATERIALIZED (
    SELECT m.place, m.event_id, q.source,
           row_number() OVER (PARTITION BY q.source, m.event_id ORDER BY r.subscription_id) AS copy
    FROM hookwire.rabbithub_resources q
    JOIN hookwire.rabbithub_subscriptions r ON r.queue_id = q.id
    CROSS JOIN LATERAL (
        SELECT d.ctid AS place, d.event_id FROM hookwire.deliveries d
        WHERE d.subscription_id = r.subscription_id ORDER BY d.due_at, d.event_id LIMIT 1000
        FOR UPDATE OF d SKIP LOCKED
    ) AS m
), arriving AS MATERIALIZED (
    SELECT r.place, r.source, r.copy = 1 AND NOT EXISTS (
               SELECT FROM hookwire.deliveries x WHERE x.event_id = r.event_id AND x.subscription_id = r.source) AS is_first
    FROM routed r
), dropped AS (
    DELETE FROM hookwire.deliveries d USING arriving a WHERE d.ctid = a.place AND NOT a.is_first
)
UPDATE hookwire.deliveries d SET subscription_id = a.source FROM arriving a WHERE d.ctid = a.place AND a.is_first;

-- name: count_error
-- Count a failed attempt. More than $3 within $4 seconds make the subscription inactive; NULL: never.
-- Lock the subscription first, as a new subscribe request does.
WITH held AS MATERIALIZED (
    SELECT s.id FROM hookwire.subscriptions s WHERE s.id = $1 AND s.protocol = 'rabbithub' FOR NO KEY UPDATE
), counted AS (
    UPDATE hookwire.rabbithub_subscriptions r
    SET error_count = r.error_count + 1, first_error_at = coalesce(r.first_error_at, now()), last_error_at = now(), last_error = $2,
        window_from = CASE WHEN r.window_from > now() - make_interval(secs => $4::double precision) THEN r.window_from ELSE now() END,
        window_errors = CASE WHEN r.window_from > now() - make_interval(secs => $4::double precision) THEN r.window_errors + 1 ELSE 1 END
    FROM held h WHERE r.subscription_id = h.id
    RETURNING r.window_errors
)
UPDATE hookwire.subscriptions s
SET state = 'disabled', state_reason = 'too many failed deliveries', version = s.version + 1, updated_at = clock_timestamp()
FROM counted c WHERE s.id = $1 AND s.state = 'active' AND c.window_errors > $3::bigint
RETURNING s.id;

-- name: errors
-- Beyond $4 bytes there are no texts, and `fits` is false.
SELECT b.vhost, b.kind, b.name, b.error_count, b.first_error_at, b.last_error_at, b.id, b.before < $4::bigint AS fits,
       CASE WHEN b.before < $4::bigint THEN b.hub_topic END AS hub_topic, CASE WHEN b.before < $4::bigint THEN b.callback END AS callback,
       CASE WHEN b.before < $4::bigint THEN b.last_error END AS last_error
FROM (SELECT f.*, sum(w.size) OVER (ORDER BY f.id ROWS UNBOUNDED PRECEDING) - w.size AS before
      FROM (SELECT q.vhost, q.kind, q.name, r.hub_topic, s.callback, r.error_count, r.first_error_at, r.last_error_at, r.last_error, s.id
            FROM hookwire.rabbithub_subscriptions r
            JOIN hookwire.subscriptions s ON s.id = r.subscription_id
            JOIN hookwire.rabbithub_resources q ON q.id = r.resource_id
            WHERE s.tenant = $1 AND s.state <> 'deleted' AND s.id > $2 AND r.error_count > 0
            ORDER BY s.id LIMIT $3) AS f
      CROSS JOIN LATERAL (SELECT octet_length(concat(f.hub_topic, f.callback, f.last_error)) AS size) AS w) AS b
ORDER BY b.id;

-- name: expiring
-- Return leases that end within $1 seconds, and for which no operator event was published yet.
WITH ending AS MATERIALIZED (
    SELECT s.id, s.lease_until FROM hookwire.subscriptions s
    WHERE s.protocol = 'rabbithub' AND s.state = 'active' AND s.lease_until <= now() + make_interval(secs => $1::double precision)
    ORDER BY s.lease_until
)
UPDATE hookwire.rabbithub_subscriptions r SET told_until = (SELECT e.lease_until FROM ending e WHERE e.id = r.subscription_id)
WHERE r.subscription_id = ANY (ARRAY(SELECT e.id FROM ending e))
  AND r.told_until IS DISTINCT FROM (SELECT e.lease_until FROM ending e WHERE e.id = r.subscription_id)
RETURNING r.subscription_id AS id, r.told_until AS lease_until;

-- name: import
-- As activate, for a subscription that was verified elsewhere. An inactive subscription stays inactive.
INSERT INTO hookwire.subscriptions AS s (public_id, tenant, protocol, topic, topic_regex, topic_url, callback, state,
                                         state_reason, lease_until, identity, filter_path, rate_per_second)
SELECT $1, $2, 'rabbithub', j.made->>'topic', j.made->>'regex', j.made->>'address', $4, $7,
       CASE $7 WHEN 'disabled' THEN 'imported as inactive' END, now() + make_interval(secs => $5::double precision), $6,
       (j.made->>'filter')::jsonpath, nullif((j.made->'details'->>'max_tps')::double precision, 0)
FROM (SELECT $3::text::jsonb AS made) AS j
ON CONFLICT (tenant, identity) WHERE protocol = 'rabbithub' AND state <> 'deleted' DO UPDATE
SET callback = excluded.callback, state = excluded.state, state_reason = excluded.state_reason, paused_until = NULL,
    lease_until = excluded.lease_until, rate_per_second = excluded.rate_per_second, version = s.version + 1,
    updated_at = clock_timestamp()
RETURNING s.id;

-- name: note_import
INSERT INTO hookwire.audit (tenant, actor, action, subject, reason, records)
VALUES ($1, $2, 'import', 'RabbitHub subscriptions', NULL, $3);

-- name: deactivate
-- Unsubscribe: keep the row, so that subscribing activates it again.
UPDATE hookwire.subscriptions
SET state = 'disabled', state_reason = 'unsubscribed', version = version + 1, updated_at = clock_timestamp()
WHERE id = (SELECT s.id FROM hookwire.subscriptions s
            WHERE s.tenant = $1 AND s.identity = $2 AND s.protocol = 'rabbithub' AND s.state <> 'deleted')
  AND state = 'active'
RETURNING id;

-- name: delete_subscription
UPDATE hookwire.subscriptions
SET state = 'deleted', state_reason = 'deleted', version = version + 1, updated_at = clock_timestamp()
WHERE id = ANY (ARRAY(
    SELECT s.id FROM hookwire.subscriptions s
    WHERE s.tenant = $1 AND s.identity = $2 AND s.protocol = 'rabbithub' AND s.state <> 'deleted'
    UNION ALL
    SELECT s.id FROM hookwire.subscriptions s
    WHERE s.tenant = $1 AND s.identity = $2 AND s.protocol = 'pull' AND s.state <> 'deleted' AND s.identity IS NOT NULL))
  AND state <> 'deleted'
RETURNING id;

-- name: expire
-- Make a subscription whose lease has ended inactive.
UPDATE hookwire.subscriptions s
SET state = 'disabled', state_reason = 'the lease has ended', version = s.version + 1, updated_at = clock_timestamp()
WHERE s.id = ANY (ARRAY(
    SELECT x.id FROM hookwire.subscriptions x
    WHERE x.protocol = 'rabbithub' AND x.state = 'active' AND x.lease_until <= now() ORDER BY x.lease_until))
  AND s.state = 'active' AND s.lease_until <= now();

-- name: dispatch_lock
-- Let one process dispatch at a time, so that it sees all earlier dispatches: a consumer holds one message.
SELECT pg_try_advisory_xact_lock(1215262571, -4);

-- name: dispatch
-- Competing consumers: each idle consumer gets the oldest due message of its queue. The delivery moves to the
-- consumer, and with it to the workers. Its attempts continue after the last attempt of this consumer. Its schedule and
-- age begin, or continue after a failed attempt.
WITH idle AS MATERIALIZED (
    SELECT r.resource_id, s.id, row_number() OVER (PARTITION BY r.resource_id ORDER BY random()) AS turn
    FROM hookwire.rabbithub_resources q
    JOIN hookwire.rabbithub_subscriptions r ON r.resource_id = q.id
    JOIN hookwire.subscriptions s ON s.id = r.subscription_id
    WHERE q.kind = 'q' AND s.state = 'active' AND s.lease_until > now() AND (s.paused_until IS NULL OR s.paused_until <= now())
      AND NOT EXISTS (SELECT FROM hookwire.deliveries d WHERE d.subscription_id = s.id)
      AND NOT EXISTS (SELECT FROM hookwire.delivery_gates g WHERE g.subscription_id = s.id AND g.open_until > now())
), message AS MATERIALIZED (
    SELECT i.resource_id, m.place, m.event_id, row_number() OVER (PARTITION BY i.resource_id ORDER BY m.event_id) AS turn
    FROM (SELECT resource_id, count(*) AS consumers FROM idle GROUP BY resource_id) AS i
    JOIN hookwire.rabbithub_resources q ON q.id = i.resource_id
    CROSS JOIN LATERAL (
        SELECT d.ctid AS place, d.event_id FROM hookwire.deliveries d
        WHERE d.subscription_id = q.source AND d.due_at <= now() ORDER BY d.due_at, d.event_id LIMIT i.consumers
        FOR UPDATE OF d SKIP LOCKED
    ) AS m
)
UPDATE hookwire.deliveries d
SET subscription_id = i.id, due_at = now(), fence = NULL, member = NULL, attempts = p.number,
    free_attempts = p.number - (d.attempts - d.free_attempts),
    created_at = CASE WHEN d.attempts > d.free_attempts THEN d.created_at ELSE now() END
FROM message m JOIN idle i ON i.resource_id = m.resource_id AND i.turn = m.turn
CROSS JOIN LATERAL (
    SELECT coalesce(max(a.number), 0) AS number FROM hookwire.attempts a
    WHERE a.event_id = m.event_id AND a.subscription_id = i.id) AS p
WHERE d.ctid = m.place
RETURNING d.subscription_id;

-- name: take_back
-- Return the messages of an ended consumer to the head of its queue. A failed message waits there for its next
-- attempt by any free consumer, and delays no other message. Skip a message that a replay has returned
-- meanwhile.
WITH taken AS (
    DELETE FROM hookwire.deliveries d
    USING hookwire.rabbithub_resources q
    JOIN hookwire.rabbithub_subscriptions r ON r.resource_id = q.id
    JOIN hookwire.subscriptions s ON s.id = r.subscription_id
    WHERE q.kind = 'q' AND d.subscription_id = s.id
      AND (s.state <> 'active' OR (d.fence IS NULL AND d.attempts > d.free_attempts AND d.due_at > now()))
    RETURNING d.event_id, q.source, d.tenant, d.replay_id, d.due_at, d.created_at,
              CASE s.state WHEN 'active' THEN d.attempts - d.free_attempts ELSE 0 END AS failed
)
INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant, replay_id, attempts)
SELECT t.event_id, t.source, CASE WHEN t.failed > 0 THEN t.due_at ELSE 'epoch' END,
       CASE WHEN t.failed > 0 THEN t.created_at ELSE now() END, t.tenant, t.replay_id, t.failed
FROM taken t
ON CONFLICT DO NOTHING;

-- name: subscriptions
-- Beyond $6 bytes there are no texts, and `fits` is false.
SELECT b.vhost, b.kind, b.name, b.lease_until, b.lease_seconds, b.state, b.state_reason, b.header_names, b.id,
       b.before < $6::bigint AS fits, CASE WHEN b.before < $6::bigint THEN b.hub_topic END AS hub_topic,
       CASE WHEN b.before < $6::bigint THEN b.callback END AS callback, CASE WHEN b.before < $6::bigint THEN b.details END AS details
FROM (SELECT f.*, sum(w.size) OVER (ORDER BY f.id ROWS UNBOUNDED PRECEDING) - w.size AS before
      FROM (SELECT q.vhost, q.kind, q.name, r.hub_topic, s.callback, s.lease_until, r.lease_seconds, r.details::text AS details,
                   s.state, s.state_reason, s.header_names, s.id
            FROM hookwire.rabbithub_subscriptions r
            JOIN hookwire.subscriptions s ON s.id = r.subscription_id
            JOIN hookwire.rabbithub_resources q ON q.id = r.resource_id
            WHERE s.tenant = $1 AND s.state <> 'deleted' AND s.id > $2 AND ($3::bytea IS NULL OR s.identity = $3)
              AND ($4::double precision IS NULL OR s.lease_until < now() + make_interval(secs => $4))
            ORDER BY s.id LIMIT $5) AS f
      CROSS JOIN LATERAL (SELECT octet_length(concat(f.hub_topic, f.callback, f.details)) AS size) AS w) AS b
ORDER BY b.id;
