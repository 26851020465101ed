-- What all migrations together make. Written by `make schema`, never by hand.

CREATE SCHEMA hookwire;

CREATE TYPE hookwire.direct_delivery AS (
	n integer,
	subscription_id bigint,
	version bigint,
	lease_seconds double precision,
	lane text
);

CREATE TYPE hookwire.direct_terms AS (
	low bigint,
	origin uuid,
	timeout_seconds double precision,
	lease_margin_seconds double precision,
	deliveries_max integer,
	patterns_max integer
);

CREATE FUNCTION hookwire.accept(ids bigint[], claim bigint) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
DECLARE
    accepted CONSTANT bigint[] := hookwire.accept_claim(ids, claim, NULL);
BEGIN
    IF cardinality(accepted) = cardinality(ids) THEN
        RETURN cardinality(accepted);
    END IF;
    RETURN hookwire.refuse_stale(ids, accepted, claim);
END
$$;

CREATE FUNCTION hookwire.accept_claim(ids bigint[], claim bigint, in_queue text) RETURNS bigint[]
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION hookwire.accept_copies(queue text, name text, claim bigint, ids bigint[]) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
BEGIN
    UPDATE hookwire.consumers c SET xid = l.xid, id = l.id, claim = NULL, lease_until = NULL
    FROM (SELECT x.xid, x.id FROM hookwire.message_log x, hookwire.consumers o
          WHERE o.queue = accept_copies.queue AND o.name = accept_copies.name AND o.claim = accept_copies.claim
            AND x.queue = accept_copies.queue AND x.id = ANY (ids) AND (x.xid, x.id) > (o.xid, o.id)
            AND x.xid < pg_snapshot_xmin(pg_current_snapshot())
          ORDER BY x.xid DESC, x.id DESC LIMIT 1) AS l
    WHERE c.queue = accept_copies.queue AND c.name = accept_copies.name AND c.claim = accept_copies.claim;
    RETURN FOUND;
END
$$;

CREATE FUNCTION hookwire.accept_held(ids bigint[], claims bigint[], queue text DEFAULT NULL::text) RETURNS SETOF bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    held record;
BEGIN
    FOR held IN SELECT r.claim, array_agg(r.id ORDER BY r.id) AS ids FROM unnest(ids, claims) AS r(id, claim) GROUP BY r.claim ORDER BY r.claim LOOP
        RETURN QUERY SELECT unnest(hookwire.accept_claim(held.ids, held.claim, accept_held.queue));
    END LOOP;
END
$$;

CREATE TABLE hookwire.jobs (
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    seq bigint NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    queue text DEFAULT 'default'::text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL,
    for_people boolean DEFAULT false NOT NULL,
    args jsonb NOT NULL,
    key text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    uniq text COLLATE pg_catalog."C",
    priority smallint DEFAULT 0 NOT NULL,
    rank_at timestamp with time zone NOT NULL,
    due_at timestamp with time zone,
    due_local timestamp without time zone,
    due_zone text,
    on_due text,
    deadline_at timestamp with time zone,
    attempts integer DEFAULT 0 NOT NULL,
    attempts_max integer NOT NULL,
    run_seconds real NOT NULL,
    claim bigint,
    worker text,
    claimed_at timestamp with time zone,
    lease_until timestamp with time zone,
    run_until timestamp with time zone,
    is_cancelled boolean DEFAULT false NOT NULL,
    assignee text COLLATE pg_catalog."C",
    performer text COLLATE pg_catalog."C",
    number integer DEFAULT 0 NOT NULL,
    progress_done bigint,
    progress_total bigint,
    progress_note text,
    token text,
    resumed jsonb,
    result jsonb,
    errors jsonb DEFAULT '[]'::jsonb NOT NULL,
    created_by text,
    created_at timestamp with time zone NOT NULL,
    releases smallint DEFAULT 0 NOT NULL,
    CONSTRAINT jobs_on_due_check CHECK ((on_due = ANY (ARRAY['remind'::text, 'escalate'::text, 'unassign'::text]))),
    CONSTRAINT jobs_state_check CHECK ((state = ANY (ARRAY['scheduled'::text, 'available'::text, 'assigned'::text, 'running'::text, 'review'::text, 'retryable'::text])))
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_insert_threshold='-1', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='100000');

COMMENT ON TABLE hookwire.jobs IS 'Live jobs, for people and machines. Ended jobs leave the table in the statement that ends them.';

COMMENT ON COLUMN hookwire.jobs.seq IS 'The order of enqueueing.';

COMMENT ON COLUMN hookwire.jobs.state IS 'scheduled, available, assigned, running, review or retryable.';

COMMENT ON COLUMN hookwire.jobs.for_people IS 'Whether a person does it.';

COMMENT ON COLUMN hookwire.jobs.args IS 'The arguments.';

COMMENT ON COLUMN hookwire.jobs.key IS 'By which limits count.';

COMMENT ON COLUMN hookwire.jobs.uniq IS 'Of live jobs with the same kind and uniq there is one.';

COMMENT ON COLUMN hookwire.jobs.rank_at IS 'The order of claims: when it became available, less one ageing interval for each step of priority.';

COMMENT ON COLUMN hookwire.jobs.due_at IS 'Scheduled or retryable: when it becomes available. Assigned: when the person should be done.';

COMMENT ON COLUMN hookwire.jobs.due_local IS 'A far date as local time, computed again when time zones change.';

COMMENT ON COLUMN hookwire.jobs.due_zone IS 'The time zone of due_local.';

COMMENT ON COLUMN hookwire.jobs.on_due IS 'What happens then: remind, escalate or unassign.';

COMMENT ON COLUMN hookwire.jobs.deadline_at IS 'When it is discarded unless it has ended.';

COMMENT ON COLUMN hookwire.jobs.claim IS 'The fence of the current claim.';

COMMENT ON COLUMN hookwire.jobs.lease_until IS 'When the keeper ends the claim; never later than run_until and deadline_at.';

COMMENT ON COLUMN hookwire.jobs.run_until IS 'When the current attempt has lasted too long.';

COMMENT ON COLUMN hookwire.jobs.is_cancelled IS 'Whether its worker is asked to stop.';

COMMENT ON COLUMN hookwire.jobs.assignee IS 'The person who holds it.';

COMMENT ON COLUMN hookwire.jobs.performer IS 'The person or worker whose result is in review.';

COMMENT ON COLUMN hookwire.jobs.number IS 'The number of its latest change of state.';

COMMENT ON COLUMN hookwire.jobs.progress_done IS 'Units of work that are done.';

COMMENT ON COLUMN hookwire.jobs.progress_total IS 'Units of work in all.';

COMMENT ON COLUMN hookwire.jobs.progress_note IS 'A line about the progress.';

COMMENT ON COLUMN hookwire.jobs.token IS 'By which a parked job is resumed.';

COMMENT ON COLUMN hookwire.jobs.resumed IS 'What the resumption brought.';

COMMENT ON COLUMN hookwire.jobs.errors IS 'Failures so far.';

COMMENT ON COLUMN hookwire.jobs.created_by IS 'The key or role that enqueued it.';

COMMENT ON COLUMN hookwire.jobs.releases IS 'How often in a row it was released or snoozed without an attempt.';

CREATE FUNCTION hookwire.act_on_due_job(job hookwire.jobs) RETURNS void
    LANGUAGE plpgsql
    AS $$
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
$$;

