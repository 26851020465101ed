-- Most claims are of small jobs. Their stored sizes are known when they are chosen, so their contents are not read again
-- and written as text only to be measured. A text is at most 32 times as long as its stored form, if that is not compressed.
CREATE OR REPLACE FUNCTION hookwire.take_jobs(kinds text[], most integer, worker text, lease_seconds double precision, queue text, bytes_max bigint DEFAULT hookwire.answer_bytes_max())
 RETURNS TABLE(id uuid, claim bigint, attempts integer, lease_until timestamp with time zone, run_until timestamp with time zone, kind text, args jsonb, key text, attempts_max integer, created_at timestamp with time zone, resumed jsonb)
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
DECLARE
    in_queue CONSTANT text := take_jobs.queue;
    in_worker CONSTANT text := left(take_jobs.worker, 200);
    in_lease CONSTANT double precision := take_jobs.lease_seconds;
    in_most CONSTANT integer := take_jobs.most;
    policy hookwire.job_kinds;
    one text;
    open_kinds text[] := '{}';
    picked uuid[] := '{}';
    more uuid[];
    bytes_left bigint := bytes_max;
    is_told boolean := false;
    fit boolean := false;
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
        ELSIF cardinality(picked) < in_most AND bytes_left > 0
          AND EXISTS (SELECT FROM hookwire.jobs j WHERE j.queue = in_queue AND j.kind = one AND j.state = 'available' AND NOT j.for_people)
          AND hookwire.lock_job_kind(one) THEN
            more := hookwire.pick_limited_jobs(policy, in_queue, in_most - cardinality(picked), bytes_left);
            bytes_left := bytes_left - (hookwire.jobs_within(more, bytes_left)).bytes;
            picked := picked || more;
        END IF;
    END LOOP;
    more := '{}';
    IF cardinality(picked) >= in_most OR bytes_left <= 0 THEN
        NULL;
    ELSIF cardinality(open_kinds) = 1 THEN
        one := open_kinds[1];
        SELECT coalesce(array_agg(p.id), '{}'), 32 * sum(p.bytes) <= bytes_left INTO more, fit FROM (
            SELECT j.id, CASE WHEN num_nonnulls(j.result, j.resumed, pg_column_compression(j.args), pg_column_compression(j.errors)) = 0
                              THEN pg_column_size(j.args) + pg_column_size(j.errors) ELSE bytes_max END AS bytes
            FROM hookwire.jobs j
            WHERE j.queue = in_queue AND j.kind = one AND j.state = 'available' AND NOT j.for_people
            ORDER BY j.rank_at, j.seq LIMIT in_most - cardinality(picked) FOR NO KEY UPDATE SKIP LOCKED) AS p;
    ELSIF open_kinds <> '{}' THEN
        -- Choose the best jobs of all kinds. Jobs that other claims have locked are skipped, so each kind offers more
        -- than are wanted.
        more := ARRAY(
            SELECT j.id FROM hookwire.jobs j
            WHERE j.state = 'available' AND j.id = ANY (ARRAY(
                SELECT c.id FROM unnest(open_kinds) AS k(kind) CROSS JOIN LATERAL (
                    SELECT j.id FROM hookwire.jobs j
                    WHERE j.queue = in_queue AND j.kind = k.kind AND j.state = 'available' AND NOT j.for_people
                    ORDER BY j.rank_at, j.seq LIMIT 4 * in_most
                ) AS c))
            ORDER BY j.rank_at, j.seq LIMIT in_most - cardinality(picked) FOR NO KEY UPDATE SKIP LOCKED);
    END IF;
    IF cardinality(more) > 1 AND NOT fit THEN
        more := more[1:(hookwire.jobs_within(more, bytes_left)).count];
    END IF;
    picked := picked || more;
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
$function$;
COMMENT ON FUNCTION hookwire.take_jobs(text[],integer,text,double precision,text,bigint) IS
'Claim jobs as `claim_jobs` does, up to so many bytes.';
