-- Claim and end jobs without needless work (benchmarks/profiles/jobs.md). The functions make row values and
-- announcements only if an event or a callback reports the change. They look for a review only if a kind has one. The
-- hot functions get the plans of the hub's own connections: generic, and with an index even for an empty table.

CREATE OR REPLACE FUNCTION hookwire.claim_jobs(kinds text[], most integer, worker text, lease_seconds double precision DEFAULT NULL, queue text DEFAULT 'default')
RETURNS TABLE (id uuid, claim bigint, attempts integer, lease_until timestamptz, run_until timestamptz, kind text, args jsonb, key text,
               attempts_max integer, created_at timestamptz, resumed jsonb)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    in_queue CONSTANT text := claim_jobs.queue;
    in_worker CONSTANT text := left(claim_jobs.worker, 200);
    in_lease CONSTANT double precision := claim_jobs.lease_seconds;
    in_most CONSTANT integer := claim_jobs.most;
    policy hookwire.job_kinds;
    one text;
    open_kinds text[] := '{}';
    picked uuid[] := '{}';
    is_told boolean := false;
BEGIN
    IF in_most NOT BETWEEN 1 AND 10000 OR in_lease NOT BETWEEN 0.05 AND 43200 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'hookwire.claim_jobs: most is 1 to 10000, lease_seconds 0.05 to 43200';
    END IF;
    IF EXISTS (SELECT FROM hookwire.queues q WHERE q.name = in_queue AND q.paused) THEN
        RETURN;
    END IF;
    FOREACH one IN ARRAY coalesce(kinds, hookwire.available_kinds(in_queue)) LOOP
        policy := hookwire.job_policy(one);
        CONTINUE WHEN policy.is_paused;
        is_told := is_told OR 'running' = ANY (policy.events);
        IF num_nonnulls(policy.running_max, policy.key_running_max, policy.key_rate_per_second) = 0 THEN
            open_kinds := open_kinds || one;
        ELSIF cardinality(picked) < in_most
          AND EXISTS (SELECT FROM hookwire.jobs j WHERE j.queue = in_queue AND j.kind = one AND j.state = 'available' AND NOT j.for_people)
          AND hookwire.lock_job_kind(one) THEN
            picked := picked || hookwire.pick_limited_jobs(policy, in_queue, in_most - cardinality(picked));
        END IF;
    END LOOP;
    IF cardinality(open_kinds) = 1 AND cardinality(picked) < in_most THEN
        one := open_kinds[1];
        picked := picked || ARRAY(
            SELECT j.id FROM hookwire.jobs j
            WHERE j.queue = in_queue AND j.kind = one AND j.state = 'available' AND NOT j.for_people
            ORDER BY j.rank_at, j.seq LIMIT in_most - cardinality(picked) FOR NO KEY UPDATE SKIP LOCKED);
    ELSIF open_kinds <> '{}' AND cardinality(picked) < in_most THEN
        -- Choose the best jobs of all kinds. Jobs that other claims have locked are skipped, so each kind offers more
        -- than are wanted.
        picked := picked || ARRAY(
            SELECT j.id FROM hookwire.jobs j
            WHERE j.state = 'available' AND j.id = ANY (ARRAY(
                SELECT c.id FROM unnest(open_kinds) AS k(kind) CROSS JOIN LATERAL (
                    SELECT j.id FROM hookwire.jobs j
                    WHERE j.queue = in_queue AND j.kind = k.kind AND j.state = 'available' AND NOT j.for_people
                    ORDER BY j.rank_at, j.seq LIMIT 4 * in_most
                ) AS c))
            ORDER BY j.rank_at, j.seq LIMIT in_most - cardinality(picked) FOR NO KEY UPDATE SKIP LOCKED);
    END IF;
    IF picked = '{}' THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH policies AS MATERIALIZED (
        SELECT k.kind, p.lease_seconds
        FROM (SELECT DISTINCT j.kind FROM hookwire.jobs j WHERE j.id = ANY (picked)) AS k CROSS JOIN LATERAL hookwire.job_policy(k.kind) AS p
    ), taken AS (
        UPDATE hookwire.jobs j
        SET state = 'running', claim = nextval('hookwire.lease_fence'), worker = in_worker, attempts = j.attempts + 1,
            number = j.number + 1, claimed_at = clock_timestamp(), progress_done = NULL, progress_total = NULL, progress_note = NULL,
            run_until = clock_timestamp() + make_interval(secs => j.run_seconds),
            lease_until = least(clock_timestamp() + make_interval(secs => least(j.run_seconds, coalesce(in_lease, (SELECT p.lease_seconds FROM policies p WHERE p.kind = j.kind)))),
                                j.deadline_at)
        WHERE j.id = ANY (picked)
        RETURNING j.*
    )
    SELECT t.id, t.claim, t.attempts, t.lease_until, t.run_until, t.kind, t.args, t.key, t.attempts_max, t.created_at, t.resumed
    FROM taken t ORDER BY t.rank_at, t.seq;
    IF is_told OR EXISTS (SELECT FROM hookwire.job_requests r WHERE r.job_id = ANY (picked)) THEN
        PERFORM hookwire.announce_jobs(ARRAY(SELECT j FROM hookwire.jobs j WHERE j.id = ANY (picked) ORDER BY j.rank_at, j.seq));
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION hookwire.complete_jobs(ids uuid[], claims bigint[], results jsonb[] DEFAULT NULL, extras jsonb[] DEFAULT NULL)
RETURNS SETOF uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    held CONSTANT uuid[] := hookwire.held_jobs(ids, claims);
    reviewed hookwire.jobs[] := '{}';
    extra record;
