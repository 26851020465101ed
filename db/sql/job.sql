-- Jobs. The rules are the functions of db/functions/job.sql, which any language may call; these statements call them.

-- name: add
SELECT a.n, a.id, a.outcome, a.state FROM hookwire.add_jobs($1::text::jsonb, $2) AS a;

-- name: check
-- Refuse a draft as `add` would refuse it.
SELECT hookwire.check_job_draft($1::text::jsonb);

-- name: claim
SELECT c.* FROM hookwire.take_jobs($1, $2, $3, $4, $5, coalesce($6, hookwire.answer_bytes_max())) AS c;

-- name: claim_for_callbacks
-- $1: subscriptions that take no more for now. Claim for other subscriptions whose kind has jobs, in changing order.
-- The worker's name is that of the subscription.
SELECT s.id AS subscription_id, s.version, c.*, extract(epoch FROM c.run_until - clock_timestamp())::double precision AS run_seconds_left
FROM (SELECT x.id, x.version, x.kind, x.queue, x.public_id, coalesce(x.timeout_seconds, $3) AS seconds FROM hookwire.subscriptions x
      WHERE x.protocol = 'job' AND x.state = 'active' AND x.id <> ALL ($1::bigint[])
        AND (SELECT j.id FROM hookwire.jobs j WHERE j.queue = x.queue AND j.kind = x.kind AND j.state = 'available' AND NOT j.for_people
             ORDER BY j.rank_at, j.seq LIMIT 1) IS NOT NULL
      ORDER BY random() LIMIT $5) AS s,
     LATERAL hookwire.claim_jobs(ARRAY[s.kind], $2, s.public_id, s.seconds + $4, s.queue) AS c;

-- name: complete
SELECT c.id FROM hookwire.complete_jobs($1, $2, $3::text[]::jsonb[], $4::text[]::jsonb[]) AS c(id);

-- name: fail
SELECT hookwire.fail_job($1, $2, $3, $4, $5);

-- name: snooze
SELECT hookwire.snooze_job($1, $2, $3, $4);

-- name: resume
SELECT hookwire.resume_job($1, $2::text::jsonb);

-- name: release
SELECT r.id FROM hookwire.release_jobs($1, $2, $3) AS r(id);

-- name: extend
SELECT e.id, e.lease_until, e.is_cancelled FROM hookwire.extend_jobs($1, $2, $3) AS e;

-- name: progress
SELECT hookwire.progress_job($1, $2, $3, $4, $5);

-- name: keep
SELECT k.promoted, k.returned, k.discarded, k.cancelled FROM hookwire.keep_jobs($1) AS k;

-- name: assign
SELECT hookwire.assign_job($1, $2, $3, $4, $5, $6);

-- name: unassign
SELECT hookwire.unassign_job($1, $2, $3);

-- name: delay
SELECT hookwire.delay_job($1, $2, $3, $4, $5, $6, $7);

-- name: finish
SELECT hookwire.finish_job($1, $2, $3::text::jsonb, $4);

-- name: approve
SELECT hookwire.approve_job($1, $2, $3);

-- name: send_back
SELECT hookwire.send_back_job($1, $2, $3);

-- name: decline
SELECT hookwire.decline_job($1, $2, $3);

-- name: cancel
SELECT hookwire.cancel_job($1, $2, $3);

-- name: retry
SELECT hookwire.retry_job($1, $2, $3);

