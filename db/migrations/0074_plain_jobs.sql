-- A job that only has a kind, arguments, a key and a queue takes a flat way. It is one INSERT, for a job or for all jobs
-- of a call. Three layers of functions with JSON between them cost three to seven times a raw INSERT.
CREATE FUNCTION hookwire.is_plain_kind(policy hookwire.job_kinds) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN coalesce((policy).automation NOT IN ('manual', 'mostly'), true) AND NOT coalesce('available' = ANY ((policy).events), false);
COMMENT ON FUNCTION hookwire.is_plain_kind(hookwire.job_kinds) IS
'Return whether no job of a kind goes to people, and none is announced when it is made.';
REVOKE EXECUTE ON FUNCTION hookwire.is_plain_kind(hookwire.job_kinds) FROM PUBLIC;

CREATE FUNCTION hookwire.is_plain_draft(kind text, args jsonb, key text, queue text) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN hookwire.is_queue_name(kind) AND (queue IS NULL OR hookwire.is_queue_name(queue)) AND coalesce(octet_length(key) <= 1024, true)
    AND hookwire.is_readable_json(args) AND coalesce(octet_length(args::text) <= 1048576, true);
COMMENT ON FUNCTION hookwire.is_plain_draft(text, jsonb, text, text) IS
'Return whether a job of these members alone would be accepted. If not, check_job_draft says why.';
REVOKE EXECUTE ON FUNCTION hookwire.is_plain_draft(text, jsonb, text, text) FROM PUBLIC;

CREATE FUNCTION hookwire.add_plain_job(kind text, args jsonb, key text, queue text, actor text) RETURNS uuid
LANGUAGE plpgsql AS $function$
#variable_conflict use_variable
DECLARE
    policy CONSTANT hookwire.job_kinds := hookwire.job_policy(kind);
    moment CONSTANT timestamptz := clock_timestamp();
    house hookwire.installation;
    made uuid;
BEGIN
    SELECT i.* INTO house FROM hookwire.installation i;
    IF hookwire.is_plain_kind(policy) AND hookwire.is_plain_draft(kind, args, key, queue)
       AND (house.kinds_auto_create OR (SELECT k.kind FROM hookwire.job_kinds k WHERE k.kind = add_plain_job.kind) IS NOT NULL) THEN
        INSERT INTO hookwire.jobs AS j
            (kind, queue, state, args, key, rank_at, deadline_at, attempts_max, run_seconds, number, created_by, created_at)
        VALUES (kind, coalesce(queue, 'default'), 'available', coalesce(nullif(args, 'null'), '{}'), coalesce(key, ''), moment,
            moment + make_interval(secs => policy.deadline_seconds::double precision), policy.attempts_max, policy.run_seconds, 1,
            hookwire.with_role(actor), moment)
        RETURNING j.id INTO made;
        IF house.sql_notify THEN
            PERFORM pg_notify('hookwire_jobs', '');
        END IF;
    END IF;
    RETURN made;
END
$function$;
COMMENT ON FUNCTION hookwire.add_plain_job(text, jsonb, text, text, text) IS
'Enqueue a job that only has a kind, arguments, a key and a queue, and return its id. Return NULL if it needs more, or
would be refused: add_jobs does that, or says why.';
REVOKE EXECUTE ON FUNCTION hookwire.add_plain_job(text, jsonb, text, text, text) FROM PUBLIC;

CREATE FUNCTION hookwire.add_plain_jobs(drafts jsonb, actor text)
RETURNS TABLE (n integer, id uuid, outcome text, state text)
LANGUAGE plpgsql AS $function$
#variable_conflict use_column
DECLARE
    all_members CONSTANT text[] := '{kind,args,key,queue,uniq,uniq_seconds,on_conflict,priority,due_at,delay_seconds,due_local,due_zone,attempts_max,run_seconds,deadline_seconds,callbacks,assignee}';
    plain_members CONSTANT text[] := '{kind,args,key,queue}';
    creator CONSTANT text := hookwire.with_role(actor);
    house hookwire.installation;
    policies hookwire.job_kinds[];
