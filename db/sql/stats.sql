-- Stats: rates and times of topics, queues, kinds and services, from the ledger and from the archives. Each reads up to $4
-- of the latest ended items since $2 and before $3; `more`: there are more. `kept`: successes go into an archive.

-- name: topic
-- Return the events of the topic $1 by hour: accepted ones under the sink '', those of each sink under its name. Each cell is
-- looked up by its key, so other topics are not read.
SELECT h.hour AS at, s.sink, l.owed, l.sent, l.dead
FROM generate_series($2::timestamptz, $3::timestamptz - interval '1 hour', interval '1 hour') AS h(hour)
CROSS JOIN (SELECT '' AS sink UNION ALL SELECT k.name FROM hookwire.sinks k) AS s
CROSS JOIN LATERAL (
    SELECT sum(x.owed_count)::bigint AS owed, sum(x.sent_count)::bigint AS sent, sum(x.dead_count)::bigint AS dead
    FROM hookwire.ledger x WHERE x.hour = h.hour AND x.sink = s.sink AND x.tenant = 'default' AND x.topic = $1
) AS l
WHERE l.owed IS NOT NULL
ORDER BY h.hour, s.sink;

-- name: counted_until
SELECT through_at FROM hookwire.ledger_cursor;

-- name: queue
WITH found AS MATERIALIZED (
    (SELECT true AS is_done, a.accepted_at AS at, a.accepted_at - a.claimed_at AS run, a.accepted_at - a.created_at AS age
     FROM hookwire.message_archive a
     WHERE a.queue = $1 AND a.accepted_at >= $2 AND a.accepted_at < $3 ORDER BY a.queue DESC, a.accepted_at DESC LIMIT $4 + 1)
    UNION ALL
    (SELECT false, d.died_at, NULL, NULL FROM hookwire.dead_messages d
     WHERE d.queue = $1 AND d.died_at >= $2 AND d.died_at < $3 ORDER BY d.queue DESC, d.died_at DESC LIMIT $4 + 1)
), ended AS MATERIALIZED (
    SELECT f.* FROM found f ORDER BY f.at DESC LIMIT $4
), oldest AS MATERIALIZED (
    SELECT m.created_at FROM hookwire.messages m
    WHERE m.queue BETWEEN $1 AND $1 AND m.claim IS NULL AND m.due_at IS NULL ORDER BY m.queue, m.id LIMIT 1
)
SELECT now() AS at, coalesce((SELECT q.history FROM hookwire.queues q WHERE q.name = $1), false) AS kept,
       count(*) FILTER (WHERE e.is_done) AS done, count(*) FILTER (WHERE NOT e.is_done) AS dead,
       (SELECT count(*) FROM found) > $4 AS more,
       percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY extract(epoch FROM e.run)::double precision) AS run,
       percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY extract(epoch FROM e.age)::double precision) AS age,
       (SELECT o.created_at FROM oldest o) AS oldest_at,
       (SELECT count(*) FROM (SELECT FROM hookwire.messages m
                              WHERE m.queue BETWEEN $1 AND $1 AND m.claim IS NULL AND m.due_at IS NULL
                              ORDER BY m.queue, m.id LIMIT 100000) AS few) AS waiting
FROM ended e;