-- name: list
-- Newest first. NULL: any. Live and ended jobs share one sequence. A state that only live jobs have reads no ended one. Beyond $9 bytes there are no contents, and `fits` is false.
WITH page AS MATERIALIZED (
    SELECT found.*, row_number() OVER (ORDER BY found.seq DESC) AS place FROM (
    (SELECT j.id, j.seq, j.kind, j.queue, j.state, j.for_people, j.args, nullif(j.key, '') AS key, j.uniq, j.priority, j.due_at, j.due_local,
            j.due_zone, j.deadline_at, j.attempts, j.attempts_max, j.worker, j.lease_until, j.assignee, j.performer, j.number, j.progress_done,
            j.progress_total, j.progress_note, j.is_cancelled, j.result, j.errors, j.created_by, j.created_at, j.claimed_at,
            NULL::timestamptz AS ended_at, NULL::text AS ended_by, NULL::text AS reason
     FROM hookwire.jobs j
     WHERE j.seq < $1 AND ($2::text IS NULL OR j.state = $2) AND ($3::text IS NULL OR j.kind = $3)
       AND ($4::text IS NULL OR j.assignee = $4) AND ($5::boolean IS NULL OR $5 = (j.state = 'available' AND j.for_people))
       AND ($6::uuid IS NULL OR j.id = $6) AND ($7::text IS NULL OR j.uniq = $7)
     ORDER BY j.seq DESC LIMIT $8)
    UNION ALL
    (SELECT a.id, a.seq, a.kind, a.queue, a.state, false, a.args, nullif(a.key, ''), a.uniq, a.priority, NULL, NULL,
            NULL, NULL, a.attempts, a.attempts_max, a.worker, NULL, a.assignee, a.performer, a.number, NULL,
            NULL, NULL, false, a.result, a.errors, a.created_by, a.created_at, a.claimed_at, a.ended_at, a.ended_by, a.reason
     FROM hookwire.job_archive a
     WHERE a.seq < $1 AND ($2::text IS NULL OR $2 IN ('completed', 'cancelled', 'discarded') AND a.state = $2) AND ($3::text IS NULL OR a.kind = $3)
       AND ($4::text IS NULL OR a.assignee = $4) AND coalesce($5::boolean, false) = false
       AND ($6::uuid IS NULL OR a.id = $6) AND ($7::text IS NULL OR a.uniq = $7)
     ORDER BY a.seq DESC LIMIT $8)
) AS found ORDER BY found.seq DESC LIMIT $8
), fitting AS MATERIALIZED (
    SELECT (hookwire.jobs_within(array_agg(p.id ORDER BY p.place), $9::bigint)).count AS places FROM page p
)
SELECT p.id, p.seq, p.kind, p.queue, p.state, p.for_people, p.key, p.uniq, p.priority, p.due_at, p.due_local, p.due_zone,
       p.deadline_at, p.attempts, p.attempts_max, p.worker, p.lease_until, p.assignee, p.performer, p.number, p.progress_done,
       p.progress_total, p.progress_note, p.is_cancelled, p.created_by, p.created_at, p.claimed_at, p.ended_at, p.ended_by, p.reason,
       p.place <= f.places AS fits, CASE WHEN p.place <= f.places THEN p.args END AS args,
       CASE WHEN p.place <= f.places THEN p.result END AS result, CASE WHEN p.place <= f.places THEN p.errors END AS errors
FROM page p, fitting f ORDER BY p.place;

-- name: kind_of
SELECT a.kind, a.assignee, a.state FROM hookwire.all_jobs a WHERE a.id = $1;

-- name: trail
-- Return the actions on a job, each with the person or worker.
SELECT a.at, a.actor, substr(a.action, 5) AS verb, a.reason FROM hookwire.audit a
WHERE a.subject = $1 AND starts_with(a.action, 'job.') ORDER BY a.id LIMIT 500;

-- name: available
-- Return for each of these queues the kinds that a worker may claim.
SELECT q.queue, hookwire.available_kinds(q.queue) AS kinds FROM unnest($1::text[]) AS q(queue);

-- name: admit_rule
-- The rule of a topic.
SELECT hookwire.admit_job_rule($1::text::jsonb);

-- name: kinds
-- In the order of their names, behind $1. Behind $3 bytes there is one more, whose `fits` is false.
SELECT b.*, b.before < $3::bigint AS fits
FROM (SELECT k.*, sum(w.size) OVER (ORDER BY k.kind ROWS UNBOUNDED PRECEDING) - w.size AS before,
             sum(w.size) OVER (ORDER BY k.kind ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING) AS earlier
      FROM (SELECT x.* FROM hookwire.job_kinds x WHERE x.kind > $1 ORDER BY x.kind LIMIT $2) AS k
      CROSS JOIN LATERAL (SELECT coalesce(octet_length(k.machine_rule::text), 0) AS size) AS w) AS b
WHERE coalesce(b.earlier, 0) < $3::bigint ORDER BY b.kind;

-- name: put_kind
SELECT k.* FROM hookwire.put_job_kind($1, $2::text::jsonb, $3) AS k;

-- name: pause_kind
-- Return whether the kind was in the other state before.
WITH old AS MATERIALIZED (
    SELECT coalesce((SELECT k.is_paused FROM hookwire.job_kinds k WHERE k.kind = $1), false) <> $2 AS has_effect
)
SELECT old.has_effect FROM old, LATERAL (SELECT hookwire.pause_job_kind($1, $2, $3, $4)) AS done;

-- name: live_counts
SELECT j.kind, j.state, count(*) AS jobs, min(j.created_at) AS oldest_at
FROM (SELECT l.kind, l.state, l.created_at FROM hookwire.jobs l ORDER BY l.seq LIMIT 100000) AS j GROUP BY j.kind, j.state ORDER BY j.kind, j.state;