BEGIN
    IF NOT coalesce((
        SELECT bool_and(CASE WHEN jsonb_typeof(d.draft) = 'object' THEN
            d.draft - all_members = '{}' AND jsonb_strip_nulls(d.draft - plain_members) = '{}'
            AND hookwire.is_plain_draft(d.draft->>'kind', d.draft->'args', d.draft->>'key', d.draft->>'queue')
        ELSE false END) FROM jsonb_array_elements(drafts) AS d(draft)), false) THEN
        RETURN;
    END IF;
    SELECT i.* INTO house FROM hookwire.installation i;
    policies := ARRAY(SELECT hookwire.job_policy(k.kind) FROM (SELECT DISTINCT d.draft->>'kind' AS kind FROM jsonb_array_elements(drafts) AS d(draft)) AS k);
    IF NOT (SELECT bool_and(hookwire.is_plain_kind(p)) FROM unnest(policies) AS p)
       OR NOT house.kinds_auto_create AND EXISTS (
           SELECT FROM unnest(policies) AS p WHERE (SELECT k.kind FROM hookwire.job_kinds k WHERE k.kind = p.kind) IS NULL) THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH draft AS MATERIALIZED (
        SELECT d.n::integer AS n, gen_random_uuid() AS id, clock_timestamp() AS created_at, d.draft
        FROM jsonb_array_elements(drafts) WITH ORDINALITY AS d(draft, n)
    ), made AS (
        INSERT INTO hookwire.jobs
            (id, kind, queue, state, args, key, rank_at, deadline_at, attempts_max, run_seconds, number, created_by, created_at)
        SELECT d.id, p.kind, coalesce(d.draft->>'queue', 'default'), 'available', coalesce(nullif(d.draft->'args', 'null'), '{}'),
            coalesce(d.draft->>'key', ''), d.created_at, d.created_at + make_interval(secs => p.deadline_seconds::double precision),
            p.attempts_max, p.run_seconds, 1, creator, d.created_at
        FROM draft d JOIN unnest(policies) AS p ON p.kind = d.draft->>'kind'
        ORDER BY d.n
    )
    SELECT d.n, d.id, 'made', 'available' FROM draft d ORDER BY d.n;
    IF house.sql_notify THEN
        PERFORM pg_notify('hookwire_jobs', '');
    END IF;