BEGIN
    -- A shorter result has neither 65 levels nor 250 digits.
    PERFORM hookwire.check_job_result(r) FROM unnest(results) AS r WHERE octet_length(r::text) > 128;
    IF EXISTS (SELECT FROM hookwire.job_kinds k WHERE k.needs_review OR k.automation = 'assisted') THEN
        WITH policies AS MATERIALIZED (
            SELECT k.kind FROM (SELECT DISTINCT j.kind FROM hookwire.jobs j WHERE j.id = ANY (held)) AS k
            CROSS JOIN LATERAL hookwire.job_policy(k.kind) AS p WHERE p.needs_review OR p.automation = 'assisted'
        ), waiting AS (
            UPDATE hookwire.jobs j SET state = 'review', result = r.result, performer = j.worker, claim = NULL, lease_until = NULL,
                run_until = NULL, number = j.number + 1
            FROM unnest(ids, results) AS r(id, result)
            WHERE j.id = ANY (held) AND r.id = j.id AND j.kind IN (SELECT p.kind FROM policies p)
            RETURNING j.*
        )
        SELECT coalesce(array_agg(w ORDER BY w.seq), '{}') INTO reviewed FROM waiting w;
        PERFORM hookwire.announce_jobs(reviewed);
    END IF;
    IF cardinality(reviewed) < cardinality(held) THEN
        PERFORM hookwire.end_jobs(ARRAY(SELECT unnest(held) EXCEPT SELECT w.id FROM unnest(reviewed) AS w), 'completed', results,
                                  results_of => ids);
    END IF;
    IF extras IS NOT NULL THEN
        FOR extra IN SELECT x.id, x.extra FROM unnest(ids, extras) AS x(id, extra) WHERE x.id = ANY (held) AND x.extra IS NOT NULL LOOP
            PERFORM hookwire.publish_all(extra.extra->'events');
            PERFORM hookwire.add_jobs(coalesce(nullif(extra.extra->'jobs', 'null'), '[]'), 'job:' || extra.id);
        END LOOP;
    END IF;
    RETURN QUERY SELECT unnest(held);
END
$$;

