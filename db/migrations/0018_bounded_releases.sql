-- Bound the releases that cost no attempt (ADR 65): at most 100 in a row, then the attempt fails. A worker that stops says so
-- with reason => 'stop', and is not counted. Nor is a snooze of 60 seconds or more, or one that waits for a token.
ALTER TABLE hookwire.jobs ADD COLUMN releases smallint DEFAULT 0 NOT NULL;
ALTER TABLE hookwire.messages ADD COLUMN releases smallint DEFAULT 0 NOT NULL;
ALTER TABLE hookwire.task_rows ADD COLUMN releases smallint DEFAULT 0 NOT NULL;
COMMENT ON COLUMN hookwire.jobs.releases IS 'How often in a row it was released or snoozed without an attempt.';
COMMENT ON COLUMN hookwire.messages.releases IS 'How often in a row it was returned without counting the delivery.';
COMMENT ON COLUMN hookwire.task_rows.releases IS 'How often in a row it was released without an attempt.';

CREATE FUNCTION hookwire.releases_max() RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN 100;
REVOKE EXECUTE ON FUNCTION hookwire.releases_max() FROM PUBLIC;

CREATE FUNCTION hookwire.release_limit_text() RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN 'released 100 times in a row without an attempt';
REVOKE EXECUTE ON FUNCTION hookwire.release_limit_text() FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.settle_failure(job hookwire.jobs, why text, for_good boolean, retry_seconds double precision) RETURNS text
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    policy CONSTANT hookwire.job_kinds := hookwire.job_policy(job.kind);
    failure CONSTANT jsonb := jsonb_build_object('attempt', job.attempts, 'error', left(why, 2000), 'worker', job.worker,
        'at', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'));
    moved hookwire.jobs;
BEGIN
    UPDATE hookwire.jobs j
    SET releases = 0, errors = CASE WHEN jsonb_array_length(j.errors) >= 20 THEN j.errors - 0 ELSE j.errors END || failure
    WHERE j.id = job.id;
    IF policy.automation <> 'mostly' AND (for_good OR job.attempts >= job.attempts_max) THEN
        PERFORM hookwire.end_jobs(ARRAY[job.id], 'discarded', NULL, why);
        RETURN 'discarded';
    END IF;
    UPDATE hookwire.jobs j
    SET state = CASE policy.automation WHEN 'mostly' THEN 'available' ELSE 'retryable' END, for_people = policy.automation = 'mostly',
        due_at = CASE WHEN policy.automation <> 'mostly' THEN clock_timestamp() + make_interval(secs => coalesce(
            retry_seconds, hookwire.job_backoff_seconds(j.attempts, policy) * (0.8 + 0.4 * random()))) END,
        claim = NULL, lease_until = NULL, run_until = NULL, number = j.number + 1
    WHERE j.id = job.id RETURNING j.* INTO moved;
    PERFORM hookwire.announce_jobs(ARRAY[moved]);
    RETURN moved.state;
END
$$;

CREATE OR REPLACE FUNCTION hookwire.snooze_job(id uuid, claim bigint, seconds double precision, token text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    job CONSTANT hookwire.jobs := hookwire.running_job(snooze_job.id, snooze_job.claim);
    is_counted CONSTANT boolean := seconds < 60 AND snooze_job.token IS NULL;
    moved hookwire.jobs;
BEGIN
    IF seconds NOT BETWEEN 0 AND 315360000 OR octet_length(snooze_job.token) NOT BETWEEN 16 AND 200 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'seconds is 0 to 315360000, a token has 16 to 200 bytes';
    END IF;
    IF job.is_cancelled THEN
        PERFORM hookwire.end_jobs(ARRAY[job.id], 'cancelled', NULL, 'cancelled while it ran');
        RETURN;
    END IF;
    IF is_counted AND job.releases >= hookwire.releases_max() THEN
        PERFORM hookwire.settle_failure(job, hookwire.release_limit_text(), false, NULL);
        RETURN;
    END IF;
    BEGIN
        UPDATE hookwire.jobs j
        SET state = 'scheduled', due_at = clock_timestamp() + make_interval(secs => seconds), attempts = j.attempts - 1, claim = NULL,
            lease_until = NULL, run_until = NULL, number = j.number + 1, token = snooze_job.token, resumed = NULL,
            releases = j.releases + is_counted::integer
        WHERE j.id = job.id RETURNING j.* INTO moved;
    EXCEPTION WHEN unique_violation THEN
        RAISE EXCEPTION USING ERRCODE = 'HW002', MESSAGE = 'another job waits for this token';
    END;
    PERFORM hookwire.announce_jobs(ARRAY[moved]);
END
$$;

CREATE OR REPLACE FUNCTION hookwire.fail_task(task_id text, of_claim bigint, why text, dead boolean DEFAULT false) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    found hookwire.task_rows;
    policy hookwire.task_kinds;
BEGIN
    SELECT t.* INTO found FROM hookwire.task_rows t WHERE t.id = task_id AND t.claim = of_claim FOR UPDATE;
    IF found.id IS NULL THEN
        RETURN 'stale';
    END IF;
    policy := hookwire.task_policy(found.kind);
    IF dead OR hookwire.task_is_worn(found.attempts, found.created_at, policy) THEN
        PERFORM hookwire.bury_tasks(ARRAY[task_id], coalesce(why, 'failed'));
        RETURN 'dead';
    END IF;
    UPDATE hookwire.task_rows t
    SET start_time = NULL, claim = NULL, worker = NULL, lease_until = NULL, last_error = left(why, 2000), releases = 0,
        due_at = clock_timestamp() + make_interval(secs => hookwire.task_backoff_seconds(found.attempts, policy) * (0.8 + 0.4 * random()))
    WHERE t.id = task_id;
    RETURN 'retry';
END
$$;

CREATE OR REPLACE FUNCTION hookwire.reject_held(ids bigint[], claims bigint[], queue text DEFAULT NULL::text, delay_seconds double precision DEFAULT 0, reason text DEFAULT NULL::text, dead boolean DEFAULT false, counts boolean DEFAULT true) RETURNS SETOF bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    in_queue CONSTANT text := reject_held.queue;
    in_reason CONSTANT text := left(reject_held.reason, 500);
    is_released CONSTANT boolean := NOT (counts OR dead);
    is_counted CONSTANT boolean := is_released AND in_reason IS DISTINCT FROM 'stop';
    held bigint[];
BEGIN
    IF delay_seconds NOT BETWEEN 0 AND 315360000 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'hookwire.reject: delay_seconds is 0 to 315360000';
    END IF;
    held := hookwire.held_messages(ids, claims, in_queue);
    RETURN QUERY
    WITH worn AS MATERIALIZED (
        SELECT m.id FROM hookwire.messages m LEFT JOIN hookwire.queues q ON q.name = m.queue
        WHERE m.id = ANY (held) AND (dead OR ((counts OR (is_counted AND m.releases >= hookwire.releases_max())) AND m.deliveries >= coalesce(q.deliveries_max, 5)))
    ), buried AS (
        DELETE FROM hookwire.messages m WHERE m.id = ANY (ARRAY(SELECT w.id FROM worn w)) RETURNING m.*
    ), letters AS (
        INSERT INTO hookwire.dead_messages (id, queue, created_at, died_at, deliveries, reason, priority, receiver, type, key,
                                            content_type, headers, payload)
        SELECT b.id, b.queue, b.created_at, clock_timestamp(), b.deliveries, coalesce(in_reason, CASE WHEN counts OR dead THEN 'rejected' ELSE hookwire.release_limit_text() END), b.priority,
               b.receiver, b.type, b.key, b.content_type, b.headers, b.payload
        FROM buried b
    ), returned AS (
        UPDATE hookwire.messages m
        SET claim = NULL, lease_until = NULL, claimed_at = NULL,
            last_reason = CASE WHEN is_counted AND m.releases >= hookwire.releases_max() THEN hookwire.release_limit_text() ELSE in_reason END,
            deliveries = m.deliveries - CASE WHEN is_counted AND m.releases >= hookwire.releases_max() THEN 0 ELSE is_released::integer END,
            releases = CASE WHEN NOT is_released OR (is_counted AND m.releases >= hookwire.releases_max()) THEN 0
                            ELSE m.releases + is_counted::integer END,
            due_at = CASE WHEN delay_seconds > 0 THEN clock_timestamp() + make_interval(secs => delay_seconds) END
        WHERE m.id = ANY (ARRAY(SELECT h FROM unnest(held) AS h EXCEPT SELECT w.id FROM worn w))
        RETURNING m.id
    )
    SELECT b.id FROM buried b UNION ALL SELECT r.id FROM returned r;
END
$$;

-- A function with one argument more is another function. A role that may execute the old one may execute the new one.
DO $$
DECLARE
    roles text[] := ARRAY(
        SELECT DISTINCT p.proname || ' TO ' || quote_ident(r.rolname)
        FROM pg_proc p, aclexplode(p.proacl) AS a JOIN pg_roles r ON r.oid = a.grantee
        WHERE p.pronamespace = 'hookwire'::regnamespace AND p.proname IN ('release_jobs', 'release_tasks') AND r.oid <> p.proowner);
    one text;
BEGIN
    DROP FUNCTION hookwire.release_jobs(uuid[], bigint[]);
    DROP FUNCTION hookwire.release_tasks(text[], bigint[]);
    EXECUTE $function$
CREATE FUNCTION hookwire.release_jobs(ids uuid[], claims bigint[], reason text DEFAULT NULL) RETURNS SETOF uuid
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $body$
#variable_conflict use_column
DECLARE
    held CONSTANT uuid[] := hookwire.held_jobs(ids, claims);
    cancelled CONSTANT uuid[] := ARRAY(SELECT j.id FROM hookwire.jobs j WHERE j.id = ANY (held) AND j.is_cancelled);
    is_counted CONSTANT boolean := release_jobs.reason IS DISTINCT FROM 'stop';
    tired hookwire.jobs;
    moved hookwire.jobs[];
BEGIN
    FOR tired IN
        SELECT j.* FROM hookwire.jobs j
        WHERE j.id = ANY (held) AND NOT j.is_cancelled AND is_counted AND j.releases >= hookwire.releases_max()
    LOOP
        PERFORM hookwire.settle_failure(tired, hookwire.release_limit_text(), false, NULL);
    END LOOP;
    WITH freed AS (
        UPDATE hookwire.jobs j SET state = 'available', claim = NULL, lease_until = NULL, run_until = NULL, attempts = j.attempts - 1,
            number = j.number + 1, releases = j.releases + is_counted::integer
        WHERE j.id = ANY (held) AND j.claim IS NOT NULL AND NOT j.is_cancelled RETURNING j.*
    )
    SELECT coalesce(array_agg(f), '{}') INTO moved FROM freed f;
    PERFORM hookwire.announce_jobs(moved);
    IF cancelled <> '{}' THEN
        PERFORM hookwire.end_jobs(cancelled, 'cancelled', NULL, 'cancelled while it ran');
    END IF;
    RETURN QUERY SELECT unnest(held);
END
$body$
    $function$;
    EXECUTE $function$
CREATE FUNCTION hookwire.release_tasks(ids text[], claims bigint[], reason text DEFAULT NULL) RETURNS SETOF text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $body$
#variable_conflict use_column
DECLARE
    held CONSTANT text[] := hookwire.held_tasks(ids, claims);
    is_counted CONSTANT boolean := release_tasks.reason IS DISTINCT FROM 'stop';
    tired CONSTANT text[] := ARRAY(
        SELECT t.id FROM hookwire.task_rows t WHERE t.id = ANY (held) AND is_counted AND t.releases >= hookwire.releases_max());
    freed CONSTANT text[] := ARRAY(SELECT h FROM unnest(held) AS h EXCEPT SELECT w FROM unnest(tired) AS w);
BEGIN
    PERFORM hookwire.fail_task(t.id, t.claim, hookwire.release_limit_text()) FROM hookwire.task_rows t WHERE t.id = ANY (tired);
    RETURN QUERY SELECT unnest(tired);
    RETURN QUERY
    UPDATE hookwire.task_rows t SET start_time = NULL, claim = NULL, worker = NULL, lease_until = NULL, attempts = t.attempts - 1,
        releases = t.releases + is_counted::integer
    WHERE t.id = ANY (freed) RETURNING t.id;
    PERFORM hookwire.notify_tasks(array_agg(t.id), array_agg((hookwire.task_policy(t.kind)).notify))
    FROM hookwire.task_rows t WHERE t.id = ANY (freed);
END
$body$
    $function$;
    REVOKE EXECUTE ON FUNCTION hookwire.release_jobs FROM PUBLIC;
    REVOKE EXECUTE ON FUNCTION hookwire.release_tasks FROM PUBLIC;
    FOREACH one IN ARRAY roles LOOP
        EXECUTE 'GRANT EXECUTE ON FUNCTION hookwire.' || one;
    END LOOP;
END
$$;
