-- Transactional tasks. The rules are the functions of db/functions/task.sql, which any language may call; these statements call them.

-- name: enqueue
SELECT hookwire.enqueue_task($1, $2::text::jsonb, $3, $4);

-- name: clean
SELECT c.notified, c.freed, c.archived, c.retried, c.compensated, c.abandoned FROM hookwire.clean_tasks($1) AS c;

-- name: list
-- Newest first. Beyond $5 bytes there are no descriptions, and `fits` is false.
SELECT b.id, b.kind, b.created_at, b.start_time, b.due_at, b.attempts, b.worker, b.lease_until, b.last_error, b.seq,
       b.before < $5::bigint AS fits, CASE WHEN b.before < $5::bigint THEN b.description END AS description
FROM (SELECT f.*, sum(w.size) OVER (ORDER BY f.seq DESC ROWS UNBOUNDED PRECEDING) - w.size AS before
      FROM (SELECT t.* FROM hookwire.task_rows t
            WHERE t.seq < $1 AND ($2::text IS NULL OR t.kind = $2)
              AND ($3::text IS NULL OR $3 = CASE WHEN t.start_time IS NOT NULL THEN 'started' WHEN t.due_at IS NOT NULL THEN 'delayed' ELSE 'waiting' END)
            ORDER BY t.seq DESC LIMIT $4) AS f
      CROSS JOIN LATERAL (SELECT octet_length(f.description) AS size) AS w) AS b
ORDER BY b.seq DESC;

-- name: get
SELECT t.id, t.kind, t.description, t.created_at, t.start_time, t.due_at, t.attempts, t.worker, t.lease_until, t.last_error, t.seq
FROM hookwire.task_rows t WHERE t.id = $1;

-- name: counts
SELECT (SELECT count(*) FROM (SELECT FROM hookwire.task_rows t WHERE t.start_time IS NULL AND t.due_at IS NULL AND t.kind > '' LIMIT 100000) AS s) AS waiting,
       (SELECT count(*) FROM hookwire.task_rows t WHERE t.start_time IS NOT NULL AND t.lease_until > '-infinity') AS started,
       (SELECT count(*) FROM hookwire.task_rows t WHERE t.due_at > '-infinity') AS delayed,
       (SELECT count(*) FROM hookwire.dead_tasks) AS dead;

-- name: rates
-- Return the rates that a scaler compares: tasks that ever arrived, tasks completed, and tasks that wait now, counted
-- up to 10,000.
WITH live AS MATERIALIZED (
    SELECT count(*) AS count FROM (SELECT FROM hookwire.task_rows t WHERE t.id > '' LIMIT 10000) AS s
), drawn AS MATERIALIZED (
    SELECT CASE WHEN s.is_called THEN s.last_value ELSE 0 END AS count FROM hookwire.task_rows_seq_seq AS s
)
SELECT drawn.count AS arrived, drawn.count - live.count AS completed,
       (SELECT count(*) FROM (SELECT FROM hookwire.task_rows t WHERE t.start_time IS NULL AND t.due_at IS NULL AND t.kind > '' LIMIT 10000) AS s) AS waiting
FROM drawn, live;

-- name: put_kind
INSERT INTO hookwire.task_kinds AS k (kind, on_crash, compensation_kind, notify, lookup_seconds, giveup_seconds, cleanup_seconds,
    crash_seconds, attempts_max, age_seconds_max, backoff_seconds_min, backoff_seconds_max, doublings_max, keeps_record, is_unique)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
ON CONFLICT (kind) DO UPDATE SET on_crash = excluded.on_crash, compensation_kind = excluded.compensation_kind,
    notify = excluded.notify, lookup_seconds = excluded.lookup_seconds, giveup_seconds = excluded.giveup_seconds,
    cleanup_seconds = excluded.cleanup_seconds, crash_seconds = excluded.crash_seconds, attempts_max = excluded.attempts_max,
    age_seconds_max = excluded.age_seconds_max, backoff_seconds_min = excluded.backoff_seconds_min,
    backoff_seconds_max = excluded.backoff_seconds_max, doublings_max = excluded.doublings_max,
    keeps_record = excluded.keeps_record, is_unique = excluded.is_unique
RETURNING k.*;

-- name: kinds
SELECT k.* FROM hookwire.task_kinds k ORDER BY k.kind LIMIT 1000;

