-- Verdict: the facts by which the whole is judged (app.verdict.facts), and the states that processes report. Each statement
-- looks names up in an index, one by one, and each count ends at a bound. So a backlog of a million rows costs what one of
-- a thousand does.

-- name: report
-- Write the states of this process's sinks and sources. `since` stays for as long as the state does. Forget those that this
-- process has no more. Of processes that are gone, forget the sources that this one reads, and after an hour the sinks. A
-- source that nobody reads stays.
WITH mine AS MATERIALIZED (
    SELECT k.kind, k.name FROM unnest($2::text[], $3::text[]) AS k(kind, name)
), forgotten AS (
    DELETE FROM hookwire.process_states p
    WHERE p.process <> $1 AND (p.kind = 'sink' AND p.until < clock_timestamp() - interval '1 hour'
                               OR p.kind = 'source' AND p.until <= clock_timestamp()
                                  AND (p.kind, p.name) IN (SELECT m.kind, m.name FROM mine m))
       OR p.process = $1 AND (p.kind, p.name) NOT IN (SELECT m.kind, m.name FROM mine m)
)
INSERT INTO hookwire.process_states AS p (process, kind, name, state, reason, until)
SELECT $1, s.kind, s.name, s.state, s.reason, clock_timestamp() + make_interval(secs => $6::double precision)
FROM unnest($2::text[], $3::text[], $4::text[], $5::text[]) AS s(kind, name, state, reason)
ON CONFLICT (process, kind, name) DO UPDATE
SET since = CASE WHEN p.state = excluded.state THEN p.since ELSE excluded.since END,
    state = excluded.state, reason = excluded.reason, until = excluded.until;

-- name: leave
-- Take the sinks of a process that stops along. Its sources stay: from now on it does not read them.
WITH sinks AS (
    DELETE FROM hookwire.process_states p WHERE p.process = $1 AND p.kind = 'sink'
)
UPDATE hookwire.process_states p SET state = 'left', until = clock_timestamp() WHERE p.process = $1 AND p.kind = 'source';

-- name: forget
-- Forget sources that no process reads, by a name in which * stands for any characters; return how many.
WITH gone AS (
    DELETE FROM hookwire.process_states p
    WHERE p.kind = 'source' AND p.name LIKE replace(regexp_replace($1, '([\\%_])', '\\\1', 'g'), '*', '%')
      AND p.until <= clock_timestamp()
      AND NOT EXISTS (SELECT FROM hookwire.process_states a
                      WHERE a.kind = 'source' AND a.name = p.name AND a.until > clock_timestamp())
    RETURNING p.name
), named AS (
    SELECT DISTINCT g.name FROM gone g
), audited AS (
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason)
    SELECT 'default', $2, 'source.forget', n.name, $3 FROM named n
)
SELECT count(*) FROM named;

-- name: processes
SELECT p.process, p.kind, p.name, p.state, p.reason, p.since, p.until, p.until > clock_timestamp() AS is_alive,
       coalesce((SELECT s.is_paused FROM hookwire.sources s WHERE p.kind = 'source' AND s.name = p.name), false) AS is_paused
FROM hookwire.process_states p ORDER BY is_alive DESC, p.kind, p.name, p.since LIMIT 1000;

-- name: holds
-- Return the topics with holds, by sink and scope, longest first. Numbers rise with the age.
SELECT h.sink, h.topic, h.scope, count(*) AS holds, min(h.since) AS since,
       (array_agg(h.reason ORDER BY h.id))[1] AS reason, (array_agg(h.detail ORDER BY h.id))[1] AS detail
FROM (SELECT x.id, x.sink, x.topic, x.since, x.reason, x.detail,
             CASE WHEN x.key = '' THEN 'topic' WHEN starts_with(x.key, E'\x1f') THEN 'record' ELSE 'key' END AS scope
      FROM hookwire.holds x ORDER BY x.id LIMIT $1) AS h
