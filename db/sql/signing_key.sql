-- Signing keys of subscriptions: several keys sign in parallel while one is rotated (WH-S17).

-- name: lock
-- Lock the subscription until the transaction ends. Its version rises, so that workers read its keys again.
UPDATE hookwire.subscriptions SET version = version + 1, updated_at = now()
WHERE tenant = $1 AND public_id = $2 AND state <> 'deleted'
RETURNING id, protocol;

-- name: live
SELECT number, key_id, sealed, created_at, expires_at FROM hookwire.subscription_secrets
WHERE subscription_id = $1 AND (expires_at IS NULL OR expires_at > now()) ORDER BY number DESC;

-- name: next_number
-- A number is never used again while a row has it: a sealed secret is bound to its number.
SELECT coalesce(max(number), 0) + 1 FROM hookwire.subscription_secrets WHERE subscription_id = $1;

-- name: end_others
-- End all keys but $2 in $3 seconds, if they do not end earlier. Delete keys that ended long ago.
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
