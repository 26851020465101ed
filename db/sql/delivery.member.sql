-- Members that deliver: who they are, whether they live, and what becomes of the claims of a dead one (ADR 99).
--
-- The session lock of a member is (1215262581, id). It is taken before the row is visible. A new session gets a new id, so
-- a lock that is free stays free. A beat runs in the session that holds the lock. So its answer proves the lock.

-- name: enter
-- Enter with a new id, and leave the former one, $2. is_kept: the former row was there, so nobody has taken its claims
-- over, and nobody ever will.
WITH former AS (
    DELETE FROM hookwire.delivery_members WHERE id = $2::integer RETURNING id
), entered AS (
    INSERT INTO hookwire.delivery_members (name, server_run)
    VALUES ($1, concat_ws(' ', left(pg_walfile_name(pg_current_wal_insert_lsn()), 8), extract(epoch FROM pg_postmaster_start_time()),
                          (SELECT extract(epoch FROM b.stats_reset) FROM pg_stat_bgwriter b)))
    RETURNING id
)
SELECT e.id, pg_try_advisory_lock(1215262581, e.id) AS is_locked, pg_notify('hookwire_members', '') IS NOT NULL AS is_told,
       (SELECT f.id FROM former f) IS NOT NULL AS is_kept
FROM entered e;

-- name: beat
-- Store for how long the member $1 trusts its membership, if that has changed, and list all members. is_own: the lock is
-- held by this session.
WITH present AS MATERIALIZED (
    SELECT l.objid::bigint AS id, l.pid FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.classid = 1215262581::oid AND l.objsubid = 2 AND l.granted
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
), changed AS (
    UPDATE hookwire.delivery_members SET trust_seconds = $2::double precision
    WHERE id = $1 AND trust_seconds IS DISTINCT FROM $2::double precision
)
SELECT m.id, m.trust_seconds, p.id IS NOT NULL AS is_present, p.pid IS NOT DISTINCT FROM pg_backend_pid() AS is_own
FROM hookwire.delivery_members m LEFT JOIN present p ON p.id = m.id;

-- name: leave
WITH gone AS (
    DELETE FROM hookwire.delivery_members WHERE id = $1 RETURNING id
)
SELECT pg_notify('hookwire_members', '') FROM gone;

-- name: inherit
-- Forget the members $1, whose locks were seen free for long, and make due what they held. Their row is deleted once, so
-- one process takes over. A member that has come back under another id has deleted it. $2 is the trust that was waited
-- for. Without one the claims wait for their lease. So they do if the server has had another run since then: a restart
-- frees the locks of the living, too. What is made due, and why it gets a new fence, is as for take_over.
WITH present AS MATERIALIZED (
    SELECT l.objid::bigint AS id FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.classid = 1215262581::oid AND l.objsubid = 2 AND l.granted
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
), run AS MATERIALIZED (
    SELECT concat_ws(' ', left(pg_walfile_name(pg_current_wal_insert_lsn()), 8), extract(epoch FROM pg_postmaster_start_time()),
                     (SELECT extract(epoch FROM b.stats_reset) FROM pg_stat_bgwriter b)) AS server_run
), gone AS (
    DELETE FROM hookwire.delivery_members m
    USING run
    WHERE m.id = ANY (ARRAY(
        SELECT x.id FROM hookwire.delivery_members x
        JOIN unnest($1::integer[], $2::double precision[]) AS seen(id, trust_seconds) ON x.id = seen.id
        WHERE x.trust_seconds IS NOT DISTINCT FROM seen.trust_seconds AND x.id NOT IN (SELECT p.id FROM present p)
        ORDER BY x.id FOR UPDATE OF x SKIP LOCKED))
    RETURNING m.id, m.trust_seconds IS NOT NULL AND m.server_run = run.server_run AS is_proved
), fence AS MATERIALIZED (
    SELECT nextval('hookwire.delivery_fence') AS value
), held AS MATERIALIZED (
    SELECT d.ctid AS place, d.fence FROM hookwire.deliveries d
    WHERE d.attempts > 0 AND d.fence IS NOT NULL AND d.parked_at IS NULL
      AND d.member = ANY (ARRAY(SELECT g.id FROM gone g WHERE g.is_proved))
      AND d.lane IS NULL AND d.attempts - d.free_attempts <= 1
    ORDER BY d.event_id, d.subscription_id
    FOR UPDATE OF d SKIP LOCKED
)
UPDATE hookwire.deliveries d SET due_at = now(), fence = fence.value, member = NULL
FROM held h, fence WHERE d.ctid = h.place AND d.fence = h.fence
RETURNING d.subscription_id;

-- name: abandon
-- Make due what this process has claimed and whose request it has aborted. The attempt counts, and the delivery stays held:
-- it may have arrived. The head of a lane keeps its lease, as for inherit.
UPDATE hookwire.deliveries SET due_at = now(), fence = nextval('hookwire.delivery_fence'), member = NULL
WHERE ctid = ANY (ARRAY(
    SELECT d.place FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS r(event_id, subscription_id, fence)
    CROSS JOIN LATERAL (
        SELECT x.ctid AS place FROM hookwire.deliveries x
        WHERE x.event_id = ANY (ARRAY[r.event_id]) AND x.subscription_id = r.subscription_id AND x.fence = r.fence
          AND x.lane IS NULL
        ORDER BY x.event_id LIMIT 1
    ) AS d))
  AND fence = ANY ($3::bigint[]);
