-- Stats: rates and times of topics, queues, kinds and services, from the ledger and from the archives. Each reads up to $4
-- of the latest ended items since $2 and before $3; `more`: there are more. `kept`: successes go into an archive.

-- name: topic
-- Return the events of the topic $1 by hour: accepted ones under the sink '', those of each sink under its name.
SELECT l.hour AS at, l.sink, sum(l.owed_count)::bigint AS owed, sum(l.sent_count)::bigint AS sent, sum(l.dead_count)::bigint AS dead
FROM hookwire.ledger l
WHERE l.hour >= $2 AND l.hour < $3 AND l.hour > 'epoch' AND l.tenant = 'default' AND l.topic = $1
GROUP BY l.hour, l.sink ORDER BY l.hour, l.sink LIMIT $4;

-- name: counted_until
SELECT through_at FROM hookwire.ledger_cursor;

-- name: queue
WITH ended AS MATERIALIZED (
    (SELECT true AS is_done, a.accepted_at - a.claimed_at AS run, a.accepted_at - a.created_at AS age FROM hookwire.message_archive a
     WHERE a.queue = $1 AND a.accepted_at >= $2 AND a.accepted_at < $3 ORDER BY a.queue DESC, a.accepted_at DESC LIMIT $4 + 1)
    UNION ALL
    (SELECT false, NULL, NULL FROM hookwire.dead_messages d
     WHERE d.queue = $1 AND d.died_at >= $2 AND d.died_at < $3 ORDER BY d.queue DESC, d.died_at DESC LIMIT $4 + 1)
), oldest AS MATERIALIZED (
    SELECT m.created_at FROM hookwire.messages m
    WHERE m.queue BETWEEN $1 AND $1 AND m.claim IS NULL AND m.due_at IS NULL ORDER BY m.queue, m.id LIMIT 1
)
SELECT now() AS at, coalesce((SELECT q.history FROM hookwire.queues q WHERE q.name = $1), false) AS kept,
       count(*) AS ended, count(*) FILTER (WHERE e.is_done) AS done, count(*) > $4 AS more,
       percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY extract(epoch FROM e.run)::double precision) AS run,
       percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY extract(epoch FROM e.age)::double precision) AS age,
       (SELECT o.created_at FROM oldest o) AS oldest_at,
       (SELECT count(*) FROM (SELECT FROM hookwire.messages m
                              WHERE m.queue BETWEEN $1 AND $1 AND m.claim IS NULL AND m.due_at IS NULL
                              ORDER BY m.queue, m.id LIMIT 100000) AS few) AS waiting
FROM ended e;

-- name: task
-- The archive has no index by kind, so the latest of all kinds are read.
WITH ended AS MATERIALIZED (
    SELECT true AS is_done, x.finish_time - x.start_time AS run, x.finish_time - x.created_at AS age, x.kind FROM (
        SELECT a.finish_time, a.start_time, a.created_at, a.kind FROM hookwire.task_archive a
        WHERE a.finish_time >= $2 AND a.finish_time < $3 ORDER BY a.finish_time DESC LIMIT $4 + 1) AS x
    UNION ALL
    SELECT false, NULL, NULL, y.kind FROM (
        SELECT d.kind FROM hookwire.dead_tasks d
        WHERE d.kind = $1 AND d.died_at >= $2 AND d.died_at < $3 ORDER BY d.kind DESC, d.died_at DESC LIMIT $4 + 1) AS y
), oldest AS MATERIALIZED (
    SELECT t.created_at FROM hookwire.task_rows t
    WHERE t.kind BETWEEN $1 AND $1 AND t.start_time IS NULL AND t.due_at IS NULL ORDER BY t.kind, t.seq LIMIT 1
)
SELECT now() AS at, (hookwire.task_policy($1)).keeps_record AS kept,
       count(*) FILTER (WHERE e.kind = $1) AS ended, count(*) FILTER (WHERE e.is_done AND e.kind = $1) AS done, count(*) > $4 AS more,
       percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY extract(epoch FROM e.run)::double precision) FILTER (WHERE e.kind = $1) AS run,
       percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY extract(epoch FROM e.age)::double precision) FILTER (WHERE e.kind = $1) AS age,
       (SELECT o.created_at FROM oldest o) AS oldest_at,
       (SELECT count(*) FROM (SELECT FROM hookwire.task_rows t
                              WHERE t.kind BETWEEN $1 AND $1 AND t.start_time IS NULL AND t.due_at IS NULL
                              ORDER BY t.kind, t.seq LIMIT 100000) AS few) AS waiting
