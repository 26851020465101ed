-- Bulk: replays that do not send. Each step examines a part of the range, changes what matches and moves the cursor, in one
-- statement. So a step is complete or has no effect, and any process takes the next one.

-- name: due
-- Return what the next replay does, its rate, and in how many seconds it is due; no row where none runs.
SELECT r.id, r.act, r.rate_per_second,
       extract(epoch FROM coalesce(r.incident_due_at, r.due_at) - now())::double precision AS seconds
FROM hookwire.replays r WHERE r.state = 'running' ORDER BY coalesce(r.incident_due_at, r.due_at) LIMIT 1;

-- name: count_dead
-- Count the dead letters that a purge would delete, up to $9; with $10, those of this incident.
SELECT count(*) AS records, min(m.event_id) AS oldest, max(m.event_id) AS newest, 0::bigint AS erased, count(*) AS counted
FROM (
    SELECT d.event_id FROM hookwire.dead_letters d
    WHERE d.tenant = $1 AND ($2::bigint IS NULL OR d.subscription_id = $2)
      AND ($3::text IS NULL OR (SELECT e.topic FROM hookwire.events e WHERE e.id = d.event_id LIMIT 1) = $3)
      AND CASE WHEN $4::text[] IS NULL THEN d.kind NOT IN ('gone', 'erased') ELSE d.kind = ANY ($4) END
      AND ($5::smallint[] IS NULL OR d.last_status = ANY ($5)) AND ($6::bigint[] IS NULL OR d.event_id = ANY ($6))
      AND ($7::timestamptz IS NULL OR d.died_at >= $7) AND ($8::timestamptz IS NULL OR d.died_at < $8)
      AND ($10::bigint IS NULL OR d.incident_id = $10)
    LIMIT $9
) AS m;

-- name: count_open
-- Count the open deliveries that would be given up, up to $7. Those that are being sent now are left out.
SELECT count(*) AS records, min(m.event_id) AS oldest, max(m.event_id) AS newest, 0::bigint AS erased, count(*) AS counted
FROM (
    SELECT d.event_id FROM hookwire.deliveries d
    WHERE d.tenant = $1 AND d.fence IS NULL AND ($2::bigint IS NULL OR d.subscription_id = $2)
      AND ($3::text IS NULL OR (SELECT e.topic FROM hookwire.events e WHERE e.id = d.event_id LIMIT 1) = $3)
      AND ($4::bigint[] IS NULL OR d.event_id = ANY ($4))
      AND ($5::timestamptz IS NULL OR d.created_at >= $5) AND ($6::timestamptz IS NULL OR d.created_at < $6)
    LIMIT $7
) AS m;

-- name: count_jobs
-- Count the jobs that would be cancelled, up to $6.
SELECT count(*) AS records, NULL::bigint AS oldest, NULL::bigint AS newest, 0::bigint AS erased, count(*) AS counted
FROM (
    SELECT FROM hookwire.jobs j
    WHERE j.tenant = $1 AND ($2::text IS NULL OR j.kind = $2) AND ($3::text IS NULL OR j.state = $3)
      AND ($4::timestamptz IS NULL OR j.created_at >= $4) AND ($5::timestamptz IS NULL OR j.created_at < $5)
    LIMIT $6
) AS m;