-- name: statistics
-- Count the ended jobs of the last days by kind, state and performer.
SELECT a.kind, a.state, coalesce(a.performer, a.ended_by) AS performer, count(*) AS jobs,
       avg(extract(epoch FROM a.claimed_at - a.created_at))::double precision AS wait_seconds,
       avg(extract(epoch FROM a.ended_at - a.claimed_at))::double precision AS run_seconds,
       avg(extract(epoch FROM a.ended_at - a.created_at))::double precision AS total_seconds
FROM hookwire.job_archive a WHERE a.kind > '' AND a.ended_at > now() - make_interval(days => $1)
GROUP BY a.kind, a.state, coalesce(a.performer, a.ended_by) ORDER BY a.kind, a.state, 3 LIMIT 1000;

-- name: schedules
-- In the order of their names, behind $1. Beyond $3 bytes there are no jobs, and `fits` is false.
SELECT b.name, b.cron, b.zone, b.missed, b.is_paused, b.next_at, b.last_at, b.job->>'kind' AS kind, b.before < $3::bigint AS fits,
       CASE WHEN b.before < $3::bigint THEN b.job END AS job
FROM (SELECT s.*, sum(w.size) OVER (ORDER BY s.name ROWS UNBOUNDED PRECEDING) - w.size AS before
      FROM (SELECT x.* FROM hookwire.job_schedules x WHERE x.name > $1 ORDER BY x.name LIMIT $2) AS s
      CROSS JOIN LATERAL (SELECT octet_length(s.job::text) AS size) AS w) AS b
ORDER BY b.name;

-- name: schedule_kind
SELECT s.job->>'kind' FROM hookwire.job_schedules s WHERE s.name = $1;

-- name: schedules_due
SELECT s.name, s.cron, s.zone, s.missed, s.next_at FROM hookwire.job_schedules s
WHERE s.next_at <= now() AND NOT s.is_paused ORDER BY s.next_at LIMIT $1;

-- name: put_schedule
WITH noted AS (
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason) VALUES ('default', $8, 'job.schedule', $1, $2)
)
INSERT INTO hookwire.job_schedules AS s (name, cron, zone, missed, job, is_paused, next_at)
VALUES ($1, $2, $3, $4, $5::text::jsonb, $6, $7)
ON CONFLICT (name) DO UPDATE SET cron = excluded.cron, zone = excluded.zone, missed = excluded.missed, job = excluded.job,
    is_paused = excluded.is_paused, next_at = excluded.next_at
RETURNING s.*;

-- name: remove_schedule
WITH gone AS (
    DELETE FROM hookwire.job_schedules s WHERE s.name = $1 RETURNING s.name
), noted AS (
    INSERT INTO hookwire.audit (tenant, actor, action, subject) SELECT 'default', $2, 'job.unschedule', g.name FROM gone g
)
SELECT g.name FROM gone g;

-- name: fire
SELECT hookwire.fire_schedule($1, $2, $3, $4);

-- name: refresh_local
-- The rules of time zones change. Compute the instants of dates that are stored as local time again.
UPDATE hookwire.jobs j SET due_at = j.due_local AT TIME ZONE j.due_zone
WHERE j.due_local > '-infinity' AND j.state IN ('scheduled', 'retryable') AND j.due_at <> j.due_local AT TIME ZONE j.due_zone;

-- name: purge_archive
DELETE FROM hookwire.job_archive a WHERE a.id = ANY (ARRAY(
    SELECT o.id FROM hookwire.job_archive o
    WHERE o.kind = $1 AND o.ended_at < now() - make_interval(days => (hookwire.job_policy($1)).retention_days) ORDER BY o.ended_at LIMIT $2));

-- name: archived_kinds
WITH RECURSIVE names AS (
    (SELECT a.kind FROM hookwire.job_archive a ORDER BY a.kind LIMIT 1)
    UNION ALL
    SELECT (SELECT a.kind FROM hookwire.job_archive a WHERE a.kind > n.kind ORDER BY a.kind LIMIT 1) FROM names n WHERE n.kind IS NOT NULL
)
SELECT n.kind FROM names n WHERE n.kind IS NOT NULL;

-- name: purge_rates
DELETE FROM hookwire.job_rates r WHERE r.counted_at < now() - interval '1 day' AND r.kind > '' AND
    r.counted_at + make_interval(secs => coalesce((hookwire.job_policy(r.kind)).key_burst / nullif((hookwire.job_policy(r.kind)).key_rate_per_second, 0), 0)) < now();
