-- Subscriptions: who wants which topics delivered where.

-- name: create
INSERT INTO hookwire.subscriptions (public_id, tenant, protocol, topic, topic_regex, callback, state, ordered,
                                    retry_schedule_seconds, timeout_seconds, filter, filter_path)
VALUES ($1, $2, 'webhook', $3, $4, $5, $6, $7, $8, $9, $10::text::jsonb, $11::text::jsonpath)
RETURNING id, public_id, protocol, topic, callback, state, state_reason, ordered, retry_schedule_seconds, timeout_seconds,
          lease_until, paused_until, filter::text AS filter, version, created_at, updated_at;

-- name: add_secret
INSERT INTO hookwire.subscription_secrets (subscription_id, number, tenant, key_id, sealed) VALUES ($1, 1, $2, $3, $4);

-- name: get
SELECT id, public_id, protocol, topic, callback, state, state_reason, ordered, retry_schedule_seconds, timeout_seconds,
       lease_until, paused_until, filter::text AS filter, version, created_at, updated_at
FROM hookwire.subscriptions WHERE tenant = $1 AND public_id = $2 AND state <> 'deleted';

-- name: list
SELECT id, public_id, protocol, topic, callback, state, state_reason, ordered, retry_schedule_seconds, timeout_seconds,
       lease_until, paused_until, filter::text AS filter, version, created_at, updated_at
FROM hookwire.subscriptions
WHERE tenant = $1 AND state <> 'deleted' AND id > $2 AND ($3::text IS NULL OR topic = $3) AND ($4::text IS NULL OR state = $4)
ORDER BY id LIMIT $5;

-- name: change
-- NULL leaves a column as it is.
UPDATE hookwire.subscriptions SET
    topic = coalesce($3, topic), topic_regex = CASE WHEN $3 IS NULL THEN topic_regex ELSE $4 END,
    callback = coalesce($5, callback), state = coalesce($6, state),
    state_reason = CASE WHEN $6 IS NULL THEN state_reason WHEN $6 = 'active' THEN NULL ELSE $7 END,
    paused_until = CASE WHEN $6 = 'active' THEN NULL ELSE paused_until END,
    ordered = coalesce($8, ordered), retry_schedule_seconds = coalesce($9, retry_schedule_seconds),
    timeout_seconds = coalesce($10, timeout_seconds),
    filter = CASE WHEN $11::text IS NULL THEN filter ELSE nullif($11::text, '{}')::jsonb END,
    filter_path = CASE WHEN $11::text IS NULL THEN filter_path ELSE $12::text::jsonpath END, version = version + 1, updated_at = now()
WHERE tenant = $1 AND public_id = $2 AND protocol = 'webhook' AND state <> 'deleted'
RETURNING id, public_id, protocol, topic, callback, state, state_reason, ordered, retry_schedule_seconds, timeout_seconds,
          lease_until, paused_until, filter::text AS filter, version, created_at, updated_at;

-- name: delete
UPDATE hookwire.subscriptions SET state = 'deleted', state_reason = 'deleted', version = version + 1, updated_at = now()
WHERE tenant = $1 AND public_id = $2 AND state <> 'deleted'
RETURNING id, protocol;

-- name: forget_secrets
DELETE FROM hookwire.subscription_secrets WHERE subscription_id = $1;

-- name: for_delivery
SELECT s.id, s.public_id, s.protocol, s.callback, s.topic_url, s.signature_method, s.retry_schedule_seconds, s.timeout_seconds,
       s.lease_until, s.version,
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
-- 410, or asked for by the receiver: never sent to again. Unless it was changed since the version that answered so.
UPDATE hookwire.subscriptions SET state = $2, state_reason = $3, version = version + 1, updated_at = now()
WHERE id = $1 AND state = 'active' AND version = $4
RETURNING protocol;

-- name: count
SELECT state, count(*) AS subscriptions FROM hookwire.subscriptions WHERE tenant = $1 AND state <> 'deleted' GROUP BY state;
