-- Subscriptions: the topics, the filters and the callbacks of receivers.

-- name: create
-- $3 holds its columns; missing columns get their default.
INSERT INTO hookwire.subscriptions (public_id, tenant, protocol, topic, topic_regex, callback, state, ordered, filter, filter_path,
                                    retry_schedule_seconds, retry_age_seconds_max, on_4xx, on_410, timeout_seconds,
                                    at_most_once, on_exhausted, rate_per_second, rate_burst, format, batch_max, template, service,
                                    kind, queue, name, description, metadata)
SELECT $1, $2, CASE WHEN o.service IS NOT NULL THEN 'service' WHEN o.kind IS NOT NULL THEN 'job' ELSE 'webhook' END, o.topic, o.topic_regex, o.callback, o.state, coalesce(o.ordered, false), o.filter, o.filter_path,
       o.retry_schedule_seconds, o.retry_age_seconds_max, coalesce(o.on_4xx, 'retry'), coalesce(o.on_410, 'end'), o.timeout_seconds,
       coalesce(o.at_most_once, false), coalesce(o.on_exhausted, CASE WHEN o.ordered THEN 'park' ELSE 'skip' END),
       o.rate_per_second, o.rate_burst, coalesce(o.format, 'as_published'), o.batch_max, o.template, o.service,
       o.kind, CASE WHEN o.kind IS NOT NULL THEN coalesce(o.queue, 'default') END, o.name, o.description, o.metadata
FROM jsonb_populate_record(NULL::hookwire.subscriptions, $3::text::jsonb) AS o
RETURNING id;

-- name: add_secret
INSERT INTO hookwire.subscription_secrets (subscription_id, number, tenant, key_id, sealed) VALUES ($1, $2, $3, $4, $5);

-- name: get
SELECT s.id, s.public_id, s.protocol, s.topic, s.service, s.kind, s.queue, s.callback, s.state, s.state_reason, s.ordered, s.at_most_once, s.on_exhausted,
       s.retry_schedule_seconds, s.retry_age_seconds_max, s.on_4xx, s.on_410, s.timeout_seconds, s.rate_per_second, s.rate_burst,
       s.name, s.description, s.metadata::text AS metadata, s.format, s.batch_max, s.template, s.request_origin, s.header_names, s.lease_until, s.paused_until,
       s.filter::text AS filter, s.version, s.created_at, s.updated_at, r.subscription_state, r.breaker_until,
       r.breaker_until AS breaker_open_until, r.rate_until, r.failing_since, r.failure_outcome, r.failure_status, r.now,
       r.waiting, r.next_due_at, r.next_is_claimed, r.waiting_since, r.answer_seconds, r.last_success_at, r.drains
FROM hookwire.subscriptions s CROSS JOIN LATERAL (SELECT * FROM hookwire.receivers y WHERE y.id = s.id LIMIT 1) AS r
WHERE s.tenant = $1 AND s.public_id = $2 AND s.state <> 'deleted';

-- name: list
-- Beyond $6 bytes there are no filters, metadata and templates, and `fits` is false. $7 is a name, and $8 a part of the
-- metadata. $9 is the host of the callback in small letters and without a final dot; its index needs a plan for
-- this value. $10 has the spellings of a host that has several.
SELECT s.id, s.public_id, s.protocol, s.topic, s.service, s.kind, s.queue, s.callback, s.state, s.state_reason, s.ordered, s.at_most_once, s.on_exhausted,
       s.retry_schedule_seconds, s.retry_age_seconds_max, s.on_4xx, s.on_410, s.timeout_seconds, s.rate_per_second, s.rate_burst,
       s.name, s.description, CASE WHEN s.before < $6::bigint THEN s.metadata::text END AS metadata, s.format, s.batch_max, CASE WHEN s.before < $6::bigint THEN s.template END AS template, s.request_origin, s.header_names, s.lease_until, s.paused_until,
       CASE WHEN s.before < $6::bigint THEN s.filter::text END AS filter, s.before < $6::bigint AS fits, s.version, s.created_at, s.updated_at, r.subscription_state, r.breaker_until,
       r.breaker_until AS breaker_open_until, r.rate_until, r.failing_since, r.failure_outcome, r.failure_status, r.now,
       r.waiting, r.next_due_at, r.next_is_claimed, r.waiting_since, r.answer_seconds, r.last_success_at, r.drains
