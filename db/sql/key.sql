-- API keys: made, found by the digest of their text, revoked.

-- name: create
INSERT INTO hookwire.api_keys (public_id, tenant, name, digest, scopes, topics, expires_at, queues, kinds, services)
VALUES ($1, $2, $3, $4, $5, $6, now() + make_interval(secs => $7::double precision), $8, $9, $10)
RETURNING id, public_id, name, scopes, topics, queues, kinds, services, expires_at, revoked_at, created_at;

-- name: create_first
-- Make the key that a setting names, while there is none: also none that was revoked or has expired. Of two processes
-- that start together one makes it.
INSERT INTO hookwire.api_keys (public_id, tenant, name, digest, scopes)
SELECT $1, $2, $3, $4, ARRAY['admin'] WHERE NOT EXISTS (SELECT FROM hookwire.api_keys WHERE tenant = $2)
ON CONFLICT DO NOTHING;

-- name: find
-- Find a valid key, and for how long it stays valid by the database's clock.
SELECT public_id, name, scopes, topics, queues, kinds, services, extract(epoch FROM expires_at - now())::double precision AS remaining_seconds
FROM hookwire.api_keys
WHERE digest = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now());

-- name: list
SELECT id, public_id, name, scopes, topics, queues, kinds, services, expires_at, revoked_at, created_at
FROM hookwire.api_keys WHERE tenant = $1 AND id > $2 ORDER BY id LIMIT $3;

-- name: revoke
-- Revoking a key again changes nothing.
UPDATE hookwire.api_keys SET revoked_at = coalesce(revoked_at, now()) WHERE tenant = $1 AND public_id = $2
RETURNING id, public_id, name, scopes, topics, queues, kinds, services, expires_at, revoked_at, created_at;

-- name: live
-- Tell whether there is a valid key, and whether one was ever made.
SELECT EXISTS (SELECT FROM hookwire.api_keys WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())) AS valid,
       EXISTS (SELECT FROM hookwire.api_keys) AS made;
