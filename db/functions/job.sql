-- SQL functions as all migrations together make them. Written by `make schema`, never by hand.

CREATE OR REPLACE FUNCTION hookwire.act_on_due_job(job hookwire.jobs)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
    moved hookwire.jobs;
BEGIN
    UPDATE hookwire.jobs j
    SET due_at = NULL, on_due = NULL, number = j.number + 1,
        assignee = CASE job.on_due WHEN 'unassign' THEN NULL WHEN 'escalate' THEN coalesce((hookwire.job_policy(j.kind)).escalate_to, j.assignee) ELSE j.assignee END,
        state = CASE job.on_due WHEN 'unassign' THEN 'available' ELSE 'assigned' END
    WHERE j.id = job.id RETURNING j.* INTO moved;
    PERFORM hookwire.note_job(job.id, coalesce(job.on_due, 'remind'), 'keeper', concat_ws(' to ', 'due; from ' || job.assignee, moved.assignee));
    PERFORM hookwire.announce_jobs(ARRAY[moved], 'due', 'keeper');
END
$function$;
COMMENT ON FUNCTION hookwire.act_on_due_job(hookwire.jobs) IS
'Act on the due date of an assigned job.';
REVOKE EXECUTE ON FUNCTION hookwire.act_on_due_job(hookwire.jobs) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.add_callbacks(drafts jsonb[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
    portion CONSTANT integer := 10000;
BEGIN
    IF NOT (SELECT i.kinds_auto_create FROM hookwire.installation i) THEN
        INSERT INTO hookwire.job_kinds (kind)
        SELECT DISTINCT d->>'kind' AS kind FROM unnest(drafts) AS d ORDER BY kind ON CONFLICT DO NOTHING;
    END IF;
    FOR n IN 1..cardinality(drafts) BY portion LOOP
        PERFORM hookwire.add_jobs(to_jsonb(drafts[n : n + portion - 1]), 'callback');
    END LOOP;
END
$function$;
COMMENT ON FUNCTION hookwire.add_callbacks(jsonb[]) IS
'Enqueue accepted callbacks, in portions that add_jobs takes. Their kinds have rows, so that no later setting refuses
them: otherwise the job could not change its state.';
REVOKE EXECUTE ON FUNCTION hookwire.add_callbacks(jsonb[]) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.add_job(job hookwire.jobs, draft jsonb, OUT id uuid, OUT outcome text, OUT state text)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
    on_conflict CONSTANT text := coalesce(draft->>'on_conflict', 'merge');
BEGIN
    FOR tries IN 1..10 LOOP
        SELECT a.id, 'skipped', a.state INTO id, outcome, state FROM hookwire.job_archive a
        WHERE job.uniq IS NOT NULL AND a.kind = job.kind AND a.uniq = job.uniq
          AND a.ended_at > job.created_at - make_interval(secs => (draft->>'uniq_seconds')::double precision) LIMIT 1;
        EXIT WHEN id IS NOT NULL;
        INSERT INTO hookwire.jobs AS j (id, kind, queue, state, for_people, args, key, uniq, priority, rank_at, due_at, due_local,
            due_zone, deadline_at, attempts_max, run_seconds, assignee, number, created_by, created_at)
        VALUES (job.id, job.kind, job.queue, job.state, job.for_people, job.args, job.key, job.uniq, job.priority, job.rank_at,
            job.due_at, job.due_local, job.due_zone, job.deadline_at, job.attempts_max, job.run_seconds, job.assignee, 1,
            job.created_by, job.created_at)
        ON CONFLICT (kind, uniq) WHERE uniq IS NOT NULL DO NOTHING
        RETURNING j.id, 'made', j.state INTO id, outcome, state;
        EXIT WHEN id IS NOT NULL;
        SELECT j.id, 'merged', j.state INTO id, outcome, state FROM hookwire.jobs j
        WHERE j.kind = job.kind AND j.uniq = job.uniq FOR KEY SHARE;
        EXIT WHEN id IS NOT NULL;
    END LOOP;
    IF id IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'lock_not_available', MESSAGE = format('jobs of the kind %s with the same uniq come and go', job.kind);
    ELSIF outcome <> 'made' AND on_conflict = 'error' THEN
        RAISE EXCEPTION USING ERRCODE = 'HW002', MESSAGE = format('the job %s has the same kind and uniq', id);
    ELSIF outcome = 'merged' AND on_conflict = 'skip' THEN
        outcome := 'skipped';
    ELSIF outcome = 'merged' AND on_conflict = 'replace' THEN
        UPDATE hookwire.jobs j SET args = job.args, key = job.key, queue = job.queue, priority = job.priority, rank_at = job.rank_at,
            due_at = job.due_at, due_local = job.due_local, due_zone = job.due_zone, state = job.state, for_people = job.for_people,
            assignee = job.assignee, deadline_at = job.deadline_at, attempts_max = job.attempts_max, run_seconds = job.run_seconds,
            number = j.number + 1
        WHERE j.id = add_job.id AND j.state IN ('scheduled', 'available') AND j.attempts = 0
        RETURNING 'replaced', j.state INTO outcome, state;
        outcome := coalesce(outcome, 'merged');      -- it has begun: the request attaches to it
    END IF;
    SELECT coalesce(add_job.state, j.state) INTO state FROM (SELECT) AS s LEFT JOIN hookwire.jobs j ON j.id = add_job.id;
END
$function$;
COMMENT ON FUNCTION hookwire.add_job(hookwire.jobs,jsonb) IS
'Add one job. If (kind, uniq) is live or was recently, `on_conflict` of the draft decides.';
REVOKE EXECUTE ON FUNCTION hookwire.add_job(hookwire.jobs,jsonb) FROM PUBLIC;

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

CREATE OR REPLACE FUNCTION hookwire.add_plain_job(kind text, args jsonb, key text, queue text, actor text)
 RETURNS uuid
 LANGUAGE plpgsql
AS $function$
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
COMMENT ON FUNCTION hookwire.add_plain_job(text,jsonb,text,text,text) IS
'Enqueue a job that only has a kind, arguments, a key and a queue, and return its id. Return NULL if it needs more, or
would be refused: add_jobs does that, or says why.';
REVOKE EXECUTE ON FUNCTION hookwire.add_plain_job(text,jsonb,text,text,text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.add_plain_jobs(drafts jsonb, actor text)
 RETURNS TABLE(n integer, id uuid, outcome text, state text)
 LANGUAGE plpgsql
AS $function$
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
COMMENT ON FUNCTION hookwire.add_plain_jobs(jsonb,text) IS
'Enqueue jobs that only have a kind, arguments, a key and a queue, by one INSERT. Return no row if one of them needs more,
or would be refused: add_jobs goes on with all of them then.';
REVOKE EXECUTE ON FUNCTION hookwire.add_plain_jobs(jsonb,text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.admit_job_rule(rule jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    PERFORM hookwire.check_job_draft(rule);
    INSERT INTO hookwire.job_kinds (kind)
    SELECT rule->>'kind' UNION SELECT c.value FROM jsonb_each_text(nullif(rule->'callbacks', 'null')) AS c ON CONFLICT DO NOTHING;
END
$function$;
COMMENT ON FUNCTION hookwire.admit_job_rule(jsonb) IS
'Refuse a rule as a job would be refused. Its kinds have rows from now on, so that no setting refuses its jobs later.';
REVOKE EXECUTE ON FUNCTION hookwire.admit_job_rule(jsonb) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.announce_jobs(changed hookwire.jobs[], in_state text DEFAULT NULL::text, actor text DEFAULT NULL::text, results_of uuid[] DEFAULT NULL::uuid[], results jsonb[] DEFAULT NULL::jsonb[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
    topics text[];
    bodies jsonb[];
    follow_ups jsonb[];
BEGIN
    IF changed = '{}' THEN
        RETURN;
    END IF;
    WITH policies AS MATERIALIZED (
        SELECT k.kind, (hookwire.job_policy(k.kind)).events FROM (SELECT DISTINCT j.kind FROM unnest(changed) AS j) AS k
    ), body AS MATERIALIZED (
        SELECT j.id, j.kind, j.seq, c.is_called_back, coalesce(in_state, j.state) AS state,
               coalesce(in_state, j.state) = ANY (p.events) AS is_published,
               jsonb_strip_nulls(jsonb_build_object(
                   'id', j.id, 'kind', j.kind, 'state', coalesce(in_state, j.state), 'number', j.number + (results_of IS NOT NULL)::integer, 'attempts', j.attempts,
                   'assignee', j.assignee, 'by', coalesce(actor, j.worker),
                   'at', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
                   'progress', CASE WHEN in_state = 'progress' THEN jsonb_build_array(j.progress_done, j.progress_total) END,
                   'error', CASE WHEN coalesce(in_state, j.state) IN ('retryable', 'discarded') THEN j.errors -> -1 ->> 'error' END))
               || CASE WHEN hookwire.is_told_result(coalesce(r.result, j.result)) THEN jsonb_build_object('result', coalesce(r.result, j.result)) ELSE '{}' END AS body
        FROM unnest(changed) AS j JOIN policies p ON p.kind = j.kind
        CROSS JOIN LATERAL (
            SELECT (SELECT q.number FROM hookwire.job_requests q WHERE q.job_id = j.id LIMIT 1) IS NOT NULL AS is_called_back
        ) AS c
        LEFT JOIN unnest(results_of, results) AS r(id, result) ON r.id = j.id
        WHERE coalesce(in_state, j.state) = ANY (p.events) OR c.is_called_back
    )
    SELECT array_agg('hookwire.job.' || b.kind || '.' || b.state ORDER BY b.seq) FILTER (WHERE b.is_published),
           array_agg(b.body ORDER BY b.seq) FILTER (WHERE b.is_published),
           (SELECT array_agg(jsonb_build_object('kind', hooks.kind, 'args', c.body || jsonb_strip_nulls(jsonb_build_object('requester', r.requester)))
                             ORDER BY r.number)
            FROM body c
            CROSS JOIN LATERAL (SELECT q.* FROM hookwire.job_requests q WHERE q.job_id = c.id OFFSET 0) AS r
            CROSS JOIN LATERAL (VALUES
                (r.callbacks->>'on_status'),
                (CASE WHEN c.state = 'completed' THEN r.callbacks->>'on_complete' END),
                (CASE WHEN c.state = 'retryable' THEN r.callbacks->>'on_retry' END),
                (CASE WHEN c.state = 'discarded' THEN r.callbacks->>'on_fail' END)) AS hooks(kind)
            WHERE c.is_called_back AND hooks.kind IS NOT NULL)
    INTO topics, bodies, follow_ups FROM body b;
    IF topics IS NOT NULL THEN
        PERFORM hookwire.publish_batch(
            'default', array_fill(1, size), topics, array_fill(NULL::text, size), array_fill('application/json'::text, size),
            array_fill('{}'::text, size), ARRAY(SELECT convert_to(b::text, 'UTF8') FROM unnest(bodies) AS b),
            array_fill(NULL::text, size), array_fill(NULL::bytea, size), true)
        FROM (SELECT ARRAY[cardinality(topics)] AS size) AS s;
        IF (SELECT i.sql_notify FROM hookwire.installation i) THEN
            PERFORM pg_notify('hookwire_outbox', '');
        END IF;
    END IF;
    IF follow_ups IS NOT NULL THEN
        PERFORM hookwire.add_callbacks(follow_ups);
    END IF;
END
$function$;
COMMENT ON FUNCTION hookwire.announce_jobs(hookwire.jobs[],text,text,uuid[],jsonb[]) IS
'Announce jobs that have just changed their state: publish the events of their kind, and enqueue the callbacks of their
requests. A body is small: a result of more than 64 KiB is left to GET /jobs/{id}. Ended jobs are passed as they were,
with their results.';
REVOKE EXECUTE ON FUNCTION hookwire.announce_jobs(hookwire.jobs[],text,text,uuid[],jsonb[]) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.approve_job(id uuid, actor text, why text DEFAULT NULL::text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
DECLARE
    job CONSTANT hookwire.jobs := hookwire.locked_job(approve_job.id, 'approve', '{review}');
BEGIN
    PERFORM hookwire.check_reviewer(job, actor);
    PERFORM hookwire.note_job(job.id, 'approve', actor, why);
    PERFORM hookwire.end_jobs(ARRAY[job.id], 'completed', NULL, why, actor);
END
$function$;
COMMENT ON FUNCTION hookwire.approve_job(uuid,text,text) IS
'Approve a job that waits for its review: it ends.';
REVOKE EXECUTE ON FUNCTION hookwire.approve_job(uuid,text,text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.assign_job(id uuid, assignee text, actor text, due_at timestamp with time zone DEFAULT NULL::timestamp with time zone, on_due text DEFAULT NULL::text, why text DEFAULT NULL::text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
DECLARE
    job CONSTANT hookwire.jobs := hookwire.locked_job(assign_job.id, 'assign', '{available}');
    moved hookwire.jobs;
BEGIN
    IF NOT hookwire.is_person(assign_job.assignee) THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'assignee is 1-200 printable bytes';
    END IF;
    IF NOT hookwire.is_bounded_time(assign_job.due_at) OR assign_job.due_at > clock_timestamp() + interval '200 years' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'due_at is within 200 years, in the year 1 or later';
    END IF;
    UPDATE hookwire.jobs j
    SET state = 'assigned', assignee = assign_job.assignee, for_people = true, due_at = assign_job.due_at,
        on_due = CASE WHEN assign_job.due_at IS NOT NULL THEN coalesce(assign_job.on_due, 'remind') END, number = j.number + 1
    WHERE j.id = job.id RETURNING j.* INTO moved;
    PERFORM hookwire.note_job(job.id, 'assign', actor, concat_ws(': ', 'to ' || moved.assignee, why));
    PERFORM hookwire.announce_jobs(ARRAY[moved], NULL, actor);
END
$function$;
COMMENT ON FUNCTION hookwire.assign_job(uuid,text,text,timestamp with time zone,text,text) IS
'Assign a job of the pool: compare-and-set, so an assigned job is refused. `on_due` acts at the due date.';
REVOKE EXECUTE ON FUNCTION hookwire.assign_job(uuid,text,text,timestamp with time zone,text,text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.available_kinds(in_queue text)
 RETURNS text[]
 LANGUAGE plpgsql
 STABLE
AS $function$
DECLARE
    found text[] := '{}';
    next_kind text := '';
BEGIN
    LOOP
        SELECT j.kind INTO next_kind FROM hookwire.jobs j
        WHERE j.queue = in_queue AND j.kind > next_kind AND j.state = 'available' AND NOT j.for_people
        ORDER BY j.kind LIMIT 1;
        EXIT WHEN next_kind IS NULL OR cardinality(found) >= 1000;
        found := found || next_kind;
    END LOOP;
    RETURN found;
END
$function$;
COMMENT ON FUNCTION hookwire.available_kinds(text) IS
'Return the kinds of a queue that have available jobs for workers.';
REVOKE EXECUTE ON FUNCTION hookwire.available_kinds(text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.cancel_job(id uuid, actor text, why text DEFAULT NULL::text, grace_seconds double precision DEFAULT 30)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
DECLARE
    job CONSTANT hookwire.jobs := hookwire.locked_job(cancel_job.id, 'cancel', '{scheduled,available,assigned,running,review,retryable}');
BEGIN
    IF grace_seconds NOT BETWEEN 0 AND 43200 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'grace_seconds is 0 to 43200';
    END IF;
    PERFORM hookwire.note_job(job.id, 'cancel', actor, why);
    IF job.state <> 'running' THEN
        PERFORM hookwire.end_jobs(ARRAY[job.id], 'cancelled', NULL, why, actor);
        RETURN 'cancelled';
    END IF;
    UPDATE hookwire.jobs j SET is_cancelled = true, lease_until = least(j.lease_until, clock_timestamp() + make_interval(secs => grace_seconds))
    WHERE j.id = job.id AND NOT j.is_cancelled;
    RETURN 'running';
END
$function$;
COMMENT ON FUNCTION hookwire.cancel_job(uuid,text,text,double precision) IS
'Cancel a job. If it runs, it is asked to stop: its worker learns of it by its next heartbeat, and after
`grace_seconds` its claim ends. Returns the state.';
REVOKE EXECUTE ON FUNCTION hookwire.cancel_job(uuid,text,text,double precision) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.check_job_draft(draft jsonb)
 RETURNS void
 LANGUAGE plpgsql
 STABLE
AS $function$
DECLARE
    wrong text;
    unknown text;
BEGIN
    wrong := CASE
        WHEN jsonb_typeof(draft) <> 'object' THEN 'a job is a JSON object'
        WHEN draft - ARRAY['kind', 'args', 'uniq', 'uniq_seconds', 'on_conflict', 'key', 'queue', 'priority', 'due_at', 'delay_seconds',
                           'due_local', 'due_zone', 'attempts_max', 'run_seconds', 'deadline_seconds', 'callbacks', 'assignee'] <> '{}'
            THEN format('unknown members in the job %s', left(draft::text, 200))
        WHEN NOT hookwire.is_queue_name(draft->>'kind')
            THEN format('invalid kind %L: 1-200 of A-Z a-z 0-9 . _ - in dot-separated words', left(draft->>'kind', 80))
        WHEN draft->>'queue' IS NOT NULL AND NOT hookwire.is_queue_name(draft->>'queue')
            THEN format('invalid queue %L: 1-200 of A-Z a-z 0-9 . _ - in dot-separated words', left(draft->>'queue', 80))
        WHEN draft->>'uniq' = '' OR octet_length(draft->>'uniq') > 1024 OR octet_length(draft->>'key') > 1024
            THEN 'uniq is 1-1024 bytes, key at most 1024'
        WHEN draft->>'assignee' IS NOT NULL AND NOT hookwire.is_person(draft->>'assignee') THEN 'assignee is 1-200 printable bytes'
        WHEN (draft->>'priority')::numeric NOT BETWEEN -1000 AND 1000 THEN 'priority is -1000 to 1000'
        WHEN (draft->>'delay_seconds')::double precision NOT BETWEEN 0 AND 315360000 THEN 'delay_seconds is 0 to 315360000'
        WHEN (draft->>'attempts_max')::numeric NOT BETWEEN 1 AND 1000000 THEN 'attempts_max is 1 to 1000000'
        WHEN (draft->>'run_seconds')::double precision NOT BETWEEN 0.05 AND 2592000 THEN 'run_seconds is 0.05 to 2592000'
        WHEN (draft->>'deadline_seconds')::double precision NOT BETWEEN 0.05 AND 315360000 THEN 'deadline_seconds is 0.05 to 315360000'
        WHEN (draft->>'uniq_seconds')::double precision NOT BETWEEN 0 AND 315360000 THEN 'uniq_seconds is 0 to 315360000'
        WHEN draft->>'on_conflict' NOT IN ('merge', 'replace', 'skip', 'error') THEN 'on_conflict is merge, replace, skip or error'
        WHEN num_nonnulls(draft->>'due_local', draft->>'due_zone') = 1 THEN 'due_local and due_zone are given together'
        WHEN nullif(draft->'callbacks', 'null') IS NOT NULL AND (
            jsonb_typeof(draft->'callbacks') <> 'object'
            OR (draft->'callbacks') - ARRAY['on_status', 'on_complete', 'on_retry', 'on_fail'] <> '{}'
            OR EXISTS (SELECT FROM jsonb_each_text(draft->'callbacks') c WHERE NOT hookwire.is_queue_name(c.value)))
            THEN 'callbacks is an object of on_status, on_complete, on_retry, on_fail; each names a kind'
        WHEN NOT hookwire.is_readable_json(draft->'args')
            THEN 'args are nested deeper than 64, or hold a number of more than 1,000 digits'
    END;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'hookwire.enqueue: ' || wrong;
    END IF;
    IF octet_length((draft->'args')::text) > 1048576 THEN
        RAISE EXCEPTION USING ERRCODE = 'HW003', MESSAGE = 'hookwire.enqueue: args are larger than 1 MiB',
            HINT = 'Store large content elsewhere and enqueue a link.';
    END IF;
    PERFORM hookwire.job_due(draft, now());
    IF NOT (SELECT i.kinds_auto_create FROM hookwire.installation i) THEN
        SELECT n.kind INTO unknown
        FROM (SELECT draft->>'kind' AS kind UNION ALL SELECT c.value FROM jsonb_each_text(nullif(draft->'callbacks', 'null')) AS c) AS n
        WHERE (SELECT k.kind FROM hookwire.job_kinds k WHERE k.kind = n.kind) IS NULL LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('unknown kind %L', unknown),
                HINT = 'Make it with PUT /jobs/kinds/{kind}, or set HOOKWIRE_KINDS_AUTO_CREATE.';
        END IF;
    END IF;
END
$function$;
COMMENT ON FUNCTION hookwire.check_job_draft(jsonb) IS
'Refuse a draft of a job that the tables or workers could not carry.';
REVOKE EXECUTE ON FUNCTION hookwire.check_job_draft(jsonb) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.check_job_result(result jsonb)
 RETURNS void
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
DECLARE
    why CONSTANT text := hookwire.why_no_result(result);
BEGIN
    IF why IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = CASE WHEN octet_length(result::text) > 1048576 THEN 'HW003' ELSE '22023' END, MESSAGE = why,
            HINT = 'Store large content elsewhere and return a link.';
    END IF;
END
$function$;
COMMENT ON FUNCTION hookwire.check_job_result(jsonb) IS
'Refuse a result that is too large, or nested too deep.';
REVOKE EXECUTE ON FUNCTION hookwire.check_job_result(jsonb) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.check_reviewer(job hookwire.jobs, actor text)
 RETURNS void
 LANGUAGE plpgsql
 STABLE
AS $function$
BEGIN
    IF job.state = 'review' AND job.performer = actor AND (hookwire.job_policy(job.kind)).reviewer_differs THEN
        RAISE EXCEPTION USING ERRCODE = 'HW002', MESSAGE = format('%s has done the job %s; another person reviews it', actor, job.id);
    END IF;
END
$function$;
COMMENT ON FUNCTION hookwire.check_reviewer(hookwire.jobs,text) IS
'Raise if this actor may not review the job: its review is a second person''s duty.';
REVOKE EXECUTE ON FUNCTION hookwire.check_reviewer(hookwire.jobs,text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.claim_jobs(kinds text[], most integer, worker text, lease_seconds double precision DEFAULT NULL::double precision, queue text DEFAULT 'default'::text)
 RETURNS TABLE(id uuid, claim bigint, attempts integer, lease_until timestamp with time zone, run_until timestamp with time zone, kind text, args jsonb, key text, attempts_max integer, created_at timestamp with time zone, resumed jsonb)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
BEGIN
    RETURN QUERY SELECT * FROM hookwire.take_jobs(claim_jobs.kinds, claim_jobs.most, claim_jobs.worker, claim_jobs.lease_seconds, claim_jobs.queue);
END
$function$;
COMMENT ON FUNCTION hookwire.claim_jobs(text[],integer,text,double precision,text) IS
'Claim up to `most` jobs of these kinds (NULL: all) for a worker, by priority and age. The attempt counts from here.';
REVOKE EXECUTE ON FUNCTION hookwire.claim_jobs(text[],integer,text,double precision,text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.complete_job(id uuid, claim bigint, result jsonb DEFAULT NULL::jsonb, events jsonb DEFAULT NULL::jsonb, jobs jsonb DEFAULT NULL::jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
BEGIN
    IF NOT EXISTS (SELECT FROM hookwire.complete_jobs(ARRAY[complete_job.id], ARRAY[complete_job.claim], ARRAY[complete_job.result],
                                                      ARRAY[jsonb_build_object('events', events, 'jobs', jobs)])) THEN
        PERFORM hookwire.refuse_stale_job(complete_job.id, complete_job.claim);
    END IF;
END
$function$;
COMMENT ON FUNCTION hookwire.complete_job(uuid,bigint,jsonb,jsonb,jsonb) IS
'Complete one job: HW001 if the claim is stale. In the caller''s transaction, so that its own rows commit with it.';
REVOKE EXECUTE ON FUNCTION hookwire.complete_job(uuid,bigint,jsonb,jsonb,jsonb) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.complete_jobs(ids uuid[], claims bigint[], results jsonb[] DEFAULT NULL::jsonb[], extras jsonb[] DEFAULT NULL::jsonb[])
 RETURNS SETOF uuid
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
DECLARE
    held uuid[];
    given jsonb[];
    reviewed hookwire.jobs[];
    extra record;
BEGIN
    -- A shorter result has neither 65 levels nor 250 digits.
    IF EXISTS (SELECT FROM unnest(results) AS r WHERE octet_length(r::text) > 128 AND hookwire.why_no_result(r) IS NOT NULL) THEN
        given := results;
        results := ARRAY(SELECT CASE WHEN hookwire.why_no_result(g.result) IS NULL THEN g.result ELSE hookwire.cut_result(g.result) END
                         FROM unnest(given) WITH ORDINALITY AS g(result, place) ORDER BY g.place);
    END IF;
    IF (SELECT k.kind FROM hookwire.job_kinds k WHERE k.needs_review OR k.automation = 'assisted'
        ORDER BY k.automation, k.needs_review LIMIT 1) IS NULL THEN
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
            PERFORM hookwire.note_job(extra.id, 'result', 'hookwire', extra.extra->>'note') WHERE extra.extra->>'note' IS NOT NULL;
        END LOOP;
    END IF;
    IF given IS NOT NULL THEN
        PERFORM hookwire.note_job(g.id, 'result', 'hookwire', hookwire.why_no_result(g.result) || '; the beginning of its text is kept')
        FROM unnest(ids, given) AS g(id, result) WHERE g.id = ANY (held) AND hookwire.why_no_result(g.result) IS NOT NULL;
    END IF;
    RETURN QUERY SELECT unnest(held);
END
$function$;
COMMENT ON FUNCTION hookwire.complete_jobs(uuid[],bigint[],jsonb[],jsonb[]) IS
'Complete the jobs that their claims still hold: they end, or wait for their review. Return their ids. `extras` holds
for each {"events": [{"topic", "payload", "key"?, "content_type"?, "headers"?}], "jobs": [draft]}: published and
enqueued in the same transaction, for held jobs alone.';
REVOKE EXECUTE ON FUNCTION hookwire.complete_jobs(uuid[],bigint[],jsonb[],jsonb[]) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.cut_result(result jsonb)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
RETURN to_jsonb("left"(CASE jsonb_typeof(result) WHEN 'string'::text THEN (result #>> '{}'::text[]) ELSE (result)::text END, 65536));
COMMENT ON FUNCTION hookwire.cut_result(jsonb) IS
'Return the beginning of a result''s text, which is stored instead of a result that cannot be stored.';
REVOKE EXECUTE ON FUNCTION hookwire.cut_result(jsonb) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.decline_job(id uuid, actor text, why text DEFAULT NULL::text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
DECLARE
    job CONSTANT hookwire.jobs := hookwire.locked_job(decline_job.id, 'decline', '{review,assigned}');
BEGIN
    PERFORM hookwire.check_reviewer(job, actor);
    PERFORM hookwire.note_job(job.id, 'decline', actor, why);
    PERFORM hookwire.end_jobs(ARRAY[job.id], 'discarded', NULL, coalesce(why, 'declined'), actor);
END
$function$;
COMMENT ON FUNCTION hookwire.decline_job(uuid,text,text) IS
'Decline a job: it is discarded.';
REVOKE EXECUTE ON FUNCTION hookwire.decline_job(uuid,text,text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.delay_job(id uuid, actor text, due_at timestamp with time zone DEFAULT NULL::timestamp with time zone, due_local timestamp without time zone DEFAULT NULL::timestamp without time zone, due_zone text DEFAULT NULL::text, to_pool boolean DEFAULT false, why text DEFAULT NULL::text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
DECLARE
    job CONSTANT hookwire.jobs := hookwire.locked_job(delay_job.id, 'delay', '{available,assigned,scheduled,retryable}');
    until CONSTANT timestamptz := coalesce(delay_job.due_local AT TIME ZONE delay_job.due_zone, delay_job.due_at);
    moved hookwire.jobs;
BEGIN
    IF until IS NULL OR NOT hookwire.is_bounded_time(until) OR until > clock_timestamp() + interval '200 years' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'delay needs due_at, or due_local and due_zone, within 200 years';
    END IF;
    UPDATE hookwire.jobs j
    SET state = 'scheduled', due_at = until, due_local = delay_job.due_local, due_zone = delay_job.due_zone, on_due = NULL,
        assignee = CASE WHEN NOT to_pool THEN j.assignee END, number = j.number + 1
    WHERE j.id = job.id RETURNING j.* INTO moved;
    PERFORM hookwire.note_job(job.id, 'delay', actor, concat_ws(': ', 'until ' || to_char(until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI"Z"'), why));
    PERFORM hookwire.announce_jobs(ARRAY[moved], NULL, actor);
END
$function$;
COMMENT ON FUNCTION hookwire.delay_job(uuid,text,timestamp with time zone,timestamp without time zone,text,boolean,text) IS
'Delay a job until a date. Then it returns to its assignee, or to the pool. A far date is given as local time and zone.';
REVOKE EXECUTE ON FUNCTION hookwire.delay_job(uuid,text,timestamp with time zone,timestamp without time zone,text,boolean,text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.end_jobs(ids uuid[], in_state text, results jsonb[] DEFAULT NULL::jsonb[], why text DEFAULT NULL::text, actor text DEFAULT NULL::text, results_of uuid[] DEFAULT NULL::uuid[], claims bigint[] DEFAULT NULL::bigint[])
 RETURNS uuid[]
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
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
$function$;
COMMENT ON FUNCTION hookwire.end_jobs(uuid[],text,jsonb[],text,text,uuid[],bigint[]) IS
'End jobs: they leave the table, and enter the archive if their kind keeps them. With claims, only jobs that are still
held by them are ended. Return the ids of the ended jobs. Rows are locked in the order of ids. So the plan uses
neither a bitmap nor a scan of the table: an index returns the ids of an array in their order.';
REVOKE EXECUTE ON FUNCTION hookwire.end_jobs(uuid[],text,jsonb[],text,text,uuid[],bigint[]) FROM PUBLIC;

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

CREATE OR REPLACE FUNCTION hookwire.enqueue_events(ids bigint[], incarnation text)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
DECLARE
    drafts CONSTANT jsonb := (
        SELECT jsonb_agg(t.job || jsonb_build_object('key', coalesce(e.key, ''), 'args', hookwire.event_job_args(
                   hookwire.event_name(e.id, enqueue_events.incarnation), e.topic, e.key, e.accepted_at, e.content_type, e.headers, e.payload)) ORDER BY e.id)
        FROM unnest(ids) AS i(id)
        CROSS JOIN LATERAL (SELECT x.* FROM hookwire.events x WHERE x.id BETWEEN i.id AND i.id ORDER BY x.id LIMIT 1) AS e
        CROSS JOIN LATERAL (SELECT x.job FROM hookwire.topics x WHERE x.tenant = e.tenant AND x.name = e.topic LIMIT 1) AS t
        WHERE t.job IS NOT NULL);
BEGIN
    RETURN (SELECT count(*) FROM hookwire.add_jobs(coalesce(drafts, '[]'), 'topic'));
END
$function$;
COMMENT ON FUNCTION hookwire.enqueue_events(bigint[],text) IS
'Enqueue one job for each of these events, in the transaction that takes them out of the outbox. Return how many.';
REVOKE EXECUTE ON FUNCTION hookwire.enqueue_events(bigint[],text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.event_job_args(event_id text, topic text, key text, accepted_at timestamp with time zone, content_type text, headers jsonb, payload bytea)
 RETURNS jsonb
 LANGUAGE plpgsql
 STABLE
AS $function$
DECLARE
    about CONSTANT jsonb := jsonb_build_object(
        'event_id', event_id, 'topic', topic, 'key', key, 'content_type', content_type, 'headers', headers,
        'accepted_at', to_char(accepted_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'));
    args jsonb;
BEGIN
    IF octet_length(payload) <= 1000000 THEN
        args := about || hookwire.event_job_content(payload);
    END IF;
    RETURN CASE WHEN octet_length(args::text) <= 1048576 THEN args ELSE about || '{"is_left_out": true}' END;
END
$function$;
COMMENT ON FUNCTION hookwire.event_job_args(text,text,text,timestamp with time zone,text,jsonb,bytea) IS
'Return the arguments of an event''s job. The content is `data` where it is JSON, else `payload` where it is text, else
`payload_base64`. Content that does not fit into arguments is left out, and GET /events/{id} has it.';
REVOKE EXECUTE ON FUNCTION hookwire.event_job_args(text,text,text,timestamp with time zone,text,jsonb,bytea) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.event_job_content(payload bytea)
 RETURNS jsonb
 LANGUAGE plpgsql
 STABLE
AS $function$
DECLARE
    data CONSTANT jsonb := hookwire.json_of(payload);
BEGIN
    IF data IS NOT NULL AND hookwire.is_readable_json(data, 63) THEN
        RETURN jsonb_build_object('data', data);
    END IF;
    RETURN jsonb_build_object('payload', convert_from(payload, 'UTF8'));
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
    RETURN jsonb_build_object('payload_base64', translate(encode(payload, 'base64'), E'\n', ''));
END
$function$;
COMMENT ON FUNCTION hookwire.event_job_content(bytea) IS
'Return JSON content; as text where it is beyond the limits of arguments, in which it lies one level deeper.';
REVOKE EXECUTE ON FUNCTION hookwire.event_job_content(bytea) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.extend_jobs(ids uuid[], claims bigint[], lease_seconds double precision DEFAULT 30)
 RETURNS TABLE(id uuid, lease_until timestamp with time zone, is_cancelled boolean)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
DECLARE
    held CONSTANT uuid[] := hookwire.held_jobs(ids, claims);
BEGIN
    IF lease_seconds NOT BETWEEN 0.05 AND 43200 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'hookwire.extend_jobs: lease_seconds is 0.05 to 43200';
    END IF;
    RETURN QUERY UPDATE hookwire.jobs j
        SET lease_until = CASE WHEN j.is_cancelled THEN j.lease_until
                               ELSE least(clock_timestamp() + make_interval(secs => extend_jobs.lease_seconds), j.run_until, j.deadline_at) END
        WHERE j.id = ANY (held) RETURNING j.id, j.lease_until, j.is_cancelled;
END
$function$;
COMMENT ON FUNCTION hookwire.extend_jobs(uuid[],bigint[],double precision) IS
'Extend leases: the heartbeat. Return the jobs that are still held, and whether each is to be cancelled. The lease
never passes the run limit or the deadline, so a heartbeat hides no stuck handler.';
REVOKE EXECUTE ON FUNCTION hookwire.extend_jobs(uuid[],bigint[],double precision) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.fail_job(id uuid, claim bigint, error text, dead boolean DEFAULT false, retry_seconds double precision DEFAULT NULL::double precision)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
DECLARE
    job CONSTANT hookwire.jobs := hookwire.running_job(fail_job.id, fail_job.claim);
BEGIN
    IF retry_seconds NOT BETWEEN 0 AND 315360000 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'retry_seconds is 0 to 315360000';
    END IF;
    IF job.is_cancelled THEN
        PERFORM hookwire.end_jobs(ARRAY[job.id], 'cancelled', NULL, error);
        RETURN 'cancelled';
    END IF;
    RETURN hookwire.settle_failure(job, coalesce(error, 'failed'), dead, retry_seconds);
END
$function$;
COMMENT ON FUNCTION hookwire.fail_job(uuid,bigint,text,boolean,double precision) IS
'Record that a job failed. `dead`: no further attempt. Return retryable, available (to people) or discarded. A job that
was to be cancelled is cancelled.';
REVOKE EXECUTE ON FUNCTION hookwire.fail_job(uuid,bigint,text,boolean,double precision) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.finish_job(id uuid, actor text, result jsonb DEFAULT NULL::jsonb, why text DEFAULT NULL::text)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
DECLARE
    job CONSTANT hookwire.jobs := hookwire.locked_job(finish_job.id, 'finish', '{assigned}');
    moved hookwire.jobs;
BEGIN
    PERFORM hookwire.check_job_result(finish_job.result);
    PERFORM hookwire.note_job(job.id, 'finish', actor, why);
    IF NOT (hookwire.job_policy(job.kind)).needs_review THEN
        PERFORM hookwire.end_jobs(ARRAY[job.id], 'completed', ARRAY[finish_job.result], why, actor);
        RETURN 'completed';
    END IF;
    UPDATE hookwire.jobs j SET state = 'review', result = finish_job.result, performer = actor, due_at = NULL, on_due = NULL, number = j.number + 1
    WHERE j.id = job.id RETURNING j.* INTO moved;
    PERFORM hookwire.announce_jobs(ARRAY[moved], NULL, actor);
    RETURN 'review';
END
$function$;
COMMENT ON FUNCTION hookwire.finish_job(uuid,text,jsonb,text) IS
'Finish a job of its assignee: it ends, or waits for its review if its kind needs one.';
REVOKE EXECUTE ON FUNCTION hookwire.finish_job(uuid,text,jsonb,text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.fire_schedule(schedule text, expected timestamp with time zone, next_moment timestamp with time zone, ticks timestamp with time zone[])
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
    draft jsonb;
BEGIN
    UPDATE hookwire.job_schedules s SET next_at = next_moment, last_at = coalesce(ticks[cardinality(ticks)], s.last_at)
    WHERE s.name = fire_schedule.schedule AND s.next_at = expected AND NOT s.is_paused RETURNING s.job INTO draft;
    IF draft IS NULL THEN
        RETURN 0;
    END IF;
    PERFORM hookwire.add_jobs((SELECT coalesce(jsonb_agg(draft), '[]') FROM unnest(ticks)), 'schedule:' || fire_schedule.schedule);
    RETURN cardinality(ticks);
END
$function$;
COMMENT ON FUNCTION hookwire.fire_schedule(text,timestamp with time zone,timestamp with time zone,timestamp with time zone[]) IS
'Fire a tick of a schedule: the jobs and the next moment commit together, and only if no other scheduler was here.';
REVOKE EXECUTE ON FUNCTION hookwire.fire_schedule(text,timestamp with time zone,timestamp with time zone,timestamp with time zone[]) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.held_jobs(ids uuid[], claims bigint[])
 RETURNS uuid[]
 LANGUAGE plpgsql
AS $function$
BEGIN
    RETURN (SELECT coalesce(array_agg(d.id), '{}')
    FROM (SELECT r.id, r.claim FROM unnest(ids, claims) AS r(id, claim) ORDER BY r.id) AS r
    CROSS JOIN LATERAL (
        SELECT j.id, j.state FROM hookwire.jobs j WHERE j.id BETWEEN r.id AND r.id AND j.claim = r.claim
        ORDER BY j.id LIMIT 1 FOR NO KEY UPDATE OF j   -- requests that merge may lock its key
    ) AS d WHERE d.state = 'running');
END
$function$;
COMMENT ON FUNCTION hookwire.held_jobs(uuid[],bigint[]) IS
'Lock those of these (id, claim) pairs that the claim still holds. Return their ids. The state is checked outside of
the lookup by id. Inside, the planner would choose the partial index of all running jobs.';
REVOKE EXECUTE ON FUNCTION hookwire.held_jobs(uuid[],bigint[]) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.is_person(name text)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN COALESCE((((octet_length(name) >= 1) AND (octet_length(name) <= 200)) AND (name !~ '[\x01-\x1f\x7f]'::text)), false);
COMMENT ON FUNCTION hookwire.is_person(text) IS
'Return whether an actor or an assignee names a person.';
REVOKE EXECUTE ON FUNCTION hookwire.is_person(text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.is_plain_draft(kind text, args jsonb, key text, queue text)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN (hookwire.is_queue_name(kind) AND ((queue IS NULL) OR hookwire.is_queue_name(queue)) AND COALESCE((octet_length(key) <= 1024), true) AND hookwire.is_readable_json(args) AND COALESCE((octet_length((args)::text) <= 1048576), true));
COMMENT ON FUNCTION hookwire.is_plain_draft(text,jsonb,text,text) IS
'Return whether a job of these members alone would be accepted. If not, check_job_draft says why.';
REVOKE EXECUTE ON FUNCTION hookwire.is_plain_draft(text,jsonb,text,text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.is_plain_kind(policy hookwire.job_kinds)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN (COALESCE(((policy).automation <> ALL (ARRAY['manual'::text, 'mostly'::text])), true) AND (NOT COALESCE(('available'::text = ANY ((policy).events)), false)));
COMMENT ON FUNCTION hookwire.is_plain_kind(hookwire.job_kinds) IS
'Return whether no job of a kind goes to people, and none is announced when it is made.';
REVOKE EXECUTE ON FUNCTION hookwire.is_plain_kind(hookwire.job_kinds) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.is_told_result(result jsonb)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN ((octet_length((result)::text) <= 128) OR ((octet_length((result)::text) <= 65536) AND hookwire.is_readable_json(result, 63)));
COMMENT ON FUNCTION hookwire.is_told_result(jsonb) IS
'Return whether a result is small and flat enough for the arguments of a callback, one level deeper. A text of 128
bytes has no 64 levels.';
REVOKE EXECUTE ON FUNCTION hookwire.is_told_result(jsonb) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.job_backoff_seconds(attempt integer, policy hookwire.job_kinds)
 RETURNS double precision
 LANGUAGE sql
 IMMUTABLE
RETURN LEAST(((policy).backoff_seconds_max)::double precision, (((policy).backoff_seconds_min * power((2)::double precision, (LEAST((GREATEST(attempt, 1) - 1), (policy).doublings_max))::double precision)) * ((1 + GREATEST(((attempt - 1) - (policy).doublings_max), 0)))::double precision));
COMMENT ON FUNCTION hookwire.job_backoff_seconds(integer,hookwire.job_kinds) IS
'Return how long a job waits before its next attempt.';
REVOKE EXECUTE ON FUNCTION hookwire.job_backoff_seconds(integer,hookwire.job_kinds) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.job_due(draft jsonb, moment timestamp with time zone)
 RETURNS timestamp with time zone
 LANGUAGE plpgsql
 STABLE
AS $function$
DECLARE
    due CONSTANT timestamptz := coalesce(
        (draft->>'due_local')::timestamp AT TIME ZONE (draft->>'due_zone'), (draft->>'due_at')::timestamptz,
        moment + make_interval(secs => coalesce((draft->>'delay_seconds')::double precision, 0)));
BEGIN
    IF NOT hookwire.is_bounded_time(due) OR due > moment + interval '200 years' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'hookwire.enqueue: a job is due within 200 years, in the year 1 or later';
    END IF;
    RETURN due;
END
$function$;
COMMENT ON FUNCTION hookwire.job_due(jsonb,timestamp with time zone) IS
'Return when a job is due, by its draft. Refuse dates after those that clients in all languages can read.';
REVOKE EXECUTE ON FUNCTION hookwire.job_due(jsonb,timestamp with time zone) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.job_is_for_people(id uuid, args jsonb, policy hookwire.job_kinds)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN CASE (policy).automation WHEN 'manual'::text THEN true WHEN 'mostly'::text THEN (NOT (COALESCE((args @> (policy).machine_rule), false) OR (((hashtext((id)::text) & 2147483647) % 100) < (policy).machine_percent))) ELSE false END;
COMMENT ON FUNCTION hookwire.job_is_for_people(uuid,jsonb,hookwire.job_kinds) IS
'Return whether a job goes to people, by the automation of its kind. The share is drawn from the id, so it can be
judged again.';
REVOKE EXECUTE ON FUNCTION hookwire.job_is_for_people(uuid,jsonb,hookwire.job_kinds) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.job_keys(in_queue text, in_kind text, after_key text, most integer)
 RETURNS text[]
 LANGUAGE plpgsql
 STABLE
AS $function$
DECLARE
    found text[] := '{}';
    next_key text := after_key;
BEGIN
    FOR step IN 1..most LOOP
        SELECT j.key INTO next_key FROM hookwire.jobs j
        WHERE j.queue = in_queue AND j.kind = in_kind AND j.key > next_key AND j.state = 'available' AND NOT j.for_people
        ORDER BY j.key LIMIT 1;
        EXIT WHEN next_key IS NULL;
        found := found || next_key;
    END LOOP;
    RETURN found;
END
$function$;
COMMENT ON FUNCTION hookwire.job_keys(text,text,text,integer) IS
'Return the next keys that have available jobs, by steps through the index.';
REVOKE EXECUTE ON FUNCTION hookwire.job_keys(text,text,text,integer) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.job_policy(of_kind text)
 RETURNS hookwire.job_kinds
 LANGUAGE plpgsql
 STABLE
AS $function$
DECLARE
    defaults hookwire.job_kinds;
    own hookwire.job_kinds;
BEGIN
    SELECT * INTO defaults FROM hookwire.job_kinds k WHERE k.kind = '*';
    SELECT * INTO own FROM hookwire.job_kinds k WHERE k.kind = of_kind;
    defaults.kind := of_kind;
    IF own.kind IS NULL OR of_kind = '*' THEN
        RETURN defaults;
    END IF;
    own.automation := coalesce(own.automation, defaults.automation);
    own.machine_percent := coalesce(own.machine_percent, defaults.machine_percent);
    own.machine_rule := coalesce(own.machine_rule, defaults.machine_rule);
    own.needs_review := coalesce(own.needs_review, defaults.needs_review);
    own.reviewer_differs := coalesce(own.reviewer_differs, defaults.reviewer_differs);
    own.escalate_to := coalesce(own.escalate_to, defaults.escalate_to);
    own.attempts_max := coalesce(own.attempts_max, defaults.attempts_max);
    own.run_seconds := coalesce(own.run_seconds, defaults.run_seconds);
    own.deadline_seconds := coalesce(own.deadline_seconds, defaults.deadline_seconds);
    own.lease_seconds := coalesce(own.lease_seconds, defaults.lease_seconds);
    own.backoff_seconds_min := coalesce(own.backoff_seconds_min, defaults.backoff_seconds_min);
    own.backoff_seconds_max := coalesce(own.backoff_seconds_max, defaults.backoff_seconds_max);
    own.doublings_max := coalesce(own.doublings_max, defaults.doublings_max);
    own.ageing_seconds := coalesce(own.ageing_seconds, defaults.ageing_seconds);
    own.running_max := coalesce(own.running_max, defaults.running_max);
    own.key_running_max := coalesce(own.key_running_max, defaults.key_running_max);
    own.key_rate_per_second := coalesce(own.key_rate_per_second, defaults.key_rate_per_second);
    own.key_burst := coalesce(own.key_burst, defaults.key_burst);
    own.events := coalesce(own.events, defaults.events);
    own.retention_days := coalesce(own.retention_days, defaults.retention_days);
    own.is_paused := own.is_paused OR defaults.is_paused;
    RETURN own;
END
$function$;
COMMENT ON FUNCTION hookwire.job_policy(text) IS
'Return the settings of a kind of job. A kind without a row has those of the kind `*`.';
REVOKE EXECUTE ON FUNCTION hookwire.job_policy(text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.jobs_within(ids uuid[], bytes_max bigint, OUT count integer, OUT bytes bigint)
 RETURNS record
 LANGUAGE plpgsql
 STABLE
AS $function$
DECLARE
    one record;
BEGIN
    count := 0;
    bytes := 0;
    FOR one IN
        SELECT c.args, c.result, c.errors, c.resumed
        FROM unnest(ids) WITH ORDINALITY AS w(id, n) CROSS JOIN LATERAL (
            SELECT j.args, j.result, j.errors, j.resumed FROM hookwire.jobs j WHERE j.id = w.id
            UNION ALL
            SELECT a.args, a.result, a.errors, NULL FROM hookwire.job_archive a WHERE a.id = w.id
            LIMIT 1
        ) AS c
        ORDER BY w.n
    LOOP
        EXIT WHEN bytes >= bytes_max;
        count := count + 1;
        bytes := bytes + octet_length(one.args::text) + octet_length(one.errors::text)
                 + coalesce(octet_length(one.result::text), 0) + coalesce(octet_length(one.resumed::text), 0);
    END LOOP;
END
$function$;
COMMENT ON FUNCTION hookwire.jobs_within(uuid[],bigint) IS
'Return how many of these jobs, in this order, fit, and the bytes of their contents. JSON has to be read to be
measured, so nothing is read behind the limit.';
REVOKE EXECUTE ON FUNCTION hookwire.jobs_within(uuid[],bigint) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.keep_jobs(most integer)
 RETURNS TABLE(promoted bigint, returned bigint, discarded bigint, cancelled bigint)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
    moment CONSTANT timestamptz := clock_timestamp();
    due uuid[];
    moved hookwire.jobs[];
    job hookwire.jobs;
BEGIN
    promoted := 0; returned := 0; discarded := 0; cancelled := 0;

    due := ARRAY(SELECT j.id FROM hookwire.jobs j WHERE j.deadline_at <= moment AND j.state <> 'running'
                 ORDER BY j.deadline_at LIMIT most FOR UPDATE SKIP LOCKED);
    IF due <> '{}' THEN
        PERFORM hookwire.end_jobs(due, 'discarded', NULL, 'its deadline has passed', 'keeper');
        discarded := cardinality(due);
    END IF;

    due := ARRAY(SELECT j.id FROM hookwire.jobs j WHERE j.due_at <= moment ORDER BY j.due_at LIMIT most FOR NO KEY UPDATE SKIP LOCKED);
    -- The rules of a zone may have changed since: a far date is judged again as local time.
    UPDATE hookwire.jobs j SET due_at = j.due_local AT TIME ZONE j.due_zone
    WHERE j.id = ANY (due) AND j.due_local AT TIME ZONE j.due_zone > moment;
    WITH woken AS (
        UPDATE hookwire.jobs j
        SET state = CASE WHEN j.assignee IS NULL THEN 'available' ELSE 'assigned' END, due_at = NULL, due_local = NULL, due_zone = NULL,
            number = j.number + 1, token = NULL,
            errors = CASE WHEN j.token IS NULL THEN j.errors ELSE j.errors || jsonb_build_object('error', 'nobody resumed it in time', 'attempt', j.attempts) END
        WHERE j.id = ANY (due) AND j.due_at <= moment AND j.state IN ('scheduled', 'retryable') RETURNING j.*
    )
    SELECT coalesce(array_agg(w ORDER BY w.seq), '{}') INTO moved FROM woken w;
    PERFORM hookwire.announce_jobs(moved, NULL, 'keeper');
    promoted := cardinality(moved);
    FOR job IN SELECT j.* FROM hookwire.jobs j WHERE j.id = ANY (due) AND j.state = 'assigned' AND j.due_at <= moment LOOP
        PERFORM hookwire.act_on_due_job(job);
        promoted := promoted + 1;
    END LOOP;

    FOR job IN SELECT j.* FROM hookwire.jobs j WHERE j.state = 'running' AND j.lease_until <= moment
               ORDER BY j.lease_until LIMIT most FOR NO KEY UPDATE SKIP LOCKED LOOP
        IF job.is_cancelled THEN
            PERFORM hookwire.end_jobs(ARRAY[job.id], 'cancelled', NULL, 'cancelled while it ran', 'keeper');
            cancelled := cancelled + 1;
        ELSIF job.deadline_at <= moment THEN
            PERFORM hookwire.end_jobs(ARRAY[job.id], 'discarded', NULL, 'its deadline has passed', 'keeper');
            discarded := discarded + 1;
        ELSIF hookwire.settle_failure(job, CASE WHEN job.run_until <= moment THEN format('ran longer than %s s', job.run_seconds)
                                                ELSE 'its worker stopped reporting: the lease expired' END,
                                      false, CASE WHEN job.run_until > moment THEN 0 END) = 'discarded' THEN
            discarded := discarded + 1;
        ELSE
            returned := returned + 1;
        END IF;
    END LOOP;
    RETURN NEXT;
END
$function$;
COMMENT ON FUNCTION hookwire.keep_jobs(integer) IS
'Make one bounded pass over dates that have come, deadlines that have passed, and claims whose lease or run limit is
over. Any number of passes may run at once: rows that another pass holds are skipped.';
REVOKE EXECUTE ON FUNCTION hookwire.keep_jobs(integer) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.key_allowances(policy hookwire.job_kinds, keys text[], room integer, moment timestamp with time zone)
 RETURNS TABLE(key text, most bigint)
 LANGUAGE plpgsql
 STABLE
AS $function$
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
$function$;
COMMENT ON FUNCTION hookwire.key_allowances(hookwire.job_kinds,text[],integer,timestamp with time zone) IS
'Return how many jobs of each of these keys may begin now, `room` at most. Running jobs and the keys that are asked for
are counted by one hash, so that the price grows with their number only.';
REVOKE EXECUTE ON FUNCTION hookwire.key_allowances(hookwire.job_kinds,text[],integer,timestamp with time zone) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.lock_job_kind(kind text)
 RETURNS boolean
 LANGUAGE plpgsql
 SET lock_timeout TO '500ms'
AS $function$
BEGIN
    PERFORM pg_advisory_xact_lock(1215262574, hashtext(kind));
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END
$function$;
COMMENT ON FUNCTION hookwire.lock_job_kind(text) IS
'Lock a limited kind, so that its counts are exact. Claims take milliseconds; false: the lock was not free in half a
second.';
REVOKE EXECUTE ON FUNCTION hookwire.lock_job_kind(text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.locked_job(job_id uuid, verb text, states text[])
 RETURNS hookwire.jobs
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
    found hookwire.jobs;
    ended text;
BEGIN
    SELECT j.* INTO found FROM hookwire.jobs j WHERE j.id = job_id FOR NO KEY UPDATE;
    IF found.state = ANY (states) THEN
        RETURN found;
    END IF;
    ended := coalesce(found.state, (SELECT a.state FROM hookwire.job_archive a WHERE a.id = job_id));
    IF ended IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('there is no job %s', job_id);
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'HW002', MESSAGE = format('the job %s is %s%s; %s needs one that is %s', job_id, ended,
        coalesce(' to ' || CASE WHEN ended = 'assigned' THEN found.assignee END, ''), verb, array_to_string(states, ' or '));
END
$function$;
COMMENT ON FUNCTION hookwire.locked_job(uuid,text,text[]) IS
'Return the job, locked, if it is in one of these states; else raise 42704 or HW002. Of two people that click at once
the second sees the change of the first.';
REVOKE EXECUTE ON FUNCTION hookwire.locked_job(uuid,text,text[]) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.note_job(job_id uuid, verb text, actor text, why text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    IF NOT hookwire.is_person(actor) THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'actor is the name of a person, 1-200 printable bytes';
    END IF;
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason) VALUES ('default', actor, 'job.' || verb, job_id::text, left(why, 500));
END
$function$;
COMMENT ON FUNCTION hookwire.note_job(uuid,text,text,text) IS
'Record in the audit trail what a person did with a job.';
REVOKE EXECUTE ON FUNCTION hookwire.note_job(uuid,text,text,text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.pause_job_kind(kind text, is_paused boolean, actor text, why text DEFAULT NULL::text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
BEGIN
    INSERT INTO hookwire.job_kinds AS k (kind, is_paused) VALUES (pause_job_kind.kind, pause_job_kind.is_paused)
    ON CONFLICT (kind) DO UPDATE SET is_paused = excluded.is_paused;
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason)
    VALUES ('default', actor, CASE WHEN pause_job_kind.is_paused THEN 'job.pause' ELSE 'job.resume' END, pause_job_kind.kind, left(why, 500));
END
$function$;
COMMENT ON FUNCTION hookwire.pause_job_kind(text,boolean,text,text) IS
'Pause a kind, so that none of its jobs is claimed, or resume it.';
REVOKE EXECUTE ON FUNCTION hookwire.pause_job_kind(text,boolean,text,text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.pick_at_head(policy hookwire.job_kinds, in_queue text, room integer, moment timestamp with time zone)
 RETURNS uuid[]
 LANGUAGE plpgsql
 STABLE
AS $function$
#variable_conflict use_column
DECLARE
    looked_at CONSTANT integer := 2 * room + 20;
    ids uuid[];
    keys text[];
    picked uuid[];
BEGIN
    SELECT array_agg(h.id), array_agg(h.key) INTO ids, keys
    FROM (SELECT j.id, j.key FROM hookwire.jobs j
          WHERE j.queue = in_queue AND j.kind = policy.kind AND j.state = 'available' AND NOT j.for_people
          ORDER BY j.rank_at, j.seq LIMIT looked_at) AS h;
    picked := ARRAY(
        SELECT p.id
        FROM (SELECT h.id, h.key, h.n, row_number() OVER (PARTITION BY h.key ORDER BY h.n) AS place
              FROM unnest(ids, keys) WITH ORDINALITY AS h(id, key, n)) AS p
        JOIN hookwire.key_allowances(policy, keys, room, moment) AS a ON a.key = p.key AND p.place <= a.most
        ORDER BY p.n LIMIT room);
    RETURN CASE WHEN cardinality(picked) = room OR coalesce(cardinality(ids), 0) < looked_at THEN picked END;
END
$function$;
COMMENT ON FUNCTION hookwire.pick_at_head(hookwire.job_kinds,text,integer,timestamp with time zone) IS
'Return the first `room` jobs in order of rank that may begin; NULL where the head of the queue cannot tell.';
REVOKE EXECUTE ON FUNCTION hookwire.pick_at_head(hookwire.job_kinds,text,integer,timestamp with time zone) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.pick_by_key(policy hookwire.job_kinds, in_queue text, room integer, moment timestamp with time zone)
 RETURNS uuid[]
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
    keys_max CONSTANT integer := 500;
    names text[] := hookwire.job_keys(in_queue, policy.kind, '', keys_max + 1);
BEGIN
    IF cardinality(names) > keys_max THEN
        names := hookwire.job_keys(in_queue, policy.kind, chr(33 + floor(random() * 94)::integer), keys_max);
        names := names || (hookwire.job_keys(in_queue, policy.kind, '', keys_max))[1:keys_max - cardinality(names)];
    END IF;
    RETURN ARRAY(
        SELECT c.id
        FROM hookwire.key_allowances(policy, names || ''::text, room, moment) AS a
        CROSS JOIN LATERAL (
            SELECT j.id, j.rank_at, j.seq FROM hookwire.jobs j
            WHERE j.queue = in_queue AND j.kind = policy.kind AND j.key = a.key AND j.state = 'available' AND NOT j.for_people
            ORDER BY j.rank_at, j.seq LIMIT a.most
        ) AS c
        ORDER BY c.rank_at, c.seq LIMIT room);
END
$function$;
COMMENT ON FUNCTION hookwire.pick_by_key(hookwire.job_kinds,text,integer,timestamp with time zone) IS
'Pick jobs by their keys, regardless of the jobs at the head of the queue. It looks at 500 keys, beginning at a random
one where there are more. Within each key it looks at as many jobs as the key may run: a blocked key costs one step,
however long its queue.';
REVOKE EXECUTE ON FUNCTION hookwire.pick_by_key(hookwire.job_kinds,text,integer,timestamp with time zone) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.pick_limited_jobs(policy hookwire.job_kinds, in_queue text, most integer, bytes_max bigint)
 RETURNS uuid[]
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
    moment CONSTANT timestamptz := clock_timestamp();
    room integer := most;
    candidates uuid[];
    picked uuid[];
BEGIN
    IF policy.running_max IS NOT NULL THEN
        room := least(most, policy.running_max - (SELECT count(*) FROM hookwire.jobs j WHERE j.kind = policy.kind AND j.state = 'running'));
    END IF;
    IF room <= 0 THEN
        RETURN '{}';
    ELSIF policy.key_running_max IS NULL AND policy.key_rate_per_second IS NULL THEN
        candidates := ARRAY(SELECT j.id FROM hookwire.jobs j
                            WHERE j.queue = in_queue AND j.kind = policy.kind AND j.state = 'available' AND NOT j.for_people
                            ORDER BY j.rank_at, j.seq LIMIT room FOR NO KEY UPDATE SKIP LOCKED);
        RETURN candidates[1:(hookwire.jobs_within(candidates, bytes_max)).count];
    END IF;
    candidates := hookwire.pick_at_head(policy, in_queue, room, moment);
    IF candidates IS NULL THEN
        candidates := hookwire.pick_by_key(policy, in_queue, room, moment);
    END IF;
    -- Each job takes a token of its key, so those that do not fit go before that.
    candidates := candidates[1:(hookwire.jobs_within(candidates, bytes_max)).count];
    WITH chosen AS MATERIALIZED (
        SELECT j.id, j.key FROM hookwire.jobs j WHERE j.id = ANY (candidates) AND j.state = 'available'
        FOR NO KEY UPDATE SKIP LOCKED
    ), spent AS (
        INSERT INTO hookwire.job_rates AS r (kind, key, tokens, counted_at)
        SELECT policy.kind, c.key, policy.key_burst - count(*), moment FROM chosen c
        WHERE policy.key_rate_per_second IS NOT NULL AND c.key <> '' GROUP BY c.key
        ON CONFLICT (kind, key) DO UPDATE SET counted_at = moment, tokens = least(
            policy.key_burst, r.tokens + extract(epoch FROM moment - r.counted_at) * policy.key_rate_per_second)
            - (policy.key_burst - excluded.tokens)
    )
    SELECT coalesce(array_agg(c.id), '{}') INTO picked FROM chosen c;
    RETURN picked;
END
$function$;
COMMENT ON FUNCTION hookwire.pick_limited_jobs(hookwire.job_kinds,text,integer,bigint) IS
'Lock up to `most` jobs of a limited kind, under its lock.';
REVOKE EXECUTE ON FUNCTION hookwire.pick_limited_jobs(hookwire.job_kinds,text,integer,bigint) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.progress_job(id uuid, claim bigint, done bigint, total bigint DEFAULT NULL::bigint, note text DEFAULT NULL::text)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
DECLARE
    job CONSTANT hookwire.jobs := hookwire.running_job(progress_job.id, progress_job.claim);
    moved hookwire.jobs;
BEGIN
    UPDATE hookwire.jobs j SET progress_done = done, progress_total = total, progress_note = left(progress_job.note, 500), number = j.number + 1
    WHERE j.id = job.id RETURNING j.* INTO moved;
    PERFORM hookwire.announce_jobs(ARRAY[moved], 'progress');
    RETURN job.is_cancelled;
END
$function$;
COMMENT ON FUNCTION hookwire.progress_job(uuid,bigint,bigint,bigint,text) IS
'Store the progress of a job, for GET /jobs/{id} and for events of its kind. Return whether it is to be cancelled.';
REVOKE EXECUTE ON FUNCTION hookwire.progress_job(uuid,bigint,bigint,bigint,text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.publish_all(events jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    IF jsonb_typeof(coalesce(events, '[]')) NOT IN ('array', 'null') OR jsonb_array_length(CASE WHEN jsonb_typeof(events) = 'array' THEN events ELSE '[]' END) > 1000 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'events are a JSON array of at most 1000';
    END IF;
    PERFORM hookwire.publish(
        e->>'topic', CASE jsonb_typeof(e->'payload') WHEN 'string' THEN e->>'payload' ELSE (e->'payload')::text END,
        key => e->>'key', content_type => coalesce(e->>'content_type', 'application/json'), headers => coalesce(nullif(e->'headers', 'null'), '{}'))
    FROM jsonb_array_elements(CASE WHEN jsonb_typeof(events) = 'array' THEN events ELSE '[]' END) AS e;
END
$function$;
COMMENT ON FUNCTION hookwire.publish_all(jsonb) IS
'Publish the events that a job passes at its completion.';
REVOKE EXECUTE ON FUNCTION hookwire.publish_all(jsonb) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.put_job_kind(kind text, settings jsonb, actor text)
 RETURNS hookwire.job_kinds
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
    in_kind CONSTANT text := put_job_kind.kind;
    stored hookwire.job_kinds;
BEGIN
    INSERT INTO hookwire.job_kinds AS k
    SELECT p.* FROM jsonb_populate_record(NULL::hookwire.job_kinds, '{"is_paused": false}' || settings || jsonb_build_object('kind', in_kind)) AS p
    ON CONFLICT (kind) DO UPDATE SET
        automation = excluded.automation, machine_percent = excluded.machine_percent, machine_rule = excluded.machine_rule,
        needs_review = excluded.needs_review, reviewer_differs = excluded.reviewer_differs,
        escalate_to = excluded.escalate_to, attempts_max = excluded.attempts_max, run_seconds = excluded.run_seconds,
        deadline_seconds = excluded.deadline_seconds, lease_seconds = excluded.lease_seconds,
        backoff_seconds_min = excluded.backoff_seconds_min, backoff_seconds_max = excluded.backoff_seconds_max,
        doublings_max = excluded.doublings_max, ageing_seconds = excluded.ageing_seconds,
        running_max = excluded.running_max, key_running_max = excluded.key_running_max,
        key_rate_per_second = excluded.key_rate_per_second, key_burst = excluded.key_burst, events = excluded.events,
        retention_days = excluded.retention_days,
        is_paused = CASE WHEN settings ? 'is_paused' THEN excluded.is_paused ELSE k.is_paused END
    RETURNING * INTO stored;
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason) VALUES ('default', actor, 'job.kind', in_kind, left(settings::text, 500));
    UPDATE hookwire.jobs j SET for_people = NOT j.for_people
    WHERE (j.kind = in_kind OR in_kind = '*') AND j.state IN ('scheduled', 'available', 'retryable') AND j.assignee IS NULL
      AND j.errors = '[]' AND j.for_people <> hookwire.job_is_for_people(j.id, j.args, hookwire.job_policy(j.kind));
    RETURN stored;
END
$function$;
COMMENT ON FUNCTION hookwire.put_job_kind(text,jsonb,text) IS
'Set how jobs of a kind are treated. Settings that are not named are those of all kinds. Waiting jobs follow at once:
under another automation they go to people or to machines, with their ids and history. Of two settings of a kind at
once the later one holds, and a paused kind stays paused.';
REVOKE EXECUTE ON FUNCTION hookwire.put_job_kind(text,jsonb,text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.refuse_stale_job(job_id uuid, claim bigint)
 RETURNS void
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'HW001', MESSAGE = format('the claim %s does not hold the job %s any more; nothing was changed', claim, job_id),
        HINT = 'Its lease or its time ended, or it was settled before. Claim again.';
END
$function$;
COMMENT ON FUNCTION hookwire.refuse_stale_job(uuid,bigint) IS
'Raise HW001: the claim holds the job no more.';
REVOKE EXECUTE ON FUNCTION hookwire.refuse_stale_job(uuid,bigint) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.release_jobs(ids uuid[], claims bigint[], reason text DEFAULT NULL::text)
 RETURNS SETOF uuid
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
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
$function$;
COMMENT ON FUNCTION hookwire.release_jobs(uuid[],bigint[],text) IS
'Give back jobs that their claims still hold, without the cost of an attempt. Return their ids. A job that was to be
cancelled is. A release counts, unless its reason is ''stop''; beyond `releases_max` in a row the attempt fails.';
REVOKE EXECUTE ON FUNCTION hookwire.release_jobs(uuid[],bigint[],text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.release_limit_text()
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN 'released 100 times in a row without an attempt'::text;
COMMENT ON FUNCTION hookwire.release_limit_text() IS
'Return the error that is stored when work was given back too often.';
REVOKE EXECUTE ON FUNCTION hookwire.release_limit_text() FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.releases_max()
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN 100;
COMMENT ON FUNCTION hookwire.releases_max() IS
'Return how often in a row work may be given back without the cost of an attempt.';
REVOKE EXECUTE ON FUNCTION hookwire.releases_max() FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.resume_job(token text, answer jsonb DEFAULT 'true'::jsonb)
 RETURNS uuid
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
DECLARE
    moved hookwire.jobs;
BEGIN
    PERFORM hookwire.check_job_result(answer);
    UPDATE hookwire.jobs j SET state = 'available', due_at = NULL, token = NULL, resumed = answer, number = j.number + 1
    WHERE j.token = resume_job.token AND j.state = 'scheduled' RETURNING j.* INTO moved;
    IF moved.id IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = 'no job waits for this token';
    END IF;
    PERFORM hookwire.announce_jobs(ARRAY[moved]);
    RETURN moved.id;
END
$function$;
COMMENT ON FUNCTION hookwire.resume_job(text,jsonb) IS
'Resume the job that waits for this token, with an answer. Return its id.';
REVOKE EXECUTE ON FUNCTION hookwire.resume_job(text,jsonb) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.retry_job(id uuid, actor text, why text DEFAULT NULL::text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
DECLARE
    policy hookwire.job_kinds;
    job hookwire.jobs;
    moved hookwire.jobs;
BEGIN
    WITH gone AS (
        DELETE FROM hookwire.job_archive a WHERE a.id = retry_job.id AND a.state IN ('cancelled', 'discarded') RETURNING a.*
    )
    INSERT INTO hookwire.jobs AS j (id, seq, tenant, kind, queue, state, for_people, args, key, uniq, priority, rank_at, attempts_max, run_seconds,
                                    number, errors, created_by, created_at)
    OVERRIDING SYSTEM VALUE
    SELECT g.id, g.seq, g.tenant, g.kind, g.queue, 'available', hookwire.job_is_for_people(g.id, g.args, p), g.args, g.key,
           CASE WHEN NOT EXISTS (SELECT FROM hookwire.jobs l WHERE l.kind = g.kind AND l.uniq = g.uniq) THEN g.uniq END, g.priority,
           clock_timestamp() - make_interval(secs => g.priority * p.ageing_seconds), g.attempts_max, g.run_seconds, g.number + 1,
           g.errors, g.created_by, g.created_at
    FROM gone g CROSS JOIN LATERAL hookwire.job_policy(g.kind) AS p
    RETURNING j.* INTO moved;
    IF moved.id IS NULL THEN
        job := hookwire.locked_job(retry_job.id, 'retry', '{scheduled,retryable}');
        UPDATE hookwire.jobs j
        SET state = CASE WHEN j.assignee IS NULL THEN 'available' ELSE 'assigned' END, due_at = NULL, due_local = NULL, due_zone = NULL,
            token = NULL, number = j.number + 1
        WHERE j.id = job.id RETURNING j.* INTO moved;
    END IF;
    PERFORM hookwire.note_job(moved.id, 'retry', actor, why);
    PERFORM hookwire.announce_jobs(ARRAY[moved], NULL, actor);
END
$function$;
COMMENT ON FUNCTION hookwire.retry_job(uuid,text,text) IS
'Run a job now that waits for a date or for its next attempt. A discarded or cancelled job runs again under its old id.';
REVOKE EXECUTE ON FUNCTION hookwire.retry_job(uuid,text,text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.running_job(job_id uuid, of_claim bigint)
 RETURNS hookwire.jobs
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
    found hookwire.jobs;
BEGIN
    SELECT j.* INTO found FROM hookwire.jobs j WHERE j.id = job_id AND j.claim = of_claim AND j.state = 'running' FOR NO KEY UPDATE;
    IF found.id IS NULL THEN
        PERFORM hookwire.refuse_stale_job(job_id, of_claim);
    END IF;
    RETURN found;
END
$function$;
COMMENT ON FUNCTION hookwire.running_job(uuid,bigint) IS
'Return the job, locked, if this claim still holds it; else raise HW001.';
REVOKE EXECUTE ON FUNCTION hookwire.running_job(uuid,bigint) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.send_back_job(id uuid, actor text, why text DEFAULT NULL::text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
DECLARE
    job CONSTANT hookwire.jobs := hookwire.locked_job(send_back_job.id, 'send-back', '{review}');
    moved hookwire.jobs;
BEGIN
    PERFORM hookwire.check_reviewer(job, actor);
    UPDATE hookwire.jobs j SET state = CASE WHEN j.assignee IS NULL THEN 'available' ELSE 'assigned' END, for_people = true, number = j.number + 1
    WHERE j.id = job.id RETURNING j.* INTO moved;
    PERFORM hookwire.note_job(job.id, 'send-back', actor, why);
    PERFORM hookwire.announce_jobs(ARRAY[moved], NULL, actor);
END
$function$;
COMMENT ON FUNCTION hookwire.send_back_job(uuid,text,text) IS
'Send a job back to the person who did it, or to people where a machine did it.';
REVOKE EXECUTE ON FUNCTION hookwire.send_back_job(uuid,text,text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.settle_failure(job hookwire.jobs, why text, for_good boolean, retry_seconds double precision)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
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
$function$;
COMMENT ON FUNCTION hookwire.settle_failure(hookwire.jobs,text,boolean,double precision) IS
'Settle the failure of a locked running job: it goes to people, waits for its next attempt, or is discarded. Return its
new state.';
REVOKE EXECUTE ON FUNCTION hookwire.settle_failure(hookwire.jobs,text,boolean,double precision) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.snooze_job(id uuid, claim bigint, seconds double precision, token text DEFAULT NULL::text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
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
$function$;
COMMENT ON FUNCTION hookwire.snooze_job(uuid,bigint,double precision,text) IS
'Run a job later, without the cost of an attempt. With a token it is parked until `resume_job`, at most so long. A job
that was to be cancelled is cancelled: a pushed job has no heartbeat that would tell its worker. A token that another
job waits for is refused.';
REVOKE EXECUTE ON FUNCTION hookwire.snooze_job(uuid,bigint,double precision,text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.sql_role()
 RETURNS text
 LANGUAGE sql
 STABLE
RETURN (SELECT (SESSION_USER)::text AS "session_user" FROM pg_namespace n WHERE ((n.nspname = 'hookwire'::name) AND (pg_get_userbyid(n.nspowner) <> SESSION_USER)));
COMMENT ON FUNCTION hookwire.sql_role() IS
'Return the role that has logged in, NULL for the owner of the schema: the hub itself.';
REVOKE EXECUTE ON FUNCTION hookwire.sql_role() FROM PUBLIC;

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
REVOKE EXECUTE ON FUNCTION hookwire.take_jobs(text[],integer,text,double precision,text,bigint) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.unassign_job(id uuid, actor text, why text DEFAULT NULL::text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
DECLARE
    job CONSTANT hookwire.jobs := hookwire.locked_job(unassign_job.id, 'unassign', '{assigned}');
    moved hookwire.jobs;
BEGIN
    UPDATE hookwire.jobs j
    SET state = 'available', assignee = NULL, due_at = NULL, on_due = NULL, number = j.number + 1,
        for_people = hookwire.job_is_for_people(j.id, j.args, hookwire.job_policy(j.kind))
    WHERE j.id = job.id RETURNING j.* INTO moved;
    PERFORM hookwire.note_job(job.id, 'unassign', actor, concat_ws(': ', 'from ' || job.assignee, why));
    PERFORM hookwire.announce_jobs(ARRAY[moved], NULL, actor);
END
$function$;
COMMENT ON FUNCTION hookwire.unassign_job(uuid,text,text) IS
'Return a job to the pool. It stays with people, unless its kind is automatic.';
REVOKE EXECUTE ON FUNCTION hookwire.unassign_job(uuid,text,text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.why_no_result(result jsonb)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN CASE WHEN (octet_length((result)::text) > 1048576) THEN 'the result is larger than 1 MiB'::text WHEN (NOT hookwire.is_readable_json(result)) THEN 'the result is nested deeper than 64, or holds a number of more than 1,000 digits'::text ELSE NULL::text END;
COMMENT ON FUNCTION hookwire.why_no_result(jsonb) IS
'Say why a value cannot be stored as a job''s result; NULL: it can be.';
REVOKE EXECUTE ON FUNCTION hookwire.why_no_result(jsonb) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.with_role(actor text)
 RETURNS text
 LANGUAGE sql
 STABLE
RETURN "left"(CASE WHEN (hookwire.sql_role() IS NULL) THEN actor ELSE concat_ws(' '::text, "left"(actor, 130), ('sql:'::text || hookwire.sql_role())) END, 200);
COMMENT ON FUNCTION hookwire.with_role(text) IS
'Return an actor as it is kept, with the role that named it.';
REVOKE EXECUTE ON FUNCTION hookwire.with_role(text) FROM PUBLIC;
