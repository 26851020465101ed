-- An actor that a database role names is only what this role says. So the role stands beside it.

CREATE FUNCTION hookwire.sql_role() RETURNS text
LANGUAGE sql STABLE
RETURN (SELECT session_user::text FROM pg_catalog.pg_namespace n
        WHERE n.nspname = 'hookwire' AND pg_catalog.pg_get_userbyid(n.nspowner) <> session_user);
COMMENT ON FUNCTION hookwire.sql_role() IS
'Return the role that has logged in, NULL for the owner of the schema: the hub itself.';

CREATE FUNCTION hookwire.with_role(actor text) RETURNS text
LANGUAGE sql STABLE
RETURN left(CASE WHEN hookwire.sql_role() IS NULL THEN actor ELSE concat_ws(' ', left(actor, 130), 'sql:' || hookwire.sql_role()) END, 200);
COMMENT ON FUNCTION hookwire.with_role(text) IS
'Return an actor as it is kept, with the role that named it.';
REVOKE EXECUTE ON FUNCTION hookwire.sql_role(), hookwire.with_role(text) FROM PUBLIC;

ALTER TABLE hookwire.audit ADD COLUMN role text;
ALTER TABLE hookwire.audit ALTER COLUMN role SET DEFAULT hookwire.sql_role();
COMMENT ON COLUMN hookwire.audit.role IS 'The database role that named the actor in SQL; NULL for the hub itself.';

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