FROM (SELECT x.*, sum(w.size) OVER (ORDER BY x.id ROWS UNBOUNDED PRECEDING) - w.size AS before
      FROM (SELECT * FROM hookwire.subscriptions
            WHERE tenant = $1 AND state <> 'deleted' AND id > $2 AND ($3::text IS NULL OR topic = $3) AND ($4::text IS NULL OR state = $4)
              AND ($7::text IS NULL OR name = $7) AND ($8::text::jsonb IS NULL OR metadata @> $8::text::jsonb)
              AND ($9::text IS NULL OR callback <> '' AND rtrim(lower(substring(callback, '^[^:/?#]+://(?:[^/?#@]*@)?(\[[^]]*\]|[^/?#:]*)') COLLATE "C"), '.') = $9)
              AND ($10::text[] IS NULL OR callback <> '' AND rtrim(lower(substring(callback, '^[^:/?#]+://(?:[^/?#@]*@)?(\[[^]]*\]|[^/?#:]*)') COLLATE "C"), '.') = ANY ($10::text[]))
            ORDER BY id LIMIT $5) AS x
      CROSS JOIN LATERAL (SELECT octet_length(concat(x.filter, x.metadata, x.template)) AS size) AS w) AS s
CROSS JOIN LATERAL (SELECT * FROM hookwire.receivers y WHERE y.id = s.id LIMIT 1) AS r
ORDER BY s.id;

-- name: disabled_after
-- Return after which event it was disabled; NULL where that is unknown.
SELECT s.disabled_after_id FROM hookwire.subscriptions s WHERE s.id = $1;

-- name: secret_at
-- Return when its newest signing key was made.
SELECT max(k.created_at) FROM hookwire.subscription_secrets k WHERE k.subscription_id = $1;

-- name: condition
SELECT * FROM hookwire.receivers WHERE id = $1;

-- name: troubled
-- Return active subscriptions that fail, longest failure first, then those that are paused or disabled.
WITH failing AS (
    SELECT f.subscription_id AS id, f.failing_since AS since FROM hookwire.delivery_failures f
    WHERE f.failing_since IS NOT NULL ORDER BY f.failing_since LIMIT $2
), paused AS (
    SELECT s.id, s.paused_until AS since FROM hookwire.subscriptions s WHERE s.paused_until > now() ORDER BY s.paused_until LIMIT $2
), disabled AS (
    SELECT s.id, NULL::timestamptz AS since FROM hookwire.subscriptions s WHERE s.state = 'disabled' ORDER BY s.id DESC LIMIT $2
), found AS (
    SELECT DISTINCT ON (x.id) x.id, x.place, x.since
    FROM (SELECT id, 1 AS place, since FROM failing UNION ALL SELECT id, 2, since FROM paused UNION ALL SELECT id, 3, since FROM disabled) AS x
    ORDER BY x.id, x.place
)
SELECT s.id FROM found
CROSS JOIN LATERAL (SELECT y.id, y.tenant, y.state FROM hookwire.subscriptions y WHERE y.id = found.id LIMIT 1) AS s
WHERE s.tenant = $1 AND s.state IN ('active', 'disabled')
ORDER BY s.state, found.place, found.since NULLS LAST, s.id DESC LIMIT $2;

-- name: change
-- Set the columns that $3 names, and keep the others. NULL there means the default of a new subscription.
UPDATE hookwire.subscriptions s
SET (topic, topic_regex, callback, state, state_reason, drains, paused_until, ordered, filter, filter_path,
     retry_schedule_seconds, retry_age_seconds_max, on_4xx, on_410, timeout_seconds, at_most_once, on_exhausted,
     rate_per_second, rate_burst, format, batch_max, template, name, description, metadata) = (
        SELECT o.topic, o.topic_regex, o.callback, o.state, o.state_reason, o.drains, o.paused_until, o.ordered, o.filter, o.filter_path,
               o.retry_schedule_seconds, o.retry_age_seconds_max, coalesce(o.on_4xx, 'retry'), coalesce(o.on_410, 'end'),
               o.timeout_seconds, o.at_most_once,
               coalesce(o.on_exhausted, CASE WHEN o.ordered THEN 'park' ELSE 'skip' END),
               o.rate_per_second, o.rate_burst, coalesce(o.format, 'as_published'), o.batch_max, o.template,
               o.name, o.description, o.metadata
        FROM jsonb_populate_record(s, $3::text::jsonb) AS o),
    request_origin = CASE WHEN callback = coalesce($3::text::jsonb ->> 'callback', callback) THEN request_origin END,
    version = version + 1, updated_at = now()