-- name: purge
-- Delete up to $1 dead letters.
WITH job AS MATERIALIZED (
    SELECT r.*, least($1, coalesce(r.rate_per_second, $1)) AS most FROM hookwire.replays r
    WHERE r.state = 'running' AND coalesce(r.incident_due_at, r.due_at) <= now() AND r.act = 'purge' ORDER BY coalesce(r.incident_due_at, r.due_at) LIMIT 1
    FOR UPDATE SKIP LOCKED
), seen AS MATERIALIZED (
    SELECT d.* FROM job j CROSS JOIN LATERAL (
        SELECT x.event_id, x.subscription_id, x.kind, x.last_status, x.died_at, x.incident_id FROM hookwire.dead_letters x
        WHERE x.tenant = j.tenant AND (x.event_id, x.subscription_id) > (j.last_event_id, j.last_subscription_id)
          AND x.event_id <= j.upper_event_id
        ORDER BY x.event_id, x.subscription_id LIMIT j.most) AS d
), target AS MATERIALIZED (
    SELECT s.event_id, s.subscription_id FROM job j CROSS JOIN seen s
    WHERE (j.subscription_id IS NULL OR s.subscription_id = j.subscription_id)
      AND (j.topic IS NULL OR (SELECT y.topic FROM hookwire.events y WHERE y.id = s.event_id LIMIT 1) = j.topic)
      AND CASE WHEN j.kinds IS NULL THEN s.kind NOT IN ('gone', 'erased') ELSE s.kind = ANY (j.kinds) END
      AND (j.incident_id IS NULL OR s.incident_id = j.incident_id)
      AND (j.statuses IS NULL OR s.last_status = ANY (j.statuses)) AND (j.event_ids IS NULL OR s.event_id = ANY (j.event_ids))
      AND (j.since_at IS NULL OR s.died_at >= j.since_at) AND (j.until_at IS NULL OR s.died_at < j.until_at)
), gone AS (
    DELETE FROM hookwire.dead_letters
    WHERE ctid = ANY (ARRAY(
        SELECT l.place FROM target t CROSS JOIN LATERAL (
            SELECT x.ctid AS place FROM hookwire.dead_letters x
            WHERE x.event_id = ANY (ARRAY[t.event_id]) AND x.subscription_id = t.subscription_id
            ORDER BY x.event_id LIMIT 1
        ) AS l))
    RETURNING event_id
), moved AS (
    UPDATE hookwire.replays r
    SET last_event_id = coalesce(z.event_id, r.last_event_id), last_subscription_id = coalesce(z.subscription_id, r.last_subscription_id),
        examined = r.examined + z.count, replayed = r.replayed + (SELECT count(*) FROM gone), updated_at = now(),
        state = CASE WHEN z.count < j.most THEN 'done' ELSE 'running' END,
        due_at = CASE WHEN j.incident_id IS NULL THEN z.due_at ELSE r.due_at END,
        incident_due_at = CASE WHEN j.incident_id IS NOT NULL THEN z.due_at END
    FROM job j, (SELECT count(*) AS count, (array_agg(s.event_id ORDER BY s.event_id DESC, s.subscription_id DESC))[1] AS event_id,
                        (array_agg(s.subscription_id ORDER BY s.event_id DESC, s.subscription_id DESC))[1] AS subscription_id,
                        now() + make_interval(secs => coalesce((SELECT count(*) FROM gone)::double precision / (SELECT x.rate_per_second FROM job x), 0)) AS due_at
                 FROM seen s) AS z
    WHERE r.id = j.id
    RETURNING r.id
)
SELECT (SELECT id FROM moved) AS id, '{}'::bigint[] AS subscriptions;

-- name: give_up
-- Make up to $1 open deliveries dead letters. Those that are being sent are left out. The lowest delivery that is left in a
-- lane is due.
WITH job AS MATERIALIZED (
    SELECT r.*, least($1, coalesce(r.rate_per_second, $1)) AS most FROM hookwire.replays r
    WHERE r.state = 'running' AND r.due_at <= now() AND r.act = 'give_up' ORDER BY r.due_at LIMIT 1
    FOR UPDATE SKIP LOCKED
), seen AS MATERIALIZED (
    SELECT d.* FROM job j CROSS JOIN LATERAL (
        SELECT x.event_id, x.subscription_id, x.created_at FROM hookwire.deliveries x
        WHERE x.tenant = j.tenant AND (x.event_id, x.subscription_id) > (j.last_event_id, j.last_subscription_id)
          AND x.event_id <= j.upper_event_id
        ORDER BY x.event_id, x.subscription_id LIMIT j.most) AS d
), target AS MATERIALIZED (
    SELECT s.event_id, s.subscription_id FROM job j CROSS JOIN seen s
    WHERE (j.subscription_id IS NULL OR s.subscription_id = j.subscription_id)
      AND (j.topic IS NULL OR (SELECT y.topic FROM hookwire.events y WHERE y.id = s.event_id LIMIT 1) = j.topic)
      AND (j.event_ids IS NULL OR s.event_id = ANY (j.event_ids))
      AND (j.since_at IS NULL OR s.created_at >= j.since_at) AND (j.until_at IS NULL OR s.created_at < j.until_at)
), ended AS (
    DELETE FROM hookwire.deliveries
    WHERE fence IS NULL AND ctid = ANY (ARRAY(
        SELECT l.place FROM target t CROSS JOIN LATERAL (
            SELECT x.ctid AS place FROM hookwire.deliveries x
            WHERE x.event_id = ANY (ARRAY[t.event_id]) AND x.subscription_id = t.subscription_id
            ORDER BY x.event_id LIMIT 1
        ) AS l))
    RETURNING *
), head AS MATERIALIZED (
    SELECT h.place FROM (SELECT DISTINCT e.subscription_id, e.lane FROM ended e WHERE e.lane IS NOT NULL) AS l
    CROSS JOIN LATERAL (
        SELECT x.ctid AS place FROM hookwire.deliveries x
        WHERE x.subscription_id = l.subscription_id AND x.lane = l.lane
          AND (x.event_id, x.subscription_id) NOT IN (SELECT e.event_id, e.subscription_id FROM ended e)
        ORDER BY x.subscription_id, x.lane, x.event_id LIMIT 1) AS h
), promoted AS (
    UPDATE hookwire.deliveries SET due_at = now()
    WHERE ctid = ANY (ARRAY(SELECT h.place FROM head h)) AND NOT isfinite(due_at) AND parked_at IS NULL
    RETURNING subscription_id
), buried AS (
    INSERT INTO hookwire.dead_letters (event_id, subscription_id, tenant, kind, attempts, last_status, last_outcome, detail, on_purpose,
                                       incident_id)
    SELECT e.event_id, e.subscription_id, e.tenant, 'given_up', e.attempts, e.last_status, e.last_outcome,
           'given up by ' || (SELECT j.actor FROM job j), true, e.incident_id
    FROM ended e
    ON CONFLICT DO NOTHING
), moved AS (
    UPDATE hookwire.replays r
    SET last_event_id = coalesce(z.event_id, r.last_event_id), last_subscription_id = coalesce(z.subscription_id, r.last_subscription_id),
        examined = r.examined + z.count, replayed = r.replayed + (SELECT count(*) FROM ended), updated_at = now(),
        state = CASE WHEN z.count < j.most THEN 'done' ELSE 'running' END,
        due_at = now() + make_interval(secs => coalesce((SELECT count(*) FROM ended)::double precision / j.rate_per_second, 0))
    FROM job j, (SELECT count(*) AS count, (array_agg(s.event_id ORDER BY s.event_id DESC, s.subscription_id DESC))[1] AS event_id,
                        (array_agg(s.subscription_id ORDER BY s.event_id DESC, s.subscription_id DESC))[1] AS subscription_id
                 FROM seen s) AS z
    WHERE r.id = j.id
    RETURNING r.id
)
SELECT (SELECT id FROM moved) AS id, (SELECT coalesce(array_agg(DISTINCT p.subscription_id), '{}') FROM promoted p) AS subscriptions;

