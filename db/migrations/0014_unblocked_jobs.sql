-- Keep one job from stopping the others. Kinds of callbacks are checked when they are accepted, and due dates are bounded.

-- Return when a job is due, by its draft. Refuse dates after those that clients in all languages can read.
CREATE FUNCTION hookwire.job_due(draft jsonb, moment timestamptz) RETURNS timestamptz
LANGUAGE plpgsql STABLE AS $$
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

CREATE OR REPLACE FUNCTION hookwire.check_job_draft(draft jsonb) RETURNS void
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
        WHERE NOT EXISTS (SELECT FROM hookwire.job_kinds k WHERE k.kind = n.kind) LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('unknown kind %L', unknown),
                HINT = 'Make it with PUT /jobs/kinds/{kind}, or set HOOKWIRE_KINDS_AUTO_CREATE.';
        END IF;
    END IF;
END
$$;

-- A job that is due at once keeps no date.
CREATE OR REPLACE FUNCTION hookwire.add_jobs(drafts jsonb, actor text DEFAULT NULL) RETURNS TABLE (n integer, id uuid, outcome text, state text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
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

-- Return whether a result is small and flat enough for the arguments of a callback, one level deeper. A text of 128 bytes has
-- no 64 levels.
CREATE FUNCTION hookwire.is_told_result(result jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN octet_length(result::text) <= 128 OR (octet_length(result::text) <= 65536 AND hookwire.is_readable_json(result, 63));

-- Enqueue accepted callbacks, in portions that add_jobs takes. Their kinds have rows, so that no later setting refuses them:
-- otherwise the job could not change its state.
CREATE FUNCTION hookwire.add_callbacks(drafts jsonb[]) RETURNS void
LANGUAGE plpgsql AS $$
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

CREATE OR REPLACE FUNCTION hookwire.announce_jobs(
    changed hookwire.jobs[], in_state text DEFAULT NULL, actor text DEFAULT NULL, results_of uuid[] DEFAULT NULL, results jsonb[] DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql AS $$
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
        CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM hookwire.job_requests q WHERE q.job_id = j.id) AS is_called_back) AS c
        LEFT JOIN unnest(results_of, results) AS r(id, result) ON r.id = j.id
        WHERE coalesce(in_state, j.state) = ANY (p.events) OR c.is_called_back
    )
    SELECT array_agg('hookwire.job.' || b.kind || '.' || b.state ORDER BY b.seq) FILTER (WHERE b.is_published),
           array_agg(b.body ORDER BY b.seq) FILTER (WHERE b.is_published),
           (SELECT array_agg(jsonb_build_object('kind', hooks.kind, 'args', c.body || jsonb_strip_nulls(jsonb_build_object('requester', r.requester)))
                             ORDER BY r.number)
            FROM body c JOIN hookwire.job_requests r ON r.job_id = c.id
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

-- Refuse a rule as a job would be refused. Its kinds have rows from now on, so that no setting refuses its jobs later.
CREATE OR REPLACE FUNCTION hookwire.admit_job_rule(rule jsonb) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM hookwire.check_job_draft(rule);
    INSERT INTO hookwire.job_kinds (kind)
    SELECT rule->>'kind' UNION SELECT c.value FROM jsonb_each_text(nullif(rule->'callbacks', 'null')) AS c ON CONFLICT DO NOTHING;
END
$$;

-- A token that another job waits for is refused.
CREATE OR REPLACE FUNCTION hookwire.snooze_job(id uuid, claim bigint, seconds double precision, token text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
    job CONSTANT hookwire.jobs := hookwire.running_job(snooze_job.id, snooze_job.claim);
    moved hookwire.jobs;
BEGIN
    IF seconds NOT BETWEEN 0 AND 315360000 OR octet_length(snooze_job.token) NOT BETWEEN 16 AND 200 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'seconds is 0 to 315360000, a token has 16 to 200 bytes';
    END IF;
    IF job.is_cancelled THEN
        PERFORM hookwire.end_jobs(ARRAY[job.id], 'cancelled', NULL, 'cancelled while it ran');
        RETURN;
    END IF;
    BEGIN
        UPDATE hookwire.jobs j
        SET state = 'scheduled', due_at = clock_timestamp() + make_interval(secs => seconds), attempts = j.attempts - 1, claim = NULL,
            lease_until = NULL, run_until = NULL, number = j.number + 1, token = snooze_job.token, resumed = NULL
        WHERE j.id = job.id RETURNING j.* INTO moved;
    EXCEPTION WHEN unique_violation THEN
        RAISE EXCEPTION USING ERRCODE = 'HW002', MESSAGE = 'another job waits for this token';
    END;
    PERFORM hookwire.announce_jobs(ARRAY[moved]);
END
$$;

-- Of two settings of a kind at once the later one holds, and a paused kind stays paused.
CREATE OR REPLACE FUNCTION hookwire.put_job_kind(kind text, settings jsonb, actor text) RETURNS hookwire.job_kinds
LANGUAGE plpgsql AS $$
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

INSERT INTO hookwire.job_kinds (kind)
SELECT DISTINCT c.value FROM hookwire.topics t, jsonb_each_text(nullif(t.job->'callbacks', 'null')) AS c ON CONFLICT DO NOTHING;

UPDATE hookwire.jobs j SET due_at = now() + interval '200 years', due_local = NULL, due_zone = NULL
WHERE j.due_at > now() + interval '200 years';