-- name: dead
-- Oldest first. Beyond $4 bytes there are no descriptions, and `fits` is false.
SELECT b.number, b.id, b.kind, b.reason, b.attempts, b.worker, b.created_at, b.died_at,
       b.before < $4::bigint AS fits, CASE WHEN b.before < $4::bigint THEN b.description END AS description
FROM (SELECT f.*, sum(w.size) OVER (ORDER BY f.number ROWS UNBOUNDED PRECEDING) - w.size AS before
      FROM (SELECT d.* FROM hookwire.dead_tasks d WHERE d.number > $1 AND ($2::text IS NULL OR d.kind = $2)
            ORDER BY d.number LIMIT $3) AS f
      CROSS JOIN LATERAL (SELECT octet_length(f.description) AS size) AS w) AS b
ORDER BY b.number;

-- name: dead_kinds
-- Return the kinds of these dead tasks; NULL: of the oldest 500.
SELECT d.number, d.kind FROM hookwire.dead_tasks d WHERE $1::bigint[] IS NULL OR d.number = ANY ($1)
ORDER BY d.number LIMIT 500;

-- name: redrive
-- Move dead tasks back under their old ids, and count their attempts anew. A task that is live again stays dead.
-- A mark that is not true stays so, whatever the kind says now: twins come back together.
-- NULL: the oldest 500.
WITH chosen AS MATERIALIZED (
    SELECT d.number, d.id FROM hookwire.dead_tasks d WHERE $1::bigint[] IS NULL OR d.number = ANY ($1)
    ORDER BY d.number LIMIT 500 FOR UPDATE SKIP LOCKED
), added AS (
    INSERT INTO hookwire.task_rows (id, description, kind, created_at, is_unique)
    SELECT DISTINCT ON (d.id) d.id, d.description, d.kind, d.created_at, coalesce(d.is_unique, false)
    FROM hookwire.dead_tasks d
    WHERE d.number = ANY (ARRAY(SELECT c.number FROM chosen c)) ORDER BY d.id, d.number
    ON CONFLICT DO NOTHING RETURNING id
), gone AS (
    DELETE FROM hookwire.dead_tasks d
    WHERE d.number = ANY (ARRAY(SELECT min(c.number) FROM chosen c JOIN added a ON a.id = c.id GROUP BY c.id)) RETURNING d.number
), noted AS (
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason, records)
    SELECT 'default', $2, 'task.redrive', 'dead tasks', $3, count(*) FROM gone HAVING count(*) > 0
)
SELECT g.number FROM gone g;

-- name: purge_dead
WITH chosen AS MATERIALIZED (
    SELECT d.number FROM hookwire.dead_tasks d WHERE $1::bigint[] IS NULL OR d.number = ANY ($1)
    ORDER BY d.number LIMIT 500 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM hookwire.dead_tasks d WHERE d.number = ANY (ARRAY(SELECT c.number FROM chosen c)) RETURNING d.number
), noted AS (
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason, records)
    SELECT 'default', $2, 'task.purge', 'dead tasks', $3, count(*) FROM gone HAVING count(*) > 0
)
SELECT g.number FROM gone g;

-- name: cancel
-- Cancel only tasks that no worker has begun.
WITH gone AS (
    DELETE FROM hookwire.task_rows t WHERE t.id = $1 AND t.start_time IS NULL RETURNING t.id
), noted AS (
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason) SELECT 'default', $2, 'task.cancel', g.id, $3 FROM gone g
)
SELECT g.id FROM gone g;

-- name: untold
-- Return dead tasks that the command hook and the e-mail have not reported yet.
SELECT d.number, d.id, d.kind, d.description, d.reason, d.attempts, d.worker, d.created_at, d.died_at
FROM hookwire.dead_tasks d WHERE d.told_at IS NULL ORDER BY d.number LIMIT $1;

-- name: told
UPDATE hookwire.dead_tasks SET told_at = clock_timestamp() WHERE number = ANY ($1) AND told_at IS NULL;

-- name: purge_archive
DELETE FROM hookwire.task_archive WHERE ctid = ANY (ARRAY(
    SELECT a.ctid FROM hookwire.task_archive a WHERE a.finish_time < now() - make_interval(days => $1)
    ORDER BY a.finish_time LIMIT $2));

-- name: purge_old_dead
DELETE FROM hookwire.dead_tasks WHERE ctid = ANY (ARRAY(
    SELECT d.ctid FROM hookwire.dead_tasks d WHERE d.died_at < now() - make_interval(days => $1) ORDER BY d.died_at LIMIT $2));
