-- Durable consumers of copies (JB-14).

-- name: register
SELECT hookwire.register_consumer($1, $2, $3::timestamptz);

-- name: receive
SELECT r.id, r.claim, r.deliveries, r.lease_until, r.created_at, r.content_type, r.headers::text AS headers, r.payload, r.type, r.key, r.priority
FROM hookwire.take_copies($1, $2, $3, $4, $5::text::jsonb, coalesce($6, hookwire.answer_bytes_max())) AS r;

-- name: accept
SELECT hookwire.accept_copies(c.queue, c.name, c.claim, $3) FROM hookwire.consumers c WHERE c.queue = $1 AND c.claim = $2;

-- name: release
SELECT hookwire.release_copies(c.queue, c.name, c.claim) FROM hookwire.consumers c WHERE c.queue = $1 AND c.claim = $2;

-- name: extend
UPDATE hookwire.consumers SET lease_until = clock_timestamp() + make_interval(secs => $3) WHERE queue = $1 AND claim = $2;

-- name: behind_among
-- Return the consumers that wait and have something to read.
SELECT w.queue, w.name
FROM unnest($1::text[], $2::text[]) AS w(queue, name)
JOIN hookwire.consumers c ON c.queue = w.queue AND c.name = w.name
WHERE (c.claim IS NULL OR c.lease_until <= clock_timestamp())
  AND (SELECT l.id FROM hookwire.message_log l
       WHERE l.queue = c.queue AND (l.xid, l.id) > (c.xid, c.id) AND l.xid < pg_snapshot_xmin(pg_current_snapshot())
         AND l.id > c.after_id
       ORDER BY l.xid, l.id LIMIT 1) IS NOT NULL;

-- name: list
SELECT c.name, c.created_at, c.lease_until FROM hookwire.consumers c WHERE c.queue = $1 ORDER BY c.name LIMIT 500;

-- name: remove
DELETE FROM hookwire.consumers WHERE queue = $1 AND name = $2;