GROUP BY h.sink, h.topic, h.scope ORDER BY since, h.sink, h.topic, h.scope;

-- name: totals
SELECT now() AS at, (SELECT count(*) FROM (SELECT FROM hookwire.deliveries d WHERE d.event_id > 0 LIMIT $1) AS few) AS open_deliveries,
       (SELECT d.created_at FROM hookwire.deliveries d ORDER BY d.event_id LIMIT 1) AS oldest_delivery_at;

-- name: subscription_counts
-- Count the active subscriptions that fail, and those that are paused or disabled.
SELECT 'failing' AS health, count(*) AS subscriptions
FROM (SELECT x.subscription_id FROM hookwire.delivery_failures x WHERE x.failing_since IS NOT NULL ORDER BY x.failing_since LIMIT $1) AS f
CROSS JOIN LATERAL (SELECT s.state, s.lease_until, s.paused_until FROM hookwire.subscriptions s WHERE s.id = f.subscription_id LIMIT 1) AS s
WHERE s.state = 'active' AND coalesce(s.lease_until > now(), true) AND coalesce(s.paused_until <= now(), true)
UNION ALL
SELECT 'paused', count(*) FROM (
    SELECT s.state FROM hookwire.subscriptions s WHERE s.paused_until > now() ORDER BY s.paused_until LIMIT $1) AS s
WHERE s.state = 'active'
UNION ALL
SELECT 'disabled', count(*) FROM (SELECT FROM hookwire.subscriptions s WHERE s.state = 'disabled' ORDER BY s.id LIMIT $1) AS s;

-- name: behind
-- Return the subscriptions whose deliveries have waited longest, among the first $1 with open deliveries.
WITH RECURSIVE walk AS (
    (SELECT d.subscription_id AS id FROM hookwire.deliveries d ORDER BY d.subscription_id, d.due_at LIMIT 1)
    UNION ALL
    SELECT n.id FROM walk w CROSS JOIN LATERAL (
        SELECT d.subscription_id AS id FROM hookwire.deliveries d
        WHERE d.subscription_id > w.id ORDER BY d.subscription_id, d.due_at LIMIT 1) AS n
), few AS MATERIALIZED (
    SELECT w.id FROM walk w LIMIT $1
), oldest AS MATERIALIZED (
    SELECT f.id FROM few f
    CROSS JOIN LATERAL (SELECT d.created_at FROM hookwire.deliveries d WHERE d.subscription_id = f.id ORDER BY d.due_at, d.event_id LIMIT 1) AS due
    LEFT JOIN LATERAL (
        SELECT d.created_at FROM hookwire.deliveries d
        WHERE d.subscription_id = f.id AND d.due_at = 'infinity' ORDER BY d.due_at, d.event_id LIMIT 1) AS behind ON true
    ORDER BY least(due.created_at, behind.created_at) LIMIT $2
)
SELECT o.id FROM oldest o;

-- name: receivers
SELECT r.* FROM unnest($1::bigint[]) WITH ORDINALITY AS w(id, n)
CROSS JOIN LATERAL (SELECT * FROM hookwire.receivers y WHERE y.id = w.id LIMIT 1) AS r ORDER BY w.n;

-- name: dead_letters
-- Return what was given up in the last day and not on purpose, by subscription or by sink and topic: the latest $1 of each.
SELECT 'webhooks' AS sink, s.public_id AS subscription, s.topic, d.letters, d.died_at
FROM (SELECT x.subscription_id, count(*) AS letters, max(x.died_at) AS died_at FROM (
          SELECT l.subscription_id, l.died_at FROM hookwire.dead_letters l
          WHERE l.died_at > now() - interval '1 day' AND l.kind <> 'gone' AND NOT l.on_purpose
          ORDER BY l.died_at DESC LIMIT $1) AS x
      GROUP BY x.subscription_id) AS d
