-- Signing in to the console: sessions begun, found by the digest of their token, ended.

-- name: begin
-- Begin a session of a valid key, and end all but the latest 49 others of this key.
WITH of_key AS (
    SELECT k.id FROM hookwire.api_keys k
    WHERE k.tenant = $1 AND k.public_id = $2 AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())
), surplus AS (
    DELETE FROM hookwire.console_sessions
    WHERE digest = ANY (ARRAY(
        SELECT s.digest FROM hookwire.console_sessions s
        WHERE s.key_id = (SELECT id FROM of_key) ORDER BY s.created_at DESC OFFSET 49))
)
INSERT INTO hookwire.console_sessions (digest, key_id, expires_at)
SELECT $3, id, now() + make_interval(secs => $4::double precision) FROM of_key
RETURNING true;

-- name: find
-- Find the key of a session, and for how long both stay valid by the database's clock.
SELECT k.public_id, k.name, k.scopes, k.topics, k.queues, k.kinds, k.services,
       extract(epoch FROM least(s.expires_at, k.expires_at) - now())::double precision AS remaining_seconds
FROM (SELECT x.key_id, x.expires_at FROM hookwire.console_sessions x WHERE x.digest = $1 AND x.expires_at > now() LIMIT 1) AS s
CROSS JOIN LATERAL (
    SELECT * FROM hookwire.api_keys y
    WHERE y.id = s.key_id AND y.revoked_at IS NULL AND (y.expires_at IS NULL OR y.expires_at > now()) LIMIT 1
) AS k;

-- name: end
DELETE FROM hookwire.console_sessions WHERE digest = $1;

-- name: purge
DELETE FROM hookwire.console_sessions
WHERE digest = ANY (ARRAY(
    SELECT s.digest FROM hookwire.console_sessions s WHERE s.expires_at < now() ORDER BY s.expires_at LIMIT 5000));