-- name: cancel
-- Cancel up to $1 jobs, as hookwire.cancel_job does. Running ones are asked to stop.
WITH job AS MATERIALIZED (
    SELECT r.*, least($1, coalesce(r.rate_per_second, $1)) AS most FROM hookwire.replays r
    WHERE r.state = 'running' AND r.due_at <= now() AND r.act = 'cancel' ORDER BY r.due_at LIMIT 1
    FOR UPDATE SKIP LOCKED
), seen AS MATERIALIZED (
    SELECT d.* FROM job j CROSS JOIN LATERAL (
        SELECT x.id, x.seq, x.kind, x.state, x.created_at FROM hookwire.jobs x
        WHERE x.tenant = j.tenant AND x.seq > j.last_seq AND x.seq <= j.upper_seq ORDER BY x.seq LIMIT j.most) AS d
), locked AS MATERIALIZED (
    SELECT y.id, s.kind, y.state, s.created_at FROM (SELECT s.* FROM seen s ORDER BY s.seq) AS s
    CROSS JOIN LATERAL (SELECT x.id, x.state FROM hookwire.jobs x WHERE x.id = s.id FOR UPDATE SKIP LOCKED) AS y
), ended AS MATERIALIZED (
    SELECT hookwire.cancel_job(l.id, j.actor, j.reason) AS state FROM job j CROSS JOIN locked l
    WHERE (j.job_kind IS NULL OR l.kind = j.job_kind) AND (j.job_state IS NULL OR l.state = j.job_state)
      AND (j.since_at IS NULL OR l.created_at >= j.since_at) AND (j.until_at IS NULL OR l.created_at < j.until_at)
), moved AS (
    UPDATE hookwire.replays r
    SET last_seq = coalesce(z.seq, r.last_seq), examined = r.examined + z.count,
        replayed = r.replayed + (SELECT count(e.state) FROM ended e), updated_at = now(),
        state = CASE WHEN z.count < j.most THEN 'done' ELSE 'running' END,
        due_at = now() + make_interval(secs => coalesce((SELECT count(e.state) FROM ended e)::double precision / j.rate_per_second, 0))
    FROM job j, (SELECT count(*) AS count, max(s.seq) AS seq FROM seen s) AS z
    WHERE r.id = j.id
    RETURNING r.id
)
SELECT (SELECT id FROM moved) AS id, '{}'::bigint[] AS subscriptions;
