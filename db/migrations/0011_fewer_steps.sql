-- Ends of jobs and acceptances of messages in fewer steps (benchmarks/profiles/jobs.md). One statement finds by claim and
-- deletes. Rows keep their type on the way to the announcements. One hash counts the limits for each key.

DROP FUNCTION hookwire.end_jobs(uuid[], text, jsonb[], text, text, uuid[]);

-- End jobs: they leave the table, and enter the archive if their kind keeps them. With claims, only jobs that are still held by
-- them are ended. Return the ids of the ended jobs. Rows are locked in the order of ids (JS-13). So the plan uses neither a
-- bitmap nor a scan of the table: an index returns the ids of an array in their order.
CREATE FUNCTION hookwire.end_jobs(ids uuid[], in_state text, results jsonb[] DEFAULT NULL, why text DEFAULT NULL, actor text DEFAULT NULL,
    results_of uuid[] DEFAULT NULL, claims bigint[] DEFAULT NULL) RETURNS uuid[]
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
    ended hookwire.jobs[];
    ended_ids uuid[];
    is_told boolean;
BEGIN
    WITH gone AS (
        DELETE FROM hookwire.jobs j USING (SELECT r.id, r.claim FROM unnest(ids, claims) AS r(id, claim) ORDER BY r.id) AS r
        WHERE j.id = ANY (ids) AND j.id = r.id AND (claims IS NULL OR j.claim = r.claim) RETURNING j AS job, j.*
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
    SELECT array_agg(g.job ORDER BY g.seq), array_agg(g.id), (SELECT bool_or(p.is_told) FROM policies p)
    INTO ended, ended_ids, is_told FROM gone g;
    -- In a later statement than the DELETE, which has waited for the requests that were merging.
    IF is_told OR EXISTS (SELECT FROM hookwire.job_requests r WHERE r.job_id = ANY (ended_ids)) THEN
        PERFORM hookwire.announce_jobs(ended, in_state, actor, coalesce(results_of, ids), results);
        DELETE FROM hookwire.job_requests r WHERE r.job_id = ANY (ended_ids);
    END IF;
    RETURN coalesce(ended_ids, '{}');
END
$$;

CREATE OR REPLACE FUNCTION hookwire.complete_jobs(ids uuid[], claims bigint[], results jsonb[] DEFAULT NULL, extras jsonb[] DEFAULT NULL)
RETURNS SETOF uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
    held uuid[];
    reviewed hookwire.jobs[];
    extra record;
BEGIN
    -- A shorter result has neither 65 levels nor 250 digits.
    PERFORM hookwire.check_job_result(r) FROM unnest(results) AS r WHERE octet_length(r::text) > 128;
    IF NOT EXISTS (SELECT FROM hookwire.job_kinds k WHERE k.needs_review OR k.automation = 'assisted') THEN
        held := hookwire.end_jobs(ids, 'completed', results, claims => claims);
    ELSE
        held := hookwire.held_jobs(ids, claims);
        WITH policies AS MATERIALIZED (
            SELECT k.kind FROM (SELECT DISTINCT j.kind FROM hookwire.jobs j WHERE j.id = ANY (held)) AS k
            CROSS JOIN LATERAL hookwire.job_policy(k.kind) AS p WHERE p.needs_review OR p.automation = 'assisted'
        ), waiting AS (
            UPDATE hookwire.jobs j SET state = 'review', result = r.result, performer = j.worker, claim = NULL, lease_until = NULL,
                run_until = NULL, number = j.number + 1
            FROM unnest(ids, results) AS r(id, result)
            WHERE j.id = ANY (held) AND r.id = j.id AND j.kind IN (SELECT p.kind FROM policies p)
            RETURNING j AS job
        )
        SELECT coalesce(array_agg(w.job ORDER BY (w.job).seq), '{}') INTO reviewed FROM waiting w;
        PERFORM hookwire.announce_jobs(reviewed);
        IF cardinality(reviewed) < cardinality(held) THEN
            PERFORM hookwire.end_jobs(ARRAY(SELECT unnest(held) EXCEPT SELECT w.id FROM unnest(reviewed) AS w), 'completed', results,
                                      results_of => ids);
        END IF;
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

-- Running jobs and the keys that are asked for are counted by one hash, so that the price grows with their number only.
CREATE OR REPLACE FUNCTION hookwire.key_allowances(policy hookwire.job_kinds, keys text[], room integer, moment timestamptz)
RETURNS TABLE (key text, most bigint)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT k.key, CASE WHEN k.key = '' THEN room::bigint ELSE greatest(0, least(
        room::bigint,
        policy.key_running_max - k.running,
        CASE WHEN policy.key_rate_per_second IS NOT NULL THEN floor(coalesce(
            least(policy.key_burst, r.tokens + extract(epoch FROM moment - r.counted_at) * policy.key_rate_per_second), policy.key_burst))::bigint END)) END
    FROM (SELECT u.key, count(*) FILTER (WHERE u.is_running) AS running
          FROM (SELECT unnest(keys) AS key, false AS is_running
                UNION ALL
                SELECT j.key, true FROM hookwire.jobs j
                WHERE policy.key_running_max IS NOT NULL AND j.kind = policy.kind AND j.state = 'running') AS u
          GROUP BY u.key HAVING NOT bool_and(u.is_running)) AS k
    LEFT JOIN hookwire.job_rates r ON policy.key_rate_per_second IS NOT NULL AND r.kind = policy.kind AND r.key = k.key;
END
$$;

-- Accept those of these messages that the claim still holds; return their ids. Rows are locked in the order of ids: the plans
-- of the callers use no bitmap.
CREATE FUNCTION hookwire.accept_claim(ids bigint[], claim bigint, in_queue text) RETURNS bigint[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    accepted bigint[];
BEGIN
    WITH gone AS (
        DELETE FROM hookwire.messages m
        WHERE m.id = ANY (ids) AND m.claim = accept_claim.claim AND (in_queue IS NULL OR m.queue = in_queue) RETURNING m.*
    ), archived AS (
        INSERT INTO hookwire.message_archive (id, queue, created_at, claimed_at, accepted_at, deliveries, priority, receiver,
                                              type, key, content_type, headers, payload)
        SELECT g.id, g.queue, g.created_at, g.claimed_at, clock_timestamp(), g.deliveries, g.priority, g.receiver,
               g.type, g.key, g.content_type, g.headers, g.payload
        FROM gone g JOIN hookwire.queues q ON q.name = g.queue AND q.history
    )
    SELECT coalesce(array_agg(g.id), '{}') INTO accepted FROM gone g;
    RETURN accepted;
END
$$;

-- Accept each of these messages that its claim still holds: it leaves the table. It goes into the archive if its queue keeps
-- history (JB-05). Claim by claim, so that the DELETE itself finds the held messages: a lock before it would write each row once more.
CREATE OR REPLACE FUNCTION hookwire.accept_held(ids bigint[], claims bigint[], queue text DEFAULT NULL) RETURNS SETOF bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
    held record;
BEGIN
    FOR held IN SELECT r.claim, array_agg(r.id ORDER BY r.id) AS ids FROM unnest(ids, claims) AS r(id, claim) GROUP BY r.claim ORDER BY r.claim LOOP
        RETURN QUERY SELECT unnest(hookwire.accept_claim(held.ids, held.claim, accept_held.queue));
    END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION hookwire.accept(ids bigint[], claim bigint) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
    accepted CONSTANT bigint[] := hookwire.accept_claim(ids, claim, NULL);
BEGIN
    IF cardinality(accepted) = cardinality(ids) THEN
        RETURN cardinality(accepted);
    END IF;
    RETURN hookwire.refuse_stale(ids, accepted, claim);
END
$$;
