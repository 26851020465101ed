-- Queues: their settings, their waiting messages, and their clean-up.

-- name: use
-- Return whether the queue has a row, and note that it is in use today. A row that somebody has locked is not noted.
WITH noted AS (
    UPDATE hookwire.queues SET used_on = current_date WHERE ctid = (
        SELECT x.ctid FROM hookwire.queues x WHERE x.name = $1 AND x.used_on < current_date FOR UPDATE SKIP LOCKED)
)
SELECT EXISTS (SELECT FROM hookwire.queues x WHERE x.name = $1);

-- name: ensure
-- Create the row of a queue at its first use by the key $2, outside any foreign transaction.
INSERT INTO hookwire.queues (name, made_by, used_on)
SELECT $1, $2, current_date WHERE (SELECT i.queues_auto_create FROM hookwire.installation i) ON CONFLICT DO NOTHING;

-- name: room
-- Return how many more queues the key $1 may make by using them, and the limit that decides. Empty: without a key.
SELECT least(l.of_key, l.of_all) AS room, l.of_key < l.of_all AS is_of_key,
       CASE WHEN l.of_key < l.of_all THEN l.names_per_key_max ELSE l.names_max END AS most
FROM (SELECT i.names_per_key_max, i.names_max,
             CASE WHEN $1 <> '' THEN i.names_per_key_max - (SELECT count(*) FROM (
                 SELECT FROM hookwire.queues x WHERE x.made_by = $1 LIMIT i.names_per_key_max) AS own) END AS of_key,
             i.names_max - (SELECT count(*) FROM (
                 SELECT FROM hookwire.queues x WHERE x.made_by IS NOT NULL LIMIT i.names_max) AS own) AS of_all
      FROM hookwire.installation i) AS l;

-- name: adopt
-- Create rows for queues that foreign transactions used first. This is a loose scan of the index, name by name.
WITH RECURSIVE names AS (
    (SELECT m.queue FROM hookwire.messages m WHERE m.claim IS NULL AND m.due_at IS NULL ORDER BY m.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT m.queue FROM hookwire.messages m WHERE m.claim IS NULL AND m.due_at IS NULL AND m.queue > n.queue ORDER BY m.queue LIMIT 1)
    FROM names n WHERE n.queue IS NOT NULL
)
INSERT INTO hookwire.queues (name, made_by, used_on)
SELECT n.queue, '', current_date FROM names n WHERE n.queue IS NOT NULL AND NOT starts_with(n.queue, 'tmp.')
ON CONFLICT DO NOTHING;

-- name: put
INSERT INTO hookwire.queues AS q (name, moves, copies, history, lease_seconds, deliveries_max, retention_days)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (name) DO UPDATE SET moves = excluded.moves, copies = excluded.copies, history = excluded.history,
    lease_seconds = excluded.lease_seconds, deliveries_max = excluded.deliveries_max, retention_days = excluded.retention_days,
    made_by = NULL, used_on = NULL
RETURNING q.*;

-- name: get
SELECT q.* FROM hookwire.queues q WHERE q.name = $1;

-- name: list
SELECT q.* FROM hookwire.queues q WHERE q.name > $1 ORDER BY q.name LIMIT $2;

-- name: pause
WITH changed AS (
    UPDATE hookwire.queues q SET paused = $2, made_by = NULL, used_on = NULL
    FROM (SELECT o.name, o.paused FROM hookwire.queues o WHERE o.name = $1 FOR UPDATE) AS old
    WHERE q.name = old.name RETURNING q.name, old.paused <> $2 AS has_effect
), noted AS (
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason)
    SELECT 'default', $3, CASE WHEN $2 THEN 'queue.pause' ELSE 'queue.resume' END, name, $4 FROM changed
)
SELECT name, has_effect FROM changed;

-- name: make_temporary
-- Return no row where the tenant has reached its limit of temporary queues.
INSERT INTO hookwire.queues (name, owner, lifetime_seconds, expires_at)
SELECT $1, $2, $3::integer, now() + make_interval(secs => $3::integer)
WHERE (SELECT count(*) FROM hookwire.queues q WHERE q.expires_at IS NOT NULL) < $4
RETURNING queues.*;