CROSS JOIN LATERAL (SELECT y.public_id, y.topic FROM hookwire.subscriptions y WHERE y.id = d.subscription_id LIMIT 1) AS s
UNION ALL
SELECT x.sink, NULL, x.topic, count(*), max(x.died_at) FROM (
    SELECT l.sink, l.topic, l.died_at FROM hookwire.relay_dead_letters l
    WHERE l.died_at > now() - interval '1 day' AND NOT l.on_purpose ORDER BY l.died_at DESC LIMIT $1) AS x
GROUP BY x.sink, x.topic
ORDER BY died_at DESC;

-- name: refusals
-- Return the sources with records or messages that were refused in the last day, or that hold their keys now. These are
-- the $2 worst among the first $1 names. All together are counted up to $3, the latest first. Each source is counted at
-- least up to 100 (`bound`), so no source hides what another one has refused.
WITH RECURSIVE names AS (
    (SELECT r.source FROM hookwire.source_refusals r ORDER BY r.source, r.id LIMIT 1)
    UNION ALL
    SELECT x.source FROM names n CROSS JOIN LATERAL (
        SELECT r.source FROM hookwire.source_refusals r WHERE r.source > n.source ORDER BY r.source, r.id LIMIT 1) AS x
), worst AS MATERIALIZED (
    SELECT n.source FROM (SELECT source FROM names LIMIT $1) AS n
    CROSS JOIN LATERAL (
        SELECT r.refused_at FROM hookwire.source_refusals r
        WHERE r.source BETWEEN n.source AND n.source ORDER BY r.source DESC, r.id DESC LIMIT 1) AS latest
    LEFT JOIN LATERAL (
        SELECT r.refused_at FROM hookwire.source_refusals r
        WHERE r.source BETWEEN n.source AND n.source AND r.held_keys IS NOT NULL
        ORDER BY r.source, r.partition, r.id LIMIT 1) AS held ON true
    ORDER BY held.refused_at NULLS LAST, latest.refused_at DESC, n.source LIMIT $2
), bounds AS MATERIALIZED (
    SELECT greatest(100, $3::bigint / greatest(count(*), 1)) AS bound FROM worst
)
SELECT w.source, l.refused, l.refused_at, h.holding, h.holding_since, b.bound
FROM worst w CROSS JOIN bounds b
CROSS JOIN LATERAL (
    SELECT count(*) AS refused, max(x.refused_at) AS refused_at FROM (
        SELECT r.refused_at FROM hookwire.source_refusals r
        WHERE r.source BETWEEN w.source AND w.source ORDER BY r.source DESC, r.id DESC LIMIT b.bound) AS x
    WHERE x.refused_at > now() - interval '1 day') AS l
CROSS JOIN LATERAL (
    SELECT count(*) AS holding, min(x.refused_at) AS holding_since FROM (
        SELECT r.refused_at FROM hookwire.source_refusals r
        WHERE r.source BETWEEN w.source AND w.source AND r.held_keys IS NOT NULL
        ORDER BY r.source, r.partition, r.id LIMIT b.bound) AS x) AS h
WHERE l.refused > 0 OR h.holding > 0 ORDER BY w.source;

-- name: publishers
-- Return topics of other publishers that do not come, $1 of each sort. Their hub has denied or not verified our subscription,
-- or they cannot be fetched. One failure is no news, because the next try follows in seconds. A topic that is fetched counts
-- while somebody subscribes to it, or another sink takes it. Strangers can name any, and nothing deletes its row. Look at the
-- latest 2,000.
(SELECT u.topic, u.url, u.state, u.failures, u.reason, coalesce(u.received_at, u.created_at) AS since
 FROM hookwire.upstreams u WHERE u.state = 'denied' OR u.state <> 'ended' AND u.failures > 1 ORDER BY u.created_at LIMIT $1)
