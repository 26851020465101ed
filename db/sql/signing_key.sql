-- Signing keys of subscriptions: several sign side by side while one is rotated (WH-S17).

-- name: lock
-- The subscription, for as long as the transaction lasts; its version rises, so that workers read its keys again.
UPDATE hookwire.subscriptions SET version = version + 1, updated_at = now()
WHERE tenant = $1 AND public_id = $2 AND state <> 'deleted'
RETURNING id, protocol;

-- name: live
SELECT number, key_id, sealed, created_at, expires_at FROM hookwire.subscription_secrets
WHERE subscription_id = $1 AND (expires_at IS NULL OR expires_at > now()) ORDER BY number DESC;

-- name: next_number
-- Numbers are never used twice while a row remembers them: a sealed secret is bound to its number.
SELECT coalesce(max(number), 0) + 1 FROM hookwire.subscription_secrets WHERE subscription_id = $1;

-- name: end_others
-- What signs besides $2 ends $3 seconds from now, if not earlier; what has ended long ago is forgotten.
WITH forgotten AS (
    DELETE FROM hookwire.subscription_secrets WHERE subscription_id = $1 AND expires_at < now() - interval '1 day'
)
UPDATE hookwire.subscription_secrets
SET expires_at = least(expires_at, now() + make_interval(secs => $3::double precision))
WHERE subscription_id = $1 AND number <> $2 AND (expires_at IS NULL OR expires_at > now());

-- name: end
UPDATE hookwire.subscription_secrets SET expires_at = now()
WHERE subscription_id = $1 AND number = $2 AND (expires_at IS NULL OR expires_at > now())
RETURNING number;