-- name: remove
-- Delete the queue with its contents. Receivers of a temporary queue get 42704 from now on.
WITH gone AS (
    DELETE FROM hookwire.queues WHERE name = $1 RETURNING name
), readers AS (
    DELETE FROM hookwire.consumers c USING gone g WHERE c.queue = g.name
), log AS (
    DELETE FROM hookwire.message_log l USING gone g WHERE l.queue = g.name
), messages AS (
    DELETE FROM hookwire.messages m USING gone g WHERE m.queue = g.name
), dead AS (
    DELETE FROM hookwire.dead_messages d USING gone g WHERE d.queue = g.name
), noted AS (
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason) SELECT 'default', $2, 'queue.remove', g.name, $3 FROM gone g
)
SELECT name FROM gone;

-- name: expired
SELECT q.name FROM hookwire.queues q WHERE q.expires_at <= now() ORDER BY q.expires_at LIMIT 100;

-- name: counts
-- Count the contents of these queues, each by the index of the counted rows. The oldest message is the one that has
-- waited longest.
SELECT w.queue,
       (SELECT count(*) FROM hookwire.messages m WHERE m.queue = w.queue AND m.claim IS NULL AND m.due_at IS NULL) AS available,
       coalesce(c.claimed, 0) AS claimed, coalesce(d.delayed, 0) AS delayed,
       (SELECT count(*) FROM hookwire.dead_messages x WHERE x.queue = w.queue) AS dead,
       (SELECT m.created_at FROM hookwire.messages m WHERE m.queue = w.queue AND m.claim IS NULL AND m.due_at IS NULL
        ORDER BY m.id LIMIT 1) AS oldest_at
FROM unnest($1::text[]) AS w(queue)
LEFT JOIN (SELECT m.queue, count(*) AS claimed FROM hookwire.messages m WHERE m.claim IS NOT NULL GROUP BY m.queue) AS c ON c.queue = w.queue
LEFT JOIN (SELECT m.queue, count(*) AS delayed FROM hookwire.messages m WHERE m.due_at IS NOT NULL GROUP BY m.queue) AS d ON d.queue = w.queue;

-- name: purge_archive
DELETE FROM hookwire.message_archive WHERE ctid = ANY (ARRAY(
    SELECT a.ctid FROM hookwire.message_archive a WHERE a.queue = $1 AND a.accepted_at < now() - make_interval(days => $2)
    ORDER BY a.accepted_at LIMIT $3));

-- name: purge_log
DELETE FROM hookwire.message_log WHERE ctid = ANY (ARRAY(
    SELECT l.ctid FROM hookwire.message_log l WHERE l.queue = $1 AND l.created_at < now() - make_interval(days => $2)
    ORDER BY l.created_at LIMIT $3));

-- name: purge_dead
DELETE FROM hookwire.dead_messages WHERE ctid = ANY (ARRAY(
    SELECT d.ctid FROM hookwire.dead_messages d WHERE d.queue = $1 AND d.died_at < now() - make_interval(days => $2)
    ORDER BY d.died_at LIMIT $3));

-- name: graduate
SELECT hookwire.graduate($1);

-- name: graduate_batch
SELECT hookwire.graduate_batch($1, $2);

-- name: adopt_transaction_ids
-- Adopt this server's transaction ids after a restore elsewhere; change nothing where the stored ones are this
-- server's.
SELECT hookwire.adopt_transaction_ids();

-- name: forget_unused
-- Delete up to $2 queues that their use made, and that got no message for $1 days. Messages need no row of their queue:
-- without one it has the settings that this row has.
WITH gone AS (
    DELETE FROM hookwire.queues WHERE ctid = ANY (ARRAY(
        SELECT q.ctid FROM hookwire.queues q
        WHERE (SELECT i.queues_auto_create FROM hookwire.installation i) AND q.made_by IS NOT NULL
          AND q.used_on < current_date - $1::integer AND NOT (q.graduated OR q.copies OR q.history)
          AND NOT EXISTS (SELECT FROM hookwire.messages m WHERE m.queue = q.name AND m.claim IS NULL AND m.due_at IS NULL)
          AND NOT EXISTS (SELECT FROM hookwire.dead_messages d WHERE d.queue = q.name)
        LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING 1
)
SELECT count(*) FROM gone;