UNION ALL
(SELECT f.topic, f.url, 'fetched', f.failures, f.last_error, coalesce(f.changed_at, f.created_at)
 FROM (SELECT * FROM hookwire.foreign_topics x WHERE x.failures > 1 ORDER BY x.created_at DESC LIMIT 2000) AS f
 WHERE coalesce((SELECT true FROM hookwire.subscriptions s
                 WHERE s.tenant = f.tenant AND s.topic = f.topic AND s.state = 'active' AND s.topic_regex IS NULL LIMIT 1),
                (SELECT t.sinks IS DISTINCT FROM '{webhooks}' FROM hookwire.topics t WHERE t.tenant = f.tenant AND t.name = f.topic))
 ORDER BY f.created_at LIMIT $1);

-- name: backfills
-- Return the runs of backfills that no process carries on, among the newest $1. Their process is gone, the API has resumed
-- them, or they stopped or were interrupted.
SELECT r.id, r.state, b.holder, b.why, b.lease_until, r.replayed, b.events, s.topic,
       CASE WHEN r.state = 'running' THEN coalesce(b.lease_until, r.updated_at) ELSE r.updated_at END AS ended_at
FROM (SELECT x.* FROM hookwire.backfills x ORDER BY x.replay_id DESC LIMIT $1) AS b
CROSS JOIN LATERAL (SELECT y.* FROM hookwire.replays y WHERE y.id = b.replay_id LIMIT 1) AS r
LEFT JOIN LATERAL (SELECT z.topic FROM hookwire.subscriptions z WHERE z.id = r.subscription_id LIMIT 1) AS s ON true
WHERE r.state = 'running' AND coalesce(b.lease_until <= now(), true) OR r.state = 'paused' AND b.why IS NOT NULL
ORDER BY r.id;

-- The next four return what waits, runs, fails and died of the $2 worst names among the first $1. What fails waits for its
-- next try after two at least. Of all work that waits for later, only $3 / 5 pieces are looked at. They are due next; jobs
-- are the oldest retries, and requests have the next deadline. All together are counted up to $3, and each at least up to
-- 100 (`bound`). A range of one name in the order of an index leaves the planner only this index. Others would pass the rows of all names.