END
$function$;
COMMENT ON FUNCTION hookwire.add_plain_jobs(jsonb, text) IS
'Enqueue jobs that only have a kind, arguments, a key and a queue, by one INSERT. Return no row if one of them needs more,
or would be refused: add_jobs goes on with all of them then.';
REVOKE EXECUTE ON FUNCTION hookwire.add_plain_jobs(jsonb, text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.add_jobs(drafts jsonb, actor text DEFAULT NULL::text)
 RETURNS TABLE(n integer, id uuid, outcome text, state text)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
DECLARE
    draft jsonb;
    policy hookwire.job_kinds;
    job hookwire.jobs;
    due timestamptz;
    made hookwire.jobs[] := '{}';
BEGIN
    IF jsonb_typeof(drafts) <> 'array' OR jsonb_array_length(drafts) > 10000 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'hookwire.enqueue: jobs are a JSON array of at most 10000';
    END IF;
    RETURN QUERY SELECT p.n, p.id, p.outcome, p.state FROM hookwire.add_plain_jobs(drafts, actor) AS p;
    IF FOUND THEN
        RETURN;
    END IF;
    FOR n, draft IN SELECT d.n, d.draft FROM jsonb_array_elements(drafts) WITH ORDINALITY AS d(draft, n) LOOP
        PERFORM hookwire.check_job_draft(draft);
        IF policy.kind IS DISTINCT FROM draft->>'kind' THEN
            policy := hookwire.job_policy(draft->>'kind');
        END IF;
        job := NULL;
        job.id := gen_random_uuid();
        job.seq := n;                                -- the order of announcements; the row draws its own
        job.number := 1;
        job.kind := draft->>'kind';
        job.queue := coalesce(draft->>'queue', 'default');
        job.args := coalesce(nullif(draft->'args', 'null'), '{}');
        job.key := coalesce(draft->>'key', '');
        job.uniq := CASE draft->>'uniq' WHEN '-' THEN encode(sha256(convert_to(job.args::text, 'UTF8')), 'hex') ELSE draft->>'uniq' END;
        job.priority := coalesce((draft->>'priority')::smallint, 0);
        job.created_at := clock_timestamp();
        job.created_by := hookwire.with_role(actor);
        due := hookwire.job_due(draft, job.created_at);
        IF due > job.created_at THEN
            job.due_at := due;
            job.due_local := (draft->>'due_local')::timestamp;
            job.due_zone := draft->>'due_zone';
        END IF;
        job.assignee := draft->>'assignee';
        job.for_people := job.assignee IS NOT NULL OR hookwire.job_is_for_people(job.id, job.args, policy);
        job.state := CASE WHEN job.due_at IS NOT NULL THEN 'scheduled' WHEN job.assignee IS NOT NULL THEN 'assigned' ELSE 'available' END;
        job.rank_at := greatest(due, job.created_at) - make_interval(secs => job.priority * policy.ageing_seconds);
        job.deadline_at := job.created_at + make_interval(secs => coalesce((draft->>'deadline_seconds')::double precision, policy.deadline_seconds));
        job.attempts_max := coalesce((draft->>'attempts_max')::integer, policy.attempts_max);
        job.run_seconds := coalesce((draft->>'run_seconds')::real, policy.run_seconds);
        SELECT a.id, a.outcome, a.state INTO id, outcome, state FROM hookwire.add_job(job, draft) AS a;
        IF outcome <> 'skipped' AND coalesce(draft->'callbacks', 'null') NOT IN ('null', '{}') THEN
            INSERT INTO hookwire.job_requests (job_id, requester, callbacks) VALUES (id, left(actor, 200), draft->'callbacks');
        END IF;
        IF outcome = 'made' THEN
            made := made || job;
        END IF;
        RETURN NEXT;
    END LOOP;
    PERFORM hookwire.announce_jobs(made);
    IF made <> '{}' AND (SELECT i.sql_notify FROM hookwire.installation i) THEN
        PERFORM pg_notify('hookwire_jobs', '');
    END IF;
END
$function$;
COMMENT ON FUNCTION hookwire.add_jobs(jsonb,text) IS
'Enqueue jobs in the caller''s transaction: each is made, merged, replaced or skipped. A draft is what POST /jobs
takes. A draft whose (kind, uniq) is live attaches to that job, which cannot end before this transaction. A job that
is due at once keeps no date.';

CREATE OR REPLACE FUNCTION hookwire.enqueue(kind text, args jsonb DEFAULT '{}'::jsonb, uniq text DEFAULT NULL::text, key text DEFAULT NULL::text, queue text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, due_at timestamp with time zone DEFAULT NULL::timestamp with time zone, delay_seconds double precision DEFAULT NULL::double precision, attempts_max integer DEFAULT NULL::integer, run_seconds double precision DEFAULT NULL::double precision, deadline_seconds double precision DEFAULT NULL::double precision, assignee text DEFAULT NULL::text, on_conflict text DEFAULT NULL::text, callbacks jsonb DEFAULT NULL::jsonb, requester text DEFAULT NULL::text)
 RETURNS uuid
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
DECLARE
    made CONSTANT uuid := CASE
        WHEN num_nonnulls(uniq, priority, due_at, delay_seconds, attempts_max, run_seconds, deadline_seconds, assignee, on_conflict, callbacks) = 0
            THEN hookwire.add_plain_job(kind, args, key, queue, requester)
    END;
BEGIN
    IF made IS NOT NULL THEN
        RETURN made;
    END IF;
    RETURN (SELECT a.id FROM hookwire.add_jobs(jsonb_build_array(jsonb_strip_nulls(jsonb_build_object(
        'kind', enqueue.kind, 'uniq', enqueue.uniq, 'key', enqueue.key, 'queue', enqueue.queue, 'priority', enqueue.priority,
        'due_at', enqueue.due_at, 'delay_seconds', enqueue.delay_seconds, 'attempts_max', enqueue.attempts_max,
        'run_seconds', enqueue.run_seconds, 'deadline_seconds', enqueue.deadline_seconds, 'assignee', enqueue.assignee,
        'on_conflict', enqueue.on_conflict, 'callbacks', enqueue.callbacks)) || jsonb_build_object('args', enqueue.args)),
        enqueue.requester) AS a);
END
$function$;
COMMENT ON FUNCTION hookwire.enqueue(text,jsonb,text,text,text,integer,timestamp with time zone,double precision,integer,double precision,double precision,text,text,jsonb,text) IS
'Enqueue one job in the caller''s transaction. Return its id, or that of the live job with the same uniq. `uniq` ''-''
stands for the args.';