-- name: task
-- The archive has no index by kind, so the latest of all kinds are read. Dead tasks are read from the same moment on.
WITH found AS MATERIALIZED (
    SELECT a.finish_time AS at, a.finish_time - a.start_time AS run, a.finish_time - a.created_at AS age, a.kind
    FROM hookwire.task_archive a
    WHERE a.finish_time >= $2 AND a.finish_time < $3 ORDER BY a.finish_time DESC LIMIT $4
), dead AS MATERIALIZED (
    SELECT d.died_at FROM hookwire.dead_tasks d
    WHERE d.kind = $1 AND d.died_at >= $2 AND d.died_at < $3
      AND d.died_at >= (SELECT CASE WHEN count(*) < $4 THEN $2 ELSE min(f.at) END FROM found f)
    ORDER BY d.kind DESC, d.died_at DESC LIMIT $4
), oldest AS MATERIALIZED (
    SELECT t.created_at FROM hookwire.task_rows t
    WHERE t.kind BETWEEN $1 AND $1 AND t.start_time IS NULL AND t.due_at IS NULL ORDER BY t.kind, t.seq LIMIT 1
)
SELECT now() AS at, (hookwire.task_policy($1)).keeps_record AS kept, count(*) AS done, (SELECT count(*) FROM dead) AS dead,
       (SELECT count(*) FROM found) = $4 OR (SELECT count(*) FROM dead) = $4 AS more,
       percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY extract(epoch FROM e.run)::double precision) AS run,
       percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY extract(epoch FROM e.age)::double precision) AS age,
       (SELECT o.created_at FROM oldest o) AS oldest_at,
       (SELECT count(*) FROM (SELECT FROM hookwire.task_rows t
                              WHERE t.kind BETWEEN $1 AND $1 AND t.start_time IS NULL AND t.due_at IS NULL
                              ORDER BY t.kind, t.seq LIMIT 100000) AS few) AS waiting
FROM found e WHERE e.kind = $1;

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
    WHERE a.kind = $1 AND a.ended_at >= $2 AND a.ended_at < $3 ORDER BY a.kind DESC, a.ended_at DESC LIMIT $4
), lined_up AS MATERIALIZED (
    SELECT n.rank_at, n.created_at FROM (SELECT p.queue, p.kind FROM pair p LIMIT 500) AS p CROSS JOIN LATERAL (
        SELECT j.rank_at, j.created_at FROM hookwire.jobs j
        WHERE j.queue = p.queue AND j.kind = p.kind AND j.state = 'available' AND NOT j.for_people
        ORDER BY j.queue, j.kind, j.rank_at, j.seq LIMIT 100000) AS n
    WHERE p.kind = $1 LIMIT 100000
)
SELECT now() AS at, true AS kept, count(*) FILTER (WHERE e.is_done) AS done, count(*) FILTER (WHERE e.state = 'discarded') AS dead,
       count(*) = $4 AS more,
       percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY extract(epoch FROM e.run)::double precision) FILTER (WHERE e.is_done) AS run,
       percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY extract(epoch FROM e.age)::double precision) FILTER (WHERE e.is_done) AS age,
       (SELECT min(greatest(l.created_at, l.rank_at)) FROM lined_up l) AS oldest_at, (SELECT count(*) FROM lined_up) AS waiting
FROM ended e;

-- name: service
-- Closed requests are in the archive, which has no index by service. Those without an answer are kept until then.
WITH ended AS MATERIALIZED (
    SELECT x.state = 'answered' AS is_done, x.answered_at - x.created_at AS age, x.service FROM (
        SELECT a.state, a.answered_at, a.created_at, a.service FROM hookwire.request_archive a
        WHERE a.closed_at >= $2 AND a.closed_at < $3 ORDER BY a.closed_at DESC LIMIT $4) AS x
), oldest AS MATERIALIZED (
    SELECT r.created_at FROM hookwire.requests r
    WHERE r.service BETWEEN $1 AND $1 AND r.state = 'waiting' ORDER BY r.service, r.number LIMIT 1
)
SELECT now() AS at, true AS kept, count(*) FILTER (WHERE e.is_done AND e.service = $1) AS done,
       count(*) FILTER (WHERE NOT e.is_done AND e.service = $1) AS dead, count(*) = $4 AS more, NULL::double precision[] AS run,
       percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY extract(epoch FROM e.age)::double precision) FILTER (WHERE e.is_done AND e.service = $1) AS age,
       (SELECT o.created_at FROM oldest o) AS oldest_at,
       (SELECT count(*) FROM (SELECT FROM hookwire.requests r
                              WHERE r.service BETWEEN $1 AND $1 AND r.state = 'waiting' ORDER BY r.service, r.number LIMIT 100000) AS few) AS waiting
FROM ended e;