-- name: queues
WITH RECURSIVE waiting AS (
    (SELECT m.queue FROM hookwire.messages m WHERE m.claim IS NULL AND m.due_at IS NULL ORDER BY m.queue, m.id LIMIT 1)
    UNION ALL
    SELECT n.queue FROM waiting w CROSS JOIN LATERAL (
        SELECT m.queue FROM hookwire.messages m
        WHERE m.claim IS NULL AND m.due_at IS NULL AND m.queue > w.queue ORDER BY m.queue, m.id LIMIT 1) AS n
), dead AS (
    (SELECT d.queue FROM hookwire.dead_messages d ORDER BY d.queue, d.id LIMIT 1)
    UNION ALL
    SELECT n.queue FROM dead w CROSS JOIN LATERAL (
        SELECT d.queue FROM hookwire.dead_messages d WHERE d.queue > w.queue ORDER BY d.queue, d.id LIMIT 1) AS n
), running AS MATERIALIZED (
    SELECT m.queue, count(*) AS messages
    FROM (SELECT x.queue FROM hookwire.messages x WHERE x.claim IS NOT NULL ORDER BY x.lease_until LIMIT $3) AS m GROUP BY m.queue
), failing AS MATERIALIZED (
    SELECT f.queue AS name, count(*) AS number, min(f.created_at) AS since
    FROM (SELECT x.queue, x.created_at, x.deliveries FROM hookwire.messages x WHERE x.claim IS NULL AND x.due_at IS NOT NULL ORDER BY x.due_at LIMIT $3 / 5) AS f WHERE f.deliveries > 1 GROUP BY f.queue
), names AS MATERIALIZED (
    SELECT w.queue AS name FROM (SELECT queue FROM waiting LIMIT $1) AS w
    UNION SELECT d.queue FROM (SELECT queue FROM dead LIMIT $1) AS d
    UNION SELECT r.queue FROM running r
    UNION SELECT f.name FROM failing f
), worst AS MATERIALIZED (
    SELECT n.name, oldest.created_at AS oldest_at, latest.died_at, f.number AS failing, f.since AS failing_since
    FROM names n LEFT JOIN failing f ON f.name = n.name
    LEFT JOIN LATERAL (
        SELECT m.created_at FROM hookwire.messages m
        WHERE m.queue BETWEEN n.name AND n.name AND m.claim IS NULL AND m.due_at IS NULL ORDER BY m.queue, m.id LIMIT 1) AS oldest ON true
    LEFT JOIN LATERAL (
        SELECT d.died_at FROM hookwire.dead_messages d WHERE d.queue BETWEEN n.name AND n.name ORDER BY d.queue DESC, d.died_at DESC LIMIT 1) AS latest ON true
    ORDER BY least(oldest.created_at, f.since) NULLS LAST, latest.died_at DESC NULLS LAST, n.name LIMIT $2
), bounds AS MATERIALIZED (
    SELECT greatest(100, $3::bigint / greatest(count(*), 1)) AS bound FROM worst
)
SELECT w.name, w.oldest_at, w.died_at, coalesce(w.failing, 0) AS failing, w.failing_since,
       (SELECT b.bound FROM bounds b) AS bound, coalesce((SELECT q.paused FROM hookwire.queues q WHERE q.name = w.name), false) AS is_paused,
       (SELECT count(*) FROM (SELECT FROM hookwire.messages m
                              WHERE m.queue BETWEEN w.name AND w.name AND m.claim IS NULL AND m.due_at IS NULL ORDER BY m.queue, m.id LIMIT (SELECT b.bound FROM bounds b)) AS few) AS waiting,
       coalesce((SELECT r.messages FROM running r WHERE r.queue = w.name), 0) AS running,
       (SELECT count(*) FROM (SELECT FROM hookwire.dead_messages d WHERE d.queue BETWEEN w.name AND w.name ORDER BY d.queue, d.id LIMIT (SELECT b.bound FROM bounds b)) AS few) AS dead
FROM worst w ORDER BY w.name;