FROM ended e;

-- name: job
-- A cancelled job is neither done nor failed, and is left out. So are waiting jobs for people. The first 500 pairs of queue
-- and kind are looked at.
WITH RECURSIVE pair AS (
    (SELECT j.queue, j.kind FROM hookwire.jobs j WHERE j.state = 'available' AND NOT j.for_people ORDER BY j.queue, j.kind, j.rank_at, j.seq LIMIT 1)
    UNION ALL
    SELECT n.queue, n.kind FROM pair w CROSS JOIN LATERAL (
        SELECT j.queue, j.kind FROM hookwire.jobs j
        WHERE j.state = 'available' AND NOT j.for_people AND (j.queue, j.kind) > (w.queue, w.kind)
        ORDER BY j.queue, j.kind, j.rank_at, j.seq LIMIT 1) AS n
), ended AS MATERIALIZED (
    SELECT a.state = 'completed' AS is_done, a.ended_at - a.claimed_at AS run, a.ended_at - a.created_at AS age, a.state
    FROM hookwire.job_archive a
    WHERE a.kind = $1 AND a.ended_at >= $2 AND a.ended_at < $3 ORDER BY a.kind DESC, a.ended_at DESC LIMIT $4 + 1
), lined_up AS MATERIALIZED (
    SELECT n.rank_at, n.created_at FROM (SELECT p.queue, p.kind FROM pair p LIMIT 500) AS p CROSS JOIN LATERAL (
        SELECT j.rank_at, j.created_at FROM hookwire.jobs j
        WHERE j.queue = p.queue AND j.kind = p.kind AND j.state = 'available' AND NOT j.for_people
        ORDER BY j.queue, j.kind, j.rank_at, j.seq LIMIT 100000) AS n
    WHERE p.kind = $1 LIMIT 100000
)
SELECT now() AS at, true AS kept, count(*) FILTER (WHERE e.state <> 'cancelled') AS ended, count(*) FILTER (WHERE e.is_done) AS done,
       count(*) > $4 AS more,
       percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY extract(epoch FROM e.run)::double precision) FILTER (WHERE e.is_done) AS run,
       percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY extract(epoch FROM e.age)::double precision) FILTER (WHERE e.is_done) AS age,
       (SELECT min(greatest(l.created_at, l.rank_at)) FROM lined_up l) AS oldest_at, (SELECT count(*) FROM lined_up) AS waiting
FROM ended e;

-- name: service
-- Closed requests are in the archive, which has no index by service. Those without an answer are kept until then.
WITH ended AS MATERIALIZED (
    SELECT x.state = 'answered' AS is_done, x.answered_at - x.created_at AS age, x.service FROM (
        SELECT a.state, a.answered_at, a.created_at, a.service FROM hookwire.request_archive a
        WHERE a.closed_at >= $2 AND a.closed_at < $3 ORDER BY a.closed_at DESC LIMIT $4 + 1) AS x
), oldest AS MATERIALIZED (
    SELECT r.created_at FROM hookwire.requests r
    WHERE r.service BETWEEN $1 AND $1 AND r.state = 'waiting' ORDER BY r.service, r.number LIMIT 1
)
SELECT now() AS at, true AS kept, count(*) FILTER (WHERE e.service = $1) AS ended, count(*) FILTER (WHERE e.is_done AND e.service = $1) AS done,
       count(*) > $4 AS more, NULL::double precision[] AS run,
       percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY extract(epoch FROM e.age)::double precision) FILTER (WHERE e.is_done AND e.service = $1) AS age,
       (SELECT o.created_at FROM oldest o) AS oldest_at,
       (SELECT count(*) FROM (SELECT FROM hookwire.requests r
                              WHERE r.service BETWEEN $1 AND $1 AND r.state = 'waiting' ORDER BY r.service, r.number LIMIT 100000) AS few) AS waiting
FROM ended e;
