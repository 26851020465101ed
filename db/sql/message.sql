-- Messages of queues. The rules are the functions of db/functions/message.sql, which any language may call; these statements call them.

-- name: submit
SELECT s.id FROM hookwire.submit_batch($1, $2::bytea[], $3::text[], $4::text[]::jsonb[], $5::text[], $6::text[], $7::integer[],
                                       $8::double precision[]) AS s(id);

-- name: receive
SELECT r.id, r.claim, r.deliveries, r.lease_until, r.created_at, r.content_type, r.headers::text AS headers, r.payload, r.type, r.key, r.priority
FROM hookwire.take_messages($1, $2, $3, $4::text::jsonb, $5, $6, coalesce($7, hookwire.answer_bytes_max())) AS r;

-- name: accept
SELECT a.id FROM hookwire.accept_held($2, $3, $1) AS a(id);

-- name: reject
SELECT a.id FROM hookwire.reject_held($2, $3, $1, $4, $5, $6, $7) AS a(id);

-- name: extend
SELECT a.id FROM hookwire.extend_held($2, $3, $1, $4) AS a(id);

-- name: browse
-- Return available messages after an id, oldest first. Beyond $4 bytes there are no contents, and `fits` is false.
SELECT b.id, b.deliveries, b.created_at, b.content_type, b.type, b.key, b.priority, b.before < $4::bigint AS fits,
       CASE WHEN b.before < $4::bigint THEN b.headers::text END AS headers, CASE WHEN b.before < $4::bigint THEN b.payload END AS payload
FROM (SELECT f.*, sum(w.size) OVER (ORDER BY f.id ROWS UNBOUNDED PRECEDING) - w.size AS before
      FROM (SELECT m.* FROM hookwire.messages m
            WHERE m.queue = $1 AND m.claim IS NULL AND m.due_at IS NULL AND m.id > $3 ORDER BY m.id LIMIT $2) AS f
      CROSS JOIN LATERAL (SELECT octet_length(f.payload) + octet_length(f.headers::text) AS size) AS w) AS b
ORDER BY b.id;

-- name: reap
SELECT r.returned, r.dead, r.promoted FROM hookwire.reap_messages($1) AS r;

-- name: available_among
-- Return, for receivers that wait, how many messages each queue has, at most as many as receivers wait.
SELECT w.queue, (SELECT count(*) FROM (SELECT FROM hookwire.messages m
                                       WHERE m.queue = w.queue AND m.claim IS NULL AND m.due_at IS NULL LIMIT w.waiting) AS s) AS available
FROM unnest($1::text[], $2::integer[]) AS w(queue, waiting);

-- name: dead
-- Beyond $4 bytes there are no contents, and `fits` is false.
SELECT b.id, b.deliveries, b.created_at, b.died_at, b.reason, b.content_type, b.type, b.key, b.priority, b.before < $4::bigint AS fits,
       CASE WHEN b.before < $4::bigint THEN b.payload END AS payload
FROM (SELECT f.*, sum(w.size) OVER (ORDER BY f.id ROWS UNBOUNDED PRECEDING) - w.size AS before
      FROM (SELECT d.* FROM hookwire.dead_messages d WHERE d.queue = $1 AND d.id > $2 ORDER BY d.id LIMIT $3) AS f
      CROSS JOIN LATERAL (SELECT octet_length(f.payload) AS size) AS w) AS b
ORDER BY b.id;

-- name: archived
-- Return messages that were accepted before a moment and id, newest first. Beyond $5 bytes there are no contents, and `fits`
-- is false.
SELECT b.id, b.deliveries, b.created_at, b.claimed_at, b.accepted_at, b.receiver, b.content_type, b.type, b.key, b.priority,
       b.before < $5::bigint AS fits, CASE WHEN b.before < $5::bigint THEN b.payload END AS payload
FROM (SELECT f.*, sum(w.size) OVER (ORDER BY f.accepted_at DESC, f.id DESC ROWS UNBOUNDED PRECEDING) - w.size AS before
      FROM (SELECT a.* FROM hookwire.message_archive a
            WHERE a.queue = $1 AND (a.accepted_at, a.id) < ($2, $3::bigint) ORDER BY a.accepted_at DESC, a.id DESC LIMIT $4) AS f
      CROSS JOIN LATERAL (SELECT octet_length(f.payload) AS size) AS w) AS b
ORDER BY b.accepted_at DESC, b.id DESC;

-- name: redrive
-- Move dead messages back to the queue under their old ids, so at their old places, and count their deliveries anew.
-- NULL: the oldest 500.
WITH chosen AS MATERIALIZED (
    SELECT d.id FROM hookwire.dead_messages d WHERE d.queue = $1 AND ($2::bigint[] IS NULL OR d.id = ANY ($2))
    ORDER BY d.id LIMIT 500 FOR UPDATE SKIP LOCKED
), taken AS (
    DELETE FROM hookwire.dead_messages d WHERE d.id = ANY (ARRAY(SELECT c.id FROM chosen c)) RETURNING d.*
), returned AS (
    INSERT INTO hookwire.messages (id, queue, created_at, priority, type, key, content_type, headers, payload, last_reason)
    SELECT t.id, t.queue, t.created_at, t.priority, t.type, t.key, t.content_type, t.headers, t.payload, 'redriven' FROM taken t
), noted AS (
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason, records)
    SELECT 'default', $3, 'message.redrive', $1, $4, count(*) FROM taken HAVING count(*) > 0
)
SELECT t.id FROM taken t;

-- name: purge_dead
WITH chosen AS MATERIALIZED (
    SELECT d.id FROM hookwire.dead_messages d WHERE d.queue = $1 AND ($2::bigint[] IS NULL OR d.id = ANY ($2))
    ORDER BY d.id LIMIT 500 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM hookwire.dead_messages d WHERE d.id = ANY (ARRAY(SELECT c.id FROM chosen c)) RETURNING d.id
), noted AS (
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason, records)
    SELECT 'default', $3, 'message.purge', $1, $4, count(*) FROM gone HAVING count(*) > 0
)
SELECT g.id FROM gone g;