-- name: tasks
WITH RECURSIVE waiting AS (
    (SELECT t.kind FROM hookwire.task_rows t WHERE t.start_time IS NULL AND t.due_at IS NULL ORDER BY t.kind, t.seq LIMIT 1)
    UNION ALL
    SELECT n.kind FROM waiting w CROSS JOIN LATERAL (
        SELECT t.kind FROM hookwire.task_rows t
        WHERE t.start_time IS NULL AND t.due_at IS NULL AND t.kind > w.kind ORDER BY t.kind, t.seq LIMIT 1) AS n
), dead AS (
    (SELECT d.kind FROM hookwire.dead_tasks d ORDER BY d.kind, d.died_at LIMIT 1)
    UNION ALL
    SELECT n.kind FROM dead w CROSS JOIN LATERAL (
        SELECT d.kind FROM hookwire.dead_tasks d WHERE d.kind > w.kind ORDER BY d.kind, d.died_at LIMIT 1) AS n
), running AS MATERIALIZED (
    SELECT t.kind, count(*) AS tasks
    FROM (SELECT x.kind FROM hookwire.task_rows x WHERE x.start_time IS NOT NULL ORDER BY x.lease_until LIMIT $3) AS t GROUP BY t.kind
), failing AS MATERIALIZED (
    SELECT f.kind AS name, count(*) AS number, min(f.created_at) AS since
    FROM (SELECT x.kind, x.created_at, x.attempts FROM hookwire.task_rows x WHERE x.start_time IS NULL AND x.due_at IS NOT NULL ORDER BY x.due_at LIMIT $3 / 5) AS f WHERE f.attempts > 1 GROUP BY f.kind
), names AS MATERIALIZED (
    SELECT w.kind AS name FROM (SELECT kind FROM waiting LIMIT $1) AS w
    UNION SELECT d.kind FROM (SELECT kind FROM dead LIMIT $1) AS d
    UNION SELECT r.kind FROM running r
    UNION SELECT f.name FROM failing f
), worst AS MATERIALIZED (
    SELECT n.name, oldest.created_at AS oldest_at, latest.died_at, f.number AS failing, f.since AS failing_since
    FROM names n LEFT JOIN failing f ON f.name = n.name
    LEFT JOIN LATERAL (
        SELECT t.created_at FROM hookwire.task_rows t
        WHERE t.kind BETWEEN n.name AND n.name AND t.start_time IS NULL AND t.due_at IS NULL ORDER BY t.kind, t.seq LIMIT 1) AS oldest ON true
    LEFT JOIN LATERAL (
        SELECT d.died_at FROM hookwire.dead_tasks d WHERE d.kind BETWEEN n.name AND n.name ORDER BY d.kind DESC, d.died_at DESC LIMIT 1) AS latest ON true
    ORDER BY least(oldest.created_at, f.since) NULLS LAST, latest.died_at DESC NULLS LAST, n.name LIMIT $2
), bounds AS MATERIALIZED (
    SELECT greatest(100, $3::bigint / greatest(count(*), 1)) AS bound FROM worst
)
SELECT w.name, w.oldest_at, w.died_at, coalesce(w.failing, 0) AS failing, w.failing_since,
       (SELECT b.bound FROM bounds b) AS bound, false AS is_paused,
       (SELECT count(*) FROM (SELECT FROM hookwire.task_rows t
                              WHERE t.kind BETWEEN w.name AND w.name AND t.start_time IS NULL AND t.due_at IS NULL ORDER BY t.kind, t.seq LIMIT (SELECT b.bound FROM bounds b)) AS few) AS waiting,
       coalesce((SELECT r.tasks FROM running r WHERE r.kind = w.name), 0) AS running,
       (SELECT count(*) FROM (SELECT FROM hookwire.dead_tasks d WHERE d.kind BETWEEN w.name AND w.name ORDER BY d.kind, d.died_at LIMIT (SELECT b.bound FROM bounds b)) AS few) AS dead
FROM worst w ORDER BY w.name;