CREATE OR REPLACE FUNCTION hookwire.end_jobs(ids uuid[], in_state text, results jsonb[] DEFAULT NULL, why text DEFAULT NULL, actor text DEFAULT NULL, results_of uuid[] DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    ended hookwire.jobs[];
    is_told boolean;
BEGIN
    WITH gone AS (
        DELETE FROM hookwire.jobs j WHERE j.id = ANY (ids) RETURNING j.*
    ), policies AS MATERIALIZED (
        SELECT p.kind, p.retention_days, in_state = ANY (p.events) AS is_told
        FROM (SELECT DISTINCT g.kind FROM gone g) AS k CROSS JOIN LATERAL hookwire.job_policy(k.kind) AS p
    ), kept AS (
        INSERT INTO hookwire.job_archive (id, seq, tenant, kind, queue, state, args, key, uniq, priority, attempts, attempts_max, run_seconds,
            worker, assignee, performer, number, result, errors, reason, created_by, created_at, claimed_at, ended_at, ended_by)
        SELECT g.id, g.seq, g.tenant, g.kind, g.queue, in_state, g.args, g.key, g.uniq, g.priority, g.attempts, g.attempts_max, g.run_seconds,
               g.worker, g.assignee, coalesce(g.performer, CASE WHEN in_state = 'completed' THEN coalesce(actor, g.worker) END),
               g.number + 1, coalesce(r.result, g.result), g.errors, left(why, 2000), g.created_by, g.created_at, g.claimed_at,
               clock_timestamp(), coalesce(actor, g.worker)
        FROM gone g LEFT JOIN unnest(coalesce(results_of, ids), results) AS r(id, result) ON r.id = g.id
        WHERE g.kind IN (SELECT p.kind FROM policies p WHERE p.retention_days > 0)
    )
    SELECT coalesce(array_agg(g ORDER BY g.seq), '{}'), (SELECT bool_or(p.is_told) FROM policies p) INTO ended, is_told FROM gone g;
    -- This must be a later statement than the DELETE, which has waited for merging requests: only a new snapshot sees
    -- them.
    IF is_told OR EXISTS (SELECT FROM hookwire.job_requests r WHERE r.job_id = ANY (ids)) THEN
        PERFORM hookwire.announce_jobs(ended, in_state, actor, coalesce(results_of, ids), results);
        DELETE FROM hookwire.job_requests r WHERE r.job_id = ANY (ids);
    END IF;
END
$$;

-- One scan of the index counts the running jobs of all keys.
CREATE OR REPLACE FUNCTION hookwire.key_allowances(policy hookwire.job_kinds, keys text[], room integer, moment timestamptz)
RETURNS TABLE (key text, most bigint)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT k.key, CASE WHEN k.key = '' THEN room::bigint ELSE greatest(0, least(
        room::bigint,
        policy.key_running_max - coalesce(n.running, 0),
        CASE WHEN policy.key_rate_per_second IS NOT NULL THEN floor(coalesce(
            least(policy.key_burst, r.tokens + extract(epoch FROM moment - r.counted_at) * policy.key_rate_per_second), policy.key_burst))::bigint END)) END
    FROM (SELECT DISTINCT unnest(keys) AS key) AS k
    LEFT JOIN (SELECT j.key, count(*) AS running FROM hookwire.jobs j
               WHERE policy.key_running_max IS NOT NULL AND j.kind = policy.kind AND j.key = ANY (keys) AND j.state = 'running'
               GROUP BY j.key) AS n ON n.key = k.key
    LEFT JOIN hookwire.job_rates r ON r.kind = policy.kind AND r.key = k.key;
END
$$;

-- Check the state outside of the lookup by id. Inside, the planner would choose the partial index of all running jobs.
CREATE OR REPLACE FUNCTION hookwire.held_jobs(ids uuid[], claims bigint[]) RETURNS uuid[]
LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT coalesce(array_agg(d.id), '{}')
    FROM (SELECT r.id, r.claim FROM unnest(ids, claims) AS r(id, claim) ORDER BY r.id) AS r
    CROSS JOIN LATERAL (
        SELECT j.id, j.state FROM hookwire.jobs j WHERE j.id BETWEEN r.id AND r.id AND j.claim = r.claim
        ORDER BY j.id LIMIT 1 FOR NO KEY UPDATE OF j   -- requests that merge may lock its key
    ) AS d WHERE d.state = 'running');
END
$$;

-- The connections of other programs have the settings of the server. These settings of the functions give them the
-- plans of the hub's connections. Such a plan is made once, uses an index even for an empty table, and is never
-- compiled by JIT.
DO $$
DECLARE
    hot text;
BEGIN
    FOR hot IN SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace = 'hookwire'::regnamespace AND p.proname IN (
        'add_jobs', 'claim_jobs', 'complete_jobs', 'fail_job', 'snooze_job', 'extend_jobs', 'release_jobs',
        'submit', 'submit_batch', 'receive', 'accept', 'accept_held', 'reject_held', 'extend_held') LOOP
        EXECUTE format('ALTER FUNCTION %s SET enable_seqscan = off SET plan_cache_mode = force_generic_plan SET jit = off', hot);
    END LOOP;
END
$$;