WHERE tenant = $1 AND public_id = $2 AND protocol IN ('webhook', 'service', 'job') AND state <> 'deleted' AND version = coalesce($4, version)
RETURNING id;

-- name: delete
-- Refuse the subscription in which a RabbitHub queue keeps its messages: without it the messages would have no
-- receiver.
UPDATE hookwire.subscriptions s SET state = 'deleted', state_reason = 'subscription deleted', version = s.version + 1, updated_at = now()
WHERE s.tenant = $1 AND s.public_id = $2 AND s.state <> 'deleted' AND s.version = coalesce($3, s.version)
  AND NOT EXISTS (SELECT FROM hookwire.rabbithub_resources q WHERE q.source = s.id)
RETURNING s.id, s.protocol;

-- name: consent
-- The callback has agreed to deliveries from this origin, at this rate (NULL: unchanged), for this version. Activate a
-- subscription that waited for it.
UPDATE hookwire.subscriptions
SET request_origin = $3, rate_per_second = coalesce($4, rate_per_second), state = 'active', state_reason = NULL,
    version = version + 1, updated_at = now()
WHERE tenant = $1 AND public_id = $2 AND protocol = 'webhook' AND state IN ('active', 'disabled') AND version = $5
RETURNING id;

-- name: keep_headers
-- Store the subscriber's own headers, sealed; delete them when $2 is NULL.
UPDATE hookwire.subscriptions SET header_names = $2::text[], headers_key_id = $3, headers_sealed = $4 WHERE id = $1;

-- name: forget_secrets
WITH headers AS (
    UPDATE hookwire.subscriptions SET header_names = NULL, headers_key_id = NULL, headers_sealed = NULL WHERE id = $1
), gate AS (
    DELETE FROM hookwire.delivery_gates WHERE subscription_id = $1
), failures AS (
    DELETE FROM hookwire.delivery_failures WHERE subscription_id = $1
)
DELETE FROM hookwire.subscription_secrets WHERE subscription_id = $1;

-- name: for_delivery
SELECT s.id, s.public_id, s.protocol, s.callback, s.topic_url, s.signature_method, s.format, s.batch_max, s.template, s.request_origin, s.retry_schedule_seconds,
       s.retry_age_seconds_max, s.on_4xx, s.on_410, s.timeout_seconds, s.at_most_once, s.on_exhausted = 'park' AS parks, s.version,
       s.headers_key_id, s.headers_sealed, extract(epoch FROM s.lease_until - now())::double precision AS lease_seconds_left,
       coalesce(k.numbers, '{}') AS secret_numbers, coalesce(k.key_ids, '{}') AS secret_key_ids,
       coalesce(k.sealed, '{}') AS secrets
FROM hookwire.subscriptions s
LEFT JOIN LATERAL (
    SELECT array_agg(x.number ORDER BY x.number DESC) AS numbers, array_agg(x.key_id ORDER BY x.number DESC) AS key_ids,
           array_agg(x.sealed ORDER BY x.number DESC) AS sealed
    FROM hookwire.subscription_secrets x
    WHERE x.subscription_id = s.id AND (x.expires_at IS NULL OR x.expires_at > now())
) AS k ON true
WHERE s.id = ANY ($1::bigint[]);

-- name: pause
UPDATE hookwire.subscriptions SET paused_until = greatest(paused_until, now() + make_interval(secs => $2::double precision))
WHERE id = $1;

-- name: end
-- End the subscription after a 410 or at the receiver's request: nothing is sent to it again. Keep it if it has changed
-- since the version that the answer is about.
UPDATE hookwire.subscriptions SET state = $2, state_reason = $3, version = version + 1, updated_at = now()
WHERE id = $1 AND (state = 'active' OR drains) AND version = $4
RETURNING protocol;

-- name: count
SELECT state, count(*) AS subscriptions FROM hookwire.subscriptions WHERE tenant = $1 AND state <> 'deleted' GROUP BY state;