-- name: jobs
-- Jobs for people are left out: they wait as long as people want. A job waits from the moment at which it became available.
WITH RECURSIVE waiting AS (
    (SELECT j.queue, j.kind FROM hookwire.jobs j WHERE j.state = 'available' AND NOT j.for_people ORDER BY j.queue, j.kind, j.rank_at, j.seq LIMIT 1)
    UNION ALL
    SELECT n.queue, n.kind FROM waiting w CROSS JOIN LATERAL (
        SELECT j.queue, j.kind FROM hookwire.jobs j
        WHERE j.state = 'available' AND NOT j.for_people AND (j.queue, j.kind) > (w.queue, w.kind)
        ORDER BY j.queue, j.kind, j.rank_at, j.seq LIMIT 1) AS n
), lined_up AS MATERIALIZED (
    SELECT w.kind, w.queue, (SELECT greatest(j.created_at, j.rank_at) FROM hookwire.jobs j
                             WHERE j.queue = w.queue AND j.kind = w.kind AND j.state = 'available' AND NOT j.for_people
                             ORDER BY j.queue, j.kind, j.rank_at, j.seq LIMIT 1) AS oldest_at
    FROM (SELECT queue, kind FROM waiting LIMIT $1) AS w
), running AS MATERIALIZED (
    SELECT j.kind, count(*) AS jobs
    FROM (SELECT x.kind FROM hookwire.jobs x WHERE x.state = 'running' ORDER BY x.lease_until LIMIT $3) AS j GROUP BY j.kind
), dead AS (
    (SELECT a.kind FROM hookwire.job_archive a WHERE a.state = 'discarded' ORDER BY a.kind, a.ended_at LIMIT 1)
    UNION ALL
    SELECT n.kind FROM dead w CROSS JOIN LATERAL (
        SELECT a.kind FROM hookwire.job_archive a WHERE a.state = 'discarded' AND a.kind > w.kind ORDER BY a.kind, a.ended_at LIMIT 1) AS n
), failing AS MATERIALIZED (
    SELECT f.kind AS name, count(*) AS number, min(f.created_at) AS since
    FROM (SELECT x.kind, x.created_at, x.for_people, x.attempts FROM hookwire.jobs x WHERE x.state = 'retryable' ORDER BY x.seq LIMIT $3 / 5) AS f WHERE NOT f.for_people AND f.attempts > 1 GROUP BY f.kind
), names AS MATERIALIZED (
    SELECT l.kind AS name FROM lined_up l
    UNION SELECT d.kind FROM (SELECT kind FROM dead LIMIT $1) AS d
    UNION SELECT r.kind FROM running r
    UNION SELECT f.name FROM failing f
), worst AS MATERIALIZED (
    SELECT n.name, oldest.oldest_at, latest.died_at, f.number AS failing, f.since AS failing_since
    FROM names n LEFT JOIN failing f ON f.name = n.name
    LEFT JOIN LATERAL (SELECT min(l.oldest_at) AS oldest_at FROM lined_up l WHERE l.kind = n.name) AS oldest ON true
    LEFT JOIN LATERAL (
        SELECT a.ended_at AS died_at FROM hookwire.job_archive a
        WHERE a.state = 'discarded' AND a.kind BETWEEN n.name AND n.name ORDER BY a.kind DESC, a.ended_at DESC LIMIT 1) AS latest ON true
    ORDER BY least(oldest.oldest_at, f.since) NULLS LAST, latest.died_at DESC NULLS LAST, n.name LIMIT $2
), bounds AS MATERIALIZED (
    SELECT greatest(100, $3::bigint / greatest(count(*), 1)) AS bound FROM worst
)
SELECT w.name, w.oldest_at, w.died_at, coalesce(w.failing, 0) AS failing, w.failing_since,
       (SELECT b.bound FROM bounds b) AS bound,
       coalesce((SELECT k.is_paused FROM hookwire.job_kinds k WHERE k.kind = w.name), false) AS is_paused,
       (SELECT coalesce(sum(c.jobs), 0) FROM lined_up l CROSS JOIN LATERAL (
            SELECT count(*) AS jobs FROM (
                SELECT FROM hookwire.jobs j WHERE j.queue = l.queue AND j.kind = l.kind AND j.state = 'available' AND NOT j.for_people
                ORDER BY j.queue, j.kind, j.rank_at, j.seq LIMIT (SELECT b.bound FROM bounds b)) AS few) AS c
        WHERE l.kind = w.name)::bigint AS waiting,
       coalesce((SELECT r.jobs FROM running r WHERE r.kind = w.name), 0) AS running,
       (SELECT count(*) FROM (SELECT FROM hookwire.job_archive a
                              WHERE a.state = 'discarded' AND a.kind BETWEEN w.name AND w.name ORDER BY a.kind, a.ended_at LIMIT (SELECT b.bound FROM bounds b)) AS few) AS dead
FROM worst w ORDER BY w.name;