CREATE FUNCTION hookwire.add_callbacks(drafts jsonb[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
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
$$;

CREATE FUNCTION hookwire.add_job(job hookwire.jobs, draft jsonb, OUT id uuid, OUT outcome text, OUT state text) RETURNS record
    LANGUAGE plpgsql
    AS $$
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
$$;

CREATE FUNCTION hookwire.add_jobs(drafts jsonb, actor text DEFAULT NULL::text) RETURNS TABLE(n integer, id uuid, outcome text, state text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
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
        job.created_by := left(actor, 200);
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
            INSERT INTO hookwire.job_requests (job_id, requester, callbacks) VALUES (id, job.created_by, draft->'callbacks');
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
$$;

CREATE FUNCTION hookwire.admit_job_rule(rule jsonb) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM hookwire.check_job_draft(rule);
    INSERT INTO hookwire.job_kinds (kind)
    SELECT rule->>'kind' UNION SELECT c.value FROM jsonb_each_text(nullif(rule->'callbacks', 'null')) AS c ON CONFLICT DO NOTHING;
END
$$;

CREATE FUNCTION hookwire.adopt_transaction_ids() RETURNS boolean
    LANGUAGE plpgsql
    AS $$
DECLARE
    next_xid CONSTANT xid8 := pg_snapshot_xmax(pg_current_snapshot());
BEGIN
    IF NOT EXISTS (SELECT FROM hookwire.consumers c WHERE c.xid > next_xid)
       AND NOT EXISTS (SELECT FROM hookwire.queues q WHERE q.copies AND next_xid < (
                           SELECT l.xid FROM hookwire.message_log l WHERE l.queue = q.name ORDER BY l.xid DESC, l.id DESC LIMIT 1))
       AND NOT EXISTS (SELECT FROM hookwire.ledger_cursor c WHERE c.mark_xid > next_xid) THEN
        RETURN false;
    END IF;
    LOCK TABLE hookwire.consumers, hookwire.message_log IN SHARE ROW EXCLUSIVE MODE;
    UPDATE hookwire.ledger_cursor c SET mark_id = NULL, mark_at = NULL, mark_xid = NULL WHERE c.mark_xid > next_xid;
    CREATE TEMP TABLE adopted ON COMMIT DROP AS
    SELECT p.queue, p.xid, p.id, row_number() OVER (PARTITION BY p.queue ORDER BY p.xid, p.id) AS number
    FROM (SELECT DISTINCT c.queue, c.xid, c.id FROM hookwire.consumers c) AS p;
    UPDATE hookwire.message_log l SET xid = (
        SELECT count(*)::text::xid8 FROM adopted a WHERE a.queue = l.queue AND (a.xid, a.id) < (l.xid, l.id));
    UPDATE hookwire.consumers c SET xid = (a.number - 1)::text::xid8, id = 9223372036854775807, claim = NULL, lease_until = NULL
    FROM adopted a WHERE a.queue = c.queue AND a.xid = c.xid AND a.id = c.id;
    DROP TABLE adopted;
    RETURN true;
END
$$;

CREATE FUNCTION hookwire.announce_jobs(changed hookwire.jobs[], in_state text DEFAULT NULL::text, actor text DEFAULT NULL::text, results_of uuid[] DEFAULT NULL::uuid[], results jsonb[] DEFAULT NULL::jsonb[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
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
$$;

CREATE FUNCTION hookwire.announce_tasks() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
BEGIN
    PERFORM hookwire.notify_tasks(array_agg(a.id), array_agg((hookwire.task_policy(a.kind)).notify))
    FROM added a WHERE a.start_time IS NULL AND a.due_at IS NULL AND a.notify_at IS NOT NULL;
    RETURN NULL;
END
$$;

CREATE FUNCTION hookwire.answer_bytes_max() RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN 8388608;

CREATE FUNCTION hookwire.answer_of(id text) RETURNS TABLE(state text, content_type text, body bytea)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
    SELECT r.state, hookwire.frames_type(r.reply_content_type, r.reply_frame_bytes), hookwire.frames_body(r.reply, r.reply_frame_bytes)
    FROM hookwire.requests r WHERE r.id = hookwire.request_id(answer_of.id)
$$;

CREATE FUNCTION hookwire.approve_job(id uuid, actor text, why text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
DECLARE
    job CONSTANT hookwire.jobs := hookwire.locked_job(approve_job.id, 'approve', '{review}');
BEGIN
    PERFORM hookwire.check_reviewer(job, actor);
    PERFORM hookwire.note_job(job.id, 'approve', actor, why);
    PERFORM hookwire.end_jobs(ARRAY[job.id], 'completed', NULL, why, actor);
END
$$;

CREATE FUNCTION hookwire.assert_origin(origin uuid, done_id bigint) RETURNS boolean
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    IF origin <> hookwire.origin() OR done_id > (SELECT e.last_value FROM hookwire.event_id e) THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'event ids may begin anew: the server was restarted, replaced or restored since they were read';
    END IF;
    RETURN true;
END
$$;

CREATE FUNCTION hookwire.assign_job(id uuid, assignee text, actor text, due_at timestamp with time zone DEFAULT NULL::timestamp with time zone, on_due text DEFAULT NULL::text, why text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    job CONSTANT hookwire.jobs := hookwire.locked_job(assign_job.id, 'assign', '{available}');
    moved hookwire.jobs;
BEGIN
    IF NOT hookwire.is_person(assign_job.assignee) THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'assignee is 1-200 printable bytes';
    END IF;
    UPDATE hookwire.jobs j
    SET state = 'assigned', assignee = assign_job.assignee, for_people = true, due_at = assign_job.due_at,
        on_due = CASE WHEN assign_job.due_at IS NOT NULL THEN coalesce(assign_job.on_due, 'remind') END, number = j.number + 1
    WHERE j.id = job.id RETURNING j.* INTO moved;
    PERFORM hookwire.note_job(job.id, 'assign', actor, concat_ws(': ', 'to ' || moved.assignee, why));
    PERFORM hookwire.announce_jobs(ARRAY[moved], NULL, actor);
END
$$;

CREATE FUNCTION hookwire.available_kinds(in_queue text) RETURNS text[]
    LANGUAGE plpgsql STABLE
    AS $$
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
$$;

CREATE FUNCTION hookwire.await_direct_commits() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1215262575, pg_backend_pid() & 7);
    RETURN NULL;
END
$$;

CREATE FUNCTION hookwire.browse(queue text, count integer DEFAULT 1, after_id bigint DEFAULT 0) RETURNS TABLE(id bigint, created_at timestamp with time zone, content_type text, headers jsonb, payload bytea, type text, key text, priority smallint, deliveries integer)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
    SELECT m.id, m.created_at, m.content_type, m.headers, m.payload, m.type, m.key, m.priority, m.deliveries
    FROM hookwire.messages m
    WHERE m.queue = browse.queue AND m.claim IS NULL AND m.due_at IS NULL AND m.id > after_id
    ORDER BY m.id LIMIT least(browse.count, 10000)
$$;

CREATE FUNCTION hookwire.bury_tasks(ids text[], why text) RETURNS void
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    notices jsonb[];
BEGIN
    WITH gone AS (
        DELETE FROM hookwire.task_rows t WHERE t.id = ANY (ids) RETURNING t.*
    ), buried AS (
        INSERT INTO hookwire.dead_tasks (id, kind, description, reason, attempts, worker, created_at)
        SELECT g.id, g.kind, g.description, left(why, 2000), g.attempts, g.worker, g.created_at FROM gone g RETURNING *
    )
    SELECT array_agg(jsonb_build_object(
        'type', 'task.dead', 'about', jsonb_build_object('kind', 'task', 'id', b.id), 'task_kind', b.kind,
        'reason', b.reason, 'attempts', b.attempts)) INTO notices FROM buried b;
    PERFORM hookwire.tell_operators(notices);
END
$$;

CREATE FUNCTION hookwire.cancel_job(id uuid, actor text, why text DEFAULT NULL::text, grace_seconds double precision DEFAULT 30) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    job CONSTANT hookwire.jobs := hookwire.locked_job(cancel_job.id, 'cancel', '{scheduled,available,assigned,running,review,retryable}');
BEGIN
    PERFORM hookwire.note_job(job.id, 'cancel', actor, why);
    IF job.state <> 'running' THEN
        PERFORM hookwire.end_jobs(ARRAY[job.id], 'cancelled', NULL, why, actor);
        RETURN 'cancelled';
    END IF;
    UPDATE hookwire.jobs j SET is_cancelled = true, lease_until = least(j.lease_until, clock_timestamp() + make_interval(secs => grace_seconds))
    WHERE j.id = job.id AND NOT j.is_cancelled;
    RETURN 'running';
END
$$;

CREATE FUNCTION hookwire.check_contents(bodies bytea[], content_types text[]) RETURNS void
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    bytes_max CONSTANT bigint := (SELECT i.payload_bytes_max FROM hookwire.installation i);
BEGIN
    IF EXISTS (SELECT FROM unnest(bodies) AS b WHERE octet_length(b) > bytes_max) THEN
        RAISE EXCEPTION USING ERRCODE = 'HW003', MESSAGE = format('a body is larger than %s bytes', bytes_max),
            HINT = 'Store large content elsewhere and send a link, or raise HOOKWIRE_EVENT_BYTES_MAX.';
    ELSIF EXISTS (SELECT FROM unnest(bodies) AS b WHERE b IS NULL) THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'a body is missing';
    ELSIF EXISTS (SELECT FROM unnest(content_types) AS t WHERE t ~ '[\x01-\x1f\x7f]' OR octet_length(t) > 255) THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'content_type is one line of at most 255 bytes';
    END IF;
END
$$;

CREATE FUNCTION hookwire.check_drafts(topics text[], keys text[], payloads bytea[]) RETURNS void
    LANGUAGE plpgsql STABLE
    AS $_$
DECLARE
    house hookwire.installation;
    wrong text;
BEGIN
    SELECT * INTO house FROM hookwire.installation;
    SELECT CASE
               WHEN d.topic IS NULL OR octet_length(d.topic) > 249 OR d.topic !~ '^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$'
                   THEN format('invalid topic %L: 1-249 of A-Z a-z 0-9 . _ - in dot-separated words', left(d.topic, 80))
               WHEN d.key = '' OR octet_length(d.key) > 1024 OR d.key ~ '[\x01-\x1f\x7f]'
                   THEN 'invalid key: 1-1024 bytes without control characters, or NULL for none'
               WHEN d.payload IS NULL OR octet_length(d.payload) > house.payload_bytes_max
                   THEN format('payload missing or larger than %s bytes', house.payload_bytes_max)
           END
    INTO wrong
    FROM unnest(topics, keys, payloads) AS d(topic, key, payload)
    WHERE d.topic IS NULL OR octet_length(d.topic) > 249 OR d.topic !~ '^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$'
       OR d.key = '' OR octet_length(d.key) > 1024 OR d.key ~ '[\x01-\x1f\x7f]'
       OR d.payload IS NULL OR octet_length(d.payload) > house.payload_bytes_max
    LIMIT 1;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'hookwire.publish: ' || wrong;
    END IF;
    IF NOT house.topics_auto_create THEN
        SELECT d.topic INTO wrong FROM unnest(topics) AS d(topic)
        WHERE NOT starts_with(d.topic, 'hookwire.')
          AND (SELECT t.name FROM hookwire.topics t WHERE t.tenant = 'default' AND t.name = d.topic) IS NULL LIMIT 1;
        IF wrong IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('hookwire.publish: unknown topic %L', wrong);
        END IF;
    END IF;
END
$_$;

CREATE FUNCTION hookwire.check_filter(filter jsonb) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    AS $$
BEGIN
    IF jsonb_typeof(filter) <> 'object' OR octet_length(filter::text) > 16384
       OR filter - ARRAY['type', 'key', 'headers', 'priority_min', 'age_seconds_min'] <> '{}'
       OR coalesce(jsonb_typeof(filter->'type'), 'string') <> 'string'
       OR coalesce(jsonb_typeof(filter->'key'), 'string') <> 'string'
       OR coalesce(jsonb_typeof(filter->'headers'), 'object') <> 'object'
       OR coalesce(jsonb_typeof(filter->'priority_min'), 'number') <> 'number'
       OR coalesce(jsonb_typeof(filter->'age_seconds_min'), 'number') <> 'number' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'a filter is a JSON object of type, key (texts), headers (object), priority_min, age_seconds_min (numbers)';
    END IF;
END
$$;

CREATE FUNCTION hookwire.check_headers(headers jsonb) RETURNS void
    LANGUAGE plpgsql STABLE
    AS $_$
DECLARE
    bytes_max CONSTANT integer := 16384;
    names_max CONSTANT integer := 64;
    wrong text;
BEGIN
    IF jsonb_typeof(headers) <> 'object'
       OR EXISTS (SELECT FROM jsonb_each(headers) AS h
                  WHERE jsonb_typeof(h.value) <> 'string' OR h.key <> lower(h.key) OR h.key !~ '^[a-z0-9_.-]{1,200}$'
                     OR (h.value #>> '{}') ~ '[\x01-\x1f\x7f]') THEN
        wrong := 'headers must be a JSON object of lower-case names and one-line texts';
    ELSIF octet_length(headers::text) > bytes_max THEN
        wrong := format('the headers have %s bytes as JSON, at most %s are accepted', octet_length(headers::text), bytes_max);
    ELSIF (SELECT count(*) FROM jsonb_object_keys(headers)) > names_max THEN
        wrong := format('there are more than %s headers', names_max);
    ELSE
        SELECT CASE
                   WHEN h.key = 'hookwire-ttl' THEN 'the header hookwire-ttl is a number of seconds, 1 to 31536000'
                   WHEN h.key = 'hookwire-retry' THEN 'the header hookwire-retry is never, or left out'
                   WHEN h.key = 'content-encoding' THEN 'the header content-encoding would change the body for subscribers; leave it out'
                   WHEN starts_with(h.key, 'hookwire-') THEN format('the header %s is the hub''s own; leave it out', h.key)
                   ELSE format('the header %s would be sent to every subscriber; leave it out', h.key)
               END
        INTO wrong
        FROM jsonb_each_text(headers) AS h
        WHERE CASE h.key
                  WHEN 'hookwire-ttl' THEN CASE WHEN h.value ~ '^[0-9]{1,8}$' THEN h.value::bigint NOT BETWEEN 1 AND 31536000 ELSE true END
                  WHEN 'hookwire-retry' THEN h.value <> 'never'
                  ELSE starts_with(h.key, 'hookwire-') OR starts_with(h.key, 'proxy-') OR starts_with(h.key, 'x-forwarded-')
                       OR h.key IN ('authorization', 'cookie', 'set-cookie', 'x-api-key', 'forwarded', 'content-encoding')
              END
        LIMIT 1;
    END IF;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'hookwire.publish: ' || wrong;
    END IF;
END
$_$;

CREATE FUNCTION hookwire.check_job_draft(draft jsonb) RETURNS void
    LANGUAGE plpgsql STABLE
    AS $$
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
$$;

CREATE FUNCTION hookwire.check_job_result(result jsonb) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    AS $$
BEGIN
    IF octet_length(result::text) > 1048576 THEN
        RAISE EXCEPTION USING ERRCODE = 'HW003', MESSAGE = 'the result is larger than 1 MiB',
            HINT = 'Store large content elsewhere and return a link.';
    END IF;
    IF NOT hookwire.is_readable_json(result) THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'the result is nested deeper than 64, or holds a number of more than 1,000 digits';
    END IF;
END
$$;

CREATE FUNCTION hookwire.check_messages(payloads bytea[], content_types text[], headers jsonb[], types text[], keys text[]) RETURNS void
    LANGUAGE plpgsql STABLE
    AS $_$
DECLARE
    bytes_max CONSTANT bigint := (SELECT i.payload_bytes_max FROM hookwire.installation i);
    wrong text;
BEGIN
    IF EXISTS (SELECT FROM unnest(payloads) AS p WHERE octet_length(p) > bytes_max) THEN
        RAISE EXCEPTION USING ERRCODE = 'HW003', MESSAGE = format('a payload is larger than %s bytes', bytes_max),
            HINT = 'Store large content elsewhere and submit a link, or raise HOOKWIRE_EVENT_BYTES_MAX.';
    END IF;
    SELECT CASE
               WHEN d.payload IS NULL THEN 'a payload is missing'
               WHEN d.content_type ~ '[\x01-\x1f\x7f]' OR octet_length(d.content_type) > 255 THEN 'content_type is one line of at most 255 bytes'
               WHEN d.type IS NOT NULL AND NOT hookwire.is_queue_name(d.type) THEN 'type is 1-200 of A-Z a-z 0-9 . _ - in dot-separated words'
               WHEN d.key = '' OR octet_length(d.key) > 1024 OR d.key ~ '[\x01-\x1f\x7f]' THEN 'key is 1-1024 bytes without control characters'
               WHEN jsonb_typeof(d.headers) <> 'object' OR octet_length(d.headers::text) > 16384
                 OR (SELECT count(*) > 64 OR bool_or(jsonb_typeof(h.value) <> 'string' OR h.key !~ '^[a-z0-9_.-]{1,200}$'
                                                     OR (h.value #>> '{}') ~ '[\x01-\x1f\x7f]')
                     FROM jsonb_each(CASE WHEN jsonb_typeof(d.headers) = 'object' THEN d.headers ELSE '{}' END) AS h)
                   THEN 'headers is a JSON object of at most 64 lower-case names and one-line texts, at most 16 KiB'
           END
    INTO wrong
    FROM unnest(payloads, content_types, headers, types, keys) AS d(payload, content_type, headers, type, key)
    WHERE d.payload IS NULL
       OR d.content_type IS NOT NULL AND (d.content_type ~ '[\x01-\x1f\x7f]' OR octet_length(d.content_type) > 255)
       OR d.type IS NOT NULL AND NOT hookwire.is_queue_name(d.type)
       OR d.key IS NOT NULL AND (d.key = '' OR octet_length(d.key) > 1024 OR d.key ~ '[\x01-\x1f\x7f]')
       OR d.headers <> '{}' AND (
           jsonb_typeof(d.headers) <> 'object' OR octet_length(d.headers::text) > 16384
           OR (SELECT count(*) > 64 OR bool_or(jsonb_typeof(h.value) <> 'string' OR h.key !~ '^[a-z0-9_.-]{1,200}$'
                                               OR (h.value #>> '{}') ~ '[\x01-\x1f\x7f]')
               FROM jsonb_each(CASE WHEN jsonb_typeof(d.headers) = 'object' THEN d.headers ELSE '{}' END) AS h))
    LIMIT 1;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'hookwire.submit: ' || wrong;
    END IF;
END
$_$;

CREATE FUNCTION hookwire.check_queue_name(name text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    AS $$
BEGIN
    IF NOT hookwire.is_queue_name(name) THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('invalid queue %L: 1-200 of A-Z a-z 0-9 . _ - in dot-separated words', left(name, 80));
    END IF;
END
$$;

CREATE FUNCTION hookwire.check_reviewer(job hookwire.jobs, actor text) RETURNS void
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    IF job.state = 'review' AND job.performer = actor AND (hookwire.job_policy(job.kind)).reviewer_differs THEN
        RAISE EXCEPTION USING ERRCODE = 'HW002', MESSAGE = format('%s has done the job %s; another person reviews it', actor, job.id);
    END IF;
END
$$;

CREATE FUNCTION hookwire.check_service_name(name text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    AS $$
BEGIN
    IF NOT hookwire.is_queue_name(name) THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('invalid service %L: 1-200 of A-Z a-z 0-9 . _ - in dot-separated words', left(name, 80));
    ELSIF name ~ '^(mmi|titanic|hub)\.' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('the service %L is the broker''s own: mmi., titanic. and hub. are reserved', left(name, 80));
    END IF;
END
$$;

CREATE FUNCTION hookwire.check_services_open(services text[]) RETURNS void
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    wrong text;
BEGIN
    SELECT w INTO wrong FROM unnest(services) AS w
    WHERE NOT (SELECT i.services_auto_create FROM hookwire.installation i)
      AND (SELECT s.name FROM hookwire.services s WHERE s.name = w) IS NULL LIMIT 1;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('unknown service %L', left(wrong, 80)),
            HINT = 'Make it with PUT /services/{name}, or set HOOKWIRE_SERVICES_AUTO_CREATE.';
    END IF;
    SELECT s.name INTO wrong FROM hookwire.services s WHERE s.name = ANY (services) AND s.disabled LIMIT 1;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'HW002', MESSAGE = format('the service %L is disabled', wrong);
    END IF;
    SELECT s.name INTO wrong FROM hookwire.services s
    WHERE s.name = ANY (services) AND s.without_workers = 'refuse' AND NOT hookwire.has_workers(s.name) LIMIT 1;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'HW002', MESSAGE = format('the service %L has no worker', wrong);
    END IF;
END
$$;

CREATE FUNCTION hookwire.check_writable() RETURNS timestamp with time zone
    LANGUAGE plpgsql
    SET work_mem TO '64kB'
    AS $$
DECLARE
    moment timestamptz;
BEGIN
    PERFORM count(*) FROM (SELECT n FROM generate_series(1, 20000) AS n ORDER BY hashint4(n)) AS spilled;
    INSERT INTO hookwire.readiness AS r (written_at) VALUES (now())
    ON CONFLICT (singleton) DO UPDATE SET written_at = excluded.written_at
    RETURNING r.written_at INTO moment;
    RETURN moment;
END $$;

CREATE FUNCTION hookwire.claim_jobs(kinds text[], most integer, worker text, lease_seconds double precision DEFAULT NULL::double precision, queue text DEFAULT 'default'::text) RETURNS TABLE(id uuid, claim bigint, attempts integer, lease_until timestamp with time zone, run_until timestamp with time zone, kind text, args jsonb, key text, attempts_max integer, created_at timestamp with time zone, resumed jsonb)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
BEGIN
    RETURN QUERY SELECT * FROM hookwire.take_jobs(claim_jobs.kinds, claim_jobs.most, claim_jobs.worker, claim_jobs.lease_seconds, claim_jobs.queue);
END
$$;

CREATE FUNCTION hookwire.claim_requests(service text, count integer DEFAULT 1, lease_seconds double precision DEFAULT NULL::double precision, worker text DEFAULT NULL::text) RETURNS TABLE(id text, claim bigint, attempts integer, lease_until timestamp with time zone, created_at timestamp with time zone, content_type text, body bytea)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
BEGIN
    PERFORM hookwire.check_service_name(claim_requests.service);
    IF claim_requests.count NOT BETWEEN 1 AND 10000 OR claim_requests.lease_seconds NOT BETWEEN 0.05 AND 43200 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'hookwire.claim_requests: count is 1 to 10000, lease_seconds 0.05 to 43200';
    END IF;
    RETURN QUERY
    SELECT translate(l.id::text, '-', ''), l.claim, l.attempts, l.lease_until, l.created_at,
           hookwire.frames_type(l.content_type, l.frame_bytes), hookwire.frames_body(l.body, l.frame_bytes)
    FROM hookwire.lease_requests(claim_requests.service, claim_requests.count, claim_requests.lease_seconds,
                                 coalesce(claim_requests.worker, session_user), 60) AS l;
END
$$;

CREATE FUNCTION hookwire.claim_task(task_id text, worker text, kinds text[] DEFAULT NULL::text[]) RETURNS TABLE(outcome text, id text, kind text, description text, claim bigint, attempts integer, created_at timestamp with time zone, lease_until timestamp with time zone)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '1s'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    in_worker CONSTANT text := left(claim_task.worker, 200);
    found hookwire.task_rows;
BEGIN
    SELECT t.* INTO found FROM hookwire.task_rows t WHERE t.id = task_id FOR UPDATE;
    IF found.id IS NULL OR found.start_time IS NOT NULL OR found.finish_time IS NOT NULL OR found.due_at > clock_timestamp()
       OR found.kind <> ALL (kinds) THEN
        RETURN QUERY SELECT CASE WHEN found.id IS NULL THEN 'absent' WHEN found.kind <> ALL (kinds) THEN 'taken' WHEN found.start_time IS NULL AND found.finish_time IS NULL THEN 'waiting' ELSE 'taken' END,
                            task_id, found.kind, NULL::text, NULL::bigint, found.attempts, NULL::timestamptz, NULL::timestamptz;
        RETURN;
    END IF;
    RETURN QUERY
    UPDATE hookwire.task_rows t
    SET start_time = clock_timestamp(), claim = nextval('hookwire.lease_fence'), worker = in_worker, attempts = t.attempts + 1,
        due_at = NULL, lease_until = clock_timestamp() + make_interval(secs => (hookwire.task_policy(t.kind)).crash_seconds)
    WHERE t.id = task_id
    RETURNING 'claimed', t.id, t.kind, t.description, t.claim, t.attempts, t.created_at, t.lease_until;
END
$$;

CREATE FUNCTION hookwire.claim_tasks(kinds text[], most integer, worker text) RETURNS TABLE(outcome text, id text, kind text, description text, claim bigint, attempts integer, created_at timestamp with time zone, lease_until timestamp with time zone)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    in_worker CONSTANT text := left(claim_tasks.worker, 200);
    picked text[] := '{}';
    one text;
    bytes_left bigint := hookwire.answer_bytes_max();
BEGIN
    FOREACH one IN ARRAY coalesce(kinds, ARRAY(SELECT k FROM hookwire.waiting_kinds() AS k)) LOOP
        EXIT WHEN cardinality(picked) >= most OR bytes_left <= 0;
        SELECT picked || coalesce(array_agg(s.id), '{}'), bytes_left - coalesce(sum(s.size), 0) INTO picked, bytes_left
        FROM (
            SELECT w.id, w.size, sum(w.size) OVER (ORDER BY w.seq ROWS UNBOUNDED PRECEDING) - w.size AS before
            FROM (
                SELECT t.id, t.seq, octet_length(t.description) AS size FROM hookwire.task_rows t
                WHERE t.kind = one AND t.start_time IS NULL AND t.due_at IS NULL
                ORDER BY t.seq LIMIT most - cardinality(picked) FOR UPDATE SKIP LOCKED
            ) AS w
        ) AS s WHERE s.before < bytes_left;
    END LOOP;
    RETURN QUERY
    WITH taken AS (
        UPDATE hookwire.task_rows t
        SET start_time = clock_timestamp(), claim = nextval('hookwire.lease_fence'), worker = in_worker, attempts = t.attempts + 1,
            lease_until = clock_timestamp() + make_interval(secs => (hookwire.task_policy(t.kind)).crash_seconds)
        WHERE t.id = ANY (picked)
        RETURNING t.*
    )
    SELECT 'claimed', t.id, t.kind, t.description, t.claim, t.attempts, t.created_at, t.lease_until FROM taken t ORDER BY t.seq;
END
$$;

CREATE FUNCTION hookwire.clean_tasks(most integer) RETURNS TABLE(notified bigint, freed bigint, archived bigint, retried bigint, compensated bigint, abandoned bigint)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    moment CONSTANT timestamptz := clock_timestamp(); -- an index has no condition on a function that changes
    waiting text[];
    ways text[];
    lost text[];
    crashed hookwire.task_rows;
    done text;
BEGIN
    notified := 0; freed := 0; archived := 0; retried := 0; compensated := 0; abandoned := 0;
    IF NOT pg_try_advisory_xact_lock(1215262573, 1) THEN
        RETURN NEXT;
        RETURN;
    END IF;

    waiting := ARRAY(SELECT t.id FROM hookwire.task_rows t WHERE t.due_at <= moment ORDER BY t.due_at LIMIT most FOR UPDATE SKIP LOCKED);
    UPDATE hookwire.task_rows t SET due_at = NULL, notify_at = clock_timestamp() WHERE t.id = ANY (waiting) AND t.start_time IS NULL;
    GET DIAGNOSTICS freed = ROW_COUNT;

    waiting := ARRAY(SELECT t.id FROM hookwire.task_rows t
                     WHERE t.start_time IS NULL AND t.due_at IS NULL AND t.notify_at <= moment
                     ORDER BY t.notify_at LIMIT most FOR UPDATE SKIP LOCKED);
    WITH again AS (
        UPDATE hookwire.task_rows t
        SET notify_at = CASE WHEN (hookwire.task_policy(t.kind)).notify <> 'nobody'
                             THEN clock_timestamp() + make_interval(secs => (hookwire.task_policy(t.kind)).cleanup_seconds) END
        WHERE t.id = ANY (waiting) RETURNING t.id, (hookwire.task_policy(t.kind)).notify AS way
    )
    SELECT array_agg(a.id), array_agg(CASE a.way WHEN 'enqueuer' THEN hookwire.notify_way() ELSE a.way END)
    INTO waiting, ways FROM again a WHERE a.way <> 'nobody';
    PERFORM hookwire.notify_tasks(waiting, ways);
    notified := coalesce(cardinality(waiting), 0);

    WITH gone AS (
        DELETE FROM hookwire.task_rows t
        WHERE t.id = ANY (ARRAY(SELECT f.id FROM hookwire.task_rows f WHERE f.finish_time IS NOT NULL ORDER BY f.finish_time LIMIT most FOR UPDATE SKIP LOCKED))
        RETURNING t.*
    )
    INSERT INTO hookwire.task_archive (id, kind, description, outcome, created_at, start_time, finish_time, attempts, worker)
    SELECT g.id, g.kind, g.description, 'finished', g.created_at, g.start_time, g.finish_time, g.attempts, g.worker FROM gone g;
    GET DIAGNOSTICS archived = ROW_COUNT;

    lost := ARRAY(SELECT w.name FROM hookwire.task_workers w WHERE w.seen_until <= moment ORDER BY w.seen_until LIMIT 100);
    FOR crashed IN
        (SELECT t.* FROM hookwire.task_rows t
         WHERE t.start_time IS NOT NULL AND t.finish_time IS NULL AND t.lease_until <= moment
         ORDER BY t.lease_until LIMIT most FOR UPDATE SKIP LOCKED)
    LOOP
        done := hookwire.recover_task(crashed);
        retried := retried + (done = 'retry')::integer;
        compensated := compensated + (done = 'compensate')::integer;
        abandoned := abandoned + (done = 'abandon')::integer;
    END LOOP;
    FOR crashed IN
        (SELECT t.* FROM hookwire.task_rows t
         WHERE t.worker = ANY (lost) AND t.start_time IS NOT NULL AND t.finish_time IS NULL
         LIMIT most FOR UPDATE SKIP LOCKED)
    LOOP
        done := hookwire.recover_task(crashed);
        retried := retried + (done = 'retry')::integer;
        compensated := compensated + (done = 'compensate')::integer;
        abandoned := abandoned + (done = 'abandon')::integer;
    END LOOP;
    DELETE FROM hookwire.task_workers w
    WHERE w.name = ANY (lost) AND w.seen_until <= moment
      AND NOT EXISTS (SELECT FROM hookwire.task_rows t WHERE t.worker = w.name);
    RETURN NEXT;
END
$$;

CREATE FUNCTION hookwire.close_request(id text) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
    SELECT hookwire.forget_requests(ARRAY[hookwire.request_id(close_request.id)], session_user)
$$;

CREATE FUNCTION hookwire.complete_job(id uuid, claim bigint, result jsonb DEFAULT NULL::jsonb, events jsonb DEFAULT NULL::jsonb, jobs jsonb DEFAULT NULL::jsonb) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM hookwire.complete_jobs(ARRAY[complete_job.id], ARRAY[complete_job.claim], ARRAY[complete_job.result],
                                                      ARRAY[jsonb_build_object('events', events, 'jobs', jobs)])) THEN
        PERFORM hookwire.refuse_stale_job(complete_job.id, complete_job.claim);
    END IF;
END
$$;

CREATE FUNCTION hookwire.complete_jobs(ids uuid[], claims bigint[], results jsonb[] DEFAULT NULL::jsonb[], extras jsonb[] DEFAULT NULL::jsonb[]) RETURNS SETOF uuid
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    held uuid[];
    reviewed hookwire.jobs[];
    extra record;
BEGIN
    -- A shorter result has neither 65 levels nor 250 digits.
    PERFORM hookwire.check_job_result(r) FROM unnest(results) AS r WHERE octet_length(r::text) > 128;
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
        END LOOP;
    END IF;
    RETURN QUERY SELECT unnest(held);
END
$$;

CREATE FUNCTION hookwire.complete_task() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
DECLARE
    policy hookwire.task_kinds;
BEGIN
    IF TG_OP = 'INSERT' THEN
        NEW.kind := coalesce(NEW.kind, CASE WHEN hookwire.is_queue_name(NEW.description) THEN NEW.description ELSE 'default' END);
        IF NOT hookwire.is_queue_name(NEW.kind) THEN
            RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
                MESSAGE = format('invalid kind %L: 1-200 of A-Z a-z 0-9 . _ - in dot-separated words', left(NEW.kind, 80));
        END IF;
        IF NOT (SELECT i.kinds_auto_create FROM hookwire.installation i)
           AND NOT EXISTS (SELECT FROM hookwire.task_kinds k WHERE k.kind = NEW.kind) THEN
            RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('unknown kind %L', NEW.kind),
                HINT = 'Make it with PUT /tasks/kinds/{kind}, or set HOOKWIRE_KINDS_AUTO_CREATE.';
        END IF;
        policy := hookwire.task_policy(NEW.kind);
        -- The first message may merely be queued: nothing is notified again before two intervals are over (JB-31).
        NEW.notify_at := CASE WHEN policy.notify <> 'nobody' THEN clock_timestamp() + make_interval(secs => 2 * policy.cleanup_seconds) END;
    ELSIF NEW.start_time IS NULL THEN                -- an application gives it back
        NEW.claim := NULL; NEW.worker := NULL; NEW.lease_until := NULL;
    ELSE                                             -- an application begins it, by the article's UPDATE
        NEW.claim := nextval('hookwire.lease_fence');
        NEW.attempts := OLD.attempts + 1;
        NEW.lease_until := clock_timestamp() + make_interval(secs => (hookwire.task_policy(NEW.kind)).crash_seconds);
    END IF;
    RETURN NEW;
END
$$;

CREATE FUNCTION hookwire.content_hash(id bigint, accepted_at timestamp with time zone, ordered boolean, key text, content_type text, headers jsonb, payload bytea) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN ((('x'::text || "left"(encode(sha256((convert_to(concat_ws(chr(31), id, ((EXTRACT(epoch FROM accepted_at) * (1000000)::numeric))::bigint, CASE WHEN ordered THEN (id)::text ELSE '-'::text END, COALESCE(('='::text || key), '-'::text), COALESCE(('='::text || content_type), '-'::text), CASE WHEN (headers = '{}'::jsonb) THEN ''::text ELSE (SELECT COALESCE(string_agg(((n.name || '='::text) || h.value), chr(30) ORDER BY h.place), ''::text) AS "coalesce" FROM (jsonb_each_text(content_hash.headers) WITH ORDINALITY h(name, value, place) CROSS JOIN LATERAL (SELECT regexp_replace(h.name, '^ce-'::text, 'ce_'::text) AS regexp_replace) n(name)) WHERE ((n.name = 'hookwire-hops'::text) OR (NOT starts_with(n.name, 'hookwire-'::text)))) END, '='), 'UTF8'::name) || payload)), 'hex'::text), 16)))::bit(64))::bigint;

CREATE FUNCTION hookwire.decline_job(id uuid, actor text, why text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
DECLARE
    job CONSTANT hookwire.jobs := hookwire.locked_job(decline_job.id, 'decline', '{review,assigned}');
BEGIN
    PERFORM hookwire.check_reviewer(job, actor);
    PERFORM hookwire.note_job(job.id, 'decline', actor, why);
    PERFORM hookwire.end_jobs(ARRAY[job.id], 'discarded', NULL, coalesce(why, 'declined'), actor);
END
$$;

CREATE FUNCTION hookwire.delay_job(id uuid, actor text, due_at timestamp with time zone DEFAULT NULL::timestamp with time zone, due_local timestamp without time zone DEFAULT NULL::timestamp without time zone, due_zone text DEFAULT NULL::text, to_pool boolean DEFAULT false, why text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    job CONSTANT hookwire.jobs := hookwire.locked_job(delay_job.id, 'delay', '{available,assigned,scheduled,retryable}');
    until CONSTANT timestamptz := coalesce(delay_job.due_local AT TIME ZONE delay_job.due_zone, delay_job.due_at);
    moved hookwire.jobs;
BEGIN
    IF until IS NULL OR until > clock_timestamp() + interval '200 years' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'delay needs due_at, or due_local and due_zone';
    END IF;
    UPDATE hookwire.jobs j
    SET state = 'scheduled', due_at = until, due_local = delay_job.due_local, due_zone = delay_job.due_zone, on_due = NULL,
        assignee = CASE WHEN NOT to_pool THEN j.assignee END, number = j.number + 1
    WHERE j.id = job.id RETURNING j.* INTO moved;
    PERFORM hookwire.note_job(job.id, 'delay', actor, concat_ws(': ', 'until ' || to_char(until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI"Z"'), why));
    PERFORM hookwire.announce_jobs(ARRAY[moved], NULL, actor);
END
$$;

CREATE FUNCTION hookwire.direct_audience(tenant text, units integer[], topics text[], keys text[], orders boolean[], routes text[], busy integer[], terms hookwire.direct_terms) RETURNS SETOF hookwire.direct_delivery
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    in_tenant CONSTANT text := direct_audience.tenant;
BEGIN
    RETURN QUERY
    WITH draft AS MATERIALIZED (
        -- Of two events of a key in one commit the second waits for the first.
        SELECT q.n, q.topic, q.key
        FROM (SELECT d.n::integer AS n, d.unit, d.topic, d.key, d.ordered, d.route,
                     count(*) OVER (PARTITION BY d.key) AS of_key
              FROM unnest(units, topics, keys, orders, routes) WITH ORDINALITY AS d(unit, topic, key, ordered, route, n)) AS q
        WHERE q.unit <> ALL (busy) AND 'webhooks' = ANY (string_to_array(q.route, ','))
          AND (SELECT t.name FROM hookwire.topics t WHERE t.tenant = in_tenant AND t.name = q.topic) IS NOT NULL
          AND (q.key IS NULL OR (q.ordered AND q.of_key = 1 AND (
                  SELECT o.id FROM hookwire.outbox o
                  WHERE o.sink = 'webhooks' AND o.shard = hookwire.shard_of(hookwire.lane_digest(q.topic, q.key))
                    AND o.id >= terms.low
                  ORDER BY o.id LIMIT 1) IS NULL))
    ), pattern AS MATERIALIZED (
        SELECT x.id, x.topic_regex FROM hookwire.subscriptions x
        WHERE x.tenant = in_tenant AND x.state = 'active' AND x.topic_regex IS NOT NULL
        LIMIT terms.patterns_max + 1
    ), chosen AS MATERIALIZED (
        -- A limit for the whole commit: where it is passed, all drafts take the outbox, and nothing more is read.
        SELECT c.* FROM (
            SELECT d.n, d.key, s.id
            FROM draft d CROSS JOIN LATERAL (
                SELECT x.id FROM hookwire.subscriptions x
                WHERE x.tenant = in_tenant AND x.topic = d.topic AND x.state = 'active' AND x.topic_regex IS NULL
                LIMIT terms.deliveries_max + 1
            ) AS s
            UNION ALL
            SELECT d.n, d.key, p.id FROM draft d CROSS JOIN pattern p WHERE d.topic ~ p.topic_regex
        ) AS c
        LIMIT terms.deliveries_max + 1
    ), owed AS MATERIALIZED (
        -- is_plain: nothing has to be judged, counted or waited for. The lane of a pattern holds the key in other topics,
        -- too, whose stripes are not held here.
        SELECT c.n, s.*,
               s.is_usual AND (SELECT g.subscription_id FROM hookwire.delivery_gates g
                               WHERE g.subscription_id = s.id AND g.trips > 0) IS NULL
               AND (s.lane IS NULL OR (SELECT x.event_id FROM hookwire.deliveries x
                                       WHERE x.subscription_id = s.id AND x.lane = s.lane
                                       ORDER BY x.event_id LIMIT 1) IS NULL) AS is_plain
        FROM chosen c CROSS JOIN LATERAL (
            SELECT x.id, x.version,
                   coalesce(x.timeout_seconds, terms.timeout_seconds) + terms.lease_margin_seconds AS lease_seconds,
                   CASE WHEN x.ordered THEN c.key END AS lane,
                   x.protocol IN ('webhook', 'websub') AND x.filter_path IS NULL AND x.rate_per_second IS NULL
                   AND NOT x.at_most_once AND x.format <> 'batch' AND NOT (x.ordered AND x.topic_regex IS NOT NULL)
                   AND (x.paused_until IS NULL OR x.paused_until <= clock_timestamp()) AS is_usual
            FROM hookwire.subscriptions x
            WHERE x.id = c.id
              AND (x.protocol NOT IN ('webhook', 'websub') OR x.lease_until IS NULL OR x.lease_until > clock_timestamp())
            LIMIT 1
        ) AS s
    )
    SELECT d.n, o.id, o.version, o.lease_seconds, o.lane
    FROM draft d LEFT JOIN owed o ON o.n = d.n
    WHERE NOT EXISTS (SELECT FROM owed x WHERE x.n = d.n AND NOT x.is_plain)
      AND (SELECT count(*) FROM chosen) <= terms.deliveries_max
      AND (SELECT count(*) FROM pattern) <= terms.patterns_max
      AND (SELECT h.id FROM hookwire.held h WHERE h.sink = 'webhooks' ORDER BY h.id LIMIT 1) IS NULL
      AND (SELECT h.topic FROM hookwire.holds h WHERE h.sink = 'webhooks' LIMIT 1) IS NULL
      -- While a layout is changed, the leases are closed.
      AND (SELECT t.grp FROM hookwire.relay_terms t WHERE t.sink = 'webhooks' AND NOT t.is_open LIMIT 1) IS NULL
      AND hookwire.origin() = terms.origin
      AND current_setting('transaction_isolation') = 'read committed';
END
$$;

CREATE FUNCTION hookwire.end_jobs(ids uuid[], in_state text, results jsonb[] DEFAULT NULL::jsonb[], why text DEFAULT NULL::text, actor text DEFAULT NULL::text, results_of uuid[] DEFAULT NULL::uuid[], claims bigint[] DEFAULT NULL::bigint[]) RETURNS uuid[]
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
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

CREATE FUNCTION hookwire.enqueue(kind text, args jsonb DEFAULT '{}'::jsonb, uniq text DEFAULT NULL::text, key text DEFAULT NULL::text, queue text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, due_at timestamp with time zone DEFAULT NULL::timestamp with time zone, delay_seconds double precision DEFAULT NULL::double precision, attempts_max integer DEFAULT NULL::integer, run_seconds double precision DEFAULT NULL::double precision, deadline_seconds double precision DEFAULT NULL::double precision, assignee text DEFAULT NULL::text, on_conflict text DEFAULT NULL::text, callbacks jsonb DEFAULT NULL::jsonb, requester text DEFAULT NULL::text) RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
BEGIN
    RETURN (SELECT a.id FROM hookwire.add_jobs(jsonb_build_array(jsonb_strip_nulls(jsonb_build_object(
        'kind', enqueue.kind, 'uniq', enqueue.uniq, 'key', enqueue.key, 'queue', enqueue.queue, 'priority', enqueue.priority,
        'due_at', enqueue.due_at, 'delay_seconds', enqueue.delay_seconds, 'attempts_max', enqueue.attempts_max,
        'run_seconds', enqueue.run_seconds, 'deadline_seconds', enqueue.deadline_seconds, 'assignee', enqueue.assignee,
        'on_conflict', enqueue.on_conflict, 'callbacks', enqueue.callbacks)) || jsonb_build_object('args', enqueue.args)),
        enqueue.requester) AS a);
END
$$;

CREATE FUNCTION hookwire.enqueue_events(ids bigint[], incarnation text) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
DECLARE
    drafts CONSTANT jsonb := (
        SELECT jsonb_agg(t.job || jsonb_build_object('key', coalesce(e.key, ''), 'args', hookwire.event_job_args(
                   format('evt_%s_%s', incarnation, e.id), e.topic, e.key, e.accepted_at, e.content_type, e.headers, e.payload)) ORDER BY e.id)
        FROM unnest(ids) AS i(id)
        CROSS JOIN LATERAL (SELECT x.* FROM hookwire.events x WHERE x.id BETWEEN i.id AND i.id ORDER BY x.id LIMIT 1) AS e
        CROSS JOIN LATERAL (SELECT x.job FROM hookwire.topics x WHERE x.tenant = e.tenant AND x.name = e.topic LIMIT 1) AS t
        WHERE t.job IS NOT NULL);
BEGIN
    RETURN (SELECT count(*) FROM hookwire.add_jobs(coalesce(drafts, '[]'), 'topic'));
END
$$;

CREATE FUNCTION hookwire.enqueue_task(kind text, args jsonb DEFAULT '{}'::jsonb, delay_seconds double precision DEFAULT 0, is_unique boolean DEFAULT NULL::boolean) RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    in_kind CONSTANT text := enqueue_task.kind;
    unique_now CONSTANT boolean := coalesce(enqueue_task.is_unique, (hookwire.task_policy(in_kind)).is_unique);
    made uuid;
BEGIN
    IF args IS NULL OR octet_length(args::text) > 1048576 THEN
        RAISE EXCEPTION USING ERRCODE = CASE WHEN args IS NULL THEN '22023' ELSE 'HW003' END,
            MESSAGE = 'hookwire.enqueue_task: args is JSON of at most 1 MiB';
    END IF;
    IF delay_seconds NOT BETWEEN 0 AND 315360000 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'hookwire.enqueue_task: delay_seconds is 0 to 315360000';
    END IF;
    made := CASE WHEN unique_now
                 THEN encode(substring(sha256(convert_to(in_kind || E'\n' || args::text, 'UTF8')) FOR 16), 'hex')::uuid
                 ELSE gen_random_uuid() END;
    INSERT INTO hookwire.task_rows (id, description, kind, due_at)
    VALUES (made::text, args::text, in_kind, CASE WHEN delay_seconds > 0 THEN clock_timestamp() + make_interval(secs => delay_seconds) END)
    ON CONFLICT (id) DO NOTHING;
    RETURN made;
END
$$;

CREATE TABLE hookwire.rabbithub_resources (
    id bigint NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    vhost text NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    exchange_type text,
    source bigint,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    mirror boolean,
    CONSTRAINT rabbithub_resources_check CHECK ((((kind = 'x'::text) = (exchange_type IS NOT NULL)) AND ((kind = 'q'::text) = (source IS NOT NULL)))),
    CONSTRAINT rabbithub_resources_exchange_type_check CHECK ((exchange_type = ANY (ARRAY['direct'::text, 'fanout'::text, 'topic'::text, 'headers'::text]))),
    CONSTRAINT rabbithub_resources_kind_check CHECK ((kind = ANY (ARRAY['x'::text, 'q'::text])))
);

COMMENT ON TABLE hookwire.rabbithub_resources IS 'RabbitHub: exchanges and queues of each virtual host.';

COMMENT ON COLUMN hookwire.rabbithub_resources.kind IS 'x: exchange, q: queue.';

COMMENT ON COLUMN hookwire.rabbithub_resources.source IS 'Of a queue: the pull subscription that keeps its messages.';

COMMENT ON COLUMN hookwire.rabbithub_resources.mirror IS 'Whether the exchange is mirrored to AMQP; NULL: as the hub''s setting says.';

CREATE FUNCTION hookwire.ensure_built_in_exchanges(tenant text, vhost text) RETURNS void
    LANGUAGE sql
    BEGIN ATOMIC
 INSERT INTO hookwire.rabbithub_resources (tenant, vhost, kind, name, exchange_type)  SELECT ensure_built_in_exchanges.tenant AS tenant,
             ensure_built_in_exchanges.vhost AS vhost,
             'x',
             b.name,
             b.exchange_type
            FROM ( VALUES (''::text,'direct'::text), ('amq.direct'::text,'direct'::text), ('amq.fanout'::text,'fanout'::text), ('amq.topic'::text,'topic'::text), ('amq.headers'::text,'headers'::text), ('amq.match'::text,'headers'::text)) b(name, exchange_type) ON CONFLICT DO NOTHING;
END;

CREATE FUNCTION hookwire.ensure_partitions(spare integer DEFAULT 3) RETURNS integer
    LANGUAGE plpgsql
    AS $$
DECLARE
    size CONSTANT bigint := 10000000;
    current_id bigint;
    target bigint;
    lower_id bigint;
    made integer := 0;
    parent text;
    child text;
BEGIN
    -- One maker at a time; the class is hookwire's, the number is this duty's.
    PERFORM pg_advisory_xact_lock(1215262571, -1);
    PERFORM hookwire.mark_numbers();
    SELECT last_value INTO current_id FROM hookwire.event_id;
    INSERT INTO hookwire.id_watermarks AS w (day, last_id) VALUES (current_date, current_id)
        ON CONFLICT (day) DO UPDATE SET last_id = excluded.last_id;
    target := current_id + greatest(30 * hookwire.ids_per_day(), spare * size);
    lower_id := (current_id / size) * size;
    WHILE lower_id <= target LOOP
        FOREACH parent IN ARRAY ARRAY['events', 'attempts'] LOOP
            child := parent || '_' || lpad((lower_id / size)::text, 8, '0');
            IF to_regclass('hookwire.' || child) IS NULL THEN
                EXECUTE format('CREATE TABLE hookwire.%I (LIKE hookwire.%I INCLUDING ALL)', child, parent);
                EXECUTE format('ALTER TABLE hookwire.%I ATTACH PARTITION hookwire.%I FOR VALUES FROM (%s) TO (%s)',
                               parent, child, lower_id, lower_id + size);
                made := made + 1;
            END IF;
        END LOOP;
        lower_id := lower_id + size;
    END LOOP;
    RETURN made;
END
$$;

CREATE FUNCTION hookwire.event_digest(key text, content_type text, headers jsonb, payload bytea) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN sha256((sha256(payload) || convert_to((jsonb_build_array(key, content_type, (SELECT jsonb_object_agg(h.key, h.value) AS jsonb_object_agg FROM jsonb_each_text(COALESCE(event_digest.headers, '{}'::jsonb)) h(key, value) WHERE (starts_with(h.key, 'ce-'::text) AND (h.key <> ALL (ARRAY['ce-time'::text, 'ce-traceparent'::text, 'ce-tracestate'::text]))))))::text, 'UTF8'::name)));

CREATE FUNCTION hookwire.event_job_args(event_id text, topic text, key text, accepted_at timestamp with time zone, content_type text, headers jsonb, payload bytea) RETURNS jsonb
    LANGUAGE plpgsql STABLE
    AS $$
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
$$;

CREATE FUNCTION hookwire.event_job_content(payload bytea) RETURNS jsonb
    LANGUAGE plpgsql STABLE
    AS $$
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
$$;

CREATE FUNCTION hookwire.extend_held(ids bigint[], claims bigint[], queue text DEFAULT NULL::text, lease_seconds double precision DEFAULT 30) RETURNS SETOF bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    held CONSTANT bigint[] := hookwire.held_messages(ids, claims, extend_held.queue);
BEGIN
    IF lease_seconds NOT BETWEEN 0.05 AND 43200 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'hookwire.extend: lease_seconds is 0.05 to 43200';
    END IF;
    RETURN QUERY UPDATE hookwire.messages m SET lease_until = clock_timestamp() + make_interval(secs => extend_held.lease_seconds)
                 WHERE m.id = ANY (held) RETURNING m.id;
END
$$;

CREATE FUNCTION hookwire.refuse_stale(wanted bigint[], settled bigint[], claim bigint) RETURNS integer
    LANGUAGE plpgsql IMMUTABLE
    AS $$
DECLARE
    stale CONSTANT bigint[] := ARRAY(SELECT unnest(wanted) EXCEPT SELECT unnest(settled) ORDER BY 1);
BEGIN
    IF stale <> '{}' THEN
        RAISE EXCEPTION USING ERRCODE = 'HW001',
            MESSAGE = format('the claim %s does not hold %s any more; nothing was changed', claim, left(stale::text, 200)),
            HINT = 'Its lease ended, or it was settled before. Receive again.';
    END IF;
    RETURN cardinality(settled);
END
$$;

CREATE FUNCTION hookwire.extend(ids bigint[], claim bigint, lease_seconds double precision DEFAULT 30) RETURNS integer
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    RETURN hookwire.refuse_stale(ids, ARRAY(SELECT hookwire.extend_held(ids, array_fill(claim, ARRAY[cardinality(ids)]), NULL::text, lease_seconds) AS extend_held), claim);

CREATE FUNCTION hookwire.extend_jobs(ids uuid[], claims bigint[], lease_seconds double precision DEFAULT 30) RETURNS TABLE(id uuid, lease_until timestamp with time zone, is_cancelled boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
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
$$;

CREATE FUNCTION hookwire.extend_requests(ids uuid[], claims bigint[], lease_seconds double precision) RETURNS TABLE(id uuid, claim bigint)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
BEGIN
    PERFORM FROM hookwire.requests r WHERE r.id = ANY (ids) ORDER BY r.id FOR UPDATE;
    FOR n IN 1 .. cardinality(ids) LOOP
        RETURN QUERY
        UPDATE hookwire.requests r SET state = 'leased', deadline_at = clock_timestamp() + make_interval(secs => lease_seconds)
        WHERE r.id = ids[n] AND r.claim = claims[n] AND r.state IN ('waiting', 'leased')
        RETURNING r.id, r.claim;
    END LOOP;
END
$$;

CREATE FUNCTION hookwire.fail_job(id uuid, claim bigint, error text, dead boolean DEFAULT false, retry_seconds double precision DEFAULT NULL::double precision) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
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
$$;

CREATE FUNCTION hookwire.fail_task(task_id text, of_claim bigint, why text, dead boolean DEFAULT false) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
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

CREATE FUNCTION hookwire.json_of(payload bytea) RETURNS jsonb
    LANGUAGE plpgsql STABLE STRICT
    AS $$
BEGIN
    RETURN convert_from(payload, 'UTF8')::jsonb;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END
$$;

CREATE FUNCTION hookwire.filter_document(topic text, key text, accepted_at timestamp with time zone, content_type text, headers jsonb, payload bytea) RETURNS jsonb
    LANGUAGE sql STABLE
    RETURN jsonb_build_object('topic', topic, 'key', key, 'time', to_char((accepted_at AT TIME ZONE 'UTC'::text), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'::text), 'content_type', content_type, 'headers', headers, 'data', hookwire.json_of(payload));

CREATE FUNCTION hookwire.finish_job(id uuid, actor text, result jsonb DEFAULT NULL::jsonb, why text DEFAULT NULL::text) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
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
$$;

CREATE FUNCTION hookwire.finish_tasks(ids text[], claims bigint[]) RETURNS SETOF text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    held CONSTANT text[] := hookwire.held_tasks(ids, claims);
BEGIN
    RETURN QUERY
    WITH gone AS (
        DELETE FROM hookwire.task_rows t WHERE t.id = ANY (held) RETURNING t.*
    ), archived AS (
        INSERT INTO hookwire.task_archive (id, kind, description, outcome, created_at, start_time, finish_time, attempts, worker)
        SELECT g.id, g.kind, g.description, 'finished', g.created_at, g.start_time, clock_timestamp(), g.attempts, g.worker
        FROM gone g WHERE (hookwire.task_policy(g.kind)).keeps_record
    )
    SELECT g.id FROM gone g;
END
$$;

CREATE FUNCTION hookwire.fire_schedule(schedule text, expected timestamp with time zone, next_moment timestamp with time zone, ticks timestamp with time zone[]) RETURNS integer
    LANGUAGE plpgsql
    AS $$
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
$$;

CREATE FUNCTION hookwire.forget_requests(ids uuid[], actor text) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    forgotten integer;
BEGIN
    WITH gone AS (
        DELETE FROM hookwire.requests r WHERE r.id = ANY (ids) RETURNING r.*
    )
    INSERT INTO hookwire.request_archive (id, service, state, via, caller, worker, attempts, created_at, answered_at, closed_by, body_bytes, reply_bytes)
    SELECT g.id, g.service, g.state, g.via, g.caller, g.worker, g.attempts, g.created_at, g.answered_at, left(actor, 200),
           octet_length(g.body), octet_length(g.reply)
    FROM gone g;
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    IF forgotten > 0 AND (SELECT i.sql_notify FROM hookwire.installation i) THEN
        PERFORM pg_notify('hookwire_services', '');
    END IF;
    RETURN forgotten;
END
$$;

CREATE FUNCTION hookwire.frames_body(body bytea, frame_bytes integer[]) RETURNS bytea
    LANGUAGE plpgsql IMMUTABLE
    AS $$
BEGIN
    IF frame_bytes IS NULL THEN
        RETURN body;
    END IF;
    RETURN (
        SELECT convert_to(jsonb_build_object('frames', jsonb_agg(translate(encode(substring(body FROM f.after + 1 FOR f.size), 'base64'), E'\n', '') ORDER BY f.n))::text, 'UTF8')
        FROM (SELECT u.n, u.size, (sum(u.size) OVER (ORDER BY u.n) - u.size)::integer AS after
              FROM unnest(frame_bytes) WITH ORDINALITY AS u(size, n)) AS f);
END
$$;

CREATE FUNCTION hookwire.frames_type(content_type text, frame_bytes integer[]) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN (frame_bytes IS NULL) THEN content_type ELSE 'application/vnd.hookwire.frames+json'::text END;

CREATE FUNCTION hookwire.graduate(queue text) RETURNS text
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    in_queue CONSTANT text := graduate.queue;
    place text;
BEGIN
    PERFORM hookwire.check_queue_name(in_queue);
    INSERT INTO hookwire.queues (name) VALUES (in_queue) ON CONFLICT DO NOTHING;
    SELECT 'messages_' || q.id INTO place FROM hookwire.queues q WHERE q.name = in_queue FOR UPDATE;
    IF to_regclass(format('hookwire.%I', place)) IS NULL THEN
        EXECUTE format('CREATE TABLE hookwire.%I (LIKE hookwire.messages INCLUDING ALL, CHECK (queue = %L))
                        WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000)', place, in_queue);
        EXECUTE format('ALTER TABLE hookwire.%I INHERIT hookwire.messages', place);
    END IF;
    UPDATE hookwire.queues q SET graduated = true WHERE q.name = in_queue;
    RETURN 'hookwire.' || place;
END
$$;

CREATE FUNCTION hookwire.graduate_batch(queue text, most integer) RETURNS bigint
    LANGUAGE plpgsql
    AS $_$
#variable_conflict use_column
DECLARE
    moved bigint;
BEGIN
    EXECUTE format(
        'WITH picked AS MATERIALIZED (
             SELECT m.id FROM ONLY hookwire.messages m WHERE m.queue = $1 AND m.claim IS NULL AND m.due_at IS NULL
             ORDER BY m.id LIMIT $2 FOR UPDATE SKIP LOCKED
         ), gone AS (
             DELETE FROM ONLY hookwire.messages m WHERE m.id = ANY (ARRAY(SELECT p.id FROM picked p)) RETURNING m.*
         )
         INSERT INTO hookwire.%I (id, queue, claim, due_at, lease_until, claimed_at, created_at, deliveries, priority, receiver,
                                  type, key, content_type, headers, payload, last_reason)
         SELECT id, queue, claim, due_at, lease_until, claimed_at, created_at, deliveries, priority, receiver,
                type, key, content_type, headers, payload, last_reason FROM gone',
        (SELECT 'messages_' || q.id FROM hookwire.queues q WHERE q.name = graduate_batch.queue AND q.graduated))
    USING graduate_batch.queue, most;
    GET DIAGNOSTICS moved = ROW_COUNT;
    RETURN moved;
END
$_$;

CREATE TABLE hookwire.layouts (
    number smallint NOT NULL,
    groups jsonb NOT NULL,
    order_scope text NOT NULL,
    hash_version smallint NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT layouts_hash_version_check CHECK ((hash_version = 1)),
    CONSTRAINT layouts_order_scope_check CHECK ((order_scope = ANY (ARRAY['topic_key'::text, 'key'::text])))
);

COMMENT ON TABLE hookwire.layouts IS 'Layouts of shards: shard s belongs to partition group s modulo the number of groups. A layout never changes.';

COMMENT ON COLUMN hookwire.layouts.number IS 'The layout''s number; the installation names the current one.';

COMMENT ON COLUMN hookwire.layouts.groups IS 'How many partition groups each sink has.';

COMMENT ON COLUMN hookwire.layouts.order_scope IS 'What is kept in order: the key of a topic (topic_key) or a key in all topics (key).';

COMMENT ON COLUMN hookwire.layouts.hash_version IS 'Which hash of topic and key chooses the shard.';

CREATE FUNCTION hookwire.groups_of(layout smallint, sink text) RETURNS smallint
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN (SELECT COALESCE(((l.groups ->> groups_of.sink))::smallint, (1)::smallint) AS "coalesce" FROM hookwire.layouts l WHERE (l.number = groups_of.layout));

CREATE TABLE hookwire.requests (
    id uuid NOT NULL,
    number bigint NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    service text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL,
    deadline_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    claim bigint,
    attempts integer DEFAULT 0 NOT NULL,
    worker text,
    via text NOT NULL,
    caller text,
    content_type text,
    frame_bytes integer[],
    body bytea NOT NULL,
    answered_at timestamp with time zone,
    reply_content_type text,
    reply_frame_bytes integer[],
    reply bytea,
    last_error text,
    CONSTRAINT requests_state_check CHECK ((state = ANY (ARRAY['waiting'::text, 'delayed'::text, 'leased'::text, 'answered'::text, 'expired'::text, 'failed'::text]))),
    CONSTRAINT requests_via_check CHECK ((via = ANY (ARRAY['http'::text, 'sql'::text, 'zeromq'::text])))
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_insert_threshold='-1', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='100000');

COMMENT ON TABLE hookwire.requests IS 'Requests to services, from all protocols, until they are closed.';

COMMENT ON COLUMN hookwire.requests.id IS 'Unguessable: over ZeroMQ and SQL it is the right to the answer.';

COMMENT ON COLUMN hookwire.requests.number IS 'The order of acceptance.';

COMMENT ON COLUMN hookwire.requests.deadline_at IS 'When the current state ends by itself.';

COMMENT ON COLUMN hookwire.requests.expires_at IS 'No worker gets it after this.';

COMMENT ON COLUMN hookwire.requests.claim IS 'The last fence, also when its lease is over: its holder may answer until a newer one is drawn.';

COMMENT ON COLUMN hookwire.requests.via IS 'The protocol of the caller: http, sql or zeromq.';

COMMENT ON COLUMN hookwire.requests.caller IS 'Over HTTP the only principal that may ask for the answer.';

COMMENT ON COLUMN hookwire.requests.frame_bytes IS 'The lengths of the frames in body; NULL: one frame.';

COMMENT ON COLUMN hookwire.requests.body IS 'The frames of the request, one after the other.';

COMMENT ON COLUMN hookwire.requests.reply_frame_bytes IS 'The lengths of the frames in reply; NULL: one frame.';

CREATE TABLE hookwire.services (
    id integer NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    lease_seconds real DEFAULT 30 NOT NULL,
    tries_max integer DEFAULT 5 NOT NULL,
    idempotent boolean DEFAULT true NOT NULL,
    expiry_seconds real DEFAULT 86400 NOT NULL,
    retention_seconds real DEFAULT 604800 NOT NULL,
    concurrency_max integer,
    without_workers text DEFAULT 'queue'::text NOT NULL,
    disabled boolean DEFAULT false NOT NULL,
    workers_until timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT services_concurrency_max_check CHECK (((concurrency_max >= 1) AND (concurrency_max <= 100000))),
    CONSTRAINT services_expiry_seconds_check CHECK (((expiry_seconds >= (0.05)::double precision) AND (expiry_seconds <= (31536000)::double precision))),
    CONSTRAINT services_lease_seconds_check CHECK (((lease_seconds >= (0.05)::double precision) AND (lease_seconds <= (43200)::double precision))),
    CONSTRAINT services_retention_seconds_check CHECK (((retention_seconds >= (0.05)::double precision) AND (retention_seconds <= (31536000)::double precision))),
    CONSTRAINT services_tries_max_check CHECK (((tries_max >= 1) AND (tries_max <= 1000))),
    CONSTRAINT services_without_workers_check CHECK ((without_workers = ANY (ARRAY['queue'::text, 'refuse'::text])))
)
WITH (fillfactor='50');

COMMENT ON TABLE hookwire.services IS 'Services of request-reply: rows of settings. Requests name their service and need no row (RR-04).';

COMMENT ON COLUMN hookwire.services.tries_max IS 'How often a request is leased before it fails.';

COMMENT ON COLUMN hookwire.services.idempotent IS 'False: a request whose worker was lost is given to no other worker.';

COMMENT ON COLUMN hookwire.services.expiry_seconds IS 'How long a request waits for its reply.';

COMMENT ON COLUMN hookwire.services.retention_seconds IS 'How long replies are kept.';

COMMENT ON COLUMN hookwire.services.concurrency_max IS 'How many requests are leased at once; NULL: no limit.';

COMMENT ON COLUMN hookwire.services.without_workers IS 'Whether requests wait or are refused when no worker is present.';

COMMENT ON COLUMN hookwire.services.disabled IS 'New requests are refused; those that wait are still processed.';

COMMENT ON COLUMN hookwire.services.workers_until IS 'A worker has asked for requests and counts as present until then.';

CREATE TABLE hookwire.subscriptions (
    id bigint NOT NULL,
    public_id text NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    protocol text NOT NULL,
    topic text NOT NULL,
    topic_regex text,
    topic_url text,
    callback text NOT NULL,
    state text NOT NULL,
    state_reason text,
    ordered boolean DEFAULT false NOT NULL,
    signature_method text DEFAULT 'sha256'::text NOT NULL,
    retry_schedule_seconds integer[],
    timeout_seconds real,
    lease_until timestamp with time zone,
    paused_until timestamp with time zone,
    version bigint DEFAULT 1 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    identity bytea,
    filter jsonb,
    filter_path jsonpath,
    lifetime_seconds integer,
    retry_age_seconds_max integer,
    on_4xx text DEFAULT 'retry'::text NOT NULL,
    on_410 text DEFAULT 'end'::text NOT NULL,
    at_most_once boolean DEFAULT false NOT NULL,
    on_exhausted text DEFAULT 'skip'::text NOT NULL,
    header_names text[],
    headers_key_id text,
    headers_sealed bytea,
    pshb03 boolean DEFAULT false NOT NULL,
    permanent boolean DEFAULT false NOT NULL,
    verify_token text,
    rate_per_second double precision,
    rate_burst integer,
    format text DEFAULT 'as_published'::text NOT NULL,
    request_origin text,
    batch_max integer,
    template text,
    callback_host text,
    requester_network text,
    service text COLLATE pg_catalog."C",
    name text,
    description text,
    metadata jsonb,
    drops_at_end boolean DEFAULT false NOT NULL,
    kind text COLLATE pg_catalog."C",
    queue text COLLATE pg_catalog."C",
    CONSTRAINT subscriptions_batch_max_check CHECK (((batch_max >= 1) AND (batch_max <= 1000))),
    CONSTRAINT subscriptions_format_check CHECK ((format = ANY (ARRAY['as_published'::text, 'raw'::text, 'binary'::text, 'structured'::text, 'batch'::text, 'websub_ping'::text, 'slack'::text, 'mattermost'::text]))),
    CONSTRAINT subscriptions_headers_check CHECK ((((headers_sealed IS NULL) = (headers_key_id IS NULL)) AND ((headers_sealed IS NULL) = (header_names IS NULL)))),
    CONSTRAINT subscriptions_identity_check CHECK ((length(identity) = 32)),
    CONSTRAINT subscriptions_mode_check CHECK ((NOT (at_most_once AND ordered))),
    CONSTRAINT subscriptions_on_410_check CHECK ((on_410 = ANY (ARRAY['end'::text, 'as_4xx'::text]))),
    CONSTRAINT subscriptions_on_4xx_check CHECK ((on_4xx = ANY (ARRAY['retry'::text, 'give_up'::text]))),
    CONSTRAINT subscriptions_on_exhausted_check CHECK ((on_exhausted = ANY (ARRAY['park'::text, 'skip'::text]))),
    CONSTRAINT subscriptions_protocol_check CHECK ((protocol = ANY (ARRAY['webhook'::text, 'websub'::text, 'pull'::text, 'rabbithub'::text, 'service'::text, 'job'::text]))),
    CONSTRAINT subscriptions_rate_burst_check CHECK ((rate_burst > 0)),
    CONSTRAINT subscriptions_rate_per_second_check CHECK ((rate_per_second > (0)::double precision)),
    CONSTRAINT subscriptions_state_check CHECK ((state = ANY (ARRAY['active'::text, 'disabled'::text, 'gone'::text, 'expired'::text, 'denied'::text, 'deleted'::text])))
);

COMMENT ON TABLE hookwire.subscriptions IS 'Subscriptions of all protocols, with what they want and how they are delivered to.';

COMMENT ON COLUMN hookwire.subscriptions.protocol IS 'webhook (API), websub, pull, rabbithub or service.';

COMMENT ON COLUMN hookwire.subscriptions.topic IS 'The topic or pattern as it was asked for.';

COMMENT ON COLUMN hookwire.subscriptions.topic_regex IS 'The pattern as a regular expression; NULL: one topic.';

COMMENT ON COLUMN hookwire.subscriptions.topic_url IS 'The URL by which a WebSub subscriber named the topic.';

COMMENT ON COLUMN hookwire.subscriptions.callback IS 'The URL that gets the events; empty for pull.';

COMMENT ON COLUMN hookwire.subscriptions.state IS 'As it was set: active, disabled, gone, expired, denied or deleted. Health is computed, not stored.';

COMMENT ON COLUMN hookwire.subscriptions.state_reason IS 'Why it is not active any more.';

COMMENT ON COLUMN hookwire.subscriptions.ordered IS 'Whether the events of a key are delivered one after the other.';

COMMENT ON COLUMN hookwire.subscriptions.signature_method IS 'The hash of WebSub''s signature.';

COMMENT ON COLUMN hookwire.subscriptions.retry_schedule_seconds IS 'Pauses between attempts; NULL: the hub''s setting.';

COMMENT ON COLUMN hookwire.subscriptions.timeout_seconds IS 'The deadline of one attempt; NULL: the hub''s setting.';

COMMENT ON COLUMN hookwire.subscriptions.lease_until IS 'The end of a WebSub lease, or of a pull subscription that is not fetched from; NULL: none.';

COMMENT ON COLUMN hookwire.subscriptions.paused_until IS 'Until when a 429 pauses deliveries.';

COMMENT ON COLUMN hookwire.subscriptions.version IS 'Rises with each change; a worker reads the subscription again when a claim names another version.';

COMMENT ON COLUMN hookwire.subscriptions.identity IS 'SHA-256 of topic and callback: the pair, however its URLs are spelled.';

COMMENT ON COLUMN hookwire.subscriptions.filter IS 'The filter as it was asked for.';

COMMENT ON COLUMN hookwire.subscriptions.filter_path IS 'The filter as the predicate that hookwire.passes evaluates.';

COMMENT ON COLUMN hookwire.subscriptions.lifetime_seconds IS 'Pull: how long it lasts without a fetch.';

COMMENT ON COLUMN hookwire.subscriptions.retry_age_seconds_max IS 'How old a delivery may grow before it is given up; NULL: the hub''s setting.';

COMMENT ON COLUMN hookwire.subscriptions.on_4xx IS 'Whether a 4xx is retried or final for its delivery.';

COMMENT ON COLUMN hookwire.subscriptions.on_410 IS 'Whether a 410 ends the subscription or counts as any 4xx.';

COMMENT ON COLUMN hookwire.subscriptions.at_most_once IS 'A delivery whose outcome is unknown is never sent again.';

COMMENT ON COLUMN hookwire.subscriptions.on_exhausted IS 'What an exhausted head of a lane does: park keeps its key waiting, skip goes on.';

COMMENT ON COLUMN hookwire.subscriptions.header_names IS 'The names in headers_sealed, which may be shown.';

COMMENT ON COLUMN hookwire.subscriptions.headers_key_id IS 'The key that sealed headers_sealed.';

COMMENT ON COLUMN hookwire.subscriptions.headers_sealed IS 'Headers of the subscriber''s own, encrypted.';

COMMENT ON COLUMN hookwire.subscriptions.pshb03 IS 'Made by a request of PubSubHubbub 0.3.';

COMMENT ON COLUMN hookwire.subscriptions.permanent IS 'Renewed by the hub before its lease ends (PubSubHubbub 0.3).';

COMMENT ON COLUMN hookwire.subscriptions.verify_token IS 'PubSubHubbub 0.3: the token that is echoed to the callback.';

COMMENT ON COLUMN hookwire.subscriptions.rate_per_second IS 'The rate limit; NULL: none.';

COMMENT ON COLUMN hookwire.subscriptions.rate_burst IS 'How many deliveries may be made at once under the rate limit.';

COMMENT ON COLUMN hookwire.subscriptions.format IS 'How a delivery carries the event.';

COMMENT ON COLUMN hookwire.subscriptions.request_origin IS 'The origin that the callback consented to be sent to by (CloudEvents).';

COMMENT ON COLUMN hookwire.subscriptions.batch_max IS 'How many events one request may carry; NULL: one.';

COMMENT ON COLUMN hookwire.subscriptions.template IS 'How a chat shows an event.';

COMMENT ON COLUMN hookwire.subscriptions.callback_host IS 'The host of the callback, for limits that count by host.';

COMMENT ON COLUMN hookwire.subscriptions.requester_network IS 'The network that asked for it: an IPv4 address or an IPv6 /64.';

COMMENT ON COLUMN hookwire.subscriptions.service IS 'The service whose requests the callback gets; NULL for subscriptions to topics.';

COMMENT ON COLUMN hookwire.subscriptions.metadata IS 'The subscriber''s own JSON, which is only shown again.';

COMMENT ON COLUMN hookwire.subscriptions.drops_at_end IS 'Whether what it is owed at its end is dropped instead of becoming dead letters.';

CREATE FUNCTION hookwire.has_workers(of_service text) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN ((EXISTS (SELECT FROM hookwire.services s WHERE ((s.name = has_workers.of_service) AND (s.workers_until > clock_timestamp())))) OR (EXISTS (SELECT FROM hookwire.requests r WHERE ((r.service = has_workers.of_service) AND (r.state = 'leased'::text)))) OR (EXISTS (SELECT FROM hookwire.subscriptions x WHERE ((x.service = has_workers.of_service) AND (x.protocol = 'service'::text) AND (x.state = 'active'::text)))));

CREATE FUNCTION hookwire.held_jobs(ids uuid[], claims bigint[]) RETURNS uuid[]
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN (SELECT coalesce(array_agg(d.id), '{}')
    FROM (SELECT r.id, r.claim FROM unnest(ids, claims) AS r(id, claim) ORDER BY r.id) AS r
    CROSS JOIN LATERAL (
        SELECT j.id, j.state FROM hookwire.jobs j WHERE j.id BETWEEN r.id AND r.id AND j.claim = r.claim
        ORDER BY j.id LIMIT 1 FOR NO KEY UPDATE OF j   -- requests that merge may lock its key
    ) AS d WHERE d.state = 'running');
END
$$;

CREATE FUNCTION hookwire.held_messages(ids bigint[], claims bigint[], in_queue text) RETURNS bigint[]
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN (SELECT coalesce(array_agg(d.id ORDER BY d.id), '{}')
    FROM (SELECT r.id, r.claim FROM unnest(ids, claims) AS r(id, claim) ORDER BY r.claim, r.id) AS r
    CROSS JOIN LATERAL (
        SELECT m.id FROM hookwire.messages m
        WHERE m.id BETWEEN r.id AND r.id AND m.claim = r.claim AND (in_queue IS NULL OR m.queue = in_queue)
        ORDER BY m.id LIMIT 1 FOR UPDATE OF m
    ) AS d);
END
$$;

CREATE FUNCTION hookwire.held_tasks(ids text[], claims bigint[]) RETURNS text[]
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN (SELECT coalesce(array_agg(d.id), '{}')
    FROM (SELECT r.id, r.claim FROM unnest(ids, claims) AS r(id, claim) ORDER BY r.id) AS r
    CROSS JOIN LATERAL (
        SELECT t.id FROM hookwire.task_rows t WHERE t.id BETWEEN r.id AND r.id AND t.claim = r.claim
        ORDER BY t.id LIMIT 1 FOR UPDATE OF t
    ) AS d);
END
$$;

CREATE FUNCTION hookwire.ids_left() RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
    SELECT CASE WHEN bool_or(p.low <= n.next_id AND n.next_id < p.high) THEN max(p.high) - n.next_id ELSE 0 END
    FROM (SELECT e.last_value + e.is_called::integer AS next_id FROM hookwire.event_id e) AS n
    LEFT JOIN (SELECT substring(b.bound FROM 'FROM \(''(\d+)''\)')::bigint AS low, substring(b.bound FROM 'TO \(''(\d+)''\)')::bigint AS high
               FROM (SELECT pg_get_expr(c.relpartbound, c.oid) AS bound FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
                     WHERE i.inhparent = 'hookwire.events'::regclass AND NOT i.inhdetachpending) AS b) AS p ON true
    GROUP BY n.next_id
$$;

CREATE FUNCTION hookwire.ids_per_day() RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
    SELECT coalesce(sum(greatest(d.last_id - d.before_id - d.skipped, 0)) / greatest(count(*), 1), 0)::bigint
    FROM (SELECT w.last_id, w.skipped, lag(w.last_id) OVER (ORDER BY w.day) AS before_id
          FROM hookwire.id_watermarks w WHERE w.day >= current_date - 7) AS d
    WHERE d.before_id IS NOT NULL
$$;

CREATE FUNCTION hookwire.is_person(name text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN COALESCE((((octet_length(name) >= 1) AND (octet_length(name) <= 200)) AND (name !~ '[\x01-\x1f\x7f]'::text)), false);

CREATE FUNCTION hookwire.is_queue_name(name text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN COALESCE(((octet_length(name) <= 200) AND (name ~ '^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$'::text)), false);

CREATE FUNCTION hookwire.is_readable_json(value jsonb, levels_max integer DEFAULT 64) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE
    AS $_$
BEGIN
    IF jsonb_path_exists(value, format('$.**{%s}', levels_max + 1)::jsonpath) THEN
        RETURN false;
    END IF;
    -- Only a text with so many digits in a row can hold such a number, so most texts need no search.
    RETURN value IS NULL OR value::text !~ '[0-9]{250}'
        OR NOT jsonb_path_exists(value, '$.** ? (@.type() == "number" && (@ >= 1e1000 || @ <= -1e1000))');
END
$_$;

COMMENT ON FUNCTION hookwire.is_readable_json(value jsonb, levels_max integer) IS 'Whether JSON has at most so many levels, and numbers of at most 1,000 digits.';

CREATE FUNCTION hookwire.is_told_result(result jsonb) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN ((octet_length((result)::text) <= 128) OR ((octet_length((result)::text) <= 65536) AND hookwire.is_readable_json(result, 63)));

CREATE TABLE hookwire.job_kinds (
    kind text NOT NULL COLLATE pg_catalog."C",
    automation text,
    machine_percent integer,
    machine_rule jsonb,
    needs_review boolean,
    reviewer_differs boolean,
    escalate_to text,
    attempts_max integer,
    run_seconds real,
    deadline_seconds real,
    lease_seconds real,
    backoff_seconds_min real,
    backoff_seconds_max real,
    doublings_max integer,
    ageing_seconds real,
    running_max integer,
    key_running_max integer,
    key_rate_per_second real,
    key_burst integer,
    events text[],
    retention_days integer,
    is_paused boolean DEFAULT false NOT NULL,
    CONSTRAINT job_kinds_ageing_seconds_check CHECK (((ageing_seconds >= (0.001)::double precision) AND (ageing_seconds <= (86400)::double precision))),
    CONSTRAINT job_kinds_attempts_max_check CHECK (((attempts_max >= 1) AND (attempts_max <= 1000000))),
    CONSTRAINT job_kinds_automation_check CHECK ((automation = ANY (ARRAY['manual'::text, 'assisted'::text, 'mostly'::text, 'automatic'::text]))),
    CONSTRAINT job_kinds_backoff_seconds_max_check CHECK (((backoff_seconds_max >= (0)::double precision) AND (backoff_seconds_max <= (2592000)::double precision))),
    CONSTRAINT job_kinds_backoff_seconds_min_check CHECK (((backoff_seconds_min >= (0)::double precision) AND (backoff_seconds_min <= (86400)::double precision))),
    CONSTRAINT job_kinds_check CHECK (((kind <> '*'::text) OR (num_nulls(automation, machine_percent, needs_review, reviewer_differs, attempts_max, run_seconds, lease_seconds, backoff_seconds_min, backoff_seconds_max, doublings_max, ageing_seconds, key_burst, events, retention_days) = 0))),
    CONSTRAINT job_kinds_deadline_seconds_check CHECK (((deadline_seconds >= (0.05)::double precision) AND (deadline_seconds <= (315360000)::double precision))),
    CONSTRAINT job_kinds_doublings_max_check CHECK (((doublings_max >= 0) AND (doublings_max <= 60))),
    CONSTRAINT job_kinds_escalate_to_check CHECK (((octet_length(escalate_to) >= 1) AND (octet_length(escalate_to) <= 200))),
    CONSTRAINT job_kinds_events_check CHECK ((events <@ ARRAY['scheduled'::text, 'available'::text, 'assigned'::text, 'running'::text, 'review'::text, 'retryable'::text, 'completed'::text, 'cancelled'::text, 'discarded'::text, 'progress'::text, 'due'::text])),
    CONSTRAINT job_kinds_key_burst_check CHECK (((key_burst >= 1) AND (key_burst <= 1000000))),
    CONSTRAINT job_kinds_key_rate_per_second_check CHECK (((key_rate_per_second >= (0.000001)::double precision) AND (key_rate_per_second <= (1000000)::double precision))),
    CONSTRAINT job_kinds_key_running_max_check CHECK (((key_running_max >= 1) AND (key_running_max <= 1000000))),
    CONSTRAINT job_kinds_kind_check CHECK (((kind = '*'::text) OR hookwire.is_queue_name(kind))),
    CONSTRAINT job_kinds_lease_seconds_check CHECK (((lease_seconds >= (0.05)::double precision) AND (lease_seconds <= (43200)::double precision))),
    CONSTRAINT job_kinds_machine_percent_check CHECK (((machine_percent >= 0) AND (machine_percent <= 100))),
    CONSTRAINT job_kinds_machine_rule_check CHECK ((jsonb_typeof(machine_rule) = 'object'::text)),
    CONSTRAINT job_kinds_retention_days_check CHECK (((retention_days >= 0) AND (retention_days <= 3660))),
    CONSTRAINT job_kinds_run_seconds_check CHECK (((run_seconds >= (0.05)::double precision) AND (run_seconds <= (2592000)::double precision))),
    CONSTRAINT job_kinds_running_max_check CHECK (((running_max >= 1) AND (running_max <= 1000000)))
);

COMMENT ON TABLE hookwire.job_kinds IS 'How jobs of a kind are treated. A kind needs no row; NULL means as in the row ''*''.';

COMMENT ON COLUMN hookwire.job_kinds.automation IS 'Whether jobs go to people, machines or both: manual, assisted, mostly or automatic.';

COMMENT ON COLUMN hookwire.job_kinds.machine_percent IS 'With automation mostly: the share of jobs that goes to machines.';

COMMENT ON COLUMN hookwire.job_kinds.machine_rule IS 'With automation mostly: jobs whose arguments contain it go to machines.';

COMMENT ON COLUMN hookwire.job_kinds.needs_review IS 'Whether a result has to be reviewed.';

COMMENT ON COLUMN hookwire.job_kinds.reviewer_differs IS 'Whether the reviewer must not be the performer.';

COMMENT ON COLUMN hookwire.job_kinds.escalate_to IS 'Who gets a job that is past its due time.';

COMMENT ON COLUMN hookwire.job_kinds.deadline_seconds IS 'From the submission of a job to its end; NULL: no limit.';

COMMENT ON COLUMN hookwire.job_kinds.doublings_max IS 'How often the backoff doubles before it grows by the last step.';

COMMENT ON COLUMN hookwire.job_kinds.ageing_seconds IS 'The waiting time that is worth one step of priority.';

COMMENT ON COLUMN hookwire.job_kinds.running_max IS 'How many jobs of the kind run at once.';

COMMENT ON COLUMN hookwire.job_kinds.key_running_max IS 'How many jobs of one key run at once.';

COMMENT ON COLUMN hookwire.job_kinds.key_rate_per_second IS 'How many jobs of one key start in a second.';

COMMENT ON COLUMN hookwire.job_kinds.key_burst IS 'How many of these may start at once.';

COMMENT ON COLUMN hookwire.job_kinds.events IS 'The states whose changes are published.';

COMMENT ON COLUMN hookwire.job_kinds.retention_days IS 'How long ended jobs stay in the archive; 0: they are not kept.';

COMMENT ON COLUMN hookwire.job_kinds.is_paused IS 'Whether nothing of the kind is claimed.';

CREATE FUNCTION hookwire.job_backoff_seconds(attempt integer, policy hookwire.job_kinds) RETURNS double precision
    LANGUAGE sql IMMUTABLE
    RETURN LEAST(((policy).backoff_seconds_max)::double precision, (((policy).backoff_seconds_min * power((2)::double precision, (LEAST((GREATEST(attempt, 1) - 1), (policy).doublings_max))::double precision)) * ((1 + GREATEST(((attempt - 1) - (policy).doublings_max), 0)))::double precision));

CREATE FUNCTION hookwire.job_due(draft jsonb, moment timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    due CONSTANT timestamptz := coalesce(
        (draft->>'due_local')::timestamp AT TIME ZONE (draft->>'due_zone'), (draft->>'due_at')::timestamptz,
        moment + make_interval(secs => coalesce((draft->>'delay_seconds')::double precision, 0)));
BEGIN
    IF due > moment + interval '200 years' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'hookwire.enqueue: a job is due within 200 years';
    END IF;
    RETURN due;
END
$$;

CREATE FUNCTION hookwire.job_is_for_people(id uuid, args jsonb, policy hookwire.job_kinds) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN CASE (policy).automation WHEN 'manual'::text THEN true WHEN 'mostly'::text THEN (NOT (COALESCE((args @> (policy).machine_rule), false) OR (((hashtext((id)::text) & 2147483647) % 100) < (policy).machine_percent))) ELSE false END;

CREATE FUNCTION hookwire.job_keys(in_queue text, in_kind text, after_key text, most integer) RETURNS text[]
    LANGUAGE plpgsql STABLE
    AS $$
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
$$;

CREATE FUNCTION hookwire.job_policy(of_kind text) RETURNS hookwire.job_kinds
    LANGUAGE plpgsql STABLE
    AS $$
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
$$;

CREATE FUNCTION hookwire.jobs_within(ids uuid[], bytes_max bigint, OUT count integer, OUT bytes bigint) RETURNS record
    LANGUAGE plpgsql STABLE
    AS $$
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
$$;

CREATE FUNCTION hookwire.keep_jobs(most integer) RETURNS TABLE(promoted bigint, returned bigint, discarded bigint, cancelled bigint)
    LANGUAGE plpgsql
    AS $$
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
$$;

CREATE FUNCTION hookwire.key_allowances(policy hookwire.job_kinds, keys text[], room integer, moment timestamp with time zone) RETURNS TABLE(key text, most bigint)
    LANGUAGE plpgsql STABLE
    AS $$
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

CREATE FUNCTION hookwire.key_digest(topic text, key text) RETURNS bytea
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN sha256(((convert_to(topic, 'UTF8'::name) || '\x00'::bytea) || convert_to(key, 'UTF8'::name)));

CREATE FUNCTION hookwire.lane_digest(topic text, key text) RETURNS bytea
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN hookwire.key_digest(topic, key);

CREATE TABLE hookwire.relay_batch_numbers (
    sink text NOT NULL COLLATE pg_catalog."C",
    layout smallint NOT NULL,
    grp smallint NOT NULL,
    batch_no bigint NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_insert_threshold='-1', autovacuum_vacuum_cost_delay='0');

COMMENT ON TABLE hookwire.relay_batch_numbers IS 'The last batch number of each partition group: the next one is a new row, and replaces its predecessor.';

COMMENT ON COLUMN hookwire.relay_batch_numbers.grp IS 'The partition group.';

COMMENT ON COLUMN hookwire.relay_batch_numbers.batch_no IS 'The last number that was drawn.';

CREATE FUNCTION hookwire.last_batch_no(sink text, layout smallint, grp smallint) RETURNS bigint
    LANGUAGE sql
    RETURN COALESCE((SELECT n.batch_no FROM hookwire.relay_batch_numbers n WHERE ((n.sink = last_batch_no.sink) AND (n.layout = last_batch_no.layout) AND (n.grp = last_batch_no.grp)) ORDER BY n.batch_no DESC LIMIT 1), (0)::bigint);

CREATE FUNCTION hookwire.lease_requests(service text, most integer, lease_seconds double precision, worker text, presence_seconds double precision, bytes_max bigint DEFAULT hookwire.answer_bytes_max()) RETURNS TABLE(id uuid, claim bigint, attempts integer, lease_until timestamp with time zone, created_at timestamp with time zone, caller text, content_type text, frame_bytes integer[], body bytea)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    in_service CONSTANT text := lease_requests.service;
    in_worker CONSTANT text := left(lease_requests.worker, 200);
    settings CONSTANT hookwire.services := hookwire.service_settings(in_service);
    room integer := lease_requests.most;
    picked uuid[];
    until timestamptz;
BEGIN
    IF presence_seconds > 0 AND settings.id IS NOT NULL
       AND coalesce(settings.workers_until, '-infinity') < clock_timestamp() + make_interval(secs => presence_seconds / 2) THEN
        UPDATE hookwire.services s SET workers_until = clock_timestamp() + make_interval(secs => presence_seconds)
        WHERE s.id = (SELECT x.id FROM hookwire.services x WHERE x.id = settings.id FOR UPDATE SKIP LOCKED);
    END IF;
    IF settings.concurrency_max IS NOT NULL THEN
        PERFORM FROM hookwire.services s WHERE s.id = settings.id FOR UPDATE;
        room := least(room, settings.concurrency_max - (SELECT count(*) FROM hookwire.requests r WHERE r.service = in_service AND r.state = 'leased'));
    END IF;
    picked := ARRAY(
        SELECT s.id FROM (
            SELECT w.id, w.number, sum(w.size) OVER (ORDER BY w.number ROWS UNBOUNDED PRECEDING) - w.size AS before
            FROM (
                SELECT r.id, r.number, octet_length(r.body) AS size FROM hookwire.requests r
                WHERE r.service = in_service AND r.state = 'waiting' AND r.deadline_at > clock_timestamp()
                ORDER BY r.number LIMIT greatest(room, 0) FOR UPDATE SKIP LOCKED
            ) AS w
        ) AS s WHERE s.before < bytes_max);
    IF picked = '{}' THEN
        RETURN;
    END IF;
    until := clock_timestamp() + make_interval(secs => coalesce(lease_requests.lease_seconds, settings.lease_seconds));
    RETURN QUERY
    WITH taken AS (
        UPDATE hookwire.requests r
        SET state = 'leased', claim = nextval('hookwire.lease_fence'), deadline_at = until, attempts = r.attempts + 1, worker = in_worker
        WHERE r.id = ANY (picked)
        RETURNING r.*
    )
    SELECT t.id, t.claim, t.attempts, t.deadline_at, t.created_at, t.caller, t.content_type, t.frame_bytes, t.body
    FROM taken t ORDER BY t.number;
END
$$;

CREATE FUNCTION hookwire.ledger_hash(id bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN ((('x'::text || "left"(encode(sha256(int8send(id)), 'hex'::text), 16)))::bit(64))::bigint;

CREATE FUNCTION hookwire.ledger_sum(total numeric) RETURNS numeric
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN mod((mod(COALESCE(total, (0)::numeric), '18446744073709551616'::numeric) + '18446744073709551616'::numeric), '18446744073709551616'::numeric);

CREATE FUNCTION hookwire.lock_job_kind(kind text) RETURNS boolean
    LANGUAGE plpgsql
    SET lock_timeout TO '500ms'
    AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1215262574, hashtext(kind));
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END
$$;

CREATE FUNCTION hookwire.lock_sequence(sequence text) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
DECLARE
    last bigint;
BEGIN
    EXECUTE format('ALTER SEQUENCE hookwire.%I NO CYCLE', sequence);
    EXECUTE format('SELECT CASE WHEN s.is_called THEN s.last_value ELSE 0 END FROM hookwire.%I AS s', sequence) INTO last;
    RETURN last;
END
$$;

CREATE FUNCTION hookwire.locked_job(job_id uuid, verb text, states text[]) RETURNS hookwire.jobs
    LANGUAGE plpgsql
    AS $$
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
$$;

CREATE FUNCTION hookwire.mark_numbers() RETURNS void
    LANGUAGE sql
    AS $$
    INSERT INTO hookwire.number_marks AS m (sequence, last_number)
    SELECT s.sequencename, s.last_value FROM pg_sequences s
    WHERE s.schemaname = 'hookwire' AND s.sequencename <> 'horizon' AND s.last_value IS NOT NULL ORDER BY s.sequencename COLLATE "C"
    ON CONFLICT (sequence) DO UPDATE SET last_number = excluded.last_number WHERE m.last_number < excluded.last_number
$$;

CREATE TABLE hookwire.messages (
    id bigint NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    claim bigint,
    due_at timestamp with time zone,
    lease_until timestamp with time zone,
    claimed_at timestamp with time zone,
    created_at timestamp with time zone NOT NULL,
    deliveries integer DEFAULT 0 NOT NULL,
    priority smallint DEFAULT 0 NOT NULL,
    receiver text,
    type text COLLATE pg_catalog."C",
    key text COLLATE pg_catalog."C",
    content_type text,
    headers jsonb DEFAULT '{}'::jsonb NOT NULL,
    payload bytea NOT NULL,
    last_reason text,
    releases smallint DEFAULT 0 NOT NULL
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_insert_threshold='-1', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='100000');

COMMENT ON TABLE hookwire.messages IS 'Live messages. Accepted and dead ones leave the table in the statement that settles them.';

COMMENT ON COLUMN hookwire.messages.claim IS 'The fence of the current lease; NULL: available or delayed.';

COMMENT ON COLUMN hookwire.messages.due_at IS 'Not available before; NULL: at once.';

COMMENT ON COLUMN hookwire.messages.lease_until IS 'When the reaper makes it available again.';

COMMENT ON COLUMN hookwire.messages.deliveries IS 'How often it was handed to a receiver.';

COMMENT ON COLUMN hookwire.messages.receiver IS 'The client that holds it.';

COMMENT ON COLUMN hookwire.messages.type IS 'A word by which receivers filter.';

COMMENT ON COLUMN hookwire.messages.last_reason IS 'Why it was rejected last.';

COMMENT ON COLUMN hookwire.messages.releases IS 'How often in a row it was returned without counting the delivery.';

CREATE FUNCTION hookwire.message_count(queue text) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    RETURN (SELECT count(*) AS count FROM hookwire.messages m WHERE ((m.queue = message_count.queue) AND (m.claim IS NULL) AND (m.due_at IS NULL)));

CREATE FUNCTION hookwire.next_in_lane(subscription bigint, lane text, event bigint) RETURNS TABLE(place tid)
    LANGUAGE sql STABLE
    AS $_$
    SELECT x.ctid FROM hookwire.deliveries x
    WHERE x.subscription_id = $1 AND x.lane = $2 AND x.event_id > $3
    ORDER BY x.event_id LIMIT 1
$_$;

CREATE FUNCTION hookwire.note_batch_no() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    NEW.batch_no := greatest(NEW.batch_no, hookwire.last_batch_no(NEW.sink, NEW.layout, NEW.grp));
    RETURN NEW;
END $$;

CREATE FUNCTION hookwire.note_former_audience() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO hookwire.former_audiences (subscription_id, until_id, tenant, topic, topic_regex, filter_path, lease_until)
    SELECT OLD.id, e.last_value, OLD.tenant, OLD.topic, OLD.topic_regex, OLD.filter_path, OLD.lease_until
    FROM hookwire.event_id e
    WHERE e.is_called;
    RETURN NULL;
END $$;

CREATE FUNCTION hookwire.note_job(job_id uuid, verb text, actor text, why text) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NOT hookwire.is_person(actor) THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'actor is the name of a person, 1-200 printable bytes';
    END IF;
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason) VALUES ('default', actor, 'job.' || verb, job_id::text, left(why, 500));
END
$$;

CREATE FUNCTION hookwire.notify_tasks(ids text[], ways text[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
DECLARE
    relayed CONSTANT text[] := ARRAY(SELECT w.id FROM unnest(ids, ways) AS w(id, way) WHERE w.way = 'relay');
    notified CONSTANT text[] := ARRAY(SELECT w.id FROM unnest(ids, ways) AS w(id, way) WHERE w.way = 'notify');
BEGIN
    IF cardinality(notified) = 1 THEN
        PERFORM pg_notify('hookwire_tasks', notified[1]);
    ELSIF notified <> '{}' THEN
        PERFORM pg_notify('hookwire_tasks', '');     -- one for all: look for yourself (JS-09)
    END IF;
    IF relayed <> '{}' THEN
        IF NOT EXISTS (SELECT FROM hookwire.topics t WHERE t.tenant = 'default' AND t.name = 'hookwire.tasks') THEN
            INSERT INTO hookwire.topics (tenant, name, sinks, ordered, amqp_exchange, amqp_routing_key, retention_days)
            VALUES ('default', 'hookwire.tasks', '{amqp}', false, 'amq.default', 'task_queue', 1) ON CONFLICT DO NOTHING;
        END IF;
        PERFORM hookwire.publish_batch(
            'default', array_fill(1, size), array_fill('hookwire.tasks'::text, size), array_fill(NULL::text, size),
            array_fill('text/plain; charset=utf-8'::text, size), array_fill('{}'::text, size),
            ARRAY(SELECT convert_to(r, 'UTF8') FROM unnest(relayed) AS r), array_fill(NULL::text, size),
            array_fill(NULL::bytea, size), true)
        FROM (SELECT ARRAY[cardinality(relayed)] AS size) AS s;
        IF (SELECT i.sql_notify FROM hookwire.installation i) THEN
            PERFORM pg_notify('hookwire_outbox', '');
        END IF;
    END IF;
END
$$;

CREATE TABLE hookwire.sinks (
    name text NOT NULL,
    configured boolean NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT sinks_name_check CHECK ((name = ANY (ARRAY['kafka'::text, 'amqp'::text, 'webhooks'::text, 'jobs'::text])))
);

COMMENT ON TABLE hookwire.sinks IS 'The sinks that exist: webhooks, jobs, kafka and amqp.';

COMMENT ON COLUMN hookwire.sinks.configured IS 'Whether a process of this installation carries records to the sink.';

CREATE FUNCTION hookwire.notify_way() RETURNS text
    LANGUAGE sql STABLE
    RETURN CASE WHEN (SELECT s.configured FROM hookwire.sinks s WHERE (s.name = 'amqp'::text)) THEN 'relay'::text ELSE 'notify'::text END;

CREATE FUNCTION hookwire.numbers(OUT sequence text, OUT last bigint, OUT used bigint, OUT most bigint) RETURNS SETOF record
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
    SELECT s.sequencename::text, coalesce(s.last_value, 0),
           CASE WHEN r.sequence IS NOT NULL THEN greatest(r.used, m.last_number, 0) END, s.max_value
    FROM pg_sequences s
    LEFT JOIN (
        SELECT 'event_id' AS sequence, greatest(
            (SELECT max(e.id) FROM hookwire.events e), (SELECT max(a.event_id) FROM hookwire.attempts a),
            (SELECT max(d.event_id) FROM hookwire.deliveries d), (SELECT max(l.event_id) FROM hookwire.dead_letters l),
            (SELECT max(l.event_id) FROM hookwire.relay_dead_letters l), (SELECT max(c.event_id) FROM hookwire.fanout_cursors c),
            (SELECT max(o.id) FROM hookwire.sinks k CROSS JOIN generate_series(0, 63) AS g(shard) CROSS JOIN LATERAL (
                 SELECT x.id FROM hookwire.outbox x WHERE x.sink = k.name AND x.shard = g.shard ORDER BY x.id DESC LIMIT 1) AS o),
            (SELECT max(h.id) FROM hookwire.sinks k CROSS JOIN LATERAL (
                 SELECT x.id FROM hookwire.held x WHERE x.sink = k.name ORDER BY x.id DESC LIMIT 1) AS h),
            (SELECT max(k.event_id) FROM (SELECT x.event_id FROM hookwire.idempotency_keys x ORDER BY x.accepted_at DESC LIMIT 10) AS k),
            (SELECT max(n) FROM (SELECT x.ids FROM hookwire.ledger_entries x ORDER BY x.id DESC LIMIT 10) AS e CROSS JOIN unnest(e.ids) AS n),
            (SELECT max(greatest(x.owed_max, x.settled_max))
             FROM (SELECT y.owed_max, y.settled_max FROM hookwire.ledger y ORDER BY y.hour DESC LIMIT 10) AS x),
            (SELECT greatest(c.through_id, c.mark_id) FROM hookwire.ledger_cursor c),
            -- Events that a replay names may never have existed.
            (SELECT max(nullif(r.upper_event_id, 1))
             FROM (SELECT x.upper_event_id, x.event_ids FROM hookwire.replays x ORDER BY x.id DESC LIMIT 10) AS r WHERE r.event_ids IS NULL),
            (SELECT max(nullif(w.last_id, 1)) FROM (SELECT x.last_id FROM hookwire.id_watermarks x ORDER BY x.day DESC LIMIT 31) AS w)
        ) AS used
        UNION ALL SELECT 'message_id', greatest(
            (SELECT max(m.id) FROM hookwire.messages m), (SELECT max(d.id) FROM hookwire.dead_messages d))
        UNION ALL SELECT 'request_number', (SELECT max(r.number) FROM hookwire.requests r)
        UNION ALL SELECT 'delivery_fence', (SELECT max(d.fence) FROM (
            SELECT x.fence FROM hookwire.deliveries x WHERE x.attempts > 0 AND x.fence IS NOT NULL AND x.parked_at IS NULL
            ORDER BY x.event_id DESC, x.subscription_id DESC LIMIT 10) AS d)
        UNION ALL SELECT 'lease_fence', greatest(
            (SELECT max(m.claim) FROM (SELECT x.claim FROM hookwire.messages x WHERE x.claim IS NOT NULL ORDER BY x.lease_until DESC LIMIT 10) AS m),
            (SELECT max(t.claim) FROM (SELECT x.claim FROM hookwire.task_rows x WHERE x.start_time IS NOT NULL ORDER BY x.lease_until DESC LIMIT 10) AS t),
            (SELECT max(j.claim) FROM (SELECT x.claim FROM hookwire.jobs x WHERE x.state = 'running' ORDER BY x.lease_until DESC LIMIT 10) AS j),
            (SELECT max(r.claim) FROM (SELECT x.claim FROM hookwire.requests x ORDER BY x.number DESC LIMIT 10) AS r))
        UNION ALL SELECT 'api_keys_id_seq', (SELECT max(k.id) FROM hookwire.api_keys k)
        UNION ALL SELECT 'audit_id_seq', (SELECT max(a.id) FROM hookwire.audit a)
        UNION ALL SELECT 'dead_tasks_number_seq', (SELECT max(d.number) FROM hookwire.dead_tasks d)
        UNION ALL SELECT 'former_audiences_number_seq', NULL
        UNION ALL SELECT 'holds_id_seq', (SELECT max(h.id) FROM hookwire.holds h)
        UNION ALL SELECT 'intents_id_seq', (SELECT max(i.id) FROM hookwire.intents i)
        UNION ALL SELECT 'job_requests_number_seq', (SELECT max(r.number) FROM hookwire.job_requests r)
        UNION ALL SELECT 'jobs_seq_seq', greatest(
            (SELECT max(j.seq) FROM hookwire.jobs j), (SELECT max(a.seq) FROM hookwire.job_archive a))
        UNION ALL SELECT 'ledger_entries_id_seq', (SELECT max(e.id) FROM hookwire.ledger_entries e)
        UNION ALL SELECT 'queues_id_seq', (SELECT max(q.id) FROM hookwire.queues q)
        UNION ALL SELECT 'rabbithub_resources_id_seq', (SELECT max(r.id) FROM hookwire.rabbithub_resources r)
        UNION ALL SELECT 'relay_members_id_seq', greatest(
            (SELECT max(m.id) FROM hookwire.relay_members m), (SELECT max(t.member) FROM hookwire.relay_terms t))
        UNION ALL SELECT 'replays_id_seq', (SELECT max(r.id) FROM hookwire.replays r)
        UNION ALL SELECT 'services_id_seq', (SELECT max(v.id) FROM hookwire.services v)
        UNION ALL SELECT 'subscriptions_id_seq', greatest(
            (SELECT max(x.id) FROM hookwire.subscriptions x), (SELECT max(a.subscription_id) FROM hookwire.attempts a),
            (SELECT max(d.subscription_id) FROM hookwire.deliveries d), (SELECT max(l.subscription_id) FROM hookwire.dead_letters l),
            (SELECT max(f.subscription_id) FROM hookwire.delivery_failures f), (SELECT max(g.subscription_id) FROM hookwire.delivery_gates g),
            (SELECT max(f.subscription_id) FROM hookwire.former_audiences f))
        UNION ALL SELECT 'task_rows_seq_seq', greatest(
            (SELECT max(t.seq) FROM (SELECT x.seq FROM hookwire.task_rows x WHERE x.start_time IS NOT NULL ORDER BY x.lease_until DESC LIMIT 10) AS t),
            (SELECT max(t.seq) FROM (SELECT x.seq FROM hookwire.task_rows x WHERE x.due_at IS NOT NULL ORDER BY x.due_at DESC LIMIT 10) AS t))
    ) AS r ON r.sequence = s.sequencename
    LEFT JOIN hookwire.number_marks m ON m.sequence = s.sequencename
    WHERE s.schemaname = 'hookwire' AND s.sequencename <> 'horizon'
$$;

CREATE FUNCTION hookwire.origin() RETURNS uuid
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT encode(substr(sha256(convert_to(concat_ws(' ', extract(epoch FROM pg_postmaster_start_time()),
               pg_relation_filepath('hookwire.event_id')), 'UTF8')), 1, 16), 'hex')::uuid
$$;

CREATE FUNCTION hookwire.parse_frames(INOUT content_type text, INOUT body bytea, OUT frame_bytes integer[]) RETURNS record
    LANGUAGE plpgsql IMMUTABLE
    AS $$
DECLARE
    document jsonb;
BEGIN
    IF lower(btrim(split_part(coalesce(content_type, ''), ';', 1))) <> 'application/vnd.hookwire.frames+json' THEN
        RETURN;
    END IF;
    BEGIN
        document := convert_from(body, 'UTF8')::jsonb;
        IF jsonb_typeof(document->'frames') <> 'array' OR document - 'frames' <> '{}' OR jsonb_array_length(document->'frames') NOT BETWEEN 1 AND 32
           OR EXISTS (SELECT FROM jsonb_array_elements(document->'frames') AS f WHERE jsonb_typeof(f) <> 'string') THEN
            RAISE data_exception;
        END IF;
        SELECT string_agg(d.frame, ''::bytea ORDER BY d.n), array_agg(octet_length(d.frame) ORDER BY d.n) INTO STRICT body, frame_bytes
        FROM (SELECT decode(f.value, 'base64') AS frame, f.n FROM jsonb_array_elements_text(document->'frames') WITH ORDINALITY AS f(value, n)) AS d;
    EXCEPTION WHEN data_exception OR statement_too_complex THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'application/vnd.hookwire.frames+json is {"frames": ["<base64>", ...]} with 1 to 32 frames';
    END;
    content_type := NULL;
    IF cardinality(frame_bytes) = 1 THEN
        frame_bytes := NULL;
    END IF;
END
$$;

CREATE FUNCTION hookwire.passes(document jsonb, filter_path jsonpath) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN COALESCE(jsonb_path_match(document, filter_path, '{}'::jsonb, true), false);

CREATE FUNCTION hookwire.pause_job_kind(kind text, is_paused boolean, actor text, why text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO hookwire.job_kinds AS k (kind, is_paused) VALUES (pause_job_kind.kind, pause_job_kind.is_paused)
    ON CONFLICT (kind) DO UPDATE SET is_paused = excluded.is_paused;
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason)
    VALUES ('default', actor, CASE WHEN pause_job_kind.is_paused THEN 'job.pause' ELSE 'job.resume' END, pause_job_kind.kind, left(why, 500));
END
$$;

CREATE FUNCTION hookwire.pick_at_head(policy hookwire.job_kinds, in_queue text, room integer, moment timestamp with time zone) RETURNS uuid[]
    LANGUAGE plpgsql STABLE
    AS $$
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
$$;

CREATE FUNCTION hookwire.pick_by_key(policy hookwire.job_kinds, in_queue text, room integer, moment timestamp with time zone) RETURNS uuid[]
    LANGUAGE plpgsql
    AS $$
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
$$;

CREATE FUNCTION hookwire.pick_filtered(in_queue text, most integer, filter jsonb, after_id bigint) RETURNS bigint[]
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    window_rows CONSTANT integer := 1000;
    found bigint[];
BEGIN
    IF filter ? 'type' THEN
        found := ARRAY(SELECT m.id FROM hookwire.messages m
                       WHERE m.queue = in_queue AND m.type = filter->>'type' AND m.type IS NOT NULL
                         AND m.claim IS NULL AND m.due_at IS NULL AND m.id > after_id
                       ORDER BY m.id LIMIT window_rows);
    ELSIF filter ? 'key' THEN
        found := ARRAY(SELECT m.id FROM hookwire.messages m
                       WHERE m.queue = in_queue AND m.key = filter->>'key' AND m.key IS NOT NULL
                         AND m.claim IS NULL AND m.due_at IS NULL AND m.id > after_id
                       ORDER BY m.id LIMIT window_rows);
    ELSE
        found := ARRAY(SELECT m.id FROM hookwire.messages m
                       WHERE m.queue = in_queue AND m.claim IS NULL AND m.due_at IS NULL AND m.id > after_id
                       ORDER BY m.id LIMIT window_rows);
    END IF;
    RETURN ARRAY(
        SELECT m.id FROM hookwire.messages m
        WHERE m.id = ANY (found) AND num_nulls(m.claim, m.due_at) = 2 -- two IS NULL would allow a partial index
          AND (filter->>'key' IS NULL OR m.key = filter->>'key')
          AND m.headers @> coalesce(filter->'headers', '{}')
          AND m.priority >= coalesce((filter->>'priority_min')::numeric, -32768)
          AND m.created_at <= clock_timestamp() - make_interval(secs => coalesce((filter->>'age_seconds_min')::double precision, 0))
        ORDER BY m.id LIMIT most FOR UPDATE SKIP LOCKED);
END
$$;

CREATE FUNCTION hookwire.pick_limited_jobs(policy hookwire.job_kinds, in_queue text, most integer, bytes_max bigint) RETURNS uuid[]
    LANGUAGE plpgsql
    AS $$
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
$$;

CREATE FUNCTION hookwire.progress_job(id uuid, claim bigint, done bigint, total bigint DEFAULT NULL::bigint, note text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
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
$$;

CREATE FUNCTION hookwire.publish(topic text, payload bytea, key text DEFAULT NULL::text, content_type text DEFAULT NULL::text, headers jsonb DEFAULT '{}'::jsonb) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
DECLARE
    house hookwire.installation;
    stored record;
BEGIN
    SELECT * INTO house FROM hookwire.installation;
    IF topic = 'hookwire' OR starts_with(topic, 'hookwire.') THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('hookwire.publish: the topic %L is the hub''s own', left(topic, 80));
    END IF;
    IF content_type ~ '[\x01-\x1f\x7f]' OR octet_length(content_type) > 255 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'hookwire.publish: content_type must be one line of at most 255 bytes';
    END IF;
    PERFORM hookwire.check_headers(coalesce(headers, '{}'));
    IF payload IS NULL THEN
        IF key IS NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
                MESSAGE = 'hookwire.publish: the payload is missing; a tombstone (payload NULL) has a key';
        END IF;
        payload := '';
        content_type := NULL;
        headers := coalesce(headers, '{}') || '{"hookwire-tombstone": "true"}';
    END IF;
    SELECT * INTO STRICT stored FROM hookwire.publish_batch(
        'default', ARRAY[1], ARRAY[topic], ARRAY[key], ARRAY[content_type], ARRAY[headers::text],
        ARRAY[payload], ARRAY[NULL::text], ARRAY[NULL::bytea], true);
    IF house.sql_notify THEN
        PERFORM pg_notify('hookwire_outbox', '');
    END IF;
    RETURN 'evt_' || house.incarnation || '_' || stored.event_id;
END
$$;

CREATE FUNCTION hookwire.publish(topic text, payload jsonb, key text DEFAULT NULL::text, content_type text DEFAULT 'application/json'::text, headers jsonb DEFAULT '{}'::jsonb) RETURNS text
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    RETURN hookwire.publish(topic, convert_to((payload)::text, 'UTF8'::name), key, content_type, headers);

CREATE FUNCTION hookwire.publish(topic text, payload text, key text DEFAULT NULL::text, content_type text DEFAULT 'text/plain; charset=utf-8'::text, headers jsonb DEFAULT '{}'::jsonb) RETURNS text
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    RETURN hookwire.publish(topic, convert_to(payload, 'UTF8'::name), key, content_type, headers);

CREATE FUNCTION hookwire.publish_all(events jsonb) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF jsonb_typeof(coalesce(events, '[]')) NOT IN ('array', 'null') OR jsonb_array_length(CASE WHEN jsonb_typeof(events) = 'array' THEN events ELSE '[]' END) > 1000 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'events are a JSON array of at most 1000';
    END IF;
    PERFORM hookwire.publish(
        e->>'topic', CASE jsonb_typeof(e->'payload') WHEN 'string' THEN e->>'payload' ELSE (e->'payload')::text END,
        key => e->>'key', content_type => coalesce(e->>'content_type', 'application/json'), headers => coalesce(nullif(e->'headers', 'null'), '{}'))
    FROM jsonb_array_elements(CASE WHEN jsonb_typeof(events) = 'array' THEN events ELSE '[]' END) AS e;
END
$$;

CREATE FUNCTION hookwire.publish_batch(tenant text, units integer[], topics text[], keys text[], content_types text[], headers text[], payloads bytea[], idempotency_keys text[], fingerprints bytea[], wait boolean, direct hookwire.direct_terms DEFAULT NULL::hookwire.direct_terms) RETURNS TABLE(item integer, outcome text, event_id bigint, accepted_at timestamp with time zone, ordered boolean, in_flight boolean, is_owed boolean, fence bigint, claims hookwire.direct_delivery[])
    LANGUAGE plpgsql
    AS $_$
#variable_conflict use_column
DECLARE
    stripe_class CONSTANT integer := 1215262571;
    idempotency_class CONSTANT integer := 1215262572;
    audience_class CONSTANT integer := 1215262575;
    in_tenant CONSTANT text := publish_batch.tenant;
    has_names CONSTANT boolean := array_remove(publish_batch.idempotency_keys, NULL) <> '{}';
    in_layout smallint;
    default_sinks text[];
    inner_sinks text[];   -- of events about jobs and services: brokers get them only where a topic says so
    orders boolean[];     -- of each draft: does its topic keep order
    routes text[];        -- of each draft: its sinks, with commas
    stripes integer[];    -- of each draft: the lock of its key; NULL without order
    names integer[];      -- of each draft: the lock of its idempotency key; the parts of a request share one
    digests bytea[];
    refused integer[] := '{}';
    busy integer[] := '{}';
    running integer[] := '{}';
    moment timestamptz;
    stored_items integer[];
    stored_ids bigint[];
    stored_ordered boolean[];
    is_audience_kept boolean := false;   -- no subscription is activated or changed before COMMIT
    made hookwire.direct_delivery[] := '{}';
    direct_items integer[] := '{}';      -- of the drafts: which take the direct way
BEGIN
    PERFORM hookwire.check_drafts(topics, keys, payloads);
    PERFORM pg_current_xact_id();
    SELECT i.layout INTO in_layout FROM hookwire.installation i;
    SELECT coalesce(array_agg(s.name ORDER BY s.name), '{}'),
           coalesce(array_agg(s.name ORDER BY s.name) FILTER (WHERE s.name = 'webhooks'), '{}')
    INTO default_sinks, inner_sinks
    FROM hookwire.sinks s WHERE s.configured AND s.name <> 'jobs';

    SELECT array_agg(q.ordered ORDER BY q.n), array_agg(q.route ORDER BY q.n), array_agg(q.stripe ORDER BY q.n)
    INTO orders, routes, stripes
    FROM (SELECT d.n, coalesce(t.ordered, true) AS ordered,
                 array_to_string(coalesce(t.sinks, CASE WHEN starts_with(d.topic, 'hookwire.') AND d.topic ~ '^hookwire[.](job|service)([.]|$)'
                                                        THEN inner_sinks ELSE default_sinks END), ',') AS route,
                 CASE WHEN d.key IS NOT NULL AND coalesce(t.ordered, true)
                      THEN hookwire.stripe_of(hookwire.lane_digest(d.topic, d.key)) END AS stripe
          FROM unnest(topics, keys) WITH ORDINALITY AS d(topic, key, n)
          LEFT JOIN LATERAL (
              SELECT x.ordered, x.sinks FROM hookwire.topics x WHERE x.tenant = in_tenant AND x.name = d.topic LIMIT 1
          ) AS t ON true) AS q;

    IF wait THEN
        PERFORM pg_advisory_xact_lock(stripe_class, wanted.stripe)
        FROM (SELECT DISTINCT s.stripe FROM unnest(stripes) AS s(stripe)
              WHERE s.stripe IS NOT NULL ORDER BY s.stripe) AS wanted;
    ELSE
        SELECT coalesce(array_agg(wanted.stripe), '{}') INTO refused
        FROM (SELECT DISTINCT s.stripe FROM unnest(stripes) AS s(stripe)
              WHERE s.stripe IS NOT NULL ORDER BY s.stripe) AS wanted
        WHERE NOT pg_try_advisory_xact_lock(stripe_class, wanted.stripe);
        IF refused <> '{}' THEN
            SELECT coalesce(array_agg(DISTINCT d.unit), '{}') INTO busy
            FROM unnest(units, stripes) AS d(unit, stripe) WHERE d.stripe = ANY (refused);
        END IF;
    END IF;

    IF has_names THEN
        SELECT array_agg(hashtext(d.topic || E'\x1f' || split_part(d.idempotency_key, E'\x1f', 1)) ORDER BY d.n),
               array_agg(CASE WHEN d.idempotency_key IS NULL THEN NULL
                              WHEN d.fingerprint IS NULL OR d.fingerprint = sha256(convert_to(d.idempotency_key, 'UTF8'))
                              THEN hookwire.event_digest(d.key, d.content_type, d.headers::jsonb, d.payload)
                              ELSE d.fingerprint END ORDER BY d.n)
        INTO names, digests
        FROM unnest(topics, keys, content_types, headers, payloads, idempotency_keys, fingerprints)
                 WITH ORDINALITY AS d(topic, key, content_type, headers, payload, idempotency_key, fingerprint, n);

        SELECT coalesce(array_agg(wanted.name), '{}') INTO refused
        FROM (SELECT DISTINCT d.name FROM unnest(units, names) AS d(unit, name)
              WHERE d.name IS NOT NULL AND d.unit <> ALL (busy) ORDER BY d.name) AS wanted
        WHERE NOT pg_try_advisory_xact_lock(idempotency_class, wanted.name);
        IF refused <> '{}' THEN
            SELECT coalesce(array_agg(DISTINCT d.unit), '{}') INTO running
            FROM unnest(units, names) AS d(unit, name) WHERE d.name = ANY (refused) AND d.unit <> ALL (busy);
            busy := busy || running;
        END IF;
    END IF;

    IF busy <> '{}' THEN
        RETURN QUERY SELECT d.n::integer, 'busy', NULL::bigint, NULL::timestamptz, NULL::boolean, d.unit = ANY (running),
               false, NULL::bigint, NULL::hookwire.direct_delivery[]
        FROM unnest(units) WITH ORDINALITY AS d(unit, n) WHERE d.unit = ANY (busy);
    END IF;

    IF direct IS NOT NULL THEN
        SELECT bool_and(pg_try_advisory_xact_lock_shared(audience_class, s.slot)) INTO is_audience_kept
        FROM generate_series(0, 7) AS s(slot);
    END IF;
    IF is_audience_kept THEN
        -- A later statement than those that took the locks: it sees all that their former holders committed (RR-13).
        made := ARRAY(SELECT a FROM hookwire.direct_audience(in_tenant, units, topics, keys, orders, routes, busy, direct) AS a);
        direct_items := ARRAY(SELECT DISTINCT m.n FROM unnest(made) AS m);
    END IF;

    moment := clock_timestamp();
    WITH draft AS MATERIALIZED (
        SELECT q.*, nextval('hookwire.event_id') AS id
        FROM (SELECT d.*
              FROM unnest(units, topics, keys, content_types, headers, payloads, idempotency_keys, digests, orders, routes)
                       WITH ORDINALITY AS d(unit, topic, key, content_type, headers, payload, idempotency_key, digest,
                                            ordered, route, n)
              WHERE d.unit <> ALL (busy)
              ORDER BY d.n
              OFFSET 0) AS q
    ), claimed AS (
        INSERT INTO hookwire.idempotency_keys AS k (tenant, topic, key, fingerprint, event_id, accepted_at, ordered)
        SELECT in_tenant, d.topic, d.idempotency_key, d.digest, d.id, moment, d.ordered
        FROM draft d WHERE d.idempotency_key IS NOT NULL ORDER BY d.topic, d.idempotency_key, d.n
        ON CONFLICT DO NOTHING
        RETURNING k.event_id
    ), won AS MATERIALIZED (
        SELECT d.* FROM draft d
        WHERE d.idempotency_key IS NULL OR d.id IN (SELECT c.event_id FROM claimed c)
    ), stored AS (
        INSERT INTO hookwire.events (id, accepted_at, ordered, tenant, topic, key, content_type, headers, sinks, payload)
        SELECT w.id, moment, w.ordered, in_tenant, w.topic, w.key, w.content_type,
               coalesce(w.headers::jsonb, '{}'), string_to_array(w.route, ','), w.payload
        FROM won w
    ), owed AS (
        INSERT INTO hookwire.outbox (id, layout, shard, sink)
        SELECT w.id, in_layout,
               CASE WHEN w.key IS NULL OR NOT w.ordered THEN (w.id & 63)::smallint
                    ELSE hookwire.shard_of(hookwire.lane_digest(w.topic, w.key)) END,
               sink
        FROM won w, unnest(string_to_array(w.route, ',')) AS sink
        WHERE sink <> 'webhooks' OR w.n <> ALL (direct_items)
    )
    SELECT coalesce(array_agg(w.n::integer), '{}'), array_agg(w.id), array_agg(w.ordered)
    INTO stored_items, stored_ids, stored_ordered FROM won w;

    IF direct_items <> '{}' THEN
        -- A lease, counted from now, and a fence, as a claim gives them. The ledger entry is that of a purge.
        fence := nextval('hookwire.delivery_fence');
        WITH delivery AS MATERIALIZED (
            SELECT s.id, m.subscription_id, m.lease_seconds, m.lane
            FROM unnest(stored_items, stored_ids) AS s(n, id) JOIN unnest(made) AS m ON m.n = s.n
        ), claimed AS (
            INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, fence, attempts, tenant, lane)
            SELECT d.id, d.subscription_id, clock_timestamp() + make_interval(secs => d.lease_seconds), moment, fence, 1,
                   in_tenant, d.lane
            FROM delivery d WHERE d.subscription_id IS NOT NULL
        )
        INSERT INTO hookwire.ledger_entries (sink, outcome, ids)
        SELECT 'webhooks', 'sent', array_agg(DISTINCT d.id) FROM delivery d HAVING count(*) > 0;
    END IF;

    RETURN QUERY
    SELECT s.n, 'stored', s.id, moment, s.ordered, false, s.n <> ALL (direct_items) OR routes[s.n] <> 'webhooks', fence,
           ARRAY(SELECT m FROM unnest(made) AS m WHERE m.n = s.n AND m.subscription_id IS NOT NULL)
    FROM unnest(stored_items, stored_ids, stored_ordered) AS s(n, id, ordered);

    IF has_names THEN
        IF EXISTS (
            SELECT FROM unnest(units, topics, idempotency_keys, digests) WITH ORDINALITY
                            AS d(unit, topic, idempotency_key, digest, n)
            CROSS JOIN LATERAL (
                SELECT x.fingerprint FROM hookwire.idempotency_keys x
                WHERE x.tenant = in_tenant AND x.topic = d.topic AND x.key = d.idempotency_key LIMIT 1
            ) AS k
            WHERE k.fingerprint <> d.digest AND d.n <> ALL (stored_items)
              AND d.unit IN (SELECT units[s.n] FROM unnest(stored_items) AS s(n))
        ) THEN
            RAISE EXCEPTION USING ERRCODE = 'unique_violation',
                MESSAGE = 'hookwire.publish: an idempotency key was used before with other contents';
        END IF;
        RETURN QUERY
        SELECT d.n::integer, CASE WHEN k.fingerprint = d.digest THEN 'replayed' ELSE 'conflict' END,
               k.event_id, k.accepted_at, k.ordered, false, false, NULL::bigint, NULL::hookwire.direct_delivery[]
        FROM unnest(units, topics, idempotency_keys, digests) WITH ORDINALITY AS d(unit, topic, idempotency_key, digest, n)
        CROSS JOIN LATERAL (
            SELECT x.* FROM hookwire.idempotency_keys x
            WHERE x.tenant = in_tenant AND x.topic = d.topic AND x.key = d.idempotency_key LIMIT 1
        ) AS k
        WHERE d.unit <> ALL (busy) AND d.n <> ALL (stored_items);
    END IF;
END
$_$;

CREATE FUNCTION hookwire.put_job_kind(kind text, settings jsonb, actor text) RETURNS hookwire.job_kinds
    LANGUAGE plpgsql
    AS $$
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
$$;

CREATE TABLE hookwire.queues (
    id integer NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    moves boolean DEFAULT true NOT NULL,
    copies boolean DEFAULT false NOT NULL,
    history boolean DEFAULT false NOT NULL,
    lease_seconds real DEFAULT 30 NOT NULL,
    deliveries_max integer DEFAULT 5 NOT NULL,
    retention_days integer DEFAULT 14 NOT NULL,
    paused boolean DEFAULT false NOT NULL,
    owner text,
    expires_at timestamp with time zone,
    lifetime_seconds integer,
    graduated boolean DEFAULT false NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT queues_check CHECK (((lifetime_seconds IS NULL) = (expires_at IS NULL))),
    CONSTRAINT queues_check1 CHECK ((moves OR copies)),
    CONSTRAINT queues_deliveries_max_check CHECK (((deliveries_max >= 1) AND (deliveries_max <= 1000))),
    CONSTRAINT queues_lease_seconds_check CHECK (((lease_seconds >= (0.05)::double precision) AND (lease_seconds <= (43200)::double precision))),
    CONSTRAINT queues_retention_days_check CHECK (((retention_days >= 1) AND (retention_days <= 3660)))
);

COMMENT ON TABLE hookwire.queues IS 'Message queues: rows of settings. Messages name their queue and need no row (RR-04).';

COMMENT ON COLUMN hookwire.queues.moves IS 'Whether receivers take messages off the queue.';

COMMENT ON COLUMN hookwire.queues.copies IS 'Whether durable consumers read copies.';

COMMENT ON COLUMN hookwire.queues.history IS 'Whether accepted messages go into the archive.';

COMMENT ON COLUMN hookwire.queues.deliveries_max IS 'How often a message is delivered before it is a dead letter.';

COMMENT ON COLUMN hookwire.queues.retention_days IS 'How long archive, copies and dead letters are kept.';

COMMENT ON COLUMN hookwire.queues.paused IS 'Whether receivers get nothing.';

COMMENT ON COLUMN hookwire.queues.owner IS 'Of a temporary queue: the client that may remove it.';

COMMENT ON COLUMN hookwire.queues.expires_at IS 'Of a temporary queue: when it is removed; put off by each receive.';

COMMENT ON COLUMN hookwire.queues.lifetime_seconds IS 'Of a temporary queue: how far a receive puts the end off.';

COMMENT ON COLUMN hookwire.queues.graduated IS 'Whether its messages lie in a table of their own, messages_<id>.';

CREATE FUNCTION hookwire.queue_settings(name text) RETURNS hookwire.queues
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    found hookwire.queues;
BEGIN
    PERFORM hookwire.check_queue_name(name);
    SELECT * INTO found FROM hookwire.queues q WHERE q.name = queue_settings.name;
    IF found.id IS NULL THEN
        IF starts_with(name, 'tmp.') THEN
            RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('the temporary queue %L does not exist, or has ended', name);
        ELSIF NOT (SELECT i.queues_auto_create FROM hookwire.installation i) THEN
            RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('unknown queue %L', name),
                HINT = 'Make it with PUT /queues/{queue}, or set HOOKWIRE_QUEUES_AUTO_CREATE.';
        END IF;
        found.name := name; found.moves := true; found.copies := false; found.history := false;
        found.lease_seconds := 30; found.deliveries_max := 5; found.retention_days := 14;
        found.paused := false; found.graduated := false;
    ELSIF found.expires_at <= clock_timestamp() THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('the temporary queue %L does not exist, or has ended', name);
    END IF;
    RETURN found;
END
$$;

CREATE FUNCTION hookwire.reap_messages(most integer) RETURNS TABLE(returned bigint, dead bigint, promoted bigint)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    moment CONSTANT timestamptz := clock_timestamp(); -- an index has no condition on a function that changes
    expired CONSTANT bigint[] := ARRAY(
        SELECT m.id FROM hookwire.messages m WHERE m.claim IS NOT NULL AND m.lease_until <= moment
        ORDER BY m.lease_until LIMIT most FOR UPDATE SKIP LOCKED);
    due CONSTANT bigint[] := ARRAY(
        SELECT m.id FROM hookwire.messages m WHERE m.due_at <= moment
        ORDER BY m.due_at LIMIT most FOR UPDATE SKIP LOCKED);
BEGIN
    RETURN QUERY
    WITH worn AS MATERIALIZED (
        SELECT m.id FROM hookwire.messages m
        WHERE m.id = ANY (expired)
          AND m.deliveries >= coalesce((SELECT q.deliveries_max FROM hookwire.queues q WHERE q.name = m.queue), 5)
    ), buried AS (
        DELETE FROM hookwire.messages m WHERE m.id = ANY (ARRAY(SELECT w.id FROM worn w)) RETURNING m.*
    ), letters AS (
        INSERT INTO hookwire.dead_messages (id, queue, created_at, died_at, deliveries, reason, priority, receiver, type, key,
                                            content_type, headers, payload)
        SELECT b.id, b.queue, b.created_at, clock_timestamp(), b.deliveries,
               format('received %s times and never settled', b.deliveries), b.priority,
               b.receiver, b.type, b.key, b.content_type, b.headers, b.payload
        FROM buried b
    ), freed AS (
        UPDATE hookwire.messages m SET claim = NULL, lease_until = NULL, claimed_at = NULL, last_reason = 'lease expired'
        WHERE m.id = ANY (ARRAY(SELECT e FROM unnest(expired) AS e EXCEPT SELECT w.id FROM worn w)) RETURNING m.id
    ), woken AS (
        UPDATE hookwire.messages m SET due_at = NULL WHERE m.id = ANY (due) RETURNING m.id
    )
    SELECT (SELECT count(*) FROM freed), (SELECT count(*) FROM buried), (SELECT count(*) FROM woken);
END
$$;

CREATE FUNCTION hookwire.reap_requests(most integer) RETURNS TABLE(returned bigint, expired bigint, failed bigint, forgotten bigint)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    moment CONSTANT timestamptz := clock_timestamp();
    due CONSTANT uuid[] := ARRAY(
        SELECT r.id FROM hookwire.requests r WHERE r.deadline_at <= moment ORDER BY r.deadline_at LIMIT most FOR UPDATE SKIP LOCKED);
    over CONSTANT uuid[] := ARRAY(
        SELECT r.id FROM hookwire.requests r WHERE r.id = ANY (due) AND r.state IN ('answered', 'expired', 'failed'));
BEGIN
    IF due = '{}' THEN
        RETURN QUERY SELECT 0::bigint, 0::bigint, 0::bigint, 0::bigint;
        RETURN;
    END IF;
    RETURN QUERY
    WITH judged AS MATERIALIZED (
        SELECT r.id, CASE WHEN r.state = 'leased' AND (NOT p.idempotent OR r.attempts >= p.tries_max AND r.via <> 'zeromq') THEN 'failed'
                          WHEN r.expires_at <= moment THEN 'expired' ELSE 'waiting' END AS state,
               moment + make_interval(secs => p.retention_seconds) AS kept_until, r.state = 'leased' AS was_leased
        FROM hookwire.requests r, LATERAL hookwire.service_settings(r.service) AS p
        WHERE r.id = ANY (due) AND r.state IN ('waiting', 'delayed', 'leased')
    ), changed AS (
        UPDATE hookwire.requests r
        SET state = j.state, deadline_at = CASE WHEN j.state = 'waiting' THEN r.expires_at ELSE j.kept_until END,
            last_error = CASE WHEN j.was_leased THEN format('the lease of %s was over', coalesce(r.worker, 'a worker')) ELSE r.last_error END
        FROM judged j WHERE r.id = j.id RETURNING j.state
    )
    SELECT count(*) FILTER (WHERE c.state = 'waiting'), count(*) FILTER (WHERE c.state = 'expired'),
           count(*) FILTER (WHERE c.state = 'failed'), cardinality(over)::bigint
    FROM changed c;
    IF over <> '{}' THEN
        PERFORM hookwire.forget_requests(over, 'retention');
    END IF;
END
$$;

CREATE FUNCTION hookwire.receive(queue text, count integer DEFAULT 1, lease_seconds double precision DEFAULT NULL::double precision, filter jsonb DEFAULT NULL::jsonb, receiver text DEFAULT NULL::text, after_id bigint DEFAULT 0) RETURNS TABLE(id bigint, claim bigint, deliveries integer, lease_until timestamp with time zone, created_at timestamp with time zone, content_type text, headers jsonb, payload bytea, type text, key text, priority smallint)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
BEGIN
    RETURN QUERY SELECT * FROM hookwire.take_messages(receive.queue, receive.count, receive.lease_seconds, receive.filter, receive.receiver, receive.after_id);
END
$$;

CREATE FUNCTION hookwire.receive_copies(queue text, name text, count integer DEFAULT 1, lease_seconds double precision DEFAULT 30, filter jsonb DEFAULT NULL::jsonb) RETURNS TABLE(id bigint, claim bigint, deliveries integer, lease_until timestamp with time zone, created_at timestamp with time zone, content_type text, headers jsonb, payload bytea, type text, key text, priority smallint)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
BEGIN
    RETURN QUERY SELECT * FROM hookwire.take_copies(receive_copies.queue, receive_copies.name, receive_copies.count, receive_copies.lease_seconds, receive_copies.filter);
END
$$;

CREATE TABLE hookwire.task_rows (
    id text NOT NULL COLLATE pg_catalog."C",
    tenant text DEFAULT 'default'::text NOT NULL,
    description text NOT NULL,
    start_time timestamp with time zone,
    finish_time timestamp with time zone,
    kind text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    due_at timestamp with time zone,
    notify_at timestamp with time zone,
    claim bigint,
    worker text,
    lease_until timestamp with time zone,
    attempts integer DEFAULT 0 NOT NULL,
    last_error text,
    releases smallint DEFAULT 0 NOT NULL,
    CONSTRAINT task_rows_description_check CHECK ((octet_length(description) <= 1048576)),
    CONSTRAINT task_rows_id_check CHECK ((((octet_length(id) >= 1) AND (octet_length(id) <= 200)) AND (id !~ '[\x01-\x1f\x7f]'::text)))
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_insert_threshold='-1', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='100000');

COMMENT ON TABLE hookwire.task_rows IS 'Live tasks. A task exists if and only if the transaction that enqueued it committed.';

COMMENT ON COLUMN hookwire.task_rows.description IS 'The arguments.';

COMMENT ON COLUMN hookwire.task_rows.start_time IS 'When it was begun; NULL: nobody has begun it.';

COMMENT ON COLUMN hookwire.task_rows.finish_time IS 'When it was finished; then it is archived.';

COMMENT ON COLUMN hookwire.task_rows.seq IS 'The order of enqueueing.';

COMMENT ON COLUMN hookwire.task_rows.due_at IS 'Not to be begun before; NULL: at once.';

COMMENT ON COLUMN hookwire.task_rows.notify_at IS 'When the cleaner notifies of it again; NULL: never.';

COMMENT ON COLUMN hookwire.task_rows.claim IS 'The fence of the worker that has begun it.';

COMMENT ON COLUMN hookwire.task_rows.lease_until IS 'When it counts as crashed.';

COMMENT ON COLUMN hookwire.task_rows.releases IS 'How often in a row it was released without an attempt.';

CREATE FUNCTION hookwire.recover_task(crashed hookwire.task_rows) RETURNS text
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    policy CONSTANT hookwire.task_kinds := hookwire.task_policy(crashed.kind);
    why CONSTANT text := format('crashed: begun by %s at %s and not finished', coalesce(crashed.worker, 'an application'),
                                to_char(crashed.start_time AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'));
    done text := policy.on_crash;
BEGIN
    IF done = 'retry' AND hookwire.task_is_worn(crashed.attempts, crashed.created_at, policy) THEN
        done := 'abandon';
    END IF;
    IF done = 'retry' THEN
        UPDATE hookwire.task_rows t
        SET start_time = NULL, claim = NULL, worker = NULL, lease_until = NULL, last_error = why,
            notify_at = CASE WHEN policy.notify <> 'nobody' THEN clock_timestamp() + make_interval(secs => policy.cleanup_seconds) END
        WHERE t.id = crashed.id;
        PERFORM hookwire.notify_tasks(ARRAY[crashed.id], ARRAY[CASE policy.notify WHEN 'enqueuer' THEN hookwire.notify_way() ELSE policy.notify END]);
    ELSIF done = 'compensate' THEN
        PERFORM hookwire.enqueue_task(coalesce(policy.compensation_kind, left(crashed.kind, 189) || '.compensate'),
            jsonb_build_object('id', crashed.id, 'kind', crashed.kind, 'description', crashed.description, 'attempts', crashed.attempts));
        INSERT INTO hookwire.task_archive (id, kind, description, outcome, created_at, start_time, finish_time, attempts, worker)
        VALUES (crashed.id, crashed.kind, crashed.description, 'compensated', crashed.created_at, crashed.start_time,
                clock_timestamp(), crashed.attempts, crashed.worker);
        DELETE FROM hookwire.task_rows t WHERE t.id = crashed.id;
    ELSE
        PERFORM hookwire.bury_tasks(ARRAY[crashed.id], why);
    END IF;
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason) VALUES ('default', 'cleaner', 'task.' || done, crashed.id, why);
    RETURN done;
END
$$;

CREATE FUNCTION hookwire.refuse_stale_job(job_id uuid, claim bigint) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'HW001', MESSAGE = format('the claim %s does not hold the job %s any more; nothing was changed', claim, job_id),
        HINT = 'Its lease or its time ended, or it was settled before. Claim again.';
END
$$;

CREATE FUNCTION hookwire.register_consumer(queue text, name text, since timestamp with time zone DEFAULT 'infinity'::timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    in_queue CONSTANT text := register_consumer.queue;
    in_name CONSTANT text := register_consumer.name;
    from_now CONSTANT boolean := register_consumer.since = 'infinity';
BEGIN
    PERFORM hookwire.queue_settings(in_queue), hookwire.check_queue_name(in_name);
    PERFORM pg_advisory_xact_lock(1215262572, hashtext(in_queue));
    INSERT INTO hookwire.queues (name, copies) VALUES (in_queue, true)
    ON CONFLICT (name) DO UPDATE SET copies = true WHERE NOT hookwire.queues.copies;
    INSERT INTO hookwire.consumers (queue, name, xid, id, after_id, since)
    SELECT in_queue, in_name, CASE WHEN from_now THEN pg_snapshot_xmin(pg_current_snapshot()) ELSE '0'::xid8 END, 0,
           CASE WHEN from_now THEN CASE WHEN s.is_called THEN s.last_value ELSE 0 END ELSE 0 END,
           CASE WHEN from_now THEN '-infinity' ELSE register_consumer.since END
    FROM hookwire.message_id AS s
    ON CONFLICT DO NOTHING;
    RETURN FOUND;
END
$$;

CREATE FUNCTION hookwire.reject_held(ids bigint[], claims bigint[], queue text DEFAULT NULL::text, delay_seconds double precision DEFAULT 0, reason text DEFAULT NULL::text, dead boolean DEFAULT false, counts boolean DEFAULT true) RETURNS SETOF bigint
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

CREATE FUNCTION hookwire.reject(ids bigint[], claim bigint, delay_seconds double precision DEFAULT 0, reason text DEFAULT NULL::text, dead boolean DEFAULT false, counts boolean DEFAULT true) RETURNS integer
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    RETURN hookwire.refuse_stale(ids, ARRAY(SELECT hookwire.reject_held(ids, array_fill(claim, ARRAY[cardinality(ids)]), NULL::text, delay_seconds, reason, dead, counts) AS reject_held), claim);

CREATE FUNCTION hookwire.release_copies(queue text, name text, claim bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
BEGIN
    UPDATE hookwire.consumers c SET claim = NULL, lease_until = NULL
    WHERE c.queue = release_copies.queue AND c.name = release_copies.name AND c.claim = release_copies.claim;
    RETURN FOUND;
END
$$;

CREATE FUNCTION hookwire.release_jobs(ids uuid[], claims bigint[], reason text DEFAULT NULL::text) RETURNS SETOF uuid
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
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
$$;

CREATE FUNCTION hookwire.release_limit_text() RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN 'released 100 times in a row without an attempt'::text;

CREATE FUNCTION hookwire.release_request(id uuid, claim bigint, delay_seconds double precision, why text DEFAULT NULL::text) RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    moment CONSTANT timestamptz := clock_timestamp();
    found hookwire.requests;
    settings hookwire.services;
    is_spent boolean;
    pause double precision;
BEGIN
    SELECT r.* INTO found FROM hookwire.requests r
    WHERE r.id = release_request.id AND r.claim = release_request.claim AND r.state IN ('waiting', 'delayed', 'leased') FOR UPDATE;
    IF found.id IS NULL THEN
        RETURN 'stale';
    END IF;
    settings := hookwire.service_settings(found.service);
    is_spent := why IS NOT NULL AND found.attempts >= settings.tries_max;
    pause := CASE WHEN is_spent THEN greatest(delay_seconds, 60) ELSE delay_seconds END;
    found.state := CASE WHEN is_spent AND found.via <> 'zeromq' THEN 'failed' WHEN pause > 0 THEN 'delayed' ELSE 'waiting' END;
    UPDATE hookwire.requests r
    SET state = found.state, claim = NULL, last_error = left(why, 500),
        deadline_at = CASE found.state WHEN 'failed' THEN moment + make_interval(secs => settings.retention_seconds)
                                       WHEN 'delayed' THEN moment + make_interval(secs => pause) ELSE r.expires_at END
    WHERE r.id = found.id;
    RETURN found.state;
END
$$;

CREATE FUNCTION hookwire.release_tasks(ids text[], claims bigint[], reason text DEFAULT NULL::text) RETURNS SETOF text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
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
$$;

CREATE FUNCTION hookwire.releases_max() RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN 100;

CREATE FUNCTION hookwire.reply(id text, claim bigint, body bytea, content_type text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
BEGIN
    IF coalesce(hookwire.reply_by(hookwire.request_id(reply.id), reply.claim, reply.body, reply.content_type), '') <> 'stored' THEN
        RAISE EXCEPTION USING ERRCODE = 'HW001', MESSAGE = format('the claim %s does not hold the request %s', reply.claim, left(reply.id, 80)),
            HINT = 'Another worker holds or answered it, or it was closed. Claim again.';
    END IF;
END
$$;

CREATE FUNCTION hookwire.reply(id text, claim bigint, body jsonb, content_type text DEFAULT 'application/json'::text) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    RETURN hookwire.reply(id, claim, convert_to((body)::text, 'UTF8'::name), content_type);

CREATE FUNCTION hookwire.reply(id text, claim bigint, body text, content_type text DEFAULT 'text/plain; charset=utf-8'::text) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    RETURN hookwire.reply(id, claim, convert_to(body, 'UTF8'::name), content_type);

CREATE FUNCTION hookwire.reply_by(id uuid, claim bigint, body bytea, content_type text) RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    parsed record;
BEGIN
    PERFORM hookwire.check_contents(ARRAY[reply_by.body], ARRAY[reply_by.content_type]);
    parsed := hookwire.parse_frames(reply_by.content_type, reply_by.body);
    RETURN (SELECT s.outcome FROM hookwire.settle_requests(
        ARRAY[reply_by.id], ARRAY[reply_by.claim], ARRAY[parsed.body], ARRAY[parsed.content_type], ARRAY[parsed.frame_bytes::text]) AS s);
END
$$;

CREATE FUNCTION hookwire.request_by(service text, body bytea, content_type text, via text, caller text, client text, number text, expiry_seconds double precision) RETURNS TABLE(id uuid, repeated boolean)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    parsed record;
BEGIN
    PERFORM hookwire.check_service_name(request_by.service), hookwire.check_contents(ARRAY[request_by.body], ARRAY[request_by.content_type]);
    parsed := hookwire.parse_frames(request_by.content_type, request_by.body);
    RETURN QUERY
    SELECT s.id, s.repeated
    FROM hookwire.store_requests(
        ARRAY[request_by.service], ARRAY[parsed.body], request_by.via, ARRAY[parsed.content_type], ARRAY[parsed.frame_bytes::text],
        ARRAY[request_by.caller], ARRAY[request_by.client], ARRAY[request_by.number], ARRAY[request_by.expiry_seconds]) AS s;
END
$$;

CREATE FUNCTION hookwire.request(service text, body bytea, content_type text DEFAULT NULL::text, client text DEFAULT NULL::text, number text DEFAULT NULL::text, expiry_seconds double precision DEFAULT NULL::double precision) RETURNS text
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    RETURN (SELECT translate((r.id)::text, '-'::text, ''::text) AS translate FROM hookwire.request_by(request.service, request.body, request.content_type, 'sql'::text, NULL::text, request.client, request.number, request.expiry_seconds) r(id, repeated));

CREATE FUNCTION hookwire.request(service text, body jsonb, content_type text DEFAULT 'application/json'::text, client text DEFAULT NULL::text, number text DEFAULT NULL::text, expiry_seconds double precision DEFAULT NULL::double precision) RETURNS text
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    RETURN hookwire.request(service, convert_to((body)::text, 'UTF8'::name), content_type, client, number, expiry_seconds);

CREATE FUNCTION hookwire.request(service text, body text, content_type text DEFAULT 'text/plain; charset=utf-8'::text, client text DEFAULT NULL::text, number text DEFAULT NULL::text, expiry_seconds double precision DEFAULT NULL::double precision) RETURNS text
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    RETURN hookwire.request(service, convert_to(body, 'UTF8'::name), content_type, client, number, expiry_seconds);

CREATE FUNCTION hookwire.request_id(id text) RETURNS uuid
    LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN (id ~ '^[0-9A-Fa-f]{32}$'::text) THEN (id)::uuid ELSE NULL::uuid END;

CREATE FUNCTION hookwire.resume_job(token text, answer jsonb DEFAULT 'true'::jsonb) RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
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
$$;

CREATE FUNCTION hookwire.retry_job(id uuid, actor text, why text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
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
$$;

CREATE FUNCTION hookwire.running_job(job_id uuid, of_claim bigint) RETURNS hookwire.jobs
    LANGUAGE plpgsql
    AS $$
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
$$;

CREATE FUNCTION hookwire.scope_of(layout smallint) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN (SELECT l.order_scope FROM hookwire.layouts l WHERE (l.number = scope_of.layout));

CREATE FUNCTION hookwire.send_back_job(id uuid, actor text, why text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
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
$$;

CREATE FUNCTION hookwire.service_settings(name text) RETURNS hookwire.services
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    found hookwire.services;
BEGIN
    SELECT * INTO found FROM hookwire.services s WHERE s.name = service_settings.name;
    IF found.id IS NULL THEN
        found.name := name; found.lease_seconds := 30; found.tries_max := 5; found.idempotent := true;
        found.expiry_seconds := 86400; found.retention_seconds := 604800; found.without_workers := 'queue';
        found.disabled := false;
    END IF;
    RETURN found;
END
$$;

CREATE FUNCTION hookwire.set_numbers_forward(seen text DEFAULT NULL::text, margin bigint DEFAULT 1000000, OUT sequence text, OUT last bigint, OUT used bigint, OUT next bigint, OUT reason text) RETURNS SETOF record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    known text;
    here text;
    is_elsewhere boolean;
    forward bigint;
    one record;
BEGIN
    SELECT i.server INTO known FROM hookwire.installation i FOR NO KEY UPDATE;
    here := concat_ws(' ', coalesce(seen, 'unknown'), 'database', (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()),
                      'table', 'hookwire.installation'::regclass::oid);
    is_elsewhere := coalesce(known <> here, false);
    FOR one IN SELECT n.* FROM hookwire.numbers() n WHERE is_elsewhere OR n.last < n.used ORDER BY n.sequence COLLATE "C" LOOP
        sequence := one.sequence;
        last := one.last;
        used := one.used;
        IF is_elsewhere THEN
            -- Of an integer two thousand million are all there are.
            forward := greatest(last, used) + CASE WHEN one.most > 2147483647 THEN margin ELSE margin / 1000 END;
            reason := format('numbers were drawn last at %s, and this is %s', known, here);
        ELSE
            last := hookwire.lock_sequence(sequence);
            CONTINUE WHEN last >= used;
            forward := used;
            reason := 'it was behind the greatest number that was used';
        END IF;
        PERFORM setval(format('hookwire.%I', sequence), forward);
        next := forward + 1;
        IF sequence = 'event_id' THEN
            INSERT INTO hookwire.id_watermarks AS w (day, last_id, skipped) VALUES (current_date, forward, forward - last)
            ON CONFLICT (day) DO UPDATE SET last_id = excluded.last_id, skipped = w.skipped + excluded.skipped;
        END IF;
        RETURN NEXT;
    END LOOP;
    UPDATE hookwire.installation SET server = here WHERE server IS DISTINCT FROM here;
    IF hookwire.ids_left() = 0 THEN
        PERFORM hookwire.ensure_partitions();
    END IF;
END
$$;

CREATE FUNCTION hookwire.settle_failure(job hookwire.jobs, why text, for_good boolean, retry_seconds double precision) RETURNS text
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

CREATE FUNCTION hookwire.settle_requests(ids uuid[], claims bigint[], bodies bytea[], content_types text[] DEFAULT NULL::text[], frame_bytes text[] DEFAULT NULL::text[]) RETURNS TABLE(item integer, outcome text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    house hookwire.installation;
    moment CONSTANT timestamptz := clock_timestamp();
    answered hookwire.requests;
    told_topics text[] := '{}';
    told_types text[] := '{}';
    told_headers text[] := '{}';
    told_bodies bytea[] := '{}';
    told_body bytea;
    size integer[];
BEGIN
    SELECT * INTO house FROM hookwire.installation;
    PERFORM hookwire.check_contents(bodies, content_types);
    PERFORM FROM hookwire.requests r WHERE r.id = ANY (ids) ORDER BY r.id FOR UPDATE;
    FOR n IN 1 .. cardinality(ids) LOOP
        UPDATE hookwire.requests r
        SET state = 'answered', answered_at = moment, reply = bodies[n], reply_content_type = content_types[n],
            reply_frame_bytes = (settle_requests.frame_bytes)[n]::integer[], last_error = NULL,
            deadline_at = moment + make_interval(secs => (hookwire.service_settings(r.service)).retention_seconds)
        WHERE r.id = ids[n] AND r.claim = claims[n] AND r.state IN ('waiting', 'delayed', 'leased')
        RETURNING r.* INTO answered;
        item := n;
        outcome := 'stored';
        IF FOUND THEN
            told_body := hookwire.frames_body(answered.reply, answered.reply_frame_bytes);
            IF hookwire.is_queue_name(answered.service) AND octet_length(told_body) <= house.payload_bytes_max THEN
                told_topics := told_topics || ('hookwire.service.' || answered.service || '.reply');
                told_types := told_types || hookwire.frames_type(answered.reply_content_type, answered.reply_frame_bytes);
                told_headers := told_headers || jsonb_build_object('request-id', translate(answered.id::text, '-', ''))::text;
                told_bodies := told_bodies || told_body;
            END IF;
        ELSE
            SELECT CASE WHEN r.state IN ('expired', 'failed') THEN 'unknown'
                        WHEN r.state = 'answered' AND r.claim = claims[n] THEN 'stored' ELSE 'stale' END
            INTO outcome FROM hookwire.requests r WHERE r.id = ids[n];
            outcome := coalesce(outcome, 'unknown');
        END IF;
        RETURN NEXT;
    END LOOP;
    IF told_topics <> '{}' THEN
        size := ARRAY[cardinality(told_topics)];
        PERFORM hookwire.publish_batch(
            'default', array_fill(1, size), told_topics, array_fill(NULL::text, size), told_types, told_headers, told_bodies,
            array_fill(NULL::text, size), array_fill(NULL::bytea, size), true);
    END IF;
    IF house.sql_notify THEN
        PERFORM pg_notify('hookwire_services', ''), pg_notify('hookwire_outbox', '');
    END IF;
END
$$;

CREATE FUNCTION hookwire.shard_of(digest bytea) RETURNS smallint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN ((get_byte(digest, 0) & 63))::smallint;

CREATE FUNCTION hookwire.snooze_job(id uuid, claim bigint, seconds double precision, token text DEFAULT NULL::text) RETURNS void
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

CREATE FUNCTION hookwire.stash_row() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF NEW.payload IS NOT NULL AND NEW.payload_bytes IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'hookwire.stash: give payload (text) or payload_bytes, not both';
    END IF;
    IF NEW.payload IS NOT NULL THEN
        NEW.content_type := coalesce(NEW.content_type, 'text/plain; charset=utf-8');
        NEW.payload_bytes := convert_to(NEW.payload, 'UTF8');
    END IF;
    NEW.headers := coalesce(NEW.headers, '{}');
    NEW.event_id := hookwire.publish(NEW.topic, coalesce(NEW.payload_bytes, ''::bytea), NEW.key, NEW.content_type, NEW.headers);
    RETURN NEW;
END
$$;

CREATE FUNCTION hookwire.store_requests(services text[], bodies bytea[], via text, content_types text[] DEFAULT NULL::text[], frame_bytes text[] DEFAULT NULL::text[], callers text[] DEFAULT NULL::text[], clients text[] DEFAULT NULL::text[], numbers text[] DEFAULT NULL::text[], expiries_seconds double precision[] DEFAULT NULL::double precision[]) RETURNS TABLE(item integer, id uuid, repeated boolean)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    in_services CONSTANT text[] := store_requests.services;
    in_via CONSTANT text := store_requests.via;
    moment CONSTANT timestamptz := clock_timestamp();
    made uuid[];
    digests bytea[];
    kept uuid[];
BEGIN
    PERFORM hookwire.check_contents(bodies, content_types);
    PERFORM hookwire.check_services_open(in_services);
    IF EXISTS (SELECT FROM unnest(expiries_seconds) AS s WHERE s <> 'Infinity' AND s NOT BETWEEN 0.05 AND 31536000) THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'expiry_seconds is 0.05 to 31536000';
    END IF;
    made := ARRAY(SELECT gen_random_uuid() FROM generate_series(1, cardinality(bodies)));
    kept := made;
    IF array_remove(clients || numbers, NULL) <> '{}' THEN
        IF EXISTS (SELECT FROM unnest(clients, numbers) AS k(client, number)
                   WHERE (k.client IS NULL) <> (k.number IS NULL) OR k.client ~ '[\x01-\x1f\x7f]' OR k.number ~ '[\x01-\x1f\x7f]'
                      OR octet_length(k.client) NOT BETWEEN 1 AND 255 OR octet_length(k.number) NOT BETWEEN 1 AND 255) THEN
            RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
                MESSAGE = 'client and number are given together, each one line of 1 to 255 bytes';
        END IF;
        digests := ARRAY(
            SELECT sha256(convert_to(d.service || E'\n' || coalesce(d.content_type, '') || E'\n' || coalesce(d.frame_bytes, '') || E'\n', 'UTF8') || d.body)
            FROM unnest(in_services, content_types, frame_bytes, bodies) WITH ORDINALITY AS d(service, content_type, frame_bytes, body, n)
            ORDER BY d.n);
        INSERT INTO hookwire.request_keys AS k (client, number, digest, request_id, expires_at)
        SELECT DISTINCT ON (d.client, d.number) d.client, d.number, d.digest, d.id,
               moment + make_interval(secs => greatest(86400, (p).expiry_seconds + (p).retention_seconds))
        FROM unnest(clients, numbers, digests, made, in_services) WITH ORDINALITY AS d(client, number, digest, id, service, n),
             LATERAL hookwire.service_settings(d.service) AS p
        WHERE d.number IS NOT NULL ORDER BY d.client, d.number, d.n
        ON CONFLICT (client, number) DO UPDATE SET digest = excluded.digest, request_id = excluded.request_id, expires_at = excluded.expires_at
        WHERE k.expires_at <= clock_timestamp();
        SELECT array_agg(coalesce((SELECT k.request_id FROM hookwire.request_keys k WHERE k.client = d.client AND k.number = d.number), d.id) ORDER BY d.n)
        INTO kept FROM unnest(clients, numbers, made) WITH ORDINALITY AS d(client, number, id, n);
        IF EXISTS (SELECT FROM unnest(clients, numbers, digests) AS d(client, number, digest)
                   WHERE (SELECT k.digest FROM hookwire.request_keys k WHERE k.client = d.client AND k.number = d.number) <> d.digest) THEN
            RAISE EXCEPTION USING ERRCODE = 'unique_violation',
                MESSAGE = 'this client has used this number before, for a request with other contents';
        END IF;
    END IF;
    INSERT INTO hookwire.requests (id, number, service, state, deadline_at, expires_at, created_at, via, caller, content_type, frame_bytes, body)
    SELECT d.id, nextval('hookwire.request_number'), d.service, 'waiting', d.until, d.until, moment, in_via, d.caller,
           d.content_type, d.frame_bytes::integer[], d.body
    FROM (SELECT u.*, CASE WHEN u.expiry = 'Infinity' THEN 'infinity' ELSE moment + make_interval(secs =>
                     coalesce(u.expiry, (SELECT (p).expiry_seconds FROM hookwire.service_settings(u.service) AS p))) END AS until
          FROM unnest(made, kept, in_services, callers, content_types, frame_bytes, bodies, expiries_seconds)
               WITH ORDINALITY AS u(id, kept, service, caller, content_type, frame_bytes, body, expiry, n)
          WHERE u.id = u.kept ORDER BY u.n) AS d;
    IF (SELECT i.sql_notify FROM hookwire.installation i) THEN
        PERFORM pg_notify('hookwire_services', '');
    END IF;
    RETURN QUERY SELECT u.n::integer, u.kept, u.kept <> u.id FROM unnest(made, kept) WITH ORDINALITY AS u(id, kept, n) ORDER BY u.n;
END
$$;

CREATE FUNCTION hookwire.stripe_of(digest bytea) RETURNS integer
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (((get_byte(digest, 1) << 8) | get_byte(digest, 2)) & 1023);

CREATE FUNCTION hookwire.submit_batch(queue text, payloads bytea[], content_types text[] DEFAULT NULL::text[], headers jsonb[] DEFAULT NULL::jsonb[], types text[] DEFAULT NULL::text[], keys text[] DEFAULT NULL::text[], priorities integer[] DEFAULT NULL::integer[], delays_seconds double precision[] DEFAULT NULL::double precision[]) RETURNS SETOF bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $_$
#variable_conflict use_column
DECLARE
    in_queue CONSTANT text := submit_batch.queue;
    moment CONSTANT timestamptz := clock_timestamp();
    settings hookwire.queues;
    ids bigint[];
BEGIN
    PERFORM pg_advisory_xact_lock_shared(1215262572, hashtext(in_queue));
    settings := hookwire.queue_settings(in_queue);
    PERFORM hookwire.check_messages(payloads, content_types, headers, types, keys);
    IF EXISTS (SELECT FROM unnest(priorities) AS p WHERE p NOT BETWEEN -32768 AND 32767)
       OR EXISTS (SELECT FROM unnest(delays_seconds) AS s WHERE s NOT BETWEEN 0 AND 315360000) THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'hookwire.submit: a priority is -32768 to 32767, a delay 0 to 315360000 seconds';
    END IF;
    SELECT array_agg(nextval('hookwire.message_id')) INTO ids FROM generate_series(1, cardinality(payloads));
    IF settings.copies THEN
        INSERT INTO hookwire.message_log (queue, xid, id, created_at, priority, type, key, content_type, headers, payload)
        SELECT in_queue, pg_current_xact_id(), d.id, moment, coalesce(d.priority, 0), d.type, d.key, d.content_type,
               coalesce(d.headers, '{}'), d.payload
        FROM unnest(ids, payloads, content_types, headers, types, keys, priorities)
             AS d(id, payload, content_type, headers, type, key, priority);
    END IF;
    IF settings.moves AND NOT settings.graduated THEN
        INSERT INTO hookwire.messages (id, queue, due_at, created_at, priority, type, key, content_type, headers, payload)
        SELECT d.id, in_queue, CASE WHEN d.delay > 0 THEN moment + make_interval(secs => d.delay) END, moment,
               coalesce(d.priority, 0), d.type, d.key, d.content_type, coalesce(d.headers, '{}'), d.payload
        FROM unnest(ids, payloads, content_types, headers, types, keys, priorities, delays_seconds)
             AS d(id, payload, content_type, headers, type, key, priority, delay);
    ELSIF settings.moves THEN
        EXECUTE format(
            'INSERT INTO hookwire.%I (id, queue, due_at, created_at, priority, type, key, content_type, headers, payload)
             SELECT d.id, $9, CASE WHEN d.delay > 0 THEN $10 + make_interval(secs => d.delay) END, $10,
                    coalesce(d.priority, 0), d.type, d.key, d.content_type, coalesce(d.headers, ''{}''), d.payload
             FROM unnest($1, $2, $3, $4, $5, $6, $7, $8)
                  AS d(id, payload, content_type, headers, type, key, priority, delay)', 'messages_' || settings.id)
        USING ids, payloads, content_types, headers, types, keys, priorities, delays_seconds, in_queue, moment;
    END IF;
    IF (SELECT i.sql_notify FROM hookwire.installation i) THEN
        PERFORM pg_notify('hookwire_jobs', in_queue);
    END IF;
    RETURN QUERY SELECT unnest(ids);
END
$_$;

CREATE FUNCTION hookwire.submit(queue text, payload bytea, content_type text DEFAULT NULL::text, headers jsonb DEFAULT '{}'::jsonb, type text DEFAULT NULL::text, key text DEFAULT NULL::text, priority integer DEFAULT 0, delay_seconds double precision DEFAULT 0) RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    RETURN (SELECT hookwire.submit_batch(queue, ARRAY[payload], ARRAY[content_type], ARRAY[headers], ARRAY[type], ARRAY[key], ARRAY[priority], ARRAY[delay_seconds]) AS submit_batch);

CREATE FUNCTION hookwire.submit(queue text, payload jsonb, content_type text DEFAULT 'application/json'::text, headers jsonb DEFAULT '{}'::jsonb, type text DEFAULT NULL::text, key text DEFAULT NULL::text, priority integer DEFAULT 0, delay_seconds double precision DEFAULT 0) RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    RETURN hookwire.submit(queue, convert_to((payload)::text, 'UTF8'::name), content_type, headers, type, key, priority, delay_seconds);

CREATE FUNCTION hookwire.submit(queue text, payload text, content_type text DEFAULT 'text/plain; charset=utf-8'::text, headers jsonb DEFAULT '{}'::jsonb, type text DEFAULT NULL::text, key text DEFAULT NULL::text, priority integer DEFAULT 0, delay_seconds double precision DEFAULT 0) RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    RETURN hookwire.submit(queue, convert_to(payload, 'UTF8'::name), content_type, headers, type, key, priority, delay_seconds);

CREATE FUNCTION hookwire.take_copies(queue text, name text, count integer, lease_seconds double precision, filter jsonb, bytes_max bigint DEFAULT hookwire.answer_bytes_max()) RETURNS TABLE(id bigint, claim bigint, deliveries integer, lease_until timestamp with time zone, created_at timestamp with time zone, content_type text, headers jsonb, payload bytea, type text, key text, priority smallint)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    in_queue CONSTANT text := take_copies.queue;
    in_name CONSTANT text := take_copies.name;
    most CONSTANT integer := take_copies.count;
    until CONSTANT timestamptz := clock_timestamp() + make_interval(secs => coalesce(lease_seconds, 30));
    consumer hookwire.consumers;
    seen record;
BEGIN
    IF hookwire.queue_settings(in_queue) IS NULL OR most NOT BETWEEN 1 AND 10000 OR lease_seconds NOT BETWEEN 0.05 AND 43200 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'hookwire.receive_copies: count is 1 to 10000, lease_seconds 0.05 to 43200';
    END IF;
    IF filter IS NOT NULL THEN
        PERFORM hookwire.check_filter(filter);
        IF filter ? 'age_seconds_min' THEN
            RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
                MESSAGE = 'a consumer of copies reads in order and goes past what its filter leaves: no age_seconds_min';
        END IF;
    END IF;
    UPDATE hookwire.consumers c SET claim = nextval('hookwire.lease_fence'), lease_until = until
    WHERE c.queue = in_queue AND c.name = in_name AND (c.claim IS NULL OR c.lease_until <= clock_timestamp())
    RETURNING c.* INTO consumer;
    IF consumer.name IS NULL THEN
        IF NOT EXISTS (SELECT FROM hookwire.consumers c WHERE c.queue = in_queue AND c.name = in_name) THEN
            RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('the queue %L has no consumer %L', in_queue, in_name);
        END IF;
        RETURN;
    END IF;
    RETURN QUERY
    WITH batch AS MATERIALIZED (
        SELECT l.* FROM hookwire.message_log l
        WHERE l.queue = in_queue AND (l.xid, l.id) > (consumer.xid, consumer.id)
          AND l.xid < pg_snapshot_xmin(pg_current_snapshot())
          AND l.id > consumer.after_id AND l.created_at >= consumer.since
        ORDER BY l.xid, l.id LIMIT most
    ), passed AS (
        SELECT b.*, sum(w.size) OVER (ORDER BY b.xid, b.id ROWS UNBOUNDED PRECEDING) - w.size AS before
        FROM batch b CROSS JOIN LATERAL (SELECT octet_length(b.payload) + octet_length(b.headers::text) AS size) AS w
        WHERE filter IS NULL
           OR ((filter->>'type' IS NULL OR b.type = filter->>'type') AND (filter->>'key' IS NULL OR b.key = filter->>'key')
               AND b.headers @> coalesce(filter->'headers', '{}')
               AND b.priority >= coalesce((filter->>'priority_min')::numeric, -32768))
    )
    SELECT p.id, consumer.claim, 1, until, p.created_at, p.content_type, p.headers, p.payload, p.type, p.key, p.priority
    FROM passed p WHERE p.before < bytes_max ORDER BY p.xid, p.id;
    IF NOT FOUND THEN
        -- Nothing of the batch passes the filter: go on behind it, and let go.
        SELECT b.xid, b.id INTO seen
        FROM (SELECT l.xid, l.id FROM hookwire.message_log l
              WHERE l.queue = in_queue AND (l.xid, l.id) > (consumer.xid, consumer.id)
                AND l.xid < pg_snapshot_xmin(pg_current_snapshot())
                AND l.id > consumer.after_id AND l.created_at >= consumer.since
              ORDER BY l.xid, l.id LIMIT most) AS b
        WHERE filter IS NOT NULL ORDER BY b.xid DESC, b.id DESC LIMIT 1;
        UPDATE hookwire.consumers c
        SET claim = NULL, lease_until = NULL, xid = coalesce(seen.xid, c.xid), id = coalesce(seen.id, c.id)
        WHERE c.queue = in_queue AND c.name = in_name AND c.claim = consumer.claim;
    END IF;
END
$$;

CREATE FUNCTION hookwire.take_jobs(kinds text[], most integer, worker text, lease_seconds double precision, queue text, bytes_max bigint DEFAULT hookwire.answer_bytes_max()) RETURNS TABLE(id uuid, claim bigint, attempts integer, lease_until timestamp with time zone, run_until timestamp with time zone, kind text, args jsonb, key text, attempts_max integer, created_at timestamp with time zone, resumed jsonb)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
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
        more := ARRAY(
            SELECT j.id FROM hookwire.jobs j
            WHERE j.queue = in_queue AND j.kind = one AND j.state = 'available' AND NOT j.for_people
            ORDER BY j.rank_at, j.seq LIMIT in_most - cardinality(picked) FOR NO KEY UPDATE SKIP LOCKED);
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
    IF cardinality(more) > 1 THEN
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
$$;

CREATE FUNCTION hookwire.take_messages(queue text, count integer, lease_seconds double precision, filter jsonb, receiver text, after_id bigint, bytes_max bigint DEFAULT hookwire.answer_bytes_max()) RETURNS TABLE(id bigint, claim bigint, deliveries integer, lease_until timestamp with time zone, created_at timestamp with time zone, content_type text, headers jsonb, payload bytea, type text, key text, priority smallint)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    in_queue CONSTANT text := take_messages.queue;
    in_receiver CONSTANT text := left(take_messages.receiver, 200);
    most CONSTANT integer := take_messages.count;
    settings hookwire.queues;
    until timestamptz;
    picked bigint[];
BEGIN
    settings := hookwire.queue_settings(in_queue);
    IF most NOT BETWEEN 1 AND 10000 OR take_messages.lease_seconds NOT BETWEEN 0.05 AND 43200 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'hookwire.receive: count is 1 to 10000, lease_seconds 0.05 to 43200';
    END IF;
    IF settings.expires_at < clock_timestamp() + make_interval(secs => settings.lifetime_seconds * 0.9) THEN
        UPDATE hookwire.queues q SET expires_at = clock_timestamp() + make_interval(secs => q.lifetime_seconds) WHERE q.id = settings.id;
    END IF;
    IF settings.paused THEN
        RETURN;
    END IF;
    IF filter IS NULL THEN
        picked := ARRAY(
            SELECT s.id FROM (
                SELECT w.id, sum(w.size) OVER (ORDER BY w.id ROWS UNBOUNDED PRECEDING) - w.size AS before
                FROM (
                    SELECT m.id, octet_length(m.payload) + octet_length(m.headers::text) AS size FROM hookwire.messages m
                    WHERE m.queue = in_queue AND m.claim IS NULL AND m.due_at IS NULL AND m.id > after_id
                    ORDER BY m.id LIMIT most FOR UPDATE SKIP LOCKED
                ) AS w
            ) AS s WHERE s.before < bytes_max);
    ELSE
        PERFORM hookwire.check_filter(filter);
        picked := hookwire.pick_filtered(in_queue, most, filter, after_id);
        picked := ARRAY(
            SELECT s.id FROM (
                SELECT m.id, sum(w.size) OVER (ORDER BY m.id ROWS UNBOUNDED PRECEDING) - w.size AS before
                FROM hookwire.messages m CROSS JOIN LATERAL (
                    SELECT octet_length(m.payload) + octet_length(m.headers::text) AS size) AS w
                WHERE m.id = ANY (picked)
            ) AS s WHERE s.before < bytes_max);
    END IF;
    IF picked = '{}' THEN
        RETURN;
    END IF;
    until := clock_timestamp() + make_interval(secs => coalesce(take_messages.lease_seconds, settings.lease_seconds));
    RETURN QUERY
    WITH fence AS MATERIALIZED (
        SELECT nextval('hookwire.lease_fence') AS value
    ), taken AS (
        UPDATE hookwire.messages m
        SET claim = (SELECT f.value FROM fence f), lease_until = until, claimed_at = clock_timestamp(),
            deliveries = m.deliveries + 1, receiver = in_receiver
        WHERE m.id = ANY (picked)
        RETURNING m.id, m.claim, m.deliveries, m.lease_until, m.created_at, m.content_type, m.headers, m.payload,
                  m.type, m.key, m.priority
    )
    SELECT * FROM taken t ORDER BY t.id;
END
$$;

CREATE TABLE hookwire.task_kinds (
    kind text NOT NULL COLLATE pg_catalog."C",
    on_crash text,
    compensation_kind text,
    notify text,
    lookup_seconds real,
    giveup_seconds real,
    cleanup_seconds real,
    crash_seconds real,
    attempts_max integer,
    age_seconds_max real,
    backoff_seconds_min real,
    backoff_seconds_max real,
    doublings_max integer,
    keeps_record boolean,
    is_unique boolean,
    CONSTRAINT task_kinds_age_seconds_max_check CHECK ((age_seconds_max > (0)::double precision)),
    CONSTRAINT task_kinds_attempts_max_check CHECK (((attempts_max >= 1) AND (attempts_max <= 1000000))),
    CONSTRAINT task_kinds_backoff_seconds_max_check CHECK (((backoff_seconds_max >= (0)::double precision) AND (backoff_seconds_max <= (2592000)::double precision))),
    CONSTRAINT task_kinds_backoff_seconds_min_check CHECK (((backoff_seconds_min >= (0)::double precision) AND (backoff_seconds_min <= (86400)::double precision))),
    CONSTRAINT task_kinds_check CHECK (((kind <> '*'::text) OR (num_nulls(on_crash, lookup_seconds, giveup_seconds, cleanup_seconds, crash_seconds, attempts_max, backoff_seconds_min, backoff_seconds_max, doublings_max, keeps_record, is_unique) = 0))),
    CONSTRAINT task_kinds_cleanup_seconds_check CHECK (((cleanup_seconds >= (0.1)::double precision) AND (cleanup_seconds <= (86400)::double precision))),
    CONSTRAINT task_kinds_compensation_kind_check CHECK (((compensation_kind IS NULL) OR hookwire.is_queue_name(compensation_kind))),
    CONSTRAINT task_kinds_crash_seconds_check CHECK (((crash_seconds >= (0.1)::double precision) AND (crash_seconds <= (2592000)::double precision))),
    CONSTRAINT task_kinds_doublings_max_check CHECK (((doublings_max >= 0) AND (doublings_max <= 60))),
    CONSTRAINT task_kinds_giveup_seconds_check CHECK (((giveup_seconds >= (0)::double precision) AND (giveup_seconds <= (600)::double precision))),
    CONSTRAINT task_kinds_kind_check CHECK (((kind = '*'::text) OR hookwire.is_queue_name(kind))),
    CONSTRAINT task_kinds_lookup_seconds_check CHECK (((lookup_seconds >= (0.01)::double precision) AND (lookup_seconds <= (60)::double precision))),
    CONSTRAINT task_kinds_notify_check CHECK ((notify = ANY (ARRAY['nobody'::text, 'notify'::text, 'relay'::text, 'enqueuer'::text]))),
    CONSTRAINT task_kinds_on_crash_check CHECK ((on_crash = ANY (ARRAY['retry'::text, 'compensate'::text, 'abandon'::text])))
);

COMMENT ON TABLE hookwire.task_kinds IS 'How tasks of a kind are treated. A kind needs no row; NULL means as in the row ''*''.';

COMMENT ON COLUMN hookwire.task_kinds.on_crash IS 'What the cleaner does with a crashed task: retry, compensate or abandon.';

COMMENT ON COLUMN hookwire.task_kinds.compensation_kind IS 'The kind of the task that undoes a crashed one.';

COMMENT ON COLUMN hookwire.task_kinds.notify IS 'How workers are notified: nobody, notify, relay or enqueuer.';

COMMENT ON COLUMN hookwire.task_kinds.lookup_seconds IS 'Between two looks for a row that a notification named and that is not there yet.';

COMMENT ON COLUMN hookwire.task_kinds.giveup_seconds IS 'After which such a notification is dropped.';

COMMENT ON COLUMN hookwire.task_kinds.cleanup_seconds IS 'After which the cleaner notifies of a task again.';

COMMENT ON COLUMN hookwire.task_kinds.crash_seconds IS 'After which a task that was begun counts as crashed.';

COMMENT ON COLUMN hookwire.task_kinds.age_seconds_max IS 'With attempts_max: dead when both are passed.';

COMMENT ON COLUMN hookwire.task_kinds.doublings_max IS 'How often the backoff doubles before it grows by the last step.';

COMMENT ON COLUMN hookwire.task_kinds.keeps_record IS 'Whether finished tasks go into the archive.';

COMMENT ON COLUMN hookwire.task_kinds.is_unique IS 'Whether enqueueing the same description again finds the same task.';

CREATE FUNCTION hookwire.task_backoff_seconds(attempt integer, policy hookwire.task_kinds) RETURNS double precision
    LANGUAGE sql IMMUTABLE
    RETURN LEAST(((policy).backoff_seconds_max)::double precision, (((policy).backoff_seconds_min * power((2)::double precision, (LEAST((attempt - 1), (policy).doublings_max))::double precision)) * ((1 + GREATEST(((attempt - 1) - (policy).doublings_max), 0)))::double precision));

CREATE FUNCTION hookwire.task_is_worn(attempts integer, created_at timestamp with time zone, policy hookwire.task_kinds) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN ((attempts >= COALESCE((policy).attempts_max, 0)) AND (((policy).age_seconds_max IS NULL) OR (created_at <= (clock_timestamp() - make_interval(secs => ((policy).age_seconds_max)::double precision)))));

CREATE FUNCTION hookwire.task_policy(of_kind text) RETURNS hookwire.task_kinds
    LANGUAGE sql STABLE
    RETURN (SELECT ROW(task_policy.of_kind, COALESCE(k.on_crash, d.on_crash), COALESCE(k.compensation_kind, d.compensation_kind), COALESCE(k.notify, d.notify, CASE WHEN (SELECT s.configured FROM hookwire.sinks s WHERE (s.name = 'amqp'::text)) THEN 'relay'::text ELSE 'nobody'::text END), COALESCE(k.lookup_seconds, d.lookup_seconds), COALESCE(k.giveup_seconds, d.giveup_seconds), COALESCE(k.cleanup_seconds, d.cleanup_seconds), COALESCE(k.crash_seconds, d.crash_seconds), COALESCE(k.attempts_max, d.attempts_max), COALESCE(k.age_seconds_max, d.age_seconds_max), COALESCE(k.backoff_seconds_min, d.backoff_seconds_min), COALESCE(k.backoff_seconds_max, d.backoff_seconds_max), COALESCE(k.doublings_max, d.doublings_max), COALESCE(k.keeps_record, d.keeps_record), COALESCE(k.is_unique, d.is_unique))::hookwire.task_kinds AS "row" FROM (hookwire.task_kinds d LEFT JOIN hookwire.task_kinds k ON ((k.kind = task_policy.of_kind))) WHERE (d.kind = '*'::text));

CREATE FUNCTION hookwire.tell_operators(notices jsonb[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF cardinality(notices) > 0 AND (
        EXISTS (SELECT FROM hookwire.subscriptions x
                WHERE x.tenant = 'default' AND x.state = 'active' AND x.topic_regex IS NULL AND x.topic = 'hookwire.operator')
        OR EXISTS (SELECT FROM hookwire.subscriptions x
                   WHERE x.tenant = 'default' AND x.state = 'active' AND x.topic_regex IS NOT NULL AND x.topic LIKE 'hookwire.%')) THEN
        PERFORM hookwire.publish_batch(
            'default', array_fill(1, size), array_fill('hookwire.operator'::text, size), array_fill(NULL::text, size),
            array_fill('application/json'::text, size), array_fill('{}'::text, size),
            ARRAY(SELECT convert_to((n || jsonb_build_object('at', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')))::text, 'UTF8')
                  FROM unnest(notices) AS n),
            array_fill(NULL::text, size), array_fill(NULL::bytea, size), true)
        FROM (SELECT ARRAY[cardinality(notices)] AS size) AS s;
    END IF;
END
$$;

CREATE FUNCTION hookwire.unassign_job(id uuid, actor text, why text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
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
$$;

CREATE FUNCTION hookwire.waiting_kinds() RETURNS SETOF text
    LANGUAGE sql STABLE
    AS $$
    WITH RECURSIVE names AS (
        (SELECT t.kind FROM hookwire.task_rows t WHERE t.start_time IS NULL AND t.due_at IS NULL ORDER BY t.kind LIMIT 1)
        UNION ALL
        SELECT (SELECT t.kind FROM hookwire.task_rows t WHERE t.start_time IS NULL AND t.due_at IS NULL AND t.kind > n.kind ORDER BY t.kind LIMIT 1)
        FROM names n WHERE n.kind IS NOT NULL
    )
    SELECT n.kind FROM names n WHERE n.kind IS NOT NULL
$$;

CREATE TABLE hookwire.job_archive (
    id uuid NOT NULL,
    seq bigint NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL,
    state text NOT NULL,
    args jsonb NOT NULL,
    key text NOT NULL,
    uniq text COLLATE pg_catalog."C",
    priority smallint NOT NULL,
    attempts integer NOT NULL,
    attempts_max integer NOT NULL,
    run_seconds real NOT NULL,
    worker text,
    assignee text COLLATE pg_catalog."C",
    performer text COLLATE pg_catalog."C",
    number integer NOT NULL,
    result jsonb,
    errors jsonb NOT NULL,
    reason text,
    created_by text,
    created_at timestamp with time zone NOT NULL,
    claimed_at timestamp with time zone,
    ended_at timestamp with time zone NOT NULL,
    ended_by text,
    CONSTRAINT job_archive_state_check CHECK ((state = ANY (ARRAY['completed'::text, 'cancelled'::text, 'discarded'::text])))
);

COMMENT ON TABLE hookwire.job_archive IS 'Ended jobs.';

COMMENT ON COLUMN hookwire.job_archive.seq IS 'The order of enqueueing.';

COMMENT ON COLUMN hookwire.job_archive.state IS 'How it ended: completed, cancelled or discarded.';

COMMENT ON COLUMN hookwire.job_archive.args IS 'The arguments.';

COMMENT ON COLUMN hookwire.job_archive.key IS 'As in jobs.';

COMMENT ON COLUMN hookwire.job_archive.uniq IS 'As in jobs.';

COMMENT ON COLUMN hookwire.job_archive.assignee IS 'As in jobs.';

COMMENT ON COLUMN hookwire.job_archive.performer IS 'As in jobs.';

COMMENT ON COLUMN hookwire.job_archive.number IS 'The number of its last change of state.';

COMMENT ON COLUMN hookwire.job_archive.errors IS 'Failures.';

COMMENT ON COLUMN hookwire.job_archive.reason IS 'Why it was cancelled or discarded.';

COMMENT ON COLUMN hookwire.job_archive.created_by IS 'As in jobs.';

COMMENT ON COLUMN hookwire.job_archive.ended_by IS 'The key, person or worker that ended it.';

CREATE VIEW hookwire.all_jobs AS
 SELECT j.id,
    j.kind,
    j.queue,
    j.state,
    j.key,
    j.uniq,
    j.args,
    j.result,
    j.priority,
    j.attempts,
    j.assignee,
    j.performer,
    j.worker,
    j.created_by,
    j.created_at,
    j.claimed_at,
    NULL::timestamp with time zone AS ended_at,
    NULL::text AS ended_by,
    NULL::text AS reason
   FROM hookwire.jobs j
UNION ALL
 SELECT a.id,
    a.kind,
    a.queue,
    a.state,
    a.key,
    a.uniq,
    a.args,
    a.result,
    a.priority,
    a.attempts,
    a.assignee,
    a.performer,
    a.worker,
    a.created_by,
    a.created_at,
    a.claimed_at,
    a.ended_at,
    a.ended_by,
    a.reason
   FROM hookwire.job_archive a;

COMMENT ON VIEW hookwire.all_jobs IS 'Live and ended jobs in one shape.';

CREATE TABLE hookwire.api_keys (
    id bigint NOT NULL,
    public_id text NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    name text NOT NULL,
    digest bytea NOT NULL,
    scopes text[] NOT NULL,
    topics text[],
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    queues text[],
    kinds text[],
    services text[],
    CONSTRAINT api_keys_digest_check CHECK ((length(digest) = 32)),
    CONSTRAINT api_keys_kinds_check CHECK ((cardinality(kinds) > 0)),
    CONSTRAINT api_keys_queues_check CHECK ((cardinality(queues) > 0)),
    CONSTRAINT api_keys_scopes_check CHECK (((scopes <@ ARRAY['publish'::text, 'subscribe'::text, 'read'::text, 'payloads'::text, 'operate'::text, 'enqueue'::text, 'work'::text, 'call'::text, 'admin'::text]) AND (cardinality(scopes) > 0))),
    CONSTRAINT api_keys_services_check CHECK ((cardinality(services) > 0)),
    CONSTRAINT api_keys_topics_check CHECK ((cardinality(topics) > 0))
);

COMMENT ON TABLE hookwire.api_keys IS 'API keys. A key is known by the SHA-256 of its text; the text is shown once (SE-04).';

COMMENT ON COLUMN hookwire.api_keys.digest IS 'SHA-256 of the key''s text.';

COMMENT ON COLUMN hookwire.api_keys.scopes IS 'What the key may do.';

COMMENT ON COLUMN hookwire.api_keys.topics IS 'Patterns of topics that it may use; NULL: all.';

COMMENT ON COLUMN hookwire.api_keys.queues IS 'Patterns of queues; NULL: all.';

COMMENT ON COLUMN hookwire.api_keys.kinds IS 'Patterns of kinds of tasks and jobs; NULL: all.';

COMMENT ON COLUMN hookwire.api_keys.services IS 'Patterns of services; NULL: all.';

ALTER TABLE hookwire.api_keys ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.api_keys_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.attempts (
    event_id bigint NOT NULL,
    subscription_id bigint NOT NULL,
    started_at timestamp with time zone NOT NULL,
    number integer NOT NULL,
    status smallint,
    connect_seconds real,
    first_byte_seconds real,
    total_seconds real NOT NULL,
    tenant text NOT NULL,
    outcome text NOT NULL,
    decision text NOT NULL,
    trigger text NOT NULL,
    worker text NOT NULL,
    address text,
    detail text,
    response_headers jsonb,
    response_body bytea,
    CONSTRAINT attempts_decision_check CHECK ((decision = ANY (ARRAY['delivered'::text, 'retry'::text, 'park'::text, 'dead'::text, 'dropped'::text])))
)
PARTITION BY RANGE (event_id);

COMMENT ON TABLE hookwire.attempts IS 'Finished attempts of deliveries, partitioned by event id.';

COMMENT ON COLUMN hookwire.attempts.number IS 'The attempt''s number within its delivery, from 1.';

COMMENT ON COLUMN hookwire.attempts.connect_seconds IS 'Until the connection stood; NULL: a kept connection was used.';

COMMENT ON COLUMN hookwire.attempts.outcome IS 'What the answer, or its absence, means.';

COMMENT ON COLUMN hookwire.attempts.decision IS 'What followed: delivered, retry, park or dead.';

COMMENT ON COLUMN hookwire.attempts.trigger IS 'Why it was made: first, retry, replay or manual.';

COMMENT ON COLUMN hookwire.attempts.address IS 'The IP address that was dialled.';

COMMENT ON COLUMN hookwire.attempts.detail IS 'One line for the subscriber.';

COMMENT ON COLUMN hookwire.attempts.response_headers IS 'Some headers of an answer that was no success.';

COMMENT ON COLUMN hookwire.attempts.response_body IS 'The first bytes of an answer that was no success.';

CREATE TABLE hookwire.audit (
    id bigint NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    tenant text NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    subject text NOT NULL,
    reason text,
    records bigint DEFAULT 1 NOT NULL
);

COMMENT ON TABLE hookwire.audit IS 'What operators did, to what, and why; written in the statement that does it.';

COMMENT ON COLUMN hookwire.audit.actor IS 'The public id or name of the key that was used.';

COMMENT ON COLUMN hookwire.audit.action IS 'The operation, as noun.verb.';

COMMENT ON COLUMN hookwire.audit.subject IS 'What it was done to.';

COMMENT ON COLUMN hookwire.audit.records IS 'How many records it concerned.';

ALTER TABLE hookwire.audit ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.audit_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.compat_parked (
    outbox text NOT NULL,
    key text NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    record_id bigint NOT NULL,
    topic text NOT NULL,
    reason text NOT NULL,
    detail text NOT NULL,
    attempts integer DEFAULT 1 NOT NULL,
    since timestamp with time zone DEFAULT now() NOT NULL,
    probe_at timestamp with time zone NOT NULL
);

COMMENT ON TABLE hookwire.compat_parked IS 'Compat mode: keys of goharvest''s table whose record Kafka refused. Deleting a row tries the key again at once.';

COMMENT ON COLUMN hookwire.compat_parked.outbox IS 'goharvest''s table, quoted as PostgreSQL quotes it.';

COMMENT ON COLUMN hookwire.compat_parked.key IS 'The key of the refused record.';

COMMENT ON COLUMN hookwire.compat_parked.record_id IS 'The id of the refused record in that table.';

COMMENT ON COLUMN hookwire.compat_parked.reason IS 'The kind of refusal.';

COMMENT ON COLUMN hookwire.compat_parked.attempts IS 'How often the record was probed.';

COMMENT ON COLUMN hookwire.compat_parked.since IS 'When the key was parked.';

COMMENT ON COLUMN hookwire.compat_parked.probe_at IS 'When Kafka is asked again.';

CREATE TABLE hookwire.consumers (
    tenant text DEFAULT 'default'::text NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    xid xid8 NOT NULL,
    id bigint NOT NULL,
    after_id bigint NOT NULL,
    since timestamp with time zone NOT NULL,
    claim bigint,
    lease_until timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE hookwire.consumers IS 'Durable consumers of copies, each with its position (xid, id) in the log.';

COMMENT ON COLUMN hookwire.consumers.xid IS 'The position: the transaction of the last accepted message.';

COMMENT ON COLUMN hookwire.consumers.id IS 'The position: messages up to this id are accepted.';

COMMENT ON COLUMN hookwire.consumers.after_id IS 'Of the messages before its registration it reads those above this id.';

COMMENT ON COLUMN hookwire.consumers.since IS 'And those from this moment on.';

COMMENT ON COLUMN hookwire.consumers.claim IS 'The fence of the reader that holds the next messages.';

CREATE TABLE hookwire.dead_letters (
    event_id bigint NOT NULL,
    subscription_id bigint NOT NULL,
    tenant text NOT NULL,
    kind text NOT NULL,
    attempts integer NOT NULL,
    last_status smallint,
    last_outcome text,
    detail text,
    died_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT dead_letters_kind_check CHECK ((kind = ANY (ARRAY['exhausted'::text, 'declined'::text, 'aborted'::text, 'gone'::text, 'internal'::text])))
);

COMMENT ON TABLE hookwire.dead_letters IS 'Deliveries that were given up; they can be replayed or purged.';

COMMENT ON COLUMN hookwire.dead_letters.kind IS 'Why: exhausted, declined, gone, aborted or internal.';

COMMENT ON COLUMN hookwire.dead_letters.last_status IS 'The status of the last answer.';

COMMENT ON COLUMN hookwire.dead_letters.last_outcome IS 'The class of the last attempt''s outcome.';

CREATE TABLE hookwire.dead_messages (
    id bigint NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    created_at timestamp with time zone NOT NULL,
    died_at timestamp with time zone NOT NULL,
    deliveries integer NOT NULL,
    reason text NOT NULL,
    priority smallint NOT NULL,
    receiver text,
    type text,
    key text,
    content_type text,
    headers jsonb NOT NULL,
    payload bytea NOT NULL
);

COMMENT ON TABLE hookwire.dead_messages IS 'Messages that were delivered too often or given up.';

COMMENT ON COLUMN hookwire.dead_messages.deliveries IS 'How often it was handed to a receiver.';

COMMENT ON COLUMN hookwire.dead_messages.receiver IS 'The client that held it last.';

COMMENT ON COLUMN hookwire.dead_messages.type IS 'As in messages.';

CREATE TABLE hookwire.dead_tasks (
    number bigint NOT NULL,
    id text NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    description text NOT NULL,
    reason text NOT NULL,
    attempts integer NOT NULL,
    worker text,
    created_at timestamp with time zone NOT NULL,
    died_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    told_at timestamp with time zone
);

COMMENT ON TABLE hookwire.dead_tasks IS 'Tasks that were given up.';

COMMENT ON COLUMN hookwire.dead_tasks.number IS 'Tells rows of one id apart.';

COMMENT ON COLUMN hookwire.dead_tasks.description IS 'The arguments.';

COMMENT ON COLUMN hookwire.dead_tasks.told_at IS 'When operators were notified.';

ALTER TABLE hookwire.dead_tasks ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.dead_tasks_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.deliveries (
    event_id bigint NOT NULL,
    subscription_id bigint NOT NULL,
    due_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    fence bigint,
    attempts integer DEFAULT 0 NOT NULL,
    last_status smallint,
    tenant text NOT NULL,
    lane text,
    last_outcome text,
    free_attempts integer DEFAULT 0 NOT NULL,
    woken_at timestamp with time zone,
    planned_at timestamp with time zone,
    replay_id bigint,
    last_seconds real,
    parked_at timestamp with time zone
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='20000', autovacuum_vacuum_insert_threshold='-1', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='100000');

COMMENT ON TABLE hookwire.deliveries IS 'Open deliveries: a row for each event and subscription until it is delivered or dead. open_deliveries shows its state.';

COMMENT ON COLUMN hookwire.deliveries.due_at IS 'When a claim may take the row. Waiting: not before. Claimed (fence set): the end of the lease. Blocked or parked: infinity.';

COMMENT ON COLUMN hookwire.deliveries.created_at IS 'When the fan-out made it; a parked delivery that is retried begins anew.';

COMMENT ON COLUMN hookwire.deliveries.fence IS 'The token of the current claim; NULL: not claimed. A settlement under another token changes nothing.';

COMMENT ON COLUMN hookwire.deliveries.attempts IS 'Attempts that were claimed, also one that killed its worker.';

COMMENT ON COLUMN hookwire.deliveries.last_status IS 'The status of the last answer.';

COMMENT ON COLUMN hookwire.deliveries.lane IS 'The key of an ordered subscription; only the lowest event of a lane is ever claimed. NULL: no order.';

COMMENT ON COLUMN hookwire.deliveries.last_outcome IS 'The class of the last attempt''s outcome.';

COMMENT ON COLUMN hookwire.deliveries.free_attempts IS 'Attempts outside the retry schedule: attempts - free_attempts is the place in it.';

COMMENT ON COLUMN hookwire.deliveries.woken_at IS 'WebSub: when new content woke it last.';

COMMENT ON COLUMN hookwire.deliveries.planned_at IS 'When the retry schedule goes on after an attempt out of turn; NULL: in its ordinary course.';

COMMENT ON COLUMN hookwire.deliveries.replay_id IS 'The replay that made it; 0: a single event was sent again; NULL: none.';

COMMENT ON COLUMN hookwire.deliveries.last_seconds IS 'How long the last attempt took.';

COMMENT ON COLUMN hookwire.deliveries.parked_at IS 'Since when the head of a lane waits for a decision; due_at is infinity then.';

CREATE TABLE hookwire.delivery_failures (
    subscription_id bigint NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    failures integer NOT NULL,
    failures_before integer DEFAULT 0 NOT NULL,
    succeeded_at timestamp with time zone,
    settled_at timestamp with time zone[] NOT NULL,
    failed boolean[] NOT NULL,
    failing_since timestamp with time zone,
    last_outcome text,
    last_status smallint
)
WITH (fillfactor='50');

COMMENT ON TABLE hookwire.delivery_failures IS 'Subscriptions that have failed lately, as all workers together count it. Most subscriptions have no row.';

COMMENT ON COLUMN hookwire.delivery_failures.failures IS 'Failures in a row, up to now.';

COMMENT ON COLUMN hookwire.delivery_failures.failures_before IS 'The same before the last settlement: tells which levels that one passed.';

COMMENT ON COLUMN hookwire.delivery_failures.succeeded_at IS 'The last success that is known.';

COMMENT ON COLUMN hookwire.delivery_failures.settled_at IS 'When the last attempts were settled, oldest first; the breaker is judged by them.';

COMMENT ON COLUMN hookwire.delivery_failures.failed IS 'Whether each of these attempts failed.';

COMMENT ON COLUMN hookwire.delivery_failures.failing_since IS 'The first failure since the last success; NULL: the last attempt succeeded.';

COMMENT ON COLUMN hookwire.delivery_failures.last_outcome IS 'Of the latest failure.';

COMMENT ON COLUMN hookwire.delivery_failures.last_status IS 'Of the latest failure.';

CREATE SEQUENCE hookwire.delivery_fence
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE hookwire.delivery_gates (
    subscription_id bigint NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    tokens double precision DEFAULT 0 NOT NULL,
    refilled_at timestamp with time zone DEFAULT now() NOT NULL,
    trips integer DEFAULT 0 NOT NULL,
    open_until timestamp with time zone,
    failing_since timestamp with time zone
)
WITH (fillfactor='50');

COMMENT ON TABLE hookwire.delivery_gates IS 'Throttles: rate limit and circuit breaker of subscriptions that have one. Each claim locks the rows that it passes.';

COMMENT ON COLUMN hookwire.delivery_gates.tokens IS 'Deliveries that the rate limit allows, as of refilled_at.';

COMMENT ON COLUMN hookwire.delivery_gates.trips IS 'How often the breaker has opened since a success; above 0 one delivery at a time passes, as a probe.';

COMMENT ON COLUMN hookwire.delivery_gates.open_until IS 'Until when the breaker lets nothing pass, or until when its probe is out.';

COMMENT ON COLUMN hookwire.delivery_gates.failing_since IS 'The first trip since a success.';

CREATE SEQUENCE hookwire.event_id
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE hookwire.events (
    id bigint NOT NULL,
    accepted_at timestamp with time zone NOT NULL,
    ordered boolean NOT NULL,
    tenant text NOT NULL,
    topic text NOT NULL,
    key text,
    content_type text,
    headers jsonb NOT NULL,
    sinks text[] NOT NULL,
    payload bytea NOT NULL
)
PARTITION BY RANGE (id);

COMMENT ON TABLE hookwire.events IS 'Published events with their contents, partitioned by id. No foreign key refers to it, so that partitions can be dropped (RR-05).';

COMMENT ON COLUMN hookwire.events.id IS 'Drawn under the key''s stripe lock: ids of one key rise in commit order.';

COMMENT ON COLUMN hookwire.events.accepted_at IS 'When the publishing transaction stored the event, by the database''s clock.';

COMMENT ON COLUMN hookwire.events.ordered IS 'Whether the topic kept order when the event was accepted; then id is also the sequence.';

COMMENT ON COLUMN hookwire.events.sinks IS 'The sinks that the event was owed to at its acceptance.';

COMMENT ON COLUMN hookwire.events.payload IS 'The body as it was received; empty for a tombstone, which a header marks.';

CREATE TABLE hookwire.fanout_cursors (
    event_id bigint NOT NULL,
    tenant text NOT NULL,
    last_subscription_id bigint NOT NULL,
    upper_subscription_id bigint NOT NULL
);

COMMENT ON TABLE hookwire.fanout_cursors IS 'Events that are fanned out in slices, because they have many subscriptions.';

COMMENT ON COLUMN hookwire.fanout_cursors.last_subscription_id IS 'Up to here deliveries are made.';

COMMENT ON COLUMN hookwire.fanout_cursors.upper_subscription_id IS 'The last subscription of the fan-out, fixed by its first slice.';

CREATE TABLE hookwire.foreign_topics (
    tenant text DEFAULT 'default'::text NOT NULL,
    topic text NOT NULL,
    url text NOT NULL,
    self_url text,
    hub_url text,
    feed_diff boolean DEFAULT false NOT NULL,
    always_deliver boolean DEFAULT false NOT NULL,
    pings bigint DEFAULT 0 NOT NULL,
    pings_fetched bigint DEFAULT 0 NOT NULL,
    due_at timestamp with time zone,
    claimed_until timestamp with time zone,
    claims bigint DEFAULT 0 NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    etag text,
    last_modified text,
    digest bytea,
    entries jsonb,
    last_status smallint,
    last_error text,
    fetched_at timestamp with time zone,
    changed_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE hookwire.foreign_topics IS 'Topics of other publishers: named by their URL and fetched when a publisher pings.';

COMMENT ON COLUMN hookwire.foreign_topics.url IS 'As it was first named; where it is fetched.';

COMMENT ON COLUMN hookwire.foreign_topics.self_url IS 'The topic as the content names itself.';

COMMENT ON COLUMN hookwire.foreign_topics.hub_url IS 'The hub that the content names.';

COMMENT ON COLUMN hookwire.foreign_topics.feed_diff IS 'Atom and RSS: whether only new and changed entries are delivered.';

COMMENT ON COLUMN hookwire.foreign_topics.always_deliver IS 'Whether unchanged content is delivered too.';

COMMENT ON COLUMN hookwire.foreign_topics.pings IS 'Pings that were received.';

COMMENT ON COLUMN hookwire.foreign_topics.pings_fetched IS 'Pings that the latest good fetch covers.';

COMMENT ON COLUMN hookwire.foreign_topics.due_at IS 'When it is fetched next; NULL: there is nothing to fetch.';

COMMENT ON COLUMN hookwire.foreign_topics.claimed_until IS 'Until when one process fetches it.';

COMMENT ON COLUMN hookwire.foreign_topics.claims IS 'Claims so far; the number of the latest is its fence.';

COMMENT ON COLUMN hookwire.foreign_topics.failures IS 'Failed fetches in a row.';

COMMENT ON COLUMN hookwire.foreign_topics.etag IS 'For conditional requests.';

COMMENT ON COLUMN hookwire.foreign_topics.last_modified IS 'For conditional requests.';

COMMENT ON COLUMN hookwire.foreign_topics.digest IS 'SHA-256 of the type and content that was fetched last.';

COMMENT ON COLUMN hookwire.foreign_topics.entries IS 'Digests of a feed''s entries, by id.';

CREATE TABLE hookwire.former_audiences (
    subscription_id bigint NOT NULL,
    until_id bigint NOT NULL,
    tenant text NOT NULL,
    topic text NOT NULL,
    topic_regex text,
    filter_path jsonpath,
    lease_until timestamp with time zone,
    number bigint NOT NULL
);

COMMENT ON TABLE hookwire.former_audiences IS 'What subscriptions wanted before a change, for events up to until_id. The fan-out judges an event by its acceptance (FC-08).';

COMMENT ON COLUMN hookwire.former_audiences.until_id IS 'The last event that is judged by this row.';

COMMENT ON COLUMN hookwire.former_audiences.topic_regex IS 'As in subscriptions, before the change.';

COMMENT ON COLUMN hookwire.former_audiences.filter_path IS 'As in subscriptions, before the change.';

COMMENT ON COLUMN hookwire.former_audiences.lease_until IS 'As in subscriptions, before the change.';

COMMENT ON COLUMN hookwire.former_audiences.number IS 'Tells rows of one subscription apart.';

ALTER TABLE hookwire.former_audiences ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.former_audiences_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.held (
    sink text NOT NULL COLLATE pg_catalog."C",
    tenant text NOT NULL,
    topic text NOT NULL,
    key text DEFAULT ''::text NOT NULL,
    id bigint NOT NULL,
    shard smallint NOT NULL,
    layout smallint NOT NULL,
    grp smallint DEFAULT 0 NOT NULL
);

COMMENT ON TABLE hookwire.held IS 'Outbox records behind a hold; they are drained in order before the hold is lifted.';

COMMENT ON COLUMN hookwire.held.key IS 'As in holds.';

COMMENT ON COLUMN hookwire.held.id IS 'The id of the event.';

COMMENT ON COLUMN hookwire.held.shard IS 'As in outbox.';

COMMENT ON COLUMN hookwire.held.layout IS 'As in outbox.';

COMMENT ON COLUMN hookwire.held.grp IS 'The partition group of the hold.';

CREATE TABLE hookwire.holds (
    sink text NOT NULL COLLATE pg_catalog."C",
    tenant text NOT NULL,
    topic text NOT NULL,
    key text DEFAULT ''::text NOT NULL,
    reason text NOT NULL,
    detail text NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    since timestamp with time zone DEFAULT now() NOT NULL,
    probe_at timestamp with time zone NOT NULL,
    id bigint NOT NULL,
    grp smallint DEFAULT 0 NOT NULL
);

COMMENT ON TABLE hookwire.holds IS 'Keys and topics that a sink does not carry on, because it refused a record. Their records wait in held.';

COMMENT ON COLUMN hookwire.holds.key IS 'The key that is held; empty: the whole topic.';

COMMENT ON COLUMN hookwire.holds.reason IS 'The kind of refusal.';

COMMENT ON COLUMN hookwire.holds.attempts IS 'How often the record was probed.';

COMMENT ON COLUMN hookwire.holds.since IS 'When the hold began.';

COMMENT ON COLUMN hookwire.holds.probe_at IS 'When the sink is asked again.';

COMMENT ON COLUMN hookwire.holds.id IS 'The event that was refused.';

COMMENT ON COLUMN hookwire.holds.grp IS 'The partition group, each with its own progress.';

ALTER TABLE hookwire.holds ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.holds_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE SEQUENCE hookwire.horizon
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE hookwire.id_watermarks (
    day date NOT NULL,
    last_id bigint NOT NULL,
    skipped bigint DEFAULT 0 NOT NULL
);

COMMENT ON TABLE hookwire.id_watermarks IS 'The last event id of each day: the rate by which partitions are made ahead.';

COMMENT ON COLUMN hookwire.id_watermarks.last_id IS 'The last event id that was drawn on that day.';

COMMENT ON COLUMN hookwire.id_watermarks.skipped IS 'Ids of that day that no event has, because the sequence was set forward.';

CREATE TABLE hookwire.idempotency_keys (
    tenant text NOT NULL,
    key text NOT NULL,
    fingerprint bytea NOT NULL,
    event_id bigint NOT NULL,
    accepted_at timestamp with time zone NOT NULL,
    ordered boolean NOT NULL,
    topic text DEFAULT ''::text NOT NULL
);

COMMENT ON TABLE hookwire.idempotency_keys IS 'Idempotency keys of publishers, each with its answer. Not partitioned, so that partitions of events can go (RR-05).';

COMMENT ON COLUMN hookwire.idempotency_keys.fingerprint IS 'A hash of the draft: another draft under the same key is a conflict.';

COMMENT ON COLUMN hookwire.idempotency_keys.ordered IS 'As in events, for the answer.';

CREATE TABLE hookwire.installation (
    singleton boolean DEFAULT true NOT NULL,
    incarnation text NOT NULL,
    layout smallint DEFAULT 1 NOT NULL,
    topics_auto_create boolean DEFAULT true NOT NULL,
    sql_notify boolean DEFAULT true NOT NULL,
    payload_bytes_max integer DEFAULT 1048576 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    queues_auto_create boolean DEFAULT true NOT NULL,
    kinds_auto_create boolean DEFAULT true NOT NULL,
    services_auto_create boolean DEFAULT true NOT NULL,
    server text,
    CONSTRAINT installation_incarnation_check CHECK ((incarnation ~ '^[a-z2-7]{8}$'::text)),
    CONSTRAINT installation_singleton_check CHECK (singleton)
);

COMMENT ON TABLE hookwire.installation IS 'One row: what makes this installation itself, and what its publishing functions need of the settings.';

COMMENT ON COLUMN hookwire.installation.singleton IS 'Always true: there is one row.';

COMMENT ON COLUMN hookwire.installation.incarnation IS 'Eight characters drawn when the database was made; part of each public event id.';

COMMENT ON COLUMN hookwire.installation.layout IS 'The number of the current layout of shards and partition groups.';

COMMENT ON COLUMN hookwire.installation.topics_auto_create IS 'Whether a first publish creates its topic.';

COMMENT ON COLUMN hookwire.installation.sql_notify IS 'Whether hookwire.publish sends NOTIFY (RR-15).';

COMMENT ON COLUMN hookwire.installation.queues_auto_create IS 'Whether a first message creates its queue.';

COMMENT ON COLUMN hookwire.installation.kinds_auto_create IS 'Whether a first job creates its kind.';

COMMENT ON COLUMN hookwire.installation.services_auto_create IS 'Whether a first request creates its service.';

COMMENT ON COLUMN hookwire.installation.server IS 'Where numbers were drawn last: cluster, timeline, database and table. Elsewhere all sequences are set forward.';

CREATE TABLE hookwire.intents (
    id bigint NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    mode text NOT NULL,
    topic text NOT NULL,
    topic_url text NOT NULL,
    callback text NOT NULL,
    callback_host text NOT NULL,
    identity bytea NOT NULL,
    lease_seconds bigint,
    signature_method text NOT NULL,
    verify_token text,
    key_id text,
    sealed bytea,
    state text DEFAULT 'requested'::text NOT NULL,
    due_at timestamp with time zone NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    reason text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    decided_at timestamp with time zone,
    stage text DEFAULT 'verify'::text NOT NULL,
    stage_from integer DEFAULT 0 NOT NULL,
    denial text,
    requester text,
    verify text,
    permanent boolean DEFAULT false NOT NULL,
    rabbithub jsonb,
    requester_network text,
    CONSTRAINT intents_check CHECK (((key_id IS NULL) = (sealed IS NULL))),
    CONSTRAINT intents_identity_check CHECK ((length(identity) = 32)),
    CONSTRAINT intents_lease_check CHECK (((lease_seconds IS NULL) = ((mode = 'unsubscribe'::text) OR (stage = 'deny'::text)))),
    CONSTRAINT intents_mode_check CHECK ((mode = ANY (ARRAY['subscribe'::text, 'unsubscribe'::text]))),
    CONSTRAINT intents_stage_check CHECK ((stage = ANY (ARRAY['validate'::text, 'verify'::text, 'deny'::text]))),
    CONSTRAINT intents_state_check CHECK ((state = ANY (ARRAY['requested'::text, 'verifying'::text, 'verified'::text, 'failed'::text, 'superseded'::text, 'denied'::text]))),
    CONSTRAINT intents_verify_check CHECK ((verify = ANY (ARRAY['sync'::text, 'async'::text])))
);

COMMENT ON TABLE hookwire.intents IS 'WebSub requests to subscribe or unsubscribe, until they are decided and for a day after.';

COMMENT ON COLUMN hookwire.intents.mode IS 'subscribe or unsubscribe.';

COMMENT ON COLUMN hookwire.intents.topic_url IS 'The topic''s URL as the request named it.';

COMMENT ON COLUMN hookwire.intents.callback_host IS 'For limits that count by host.';

COMMENT ON COLUMN hookwire.intents.identity IS 'SHA-256 of topic and callback, as in subscriptions.';

COMMENT ON COLUMN hookwire.intents.verify_token IS 'PubSubHubbub 0.3: the token that is echoed.';

COMMENT ON COLUMN hookwire.intents.key_id IS 'The key that sealed the secret.';

COMMENT ON COLUMN hookwire.intents.sealed IS 'The subscriber''s secret, encrypted.';

COMMENT ON COLUMN hookwire.intents.state IS 'requested, verifying, verified, failed, superseded or denied.';

COMMENT ON COLUMN hookwire.intents.due_at IS 'When the next step is made; while a step is under way, the end of its lease.';

COMMENT ON COLUMN hookwire.intents.stage IS 'The next step: ask the publisher (validate), ask the callback (verify), or tell it no (deny).';

COMMENT ON COLUMN hookwire.intents.stage_from IS 'How many attempts had been made when the current step began.';

COMMENT ON COLUMN hookwire.intents.denial IS 'Why it is denied.';

COMMENT ON COLUMN hookwire.intents.requester IS 'Who sent the request: a key or an account.';

COMMENT ON COLUMN hookwire.intents.verify IS 'PubSubHubbub 0.3: sync or async.';

COMMENT ON COLUMN hookwire.intents.permanent IS 'Whether the request named no lease (PubSubHubbub 0.3).';

COMMENT ON COLUMN hookwire.intents.rabbithub IS 'What a verified request makes in RabbitHub; NULL: a WebSub subscription.';

COMMENT ON COLUMN hookwire.intents.requester_network IS 'As in subscriptions.';

ALTER TABLE hookwire.intents ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.intents_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.job_rates (
    kind text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    tokens double precision NOT NULL,
    counted_at timestamp with time zone NOT NULL
)
WITH (fillfactor='50');

COMMENT ON TABLE hookwire.job_rates IS 'Tokens of the rate limits of jobs: one row for a limited key, written under the lock of its kind.';

COMMENT ON COLUMN hookwire.job_rates.tokens IS 'As of counted_at.';

COMMENT ON COLUMN hookwire.job_rates.counted_at IS 'When the tokens were counted last.';

CREATE TABLE hookwire.job_requests (
    number bigint NOT NULL,
    job_id uuid NOT NULL,
    requester text,
    callbacks jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

COMMENT ON TABLE hookwire.job_requests IS 'Callbacks of requests that enqueued a job, or merged with one.';

COMMENT ON COLUMN hookwire.job_requests.number IS 'The order of the requests.';

COMMENT ON COLUMN hookwire.job_requests.requester IS 'The key or role that asked.';

COMMENT ON COLUMN hookwire.job_requests.callbacks IS 'The kinds of the jobs that follow each end of the job.';

ALTER TABLE hookwire.job_requests ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.job_requests_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.job_schedules (
    name text NOT NULL COLLATE pg_catalog."C",
    tenant text DEFAULT 'default'::text NOT NULL,
    cron text NOT NULL,
    zone text DEFAULT 'UTC'::text NOT NULL,
    missed text DEFAULT 'coalesce'::text NOT NULL,
    job jsonb NOT NULL,
    is_paused boolean DEFAULT false NOT NULL,
    next_at timestamp with time zone NOT NULL,
    last_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT job_schedules_missed_check CHECK ((missed = ANY (ARRAY['skip'::text, 'coalesce'::text, 'catch_up'::text]))),
    CONSTRAINT job_schedules_name_check CHECK (hookwire.is_queue_name(name))
);

COMMENT ON TABLE hookwire.job_schedules IS 'Schedules that enqueue jobs by a cron expression.';

COMMENT ON COLUMN hookwire.job_schedules.cron IS 'The cron expression.';

COMMENT ON COLUMN hookwire.job_schedules.zone IS 'The time zone in which it is read.';

COMMENT ON COLUMN hookwire.job_schedules.missed IS 'What happens to times that were missed: skip, coalesce or catch_up.';

COMMENT ON COLUMN hookwire.job_schedules.job IS 'The draft that is enqueued.';

COMMENT ON COLUMN hookwire.job_schedules.next_at IS 'The next time.';

COMMENT ON COLUMN hookwire.job_schedules.last_at IS 'The last time that was enqueued.';

CREATE VIEW hookwire.job_statistics AS
 SELECT kind,
    state,
    COALESCE(performer, ended_by) AS performer,
    count(*) AS jobs,
    avg(EXTRACT(epoch FROM (claimed_at - created_at))) AS wait_seconds,
    avg(EXTRACT(epoch FROM (ended_at - claimed_at))) AS run_seconds,
    avg(EXTRACT(epoch FROM (ended_at - created_at))) AS total_seconds,
    avg(attempts) AS attempts
   FROM hookwire.job_archive a
  GROUP BY kind, state, COALESCE(performer, ended_by);

COMMENT ON VIEW hookwire.job_statistics IS 'Jobs by kind and state, with their ages.';

CREATE VIEW hookwire.job_trail AS
 SELECT (subject)::uuid AS job_id,
    at,
    actor,
    substr(action, 5) AS verb,
    reason
   FROM hookwire.audit a
  WHERE (starts_with(action, 'job.'::text) AND (subject ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'::text));

COMMENT ON VIEW hookwire.job_trail IS 'What happened to each job, from its audit records.';

ALTER TABLE hookwire.jobs ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.jobs_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.lake_backlog (
    tenant text NOT NULL,
    at timestamp with time zone NOT NULL,
    topic text NOT NULL,
    subscription text NOT NULL,
    waiting bigint NOT NULL,
    oldest_seconds double precision NOT NULL
);

COMMENT ON TABLE hookwire.lake_backlog IS 'Gold table of the lake: deliveries that waited, by topic and subscription.';

COMMENT ON COLUMN hookwire.lake_backlog.at IS 'The moment of the count.';

COMMENT ON COLUMN hookwire.lake_backlog.waiting IS 'Deliveries that waited.';

COMMENT ON COLUMN hookwire.lake_backlog.oldest_seconds IS 'The age of the oldest of them.';

CREATE TABLE hookwire.lake_batches (
    job text NOT NULL,
    batch text NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE hookwire.lake_batches IS 'Batches of the lake that are in the gold tables: a batch that is here is not stored again.';

COMMENT ON COLUMN hookwire.lake_batches.job IS 'The job of the lake that made the batch.';

COMMENT ON COLUMN hookwire.lake_batches.batch IS 'The batch''s name in the lake.';

CREATE TABLE hookwire.lake_metrics (
    tenant text NOT NULL,
    hour timestamp with time zone NOT NULL,
    topic text NOT NULL,
    subscription text NOT NULL,
    attempts bigint NOT NULL,
    delivered bigint NOT NULL,
    retries bigint NOT NULL,
    dead bigint NOT NULL,
    p50_seconds double precision NOT NULL,
    p95_seconds double precision NOT NULL,
    p99_seconds double precision NOT NULL,
    tries_to_success double precision,
    oldest_seconds double precision
);

COMMENT ON TABLE hookwire.lake_metrics IS 'Gold table of the lake: attempts by hour, topic and subscription.';

COMMENT ON COLUMN hookwire.lake_metrics.subscription IS 'The public id.';

COMMENT ON COLUMN hookwire.lake_metrics.attempts IS 'Attempts in the hour.';

COMMENT ON COLUMN hookwire.lake_metrics.delivered IS 'Attempts that succeeded.';

COMMENT ON COLUMN hookwire.lake_metrics.retries IS 'Attempts after the first of their delivery.';

COMMENT ON COLUMN hookwire.lake_metrics.dead IS 'Deliveries that were given up.';

COMMENT ON COLUMN hookwire.lake_metrics.p50_seconds IS 'The median of the attempts'' durations.';

COMMENT ON COLUMN hookwire.lake_metrics.p95_seconds IS 'The 95th percentile.';

COMMENT ON COLUMN hookwire.lake_metrics.p99_seconds IS 'The 99th percentile.';

COMMENT ON COLUMN hookwire.lake_metrics.tries_to_success IS 'The mean number of the attempt that delivered; NULL: nothing was delivered.';

COMMENT ON COLUMN hookwire.lake_metrics.oldest_seconds IS 'How long the event that had waited longest had waited.';

CREATE TABLE hookwire.lake_proofs (
    lake text NOT NULL,
    day date NOT NULL,
    topic text NOT NULL,
    digest text NOT NULL,
    records bigint NOT NULL,
    unproved integer NOT NULL,
    proved_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE hookwire.lake_proofs IS 'Days of the lake that an audit has compared without a finding.';

COMMENT ON COLUMN hookwire.lake_proofs.lake IS 'The URI of the lake.';

COMMENT ON COLUMN hookwire.lake_proofs.day IS 'The day in UTC in which the events were accepted.';

COMMENT ON COLUMN hookwire.lake_proofs.topic IS 'The topic in Kafka.';

COMMENT ON COLUMN hookwire.lake_proofs.digest IS 'SHA-256 over the bytes of the day''s files, its cells of the ledger and the audit''s options.';

COMMENT ON COLUMN hookwire.lake_proofs.records IS 'Records of the day in the lake.';

COMMENT ON COLUMN hookwire.lake_proofs.unproved IS 'Cells whose contents could not be compared.';

COMMENT ON COLUMN hookwire.lake_proofs.proved_at IS 'When the digest was stored.';

CREATE TABLE hookwire.lake_slo (
    tenant text NOT NULL,
    day date NOT NULL,
    subscription text NOT NULL,
    attempts bigint NOT NULL,
    delivered bigint NOT NULL,
    share double precision NOT NULL,
    target double precision NOT NULL,
    burn double precision NOT NULL
);

COMMENT ON TABLE hookwire.lake_slo IS 'Gold table of the lake: service levels by day and subscription.';

COMMENT ON COLUMN hookwire.lake_slo.subscription IS 'The public id; empty: all of the tenant''s together.';

COMMENT ON COLUMN hookwire.lake_slo.attempts IS 'Attempts in the 28 days.';

COMMENT ON COLUMN hookwire.lake_slo.delivered IS 'Attempts that delivered.';

COMMENT ON COLUMN hookwire.lake_slo.share IS 'The share of attempts that delivered, over 28 days.';

COMMENT ON COLUMN hookwire.lake_slo.target IS 'The share that is promised.';

COMMENT ON COLUMN hookwire.lake_slo.burn IS 'The part of the error budget that is used up; above 1 it is exceeded.';

CREATE SEQUENCE hookwire.lease_fence
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE hookwire.ledger (
    sink text NOT NULL COLLATE pg_catalog."C",
    tenant text NOT NULL,
    topic text NOT NULL,
    hour timestamp with time zone NOT NULL,
    bucket smallint NOT NULL,
    owed_count bigint DEFAULT 0 NOT NULL,
    owed_sum numeric(20,0) DEFAULT 0 NOT NULL,
    owed_min bigint,
    owed_max bigint,
    sent_count bigint DEFAULT 0 NOT NULL,
    dead_count bigint DEFAULT 0 NOT NULL,
    settled_sum numeric(20,0) DEFAULT 0 NOT NULL,
    settled_min bigint,
    settled_max bigint,
    owed_content numeric(20,0) DEFAULT 0 NOT NULL,
    content_count bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='70');

COMMENT ON TABLE hookwire.ledger IS 'How many events were accepted for each sink and how many left the outbox, with checksums that need no order.';

COMMENT ON COLUMN hookwire.ledger.sink IS 'Empty: all accepted events.';

COMMENT ON COLUMN hookwire.ledger.hour IS 'The hour of acceptance.';

COMMENT ON COLUMN hookwire.ledger.bucket IS 'The event id modulo 4.';

COMMENT ON COLUMN hookwire.ledger.owed_count IS 'Events that were accepted for the sink.';

COMMENT ON COLUMN hookwire.ledger.owed_sum IS 'The sum of their ids.';

COMMENT ON COLUMN hookwire.ledger.owed_min IS 'The lowest of their ids.';

COMMENT ON COLUMN hookwire.ledger.owed_max IS 'The highest of their ids.';

COMMENT ON COLUMN hookwire.ledger.sent_count IS 'Events that the sink confirmed.';

COMMENT ON COLUMN hookwire.ledger.dead_count IS 'Events that were given up.';

COMMENT ON COLUMN hookwire.ledger.settled_sum IS 'The sum of the ids that were confirmed or given up.';

COMMENT ON COLUMN hookwire.ledger.settled_min IS 'The lowest of these ids.';

COMMENT ON COLUMN hookwire.ledger.settled_max IS 'The highest of these ids.';

COMMENT ON COLUMN hookwire.ledger.owed_content IS 'The sum of the hashes of owed events.';

COMMENT ON COLUMN hookwire.ledger.content_count IS 'Of how many events owed_content is the sum.';

CREATE TABLE hookwire.ledger_cursor (
    singleton boolean DEFAULT true NOT NULL,
    since_at timestamp with time zone NOT NULL,
    through_id bigint NOT NULL,
    through_at timestamp with time zone NOT NULL,
    mark_id bigint,
    mark_at timestamp with time zone,
    mark_xid xid8,
    CONSTRAINT ledger_cursor_singleton_check CHECK (singleton)
);

COMMENT ON TABLE hookwire.ledger_cursor IS 'How far events are folded into the ledger.';

COMMENT ON COLUMN hookwire.ledger_cursor.singleton IS 'Always true: there is one row.';

COMMENT ON COLUMN hookwire.ledger_cursor.since_at IS 'Hours that began before are not judged.';

COMMENT ON COLUMN hookwire.ledger_cursor.through_id IS 'Events up to this id are folded.';

COMMENT ON COLUMN hookwire.ledger_cursor.through_at IS 'When that id was the last one drawn.';

COMMENT ON COLUMN hookwire.ledger_cursor.mark_id IS 'The id that is folded to next, once no transaction before mark_xid runs.';

COMMENT ON COLUMN hookwire.ledger_cursor.mark_xid IS 'The transaction id that was drawn after mark_id.';

CREATE TABLE hookwire.ledger_entries (
    id bigint NOT NULL,
    sink text NOT NULL COLLATE pg_catalog."C",
    outcome text NOT NULL,
    ids bigint[] NOT NULL,
    CONSTRAINT ledger_entries_outcome_check CHECK ((outcome = ANY (ARRAY['sent'::text, 'dead'::text, 'revived'::text])))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_insert_threshold='-1', autovacuum_vacuum_cost_delay='0');
ALTER TABLE ONLY hookwire.ledger_entries ALTER COLUMN ids SET STORAGE MAIN;

COMMENT ON TABLE hookwire.ledger_entries IS 'What left the outbox: one row for each batch, written in the statement that deletes, folded into the ledger later.';

COMMENT ON COLUMN hookwire.ledger_entries.outcome IS 'sent, dead or revived.';

COMMENT ON COLUMN hookwire.ledger_entries.ids IS 'The events of the batch.';

ALTER TABLE hookwire.ledger_entries ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.ledger_entries_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.message_archive (
    id bigint NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    created_at timestamp with time zone NOT NULL,
    claimed_at timestamp with time zone NOT NULL,
    accepted_at timestamp with time zone NOT NULL,
    deliveries integer NOT NULL,
    priority smallint NOT NULL,
    receiver text,
    type text,
    key text,
    content_type text,
    headers jsonb NOT NULL,
    payload bytea NOT NULL
);

COMMENT ON TABLE hookwire.message_archive IS 'Accepted messages of queues that keep history.';

COMMENT ON COLUMN hookwire.message_archive.deliveries IS 'How often it was handed to a receiver.';

COMMENT ON COLUMN hookwire.message_archive.receiver IS 'The client that accepted it.';

COMMENT ON COLUMN hookwire.message_archive.type IS 'As in messages.';

CREATE SEQUENCE hookwire.message_id
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE hookwire.message_log (
    tenant text DEFAULT 'default'::text NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    xid xid8 NOT NULL,
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    priority smallint NOT NULL,
    type text,
    key text,
    content_type text,
    headers jsonb NOT NULL,
    payload bytea NOT NULL
);

COMMENT ON TABLE hookwire.message_log IS 'Copies: an append-only log that durable consumers read.';

COMMENT ON COLUMN hookwire.message_log.xid IS 'The transaction that submitted it: with id the place in the log.';

COMMENT ON COLUMN hookwire.message_log.type IS 'As in messages.';

CREATE TABLE hookwire.migrations (
    version integer NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE hookwire.migrations IS 'Migrations that were applied, with checksums: a database with another history is refused.';

COMMENT ON COLUMN hookwire.migrations.version IS 'The number in the file''s name.';

COMMENT ON COLUMN hookwire.migrations.checksum IS 'SHA-256 of the file.';

CREATE TABLE hookwire.number_marks (
    sequence text NOT NULL COLLATE pg_catalog."C",
    last_number bigint NOT NULL
)
WITH (fillfactor='50');

COMMENT ON TABLE hookwire.number_marks IS 'The greatest number of each sequence, noted every minute. Rows that had it may be gone.';

COMMENT ON COLUMN hookwire.number_marks.sequence IS 'The name of the sequence.';

COMMENT ON COLUMN hookwire.number_marks.last_number IS 'Never falls.';

CREATE VIEW hookwire.open_deliveries AS
 SELECT event_id,
    subscription_id,
    tenant,
    lane,
    created_at,
    attempts,
    free_attempts,
    replay_id,
    fence,
    last_outcome,
    last_status,
    last_seconds,
    parked_at,
        CASE
            WHEN (parked_at IS NOT NULL) THEN 'parked'::text
            WHEN (fence IS NOT NULL) THEN 'claimed'::text
            WHEN (due_at = 'infinity'::timestamp with time zone) THEN 'blocked'::text
            ELSE 'waiting'::text
        END AS state,
        CASE
            WHEN ((fence IS NULL) AND (due_at <> 'infinity'::timestamp with time zone)) THEN due_at
            ELSE NULL::timestamp with time zone
        END AS available_at,
        CASE
            WHEN (fence IS NOT NULL) THEN due_at
            ELSE NULL::timestamp with time zone
        END AS lease_until
   FROM hookwire.deliveries d;

COMMENT ON VIEW hookwire.open_deliveries IS 'Open deliveries with an explicit state: waiting (from available_at on), claimed (until lease_until), blocked or parked.';

COMMENT ON COLUMN hookwire.open_deliveries.state IS 'waiting, claimed, blocked (behind an earlier event of its lane) or parked (waits for a decision).';

COMMENT ON COLUMN hookwire.open_deliveries.available_at IS 'Waiting: no attempt before; NULL in other states.';

COMMENT ON COLUMN hookwire.open_deliveries.lease_until IS 'Claimed: when another worker may claim it; NULL in other states.';

CREATE TABLE hookwire.outbox (
    id bigint NOT NULL,
    layout smallint NOT NULL,
    shard smallint NOT NULL,
    sink text NOT NULL COLLATE pg_catalog."C"
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='20000', autovacuum_vacuum_insert_threshold='-1', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='100000');

COMMENT ON TABLE hookwire.outbox IS 'What each sink is still owed: one row for each event and sink, deleted when the sink has confirmed it.';

COMMENT ON COLUMN hookwire.outbox.id IS 'The id of the event.';

COMMENT ON COLUMN hookwire.outbox.layout IS 'The layout under which the shard was computed.';

COMMENT ON COLUMN hookwire.outbox.shard IS 'One of 64 parts of the key space; of an event without a key, a part by its id.';

ALTER TABLE hookwire.queues ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.queues_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE hookwire.rabbithub_resources ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.rabbithub_resources_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.rabbithub_subscriptions (
    subscription_id bigint NOT NULL,
    resource_id bigint NOT NULL,
    hub_topic text NOT NULL,
    lease_seconds bigint NOT NULL,
    details jsonb DEFAULT '{}'::jsonb NOT NULL,
    queue_id bigint,
    error_count bigint DEFAULT 0 NOT NULL,
    first_error_at timestamp with time zone,
    last_error_at timestamp with time zone,
    last_error text,
    window_from timestamp with time zone,
    window_errors bigint DEFAULT 0 NOT NULL,
    told_until timestamp with time zone
);

COMMENT ON TABLE hookwire.rabbithub_subscriptions IS 'RabbitHub: what a subscription to an exchange or a queue has beside the common columns.';

COMMENT ON COLUMN hookwire.rabbithub_subscriptions.resource_id IS 'The exchange or queue.';

COMMENT ON COLUMN hookwire.rabbithub_subscriptions.hub_topic IS 'The routing pattern as it was asked for.';

COMMENT ON COLUMN hookwire.rabbithub_subscriptions.details IS 'contact, ha_mode and max_tps, as they were given.';

COMMENT ON COLUMN hookwire.rabbithub_subscriptions.queue_id IS 'Of a binding: the queue that gets the messages.';

COMMENT ON COLUMN hookwire.rabbithub_subscriptions.error_count IS 'Failed deliveries since it began.';

COMMENT ON COLUMN hookwire.rabbithub_subscriptions.window_from IS 'When the current window of the error policy began.';

COMMENT ON COLUMN hookwire.rabbithub_subscriptions.window_errors IS 'Failed deliveries in that window.';

COMMENT ON COLUMN hookwire.rabbithub_subscriptions.told_until IS 'The end of the lease that operators were notified of.';

CREATE TABLE hookwire.readiness (
    singleton boolean DEFAULT true NOT NULL,
    written_at timestamp with time zone NOT NULL,
    CONSTRAINT readiness_singleton_check CHECK (singleton)
);

COMMENT ON TABLE hookwire.readiness IS 'One row that the readiness check changes, to see that the server can write (FC-06).';

COMMENT ON COLUMN hookwire.readiness.singleton IS 'Always true: there is one row.';

COMMENT ON COLUMN hookwire.readiness.written_at IS 'When the check wrote last.';

CREATE VIEW hookwire.receivers AS
 SELECT s.id,
    s.tenant,
    s.public_id,
    s.protocol,
    s.topic,
    s.callback,
    s.state AS subscription_state,
    s.state_reason,
    s.lease_until,
    s.paused_until,
        CASE
            WHEN (g.trips > 0) THEN g.open_until
            ELSE NULL::timestamp with time zone
        END AS breaker_until,
        CASE
            WHEN (s.rate_per_second IS NOT NULL) THEN (now() + make_interval(secs => GREATEST((0)::double precision, (((1)::double precision - LEAST(COALESCE((s.rate_burst)::double precision, GREATEST(ceil(s.rate_per_second), (1)::double precision)), (g.tokens + ((EXTRACT(epoch FROM (now() - g.refilled_at)))::double precision * s.rate_per_second)))) / s.rate_per_second))))
            ELSE NULL::timestamp with time zone
        END AS rate_until,
    f.failing_since,
    f.last_outcome AS failure_outcome,
    f.last_status AS failure_status,
    now() AS now,
    ( SELECT count(*) AS count
           FROM ( SELECT
                   FROM hookwire.deliveries d
                  WHERE (d.subscription_id = s.id)
                 LIMIT 1000) few) AS waiting,
    ( SELECT NULLIF(d.due_at, 'infinity'::timestamp with time zone) AS "nullif"
           FROM hookwire.deliveries d
          WHERE (d.subscription_id = s.id)
          ORDER BY d.due_at
         LIMIT 1) AS next_due_at,
    GREATEST(f.succeeded_at, ( SELECT max(a.started_at) AS max
           FROM ( SELECT x.started_at,
                    x.decision
                   FROM hookwire.attempts x
                  WHERE (x.subscription_id = s.id)
                  ORDER BY x.event_id DESC
                 LIMIT 20) a
          WHERE (a.decision = 'delivered'::text))) AS last_success_at
   FROM ((hookwire.subscriptions s
     LEFT JOIN hookwire.delivery_gates g ON ((g.subscription_id = s.id)))
     LEFT JOIN hookwire.delivery_failures f ON ((f.subscription_id = s.id)));

COMMENT ON VIEW hookwire.receivers IS 'Subscriptions with all that decides when they are sent to next: lease, pause, breaker, rate limit, failures.';

CREATE TABLE hookwire.relay_batches (
    sink text NOT NULL COLLATE pg_catalog."C",
    layout smallint NOT NULL,
    grp smallint NOT NULL,
    batch_no bigint NOT NULL,
    shards smallint[] NOT NULL,
    ids bigint[] NOT NULL
);

COMMENT ON TABLE hookwire.relay_batches IS 'Manifests: the records of each Kafka batch, stored before the batch is sent (RR-06).';

COMMENT ON COLUMN hookwire.relay_batches.grp IS 'The partition group.';

COMMENT ON COLUMN hookwire.relay_batches.batch_no IS 'The number that the batch carries into Kafka''s transaction.';

COMMENT ON COLUMN hookwire.relay_batches.shards IS 'The shard of each record, in the order of ids.';

COMMENT ON COLUMN hookwire.relay_batches.ids IS 'The events of the batch.';

CREATE TABLE hookwire.relay_dead_letters (
    sink text NOT NULL COLLATE pg_catalog."C",
    event_id bigint NOT NULL,
    tenant text NOT NULL,
    topic text NOT NULL,
    key text,
    shard smallint NOT NULL,
    layout smallint NOT NULL,
    reason text NOT NULL,
    detail text NOT NULL,
    died_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE hookwire.relay_dead_letters IS 'Records of Kafka and AMQP that were given up. They keep their place in the outbox''s order.';

COMMENT ON COLUMN hookwire.relay_dead_letters.shard IS 'As in outbox.';

COMMENT ON COLUMN hookwire.relay_dead_letters.layout IS 'As in outbox.';

COMMENT ON COLUMN hookwire.relay_dead_letters.reason IS 'The kind of refusal.';

CREATE TABLE hookwire.relay_members (
    id integer NOT NULL,
    name text NOT NULL,
    sinks text[] NOT NULL,
    until timestamp with time zone NOT NULL
)
WITH (fillfactor='50');

COMMENT ON TABLE hookwire.relay_members IS 'Relay processes that are alive. Each holds a session lock on its id.';

COMMENT ON COLUMN hookwire.relay_members.id IS 'The number that the process has locked.';

COMMENT ON COLUMN hookwire.relay_members.sinks IS 'The sinks for which it stands as a candidate.';

COMMENT ON COLUMN hookwire.relay_members.until IS 'When it counts as dead unless it has sent another heartbeat.';

ALTER TABLE hookwire.relay_members ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.relay_members_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.relay_terms (
    sink text NOT NULL COLLATE pg_catalog."C",
    grp smallint NOT NULL,
    layout smallint DEFAULT 1 NOT NULL,
    term bigint DEFAULT 0 NOT NULL,
    owner text,
    lease_until timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    batch_no bigint DEFAULT 0 NOT NULL,
    member integer,
    is_open boolean DEFAULT true NOT NULL
)
WITH (fillfactor='50');

COMMENT ON TABLE hookwire.relay_terms IS 'Leadership of each sink and partition group: the lease and the term that fences former leaders (RR-08).';

COMMENT ON COLUMN hookwire.relay_terms.grp IS 'The partition group.';

COMMENT ON COLUMN hookwire.relay_terms.layout IS 'The layout of the group''s current leader.';

COMMENT ON COLUMN hookwire.relay_terms.term IS 'Rises with each change of leader; each deciding write locks the row with the term that it expects.';

COMMENT ON COLUMN hookwire.relay_terms.owner IS 'The name of the process that leads.';

COMMENT ON COLUMN hookwire.relay_terms.lease_until IS 'When another process may take over.';

COMMENT ON COLUMN hookwire.relay_terms.batch_no IS 'The last batch number when the term began; relay_batch_numbers counts on from there.';

COMMENT ON COLUMN hookwire.relay_terms.member IS 'The relay process that holds the lease.';

COMMENT ON COLUMN hookwire.relay_terms.is_open IS 'False: the lease cannot be acquired, because the layout changes.';

CREATE TABLE hookwire.replays (
    id bigint NOT NULL,
    tenant text NOT NULL,
    state text DEFAULT 'running'::text NOT NULL,
    source text NOT NULL,
    subscription_id bigint,
    topic text,
    kinds text[],
    statuses smallint[],
    event_ids bigint[],
    since_at timestamp with time zone,
    until_at timestamp with time zone,
    rate_per_second integer,
    actor text NOT NULL,
    reason text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    lower_event_id bigint NOT NULL,
    last_event_id bigint NOT NULL,
    last_subscription_id bigint DEFAULT 0 NOT NULL,
    upper_event_id bigint NOT NULL,
    examined bigint DEFAULT 0 NOT NULL,
    replayed bigint DEFAULT 0 NOT NULL,
    due_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT replays_check CHECK (((subscription_id IS NOT NULL) OR (source = 'dead_letters'::text))),
    CONSTRAINT replays_rate_per_second_check CHECK ((rate_per_second > 0)),
    CONSTRAINT replays_source_check CHECK ((source = ANY (ARRAY['events'::text, 'dead_letters'::text]))),
    CONSTRAINT replays_state_check CHECK ((state = ANY (ARRAY['running'::text, 'paused'::text, 'done'::text, 'cancelled'::text])))
);

COMMENT ON TABLE hookwire.replays IS 'Replays: events or dead letters that are sent again, in steps.';

COMMENT ON COLUMN hookwire.replays.source IS 'events or dead_letters.';

COMMENT ON COLUMN hookwire.replays.kinds IS 'Which kinds of dead letters; NULL: all.';

COMMENT ON COLUMN hookwire.replays.statuses IS 'Dead letters with which last status; NULL: all.';

COMMENT ON COLUMN hookwire.replays.event_ids IS 'Which events; NULL: all in the range.';

COMMENT ON COLUMN hookwire.replays.since_at IS 'Only events accepted from then on.';

COMMENT ON COLUMN hookwire.replays.until_at IS 'Only events accepted before.';

COMMENT ON COLUMN hookwire.replays.lower_event_id IS 'The first event of the range.';

COMMENT ON COLUMN hookwire.replays.last_event_id IS 'Up to here the range is done.';

COMMENT ON COLUMN hookwire.replays.last_subscription_id IS 'Up to here the current event is done.';

COMMENT ON COLUMN hookwire.replays.upper_event_id IS 'The last event of the range, fixed at the start.';

COMMENT ON COLUMN hookwire.replays.examined IS 'Events or dead letters that were looked at.';

COMMENT ON COLUMN hookwire.replays.replayed IS 'Deliveries that were made.';

COMMENT ON COLUMN hookwire.replays.due_at IS 'When the next step is made.';

ALTER TABLE hookwire.replays ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.replays_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.request_archive (
    id uuid NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    service text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL,
    via text NOT NULL,
    caller text,
    worker text,
    attempts integer NOT NULL,
    created_at timestamp with time zone NOT NULL,
    answered_at timestamp with time zone,
    closed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    closed_by text NOT NULL,
    body_bytes integer NOT NULL,
    reply_bytes integer
);

COMMENT ON TABLE hookwire.request_archive IS 'What closed requests leave: the audit, without contents.';

COMMENT ON COLUMN hookwire.request_archive.state IS 'The state in which it was closed.';

COMMENT ON COLUMN hookwire.request_archive.via IS 'As in requests.';

COMMENT ON COLUMN hookwire.request_archive.caller IS 'As in requests.';

COMMENT ON COLUMN hookwire.request_archive.closed_by IS 'The key, role or deadline that closed it.';

CREATE TABLE hookwire.request_keys (
    client text NOT NULL COLLATE pg_catalog."C",
    number text NOT NULL COLLATE pg_catalog."C",
    digest bytea NOT NULL,
    request_id uuid NOT NULL,
    expires_at timestamp with time zone NOT NULL
);

COMMENT ON TABLE hookwire.request_keys IS 'Requests by client and message number: the same pair is the same request.';

COMMENT ON COLUMN hookwire.request_keys.client IS 'The client''s id.';

COMMENT ON COLUMN hookwire.request_keys.number IS 'The client''s number of the message.';

COMMENT ON COLUMN hookwire.request_keys.digest IS 'Of the request: another request under the same pair is refused.';

CREATE SEQUENCE hookwire.request_number
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER TABLE hookwire.services ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.services_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE VIEW hookwire.stash AS
 SELECT NULL::text AS event_id,
    NULL::text AS topic,
    NULL::text AS key,
    NULL::text AS payload,
    NULL::bytea AS payload_bytes,
    NULL::text AS content_type,
    NULL::jsonb AS headers
  WHERE false;

COMMENT ON VIEW hookwire.stash IS 'INSERT here to publish in your transaction; see docs/how-to/publish-from-your-transaction.md';

CREATE TABLE hookwire.subscription_secrets (
    subscription_id bigint NOT NULL,
    number integer NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    key_id text NOT NULL,
    sealed bytea NOT NULL,
    expires_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE hookwire.subscription_secrets IS 'Signing secrets of subscriptions, encrypted. The newest signs first; an expired one signs no more.';

COMMENT ON COLUMN hookwire.subscription_secrets.number IS 'Rises with each rotation.';

COMMENT ON COLUMN hookwire.subscription_secrets.key_id IS 'The key that sealed the secret.';

COMMENT ON COLUMN hookwire.subscription_secrets.sealed IS 'The secret, encrypted.';

ALTER TABLE hookwire.subscriptions ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.subscriptions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.task_archive (
    id text NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    kind text NOT NULL,
    description text NOT NULL,
    outcome text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    start_time timestamp with time zone,
    finish_time timestamp with time zone NOT NULL,
    attempts integer NOT NULL,
    worker text,
    CONSTRAINT task_archive_outcome_check CHECK ((outcome = ANY (ARRAY['finished'::text, 'compensated'::text])))
);

COMMENT ON TABLE hookwire.task_archive IS 'Finished tasks of kinds that keep a record.';

COMMENT ON COLUMN hookwire.task_archive.description IS 'The arguments.';

COMMENT ON COLUMN hookwire.task_archive.outcome IS 'How it ended.';

ALTER TABLE hookwire.task_rows ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.task_rows_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.task_workers (
    name text NOT NULL,
    kinds text[] NOT NULL,
    slots integer NOT NULL,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    seen_until timestamp with time zone NOT NULL,
    completed bigint DEFAULT 0 NOT NULL,
    failed bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50');

COMMENT ON TABLE hookwire.task_workers IS 'Workers of tasks that are present.';

COMMENT ON COLUMN hookwire.task_workers.kinds IS 'The kinds that it works on.';

COMMENT ON COLUMN hookwire.task_workers.slots IS 'How many tasks it runs at once.';

COMMENT ON COLUMN hookwire.task_workers.seen_until IS 'When it counts as crashed unless it is seen again.';

COMMENT ON COLUMN hookwire.task_workers.completed IS 'Tasks that it finished.';

COMMENT ON COLUMN hookwire.task_workers.failed IS 'Tasks that failed there.';

CREATE VIEW hookwire.tasks AS
 SELECT id,
    description,
    start_time,
    finish_time,
    kind,
    created_at,
    due_at,
    attempts,
    worker,
    last_error
   FROM hookwire.task_rows;

COMMENT ON VIEW hookwire.tasks IS 'Live tasks in the columns of the original article; INSERT enqueues.';

CREATE TABLE hookwire.topics (
    tenant text DEFAULT 'default'::text NOT NULL,
    name text NOT NULL,
    sinks text[],
    ordered boolean DEFAULT true NOT NULL,
    kafka_topic text,
    amqp_exchange text,
    amqp_routing_key text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    on_refused text,
    validator_url text,
    moved_to text,
    retention_days integer,
    version integer DEFAULT 1 NOT NULL,
    amqp_exchange_type text,
    job jsonb,
    CONSTRAINT topics_amqp_exchange_type_check CHECK ((amqp_exchange_type = ANY (ARRAY['direct'::text, 'fanout'::text, 'topic'::text, 'headers'::text]))),
    CONSTRAINT topics_job_check CHECK (((('jobs'::text = ANY (sinks)) IS NOT TRUE) OR (((jsonb_typeof(job) = 'object'::text) AND (NOT starts_with(name, 'hookwire.'::text)) AND (name <> 'hookwire'::text)) IS TRUE))),
    CONSTRAINT topics_on_refused_check CHECK ((on_refused = ANY (ARRAY['hold_key'::text, 'skip'::text, 'stop'::text]))),
    CONSTRAINT topics_retention_days_check CHECK (((retention_days >= 0) AND (retention_days <= 36500)))
);

COMMENT ON TABLE hookwire.topics IS 'Topics with their settings. The hub''s own topics need no row.';

COMMENT ON COLUMN hookwire.topics.sinks IS 'The sinks that events of the topic go to; NULL: those of the hub''s settings.';

COMMENT ON COLUMN hookwire.topics.ordered IS 'Whether events of a key keep the order of their commits.';

COMMENT ON COLUMN hookwire.topics.on_refused IS 'What a record that a broker refuses for good does to its key: hold_key, skip or stop; NULL: as the sink''s setting says.';

COMMENT ON COLUMN hookwire.topics.validator_url IS 'The URL that is asked about each WebSub subscribe request; NULL: nobody is asked.';

COMMENT ON COLUMN hookwire.topics.moved_to IS 'The URL at which the topic is published now; requests for it are redirected there.';

COMMENT ON COLUMN hookwire.topics.retention_days IS 'How long events are kept; 0: for ever; NULL: as the hub''s setting says.';

COMMENT ON COLUMN hookwire.topics.version IS 'Rises with each change of the settings; the ETag of the API.';

COMMENT ON COLUMN hookwire.topics.job IS 'The rule by which the sink jobs enqueues a job for each event; NULL: there was never one.';

CREATE TABLE hookwire.upstreams (
    tenant text DEFAULT 'default'::text NOT NULL,
    topic text NOT NULL,
    url text NOT NULL,
    token text NOT NULL,
    key_id text NOT NULL,
    sealed bytea NOT NULL,
    hub_url text,
    self_url text,
    state text DEFAULT 'wanted'::text NOT NULL,
    reason text,
    lease_until timestamp with time zone,
    due_at timestamp with time zone DEFAULT now(),
    claimed_until timestamp with time zone,
    claims bigint DEFAULT 0 NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT upstreams_state_check CHECK ((state = ANY (ARRAY['wanted'::text, 'requested'::text, 'active'::text, 'denied'::text, 'ended'::text])))
);

COMMENT ON TABLE hookwire.upstreams IS 'Foreign topics that another hub delivers here, instead of being fetched.';

COMMENT ON COLUMN hookwire.upstreams.url IS 'Where the topic is discovered.';

COMMENT ON COLUMN hookwire.upstreams.token IS 'The part of the callback''s URL that cannot be guessed.';

COMMENT ON COLUMN hookwire.upstreams.key_id IS 'The key that sealed the secret.';

COMMENT ON COLUMN hookwire.upstreams.sealed IS 'The secret of the subscription there, encrypted.';

COMMENT ON COLUMN hookwire.upstreams.hub_url IS 'The hub that was discovered last.';

COMMENT ON COLUMN hookwire.upstreams.self_url IS 'The topic as the other hub names it.';

COMMENT ON COLUMN hookwire.upstreams.due_at IS 'When the topic is discovered and its hub is asked again; NULL: not by itself.';

COMMENT ON COLUMN hookwire.upstreams.claimed_until IS 'Until when one process makes it.';

COMMENT ON COLUMN hookwire.upstreams.claims IS 'Claims so far; the number of the latest is its fence.';

COMMENT ON COLUMN hookwire.upstreams.failures IS 'Failed requests in a row.';

CREATE TABLE hookwire.verification_buckets (
    tenant text NOT NULL,
    host text NOT NULL,
    tokens double precision NOT NULL,
    refilled_at timestamp with time zone NOT NULL,
    CONSTRAINT verification_buckets_check CHECK (((tenant = ''::text) <> (host = ''::text)))
)
WITH (fillfactor='50');

COMMENT ON TABLE hookwire.verification_buckets IS 'Tokens of verification requests: an empty host is a tenant''s bucket, an empty tenant a host''s.';

COMMENT ON COLUMN hookwire.verification_buckets.tokens IS 'As of refilled_at.';

ALTER TABLE ONLY hookwire.api_keys
    ADD CONSTRAINT api_keys_digest_key UNIQUE (digest);

ALTER TABLE ONLY hookwire.api_keys
    ADD CONSTRAINT api_keys_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.api_keys
    ADD CONSTRAINT api_keys_public_id_key UNIQUE (public_id);

ALTER TABLE ONLY hookwire.attempts
    ADD CONSTRAINT attempts_pkey PRIMARY KEY (event_id, subscription_id, number);

ALTER TABLE ONLY hookwire.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.compat_parked
    ADD CONSTRAINT compat_parked_pkey PRIMARY KEY (outbox, key);

ALTER TABLE ONLY hookwire.consumers
    ADD CONSTRAINT consumers_pkey PRIMARY KEY (queue, name);

ALTER TABLE ONLY hookwire.dead_letters
    ADD CONSTRAINT dead_letters_pkey PRIMARY KEY (event_id, subscription_id);

ALTER TABLE ONLY hookwire.dead_messages
    ADD CONSTRAINT dead_messages_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.dead_tasks
    ADD CONSTRAINT dead_tasks_pkey PRIMARY KEY (number);

ALTER TABLE ONLY hookwire.deliveries
    ADD CONSTRAINT deliveries_pkey PRIMARY KEY (event_id, subscription_id);

ALTER TABLE ONLY hookwire.delivery_failures
    ADD CONSTRAINT delivery_failures_pkey PRIMARY KEY (subscription_id);

ALTER TABLE ONLY hookwire.delivery_gates
    ADD CONSTRAINT delivery_gates_pkey PRIMARY KEY (subscription_id);

ALTER TABLE ONLY hookwire.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.fanout_cursors
    ADD CONSTRAINT fanout_cursors_pkey PRIMARY KEY (event_id);

ALTER TABLE ONLY hookwire.foreign_topics
    ADD CONSTRAINT foreign_topics_pkey PRIMARY KEY (tenant, topic);

ALTER TABLE ONLY hookwire.former_audiences
    ADD CONSTRAINT former_audiences_pkey PRIMARY KEY (subscription_id, until_id, number);

ALTER TABLE ONLY hookwire.held
    ADD CONSTRAINT held_pkey PRIMARY KEY (sink, grp, tenant, topic, key, id);

ALTER TABLE ONLY hookwire.holds
    ADD CONSTRAINT holds_id UNIQUE (id);

ALTER TABLE ONLY hookwire.holds
    ADD CONSTRAINT holds_pkey PRIMARY KEY (sink, grp, tenant, topic, key);

ALTER TABLE ONLY hookwire.id_watermarks
    ADD CONSTRAINT id_watermarks_pkey PRIMARY KEY (day);

ALTER TABLE ONLY hookwire.idempotency_keys
    ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (tenant, topic, key);

ALTER TABLE ONLY hookwire.installation
    ADD CONSTRAINT installation_pkey PRIMARY KEY (singleton);

ALTER TABLE ONLY hookwire.intents
    ADD CONSTRAINT intents_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.job_archive
    ADD CONSTRAINT job_archive_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.job_archive
    ADD CONSTRAINT job_archive_seq_key UNIQUE (seq);

ALTER TABLE ONLY hookwire.job_kinds
    ADD CONSTRAINT job_kinds_pkey PRIMARY KEY (kind);

ALTER TABLE ONLY hookwire.job_rates
    ADD CONSTRAINT job_rates_pkey PRIMARY KEY (kind, key);

ALTER TABLE ONLY hookwire.job_requests
    ADD CONSTRAINT job_requests_pkey PRIMARY KEY (number);

ALTER TABLE ONLY hookwire.job_schedules
    ADD CONSTRAINT job_schedules_pkey PRIMARY KEY (name);

ALTER TABLE ONLY hookwire.jobs
    ADD CONSTRAINT jobs_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.jobs
    ADD CONSTRAINT jobs_seq_key UNIQUE (seq);

ALTER TABLE ONLY hookwire.lake_backlog
    ADD CONSTRAINT lake_backlog_pkey PRIMARY KEY (tenant, at, topic, subscription);

ALTER TABLE ONLY hookwire.lake_batches
    ADD CONSTRAINT lake_batches_pkey PRIMARY KEY (job, batch);

ALTER TABLE ONLY hookwire.lake_metrics
    ADD CONSTRAINT lake_metrics_pkey PRIMARY KEY (tenant, hour, topic, subscription);

ALTER TABLE ONLY hookwire.lake_proofs
    ADD CONSTRAINT lake_proofs_pkey PRIMARY KEY (lake, day, topic);

ALTER TABLE ONLY hookwire.lake_slo
    ADD CONSTRAINT lake_slo_pkey PRIMARY KEY (tenant, day, subscription);

ALTER TABLE ONLY hookwire.layouts
    ADD CONSTRAINT layouts_pkey PRIMARY KEY (number);

ALTER TABLE ONLY hookwire.ledger_cursor
    ADD CONSTRAINT ledger_cursor_pkey PRIMARY KEY (singleton);

ALTER TABLE ONLY hookwire.ledger_entries
    ADD CONSTRAINT ledger_entries_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.ledger
    ADD CONSTRAINT ledger_pkey PRIMARY KEY (hour, sink, tenant, topic, bucket);

ALTER TABLE ONLY hookwire.message_log
    ADD CONSTRAINT message_log_pkey PRIMARY KEY (queue, xid, id);

ALTER TABLE ONLY hookwire.messages
    ADD CONSTRAINT messages_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (version);

ALTER TABLE ONLY hookwire.number_marks
    ADD CONSTRAINT number_marks_pkey PRIMARY KEY (sequence);

ALTER TABLE ONLY hookwire.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (sink, shard, id);

ALTER TABLE ONLY hookwire.queues
    ADD CONSTRAINT queues_name_key UNIQUE (name);

ALTER TABLE ONLY hookwire.queues
    ADD CONSTRAINT queues_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.rabbithub_resources
    ADD CONSTRAINT rabbithub_resources_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.rabbithub_resources
    ADD CONSTRAINT rabbithub_resources_tenant_vhost_kind_name_key UNIQUE (tenant, vhost, kind, name);

ALTER TABLE ONLY hookwire.rabbithub_subscriptions
    ADD CONSTRAINT rabbithub_subscriptions_pkey PRIMARY KEY (subscription_id);

ALTER TABLE ONLY hookwire.readiness
    ADD CONSTRAINT readiness_pkey PRIMARY KEY (singleton);

ALTER TABLE ONLY hookwire.relay_batch_numbers
    ADD CONSTRAINT relay_batch_numbers_pkey PRIMARY KEY (sink, layout, grp, batch_no);

ALTER TABLE ONLY hookwire.relay_batches
    ADD CONSTRAINT relay_batches_pkey PRIMARY KEY (sink, layout, grp, batch_no);

ALTER TABLE ONLY hookwire.relay_dead_letters
    ADD CONSTRAINT relay_dead_letters_pkey PRIMARY KEY (event_id, sink);

ALTER TABLE ONLY hookwire.relay_members
    ADD CONSTRAINT relay_members_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.relay_terms
    ADD CONSTRAINT relay_terms_pkey PRIMARY KEY (sink, grp);

ALTER TABLE ONLY hookwire.relay_terms
    ADD CONSTRAINT relay_terms_sink_grp_term_key UNIQUE (sink, grp, term);

ALTER TABLE ONLY hookwire.replays
    ADD CONSTRAINT replays_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.request_keys
    ADD CONSTRAINT request_keys_pkey PRIMARY KEY (client, number);

ALTER TABLE ONLY hookwire.requests
    ADD CONSTRAINT requests_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.services
    ADD CONSTRAINT services_name_key UNIQUE (name);

ALTER TABLE ONLY hookwire.services
    ADD CONSTRAINT services_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.sinks
    ADD CONSTRAINT sinks_pkey PRIMARY KEY (name);

ALTER TABLE ONLY hookwire.subscription_secrets
    ADD CONSTRAINT subscription_secrets_pkey PRIMARY KEY (subscription_id, number);

ALTER TABLE ONLY hookwire.subscriptions
    ADD CONSTRAINT subscriptions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.subscriptions
    ADD CONSTRAINT subscriptions_public_id_key UNIQUE (public_id);

ALTER TABLE ONLY hookwire.task_kinds
    ADD CONSTRAINT task_kinds_pkey PRIMARY KEY (kind);

ALTER TABLE ONLY hookwire.task_rows
    ADD CONSTRAINT task_rows_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.task_workers
    ADD CONSTRAINT task_workers_pkey PRIMARY KEY (name);

ALTER TABLE ONLY hookwire.topics
    ADD CONSTRAINT topics_pkey PRIMARY KEY (tenant, name);

ALTER TABLE ONLY hookwire.upstreams
    ADD CONSTRAINT upstreams_pkey PRIMARY KEY (tenant, topic);

ALTER TABLE ONLY hookwire.upstreams
    ADD CONSTRAINT upstreams_token_key UNIQUE (token);

ALTER TABLE ONLY hookwire.verification_buckets
    ADD CONSTRAINT verification_buckets_pkey PRIMARY KEY (tenant, host);

CREATE INDEX attempts_subscription ON ONLY hookwire.attempts USING btree (subscription_id, event_id);

CREATE INDEX audit_jobs ON hookwire.audit USING btree (subject, id) WHERE starts_with(action, 'job.'::text);

CREATE INDEX dead_letters_subscription ON hookwire.dead_letters USING btree (subscription_id, event_id);

CREATE INDEX dead_messages_age ON hookwire.dead_messages USING btree (queue, died_at);

CREATE INDEX dead_messages_queue ON hookwire.dead_messages USING btree (queue, id);

CREATE INDEX dead_tasks_age ON hookwire.dead_tasks USING btree (died_at);

CREATE INDEX dead_tasks_untold ON hookwire.dead_tasks USING btree (number) WHERE (told_at IS NULL);

CREATE INDEX deliveries_due ON hookwire.deliveries USING btree (subscription_id, due_at, event_id);

CREATE INDEX deliveries_lane ON hookwire.deliveries USING btree (subscription_id, lane, event_id) WHERE (lane IS NOT NULL);

CREATE INDEX deliveries_parked ON hookwire.deliveries USING btree (event_id, subscription_id) WHERE (parked_at IS NOT NULL);

CREATE INDEX deliveries_retrying ON hookwire.deliveries USING btree (event_id, subscription_id) WHERE ((attempts > 0) AND (fence IS NULL) AND (parked_at IS NULL));

CREATE INDEX deliveries_sending ON hookwire.deliveries USING btree (event_id, subscription_id) WHERE ((attempts > 0) AND (fence IS NOT NULL) AND (parked_at IS NULL));

CREATE INDEX delivery_failures_failing ON hookwire.delivery_failures USING btree (failing_since) WHERE (failing_since IS NOT NULL);

CREATE INDEX events_key ON ONLY hookwire.events USING btree (tenant, key, id) WHERE (key IS NOT NULL);

CREATE INDEX events_topic ON ONLY hookwire.events USING btree (tenant, topic, id);

CREATE INDEX foreign_topics_due ON hookwire.foreign_topics USING btree (due_at) WHERE (due_at IS NOT NULL);

CREATE INDEX former_audiences_exact ON hookwire.former_audiences USING btree (tenant, topic, until_id) WHERE (topic_regex IS NULL);

CREATE INDEX former_audiences_patterns ON hookwire.former_audiences USING btree (tenant, topic_regex, until_id) WHERE (topic_regex IS NOT NULL);

CREATE INDEX held_id ON hookwire.held USING btree (sink, id);

CREATE INDEX holds_due ON hookwire.holds USING btree (probe_at);

CREATE INDEX idempotency_keys_age ON hookwire.idempotency_keys USING btree (accepted_at);

CREATE INDEX intents_decided ON hookwire.intents USING btree (decided_at) WHERE (decided_at IS NOT NULL);

CREATE INDEX intents_due ON hookwire.intents USING btree (due_at) WHERE (state = ANY (ARRAY['requested'::text, 'verifying'::text]));

CREATE INDEX intents_in_flight ON hookwire.intents USING btree (callback_host, mode) WHERE (state = 'verifying'::text);

CREATE INDEX intents_of_host ON hookwire.intents USING btree (callback_host) WHERE ((state = ANY (ARRAY['requested'::text, 'verifying'::text])) AND (mode = 'subscribe'::text));

CREATE INDEX intents_of_requester ON hookwire.intents USING btree (requester_network) WHERE (state = ANY (ARRAY['requested'::text, 'verifying'::text]));

CREATE INDEX intents_pair ON hookwire.intents USING btree (tenant, identity, id);

CREATE INDEX job_archive_age ON hookwire.job_archive USING btree (kind, ended_at);

CREATE INDEX job_archive_uniq ON hookwire.job_archive USING btree (kind, uniq, ended_at) WHERE (uniq IS NOT NULL);

CREATE INDEX job_kinds_reviewed ON hookwire.job_kinds USING btree (automation, needs_review) WHERE (needs_review OR (automation = 'assisted'::text));

CREATE INDEX job_requests_job ON hookwire.job_requests USING btree (job_id);

CREATE INDEX job_schedules_due ON hookwire.job_schedules USING btree (next_at) WHERE (NOT is_paused);

CREATE INDEX jobs_assignee ON hookwire.jobs USING btree (assignee, seq) WHERE (assignee IS NOT NULL);

CREATE INDEX jobs_available ON hookwire.jobs USING btree (queue, kind, rank_at, seq) WHERE ((state = 'available'::text) AND (NOT for_people));

CREATE INDEX jobs_deadline ON hookwire.jobs USING btree (deadline_at) WHERE (deadline_at IS NOT NULL);

CREATE INDEX jobs_due ON hookwire.jobs USING btree (due_at) WHERE (due_at IS NOT NULL);

CREATE INDEX jobs_keys ON hookwire.jobs USING btree (queue, kind, key, rank_at, seq) WHERE ((state = 'available'::text) AND (NOT for_people));

CREATE INDEX jobs_leased ON hookwire.jobs USING btree (lease_until) WHERE (state = 'running'::text);

CREATE INDEX jobs_local ON hookwire.jobs USING btree (due_local) WHERE (due_local IS NOT NULL);

CREATE INDEX jobs_people ON hookwire.jobs USING btree (kind, seq) WHERE (for_people AND (state = 'available'::text));

CREATE INDEX jobs_running ON hookwire.jobs USING btree (kind, key) WHERE (state = 'running'::text);

CREATE UNIQUE INDEX jobs_token ON hookwire.jobs USING btree (token) WHERE (token IS NOT NULL);

CREATE UNIQUE INDEX jobs_uniq ON hookwire.jobs USING btree (kind, uniq) WHERE (uniq IS NOT NULL);

CREATE INDEX ledger_unequal ON hookwire.ledger USING btree (hour) WHERE ((sink <> ''::text) AND ((((owed_count IS DISTINCT FROM (sent_count + dead_count)) OR (owed_sum IS DISTINCT FROM settled_sum)) OR (owed_min IS DISTINCT FROM settled_min)) OR (owed_max IS DISTINCT FROM settled_max)));

CREATE INDEX message_archive_age ON hookwire.message_archive USING btree (queue, accepted_at);

CREATE INDEX message_log_age ON hookwire.message_log USING btree (queue, created_at);

CREATE INDEX messages_available ON hookwire.messages USING btree (queue, id) WHERE ((claim IS NULL) AND (due_at IS NULL));

CREATE INDEX messages_delayed ON hookwire.messages USING btree (due_at) WHERE (due_at IS NOT NULL);

CREATE INDEX messages_key ON hookwire.messages USING btree (queue, key, id) WHERE ((claim IS NULL) AND (due_at IS NULL) AND (key IS NOT NULL));

CREATE INDEX messages_leased ON hookwire.messages USING btree (lease_until) WHERE (claim IS NOT NULL);

CREATE INDEX messages_type ON hookwire.messages USING btree (queue, type, id) WHERE ((claim IS NULL) AND (due_at IS NULL) AND (type IS NOT NULL));

CREATE INDEX queues_expire ON hookwire.queues USING btree (expires_at) WHERE (expires_at IS NOT NULL);

CREATE INDEX rabbithub_subscriptions_bindings ON hookwire.rabbithub_subscriptions USING btree (queue_id) WHERE (queue_id IS NOT NULL);

CREATE INDEX rabbithub_subscriptions_resource ON hookwire.rabbithub_subscriptions USING btree (resource_id);

CREATE INDEX replays_running ON hookwire.replays USING btree (due_at) WHERE (state = 'running'::text);

CREATE INDEX request_archive_age ON hookwire.request_archive USING btree (closed_at);

CREATE INDEX request_keys_age ON hookwire.request_keys USING btree (expires_at);

CREATE INDEX requests_deadline ON hookwire.requests USING btree (deadline_at);

CREATE INDEX requests_leased ON hookwire.requests USING btree (service) WHERE (state = 'leased'::text);

CREATE INDEX requests_number ON hookwire.requests USING btree (number);

CREATE INDEX requests_waiting ON hookwire.requests USING btree (service, number) WHERE (state = 'waiting'::text);

CREATE UNIQUE INDEX subscriptions_binding ON hookwire.subscriptions USING btree (tenant, identity) WHERE ((protocol = 'pull'::text) AND (state <> 'deleted'::text) AND (identity IS NOT NULL));

CREATE INDEX subscriptions_disabled ON hookwire.subscriptions USING btree (id) WHERE (state = 'disabled'::text);

CREATE INDEX subscriptions_ended ON hookwire.subscriptions USING btree (updated_at) WHERE ((protocol = 'websub'::text) AND (state = ANY (ARRAY['expired'::text, 'denied'::text, 'deleted'::text])));

CREATE INDEX subscriptions_exact ON hookwire.subscriptions USING btree (tenant, topic) WHERE ((state = 'active'::text) AND (topic_regex IS NULL));

CREATE INDEX subscriptions_job ON hookwire.subscriptions USING btree (kind) WHERE ((protocol = 'job'::text) AND (state = 'active'::text));

CREATE INDEX subscriptions_lease ON hookwire.subscriptions USING btree (lease_until) WHERE ((protocol = 'websub'::text) AND (state = ANY (ARRAY['active'::text, 'disabled'::text])));

CREATE INDEX subscriptions_of_host ON hookwire.subscriptions USING btree (callback_host) WHERE ((protocol = 'websub'::text) AND (state = ANY (ARRAY['active'::text, 'disabled'::text])));

CREATE INDEX subscriptions_of_requester ON hookwire.subscriptions USING btree (requester_network) WHERE ((protocol = 'websub'::text) AND (state = ANY (ARRAY['active'::text, 'disabled'::text])));

CREATE INDEX subscriptions_pair ON hookwire.subscriptions USING btree (tenant, identity, id) WHERE (protocol = 'websub'::text);

CREATE INDEX subscriptions_patterns ON hookwire.subscriptions USING btree (tenant, topic_regex) WHERE ((state = 'active'::text) AND (topic_regex IS NOT NULL));

CREATE INDEX subscriptions_paused ON hookwire.subscriptions USING btree (paused_until) WHERE (paused_until IS NOT NULL);

CREATE INDEX subscriptions_permanent ON hookwire.subscriptions USING btree (lease_until) WHERE (permanent AND (protocol = 'websub'::text) AND (state = ANY (ARRAY['active'::text, 'disabled'::text])));

CREATE INDEX subscriptions_pull_lease ON hookwire.subscriptions USING btree (lease_until) WHERE ((protocol = 'pull'::text) AND (state = 'active'::text));

CREATE UNIQUE INDEX subscriptions_rabbithub ON hookwire.subscriptions USING btree (tenant, identity) WHERE ((protocol = 'rabbithub'::text) AND (state <> 'deleted'::text));

CREATE INDEX subscriptions_rabbithub_lease ON hookwire.subscriptions USING btree (lease_until) WHERE ((protocol = 'rabbithub'::text) AND (state = 'active'::text));

CREATE INDEX subscriptions_service ON hookwire.subscriptions USING btree (service) WHERE ((protocol = 'service'::text) AND (state = 'active'::text));

CREATE UNIQUE INDEX subscriptions_websub ON hookwire.subscriptions USING btree (tenant, identity) WHERE ((protocol = 'websub'::text) AND (state = ANY (ARRAY['active'::text, 'disabled'::text])));

CREATE INDEX task_archive_age ON hookwire.task_archive USING btree (finish_time);

CREATE INDEX task_rows_due ON hookwire.task_rows USING btree (due_at) WHERE (due_at IS NOT NULL);

CREATE INDEX task_rows_finished ON hookwire.task_rows USING btree (finish_time) WHERE (finish_time IS NOT NULL);

CREATE INDEX task_rows_lease ON hookwire.task_rows USING btree (lease_until) WHERE (start_time IS NOT NULL);

CREATE INDEX task_rows_notify ON hookwire.task_rows USING btree (notify_at) WHERE ((start_time IS NULL) AND (due_at IS NULL) AND (notify_at IS NOT NULL));

CREATE INDEX task_rows_waiting ON hookwire.task_rows USING btree (kind, seq) WHERE ((start_time IS NULL) AND (due_at IS NULL));

CREATE INDEX task_rows_worker ON hookwire.task_rows USING btree (worker) WHERE (worker IS NOT NULL);

CREATE INDEX upstreams_due ON hookwire.upstreams USING btree (due_at) WHERE (due_at IS NOT NULL);

CREATE TRIGGER announce AFTER INSERT ON hookwire.task_rows REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION hookwire.announce_tasks();

CREATE CONSTRAINT TRIGGER await_direct_commits_changed AFTER UPDATE ON hookwire.subscriptions DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (((((new.version IS DISTINCT FROM old.version) OR (new.state IS DISTINCT FROM old.state)) OR (new.topic IS DISTINCT FROM old.topic)) OR ((new.protocol <> 'pull'::text) AND (new.lease_until IS DISTINCT FROM old.lease_until)))) EXECUTE FUNCTION hookwire.await_direct_commits();

CREATE CONSTRAINT TRIGGER await_direct_commits_made AFTER INSERT ON hookwire.subscriptions DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((new.state = 'active'::text)) EXECUTE FUNCTION hookwire.await_direct_commits();

CREATE TRIGGER complete_begun BEFORE UPDATE ON hookwire.task_rows FOR EACH ROW WHEN ((((old.start_time IS NULL) <> (new.start_time IS NULL)) AND (NOT (old.claim IS DISTINCT FROM new.claim)))) EXECUTE FUNCTION hookwire.complete_task();

CREATE TRIGGER complete_new BEFORE INSERT ON hookwire.task_rows FOR EACH ROW EXECUTE FUNCTION hookwire.complete_task();

CREATE TRIGGER note_batch_no BEFORE UPDATE OF term ON hookwire.relay_terms FOR EACH ROW EXECUTE FUNCTION hookwire.note_batch_no();

CREATE TRIGGER note_former_audience AFTER UPDATE ON hookwire.subscriptions FOR EACH ROW WHEN (((old.state = 'active'::text) AND ((new.protocol <> 'websub'::text) OR (new.state = ANY (ARRAY['active'::text, 'disabled'::text]))) AND ((new.state <> 'active'::text) OR (new.topic <> old.topic) OR (new.topic_regex IS DISTINCT FROM old.topic_regex) OR ((new.filter_path)::text IS DISTINCT FROM (old.filter_path)::text)))) EXECUTE FUNCTION hookwire.note_former_audience();

CREATE TRIGGER publish INSTEAD OF INSERT ON hookwire.stash FOR EACH ROW EXECUTE FUNCTION hookwire.stash_row();

ALTER TABLE ONLY hookwire.rabbithub_resources
    ADD CONSTRAINT rabbithub_resources_source_fkey FOREIGN KEY (source) REFERENCES hookwire.subscriptions(id);

ALTER TABLE ONLY hookwire.rabbithub_subscriptions
    ADD CONSTRAINT rabbithub_subscriptions_queue_id_fkey FOREIGN KEY (queue_id) REFERENCES hookwire.rabbithub_resources(id) ON DELETE CASCADE;

ALTER TABLE ONLY hookwire.rabbithub_subscriptions
    ADD CONSTRAINT rabbithub_subscriptions_resource_id_fkey FOREIGN KEY (resource_id) REFERENCES hookwire.rabbithub_resources(id) ON DELETE CASCADE;

ALTER TABLE ONLY hookwire.rabbithub_subscriptions
    ADD CONSTRAINT rabbithub_subscriptions_subscription_id_fkey FOREIGN KEY (subscription_id) REFERENCES hookwire.subscriptions(id) ON DELETE CASCADE;

ALTER TABLE ONLY hookwire.subscription_secrets
    ADD CONSTRAINT subscription_secrets_subscription_id_fkey FOREIGN KEY (subscription_id) REFERENCES hookwire.subscriptions(id) ON DELETE CASCADE;