-- name: services
-- A request is dead when its time is over without an answer, or when all tries have failed. Then it is kept for the
-- retention of its service.
WITH RECURSIVE waiting AS (
    (SELECT r.service FROM hookwire.requests r WHERE r.state = 'waiting' ORDER BY r.service, r.number LIMIT 1)
    UNION ALL
    SELECT n.service FROM waiting w CROSS JOIN LATERAL (
        SELECT r.service FROM hookwire.requests r
        WHERE r.state = 'waiting' AND r.service > w.service ORDER BY r.service, r.number LIMIT 1) AS n
), dead AS (
    (SELECT r.service FROM hookwire.requests r WHERE r.state IN ('expired', 'failed') ORDER BY r.service, r.deadline_at LIMIT 1)
    UNION ALL
    SELECT n.service FROM dead w CROSS JOIN LATERAL (
        SELECT r.service FROM hookwire.requests r
        WHERE r.state IN ('expired', 'failed') AND r.service > w.service ORDER BY r.service, r.deadline_at LIMIT 1) AS n
), running AS (
    (SELECT r.service FROM hookwire.requests r WHERE r.state = 'leased' ORDER BY r.service LIMIT 1)
    UNION ALL
    SELECT n.service FROM running w CROSS JOIN LATERAL (
        SELECT r.service FROM hookwire.requests r WHERE r.state = 'leased' AND r.service > w.service ORDER BY r.service LIMIT 1) AS n
), failing AS MATERIALIZED (
    SELECT f.service AS name, count(*) AS number, min(f.created_at) AS since
    FROM (SELECT x.service, x.created_at, x.state, x.attempts FROM hookwire.requests x ORDER BY x.deadline_at LIMIT $3 / 5) AS f WHERE f.state = 'delayed' AND f.attempts > 1 GROUP BY f.service
), names AS MATERIALIZED (
    SELECT w.service AS name FROM (SELECT service FROM waiting LIMIT $1) AS w
    UNION SELECT d.service FROM (SELECT service FROM dead LIMIT $1) AS d
    UNION SELECT r.service FROM (SELECT service FROM running LIMIT $1) AS r
    UNION SELECT f.name FROM failing f
), worst AS MATERIALIZED (
    SELECT n.name, oldest.created_at AS oldest_at, latest.died_at, f.number AS failing, f.since AS failing_since
    FROM names n LEFT JOIN failing f ON f.name = n.name
    LEFT JOIN LATERAL (
        SELECT r.created_at FROM hookwire.requests r
        WHERE r.service BETWEEN n.name AND n.name AND r.state = 'waiting' ORDER BY r.service, r.number LIMIT 1) AS oldest ON true
    LEFT JOIN LATERAL (
        SELECT r.deadline_at - make_interval(secs => (hookwire.service_settings(r.service)).retention_seconds) AS died_at FROM hookwire.requests r
        WHERE r.service BETWEEN n.name AND n.name AND r.state IN ('expired', 'failed') ORDER BY r.service DESC, r.deadline_at DESC LIMIT 1) AS latest ON true
    ORDER BY least(oldest.created_at, f.since) NULLS LAST, latest.died_at DESC NULLS LAST, n.name LIMIT $2
), bounds AS MATERIALIZED (
    SELECT greatest(100, $3::bigint / greatest(count(*), 1)) AS bound FROM worst
)
SELECT w.name, w.oldest_at, w.died_at, coalesce(w.failing, 0) AS failing, w.failing_since,
       (SELECT b.bound FROM bounds b) AS bound, coalesce((SELECT s.disabled FROM hookwire.services s WHERE s.name = w.name), false) AS is_paused,
       (SELECT count(*) FROM (SELECT FROM hookwire.requests r
                              WHERE r.service BETWEEN w.name AND w.name AND r.state = 'waiting' ORDER BY r.service, r.number LIMIT (SELECT b.bound FROM bounds b)) AS few) AS waiting,
       (SELECT count(*) FROM (SELECT FROM hookwire.requests r WHERE r.service BETWEEN w.name AND w.name AND r.state = 'leased' ORDER BY r.service LIMIT (SELECT b.bound FROM bounds b)) AS few) AS running,
       (SELECT count(*) FROM (SELECT FROM hookwire.requests r
                              WHERE r.service BETWEEN w.name AND w.name AND r.state IN ('expired', 'failed') ORDER BY r.service, r.deadline_at LIMIT (SELECT b.bound FROM bounds b)) AS few) AS dead
FROM worst w ORDER BY w.name;
