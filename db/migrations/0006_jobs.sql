-- Jobs for people and machines (JB-40..JB-57), on the lease core of 0005. A fence stands in the row, the claim counts the
-- attempt, and a settlement names the fence. Ended rows leave the table in the statement that ends them.
--
-- A job's effect is one commit: result, state, state events, the worker's own events, follow-up jobs and callbacks
-- (docs/adr/0039-jobs-beside-tasks.md). Every move names the states that it may leave; any other is refused with HW002.

CREATE TABLE hookwire.job_kinds (
    kind text COLLATE "C" PRIMARY KEY CHECK (kind = '*' OR hookwire.is_queue_name(kind)),
    automation text CHECK (automation IN ('manual', 'assisted', 'mostly', 'automatic')),
    machine_percent integer CHECK (machine_percent BETWEEN 0 AND 100),
    machine_rule jsonb CHECK (jsonb_typeof(machine_rule) = 'object'),
    needs_review boolean,
    reviewer_differs boolean,
    escalate_to text CHECK (octet_length(escalate_to) BETWEEN 1 AND 200),
    attempts_max integer CHECK (attempts_max BETWEEN 1 AND 1000000),
    run_seconds real CHECK (run_seconds BETWEEN 0.05 AND 2592000),      -- of one attempt
    deadline_seconds real CHECK (deadline_seconds BETWEEN 0.05 AND 315360000),
    lease_seconds real CHECK (lease_seconds BETWEEN 0.05 AND 43200),
    backoff_seconds_min real CHECK (backoff_seconds_min BETWEEN 0 AND 86400),
    backoff_seconds_max real CHECK (backoff_seconds_max BETWEEN 0 AND 2592000),
    doublings_max integer CHECK (doublings_max BETWEEN 0 AND 60),
    ageing_seconds real CHECK (ageing_seconds BETWEEN 0.001 AND 86400),
    running_max integer CHECK (running_max BETWEEN 1 AND 1000000),
    key_running_max integer CHECK (key_running_max BETWEEN 1 AND 1000000),
    key_rate_per_second real CHECK (key_rate_per_second BETWEEN 0.000001 AND 1000000),
    key_burst integer CHECK (key_burst BETWEEN 1 AND 1000000),
    events text[] CHECK (events <@ ARRAY['scheduled', 'available', 'assigned', 'running', 'review', 'retryable', 'completed',
                                         'cancelled', 'discarded', 'progress', 'due']),
    retention_days integer CHECK (retention_days BETWEEN 0 AND 3660),
    is_paused boolean NOT NULL DEFAULT false,
    CHECK (kind <> '*' OR num_nulls(automation, machine_percent, needs_review, reviewer_differs, attempts_max, run_seconds,
                                    lease_seconds, backoff_seconds_min, backoff_seconds_max, doublings_max, ageing_seconds,
                                    key_burst, events, retention_days) = 0)
);
COMMENT ON TABLE hookwire.job_kinds IS 'How jobs of a kind are treated. A kind needs no row; NULL means as in the row ''*''.';
COMMENT ON COLUMN hookwire.job_kinds.automation IS
    'Whether jobs go to people, machines or both: manual, assisted, mostly or automatic.';
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

INSERT INTO hookwire.job_kinds (kind, automation, machine_percent, needs_review, reviewer_differs, attempts_max, run_seconds,
    lease_seconds, backoff_seconds_min, backoff_seconds_max, doublings_max, ageing_seconds, key_burst, events, retention_days)
VALUES ('*', 'automatic', 0, false, false, 5, 60, 30, 1, 3600, 10, 60, 1, '{completed,cancelled,discarded}', 14);

CREATE FUNCTION hookwire.job_policy(of_kind text) RETURNS hookwire.job_kinds
LANGUAGE plpgsql STABLE AS $$
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

-- Live jobs only (JS-01). `rank_at` orders claims: the moment of becoming available, less one ageing interval for each step
-- of priority. A job is overtaken only by jobs that become available before its own rank is reached, so none starves (JB-69).
CREATE TABLE hookwire.jobs (
    id uuid NOT NULL DEFAULT gen_random_uuid() PRIMARY KEY,
    seq bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    tenant text NOT NULL DEFAULT 'default',
    kind text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL DEFAULT 'default',
    state text NOT NULL CHECK (state IN ('scheduled', 'available', 'assigned', 'running', 'review', 'retryable')),
    for_people boolean NOT NULL DEFAULT false,
    args jsonb NOT NULL,
    key text COLLATE "C" NOT NULL DEFAULT '',
    uniq text COLLATE "C",
    priority smallint NOT NULL DEFAULT 0,
    rank_at timestamptz NOT NULL,
    due_at timestamptz,
    due_local timestamp,
    due_zone text,
    on_due text CHECK (on_due IN ('remind', 'escalate', 'unassign')),
    deadline_at timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    attempts_max integer NOT NULL,
    run_seconds real NOT NULL,
    claim bigint,
    worker text,
    claimed_at timestamptz,
    lease_until timestamptz,
    run_until timestamptz,
    is_cancelled boolean NOT NULL DEFAULT false,
    assignee text COLLATE "C",
    performer text COLLATE "C",
    number integer NOT NULL DEFAULT 0,
    progress_done bigint,
    progress_total bigint,
    progress_note text,
    token text,
    resumed jsonb,
    result jsonb,
    errors jsonb NOT NULL DEFAULT '[]',
    created_by text,
    created_at timestamptz NOT NULL
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
        autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 100000);
COMMENT ON TABLE hookwire.jobs IS
    'Live jobs, for people and machines. Ended jobs leave the table in the statement that ends them.';
COMMENT ON COLUMN hookwire.jobs.seq IS 'The order of enqueueing.';
COMMENT ON COLUMN hookwire.jobs.state IS 'scheduled, available, assigned, running, review or retryable.';
COMMENT ON COLUMN hookwire.jobs.for_people IS 'Whether a person does it.';
COMMENT ON COLUMN hookwire.jobs.args IS 'The arguments.';
COMMENT ON COLUMN hookwire.jobs.key IS 'By which limits count.';
COMMENT ON COLUMN hookwire.jobs.uniq IS 'Of live jobs with the same kind and uniq there is one.';
COMMENT ON COLUMN hookwire.jobs.rank_at IS
    'The order of claims: when it became available, less one ageing interval for each step of priority.';
COMMENT ON COLUMN hookwire.jobs.due_at IS
    'Scheduled or retryable: when it becomes available. Assigned: when the person should be done.';
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

CREATE INDEX jobs_available ON hookwire.jobs (queue, kind, rank_at, seq) WHERE state = 'available' AND NOT for_people;
CREATE INDEX jobs_keys ON hookwire.jobs (queue, kind, key, rank_at, seq) WHERE state = 'available' AND NOT for_people;
CREATE INDEX jobs_running ON hookwire.jobs (kind, key) WHERE state = 'running';
CREATE INDEX jobs_leased ON hookwire.jobs (lease_until) WHERE state = 'running';
CREATE INDEX jobs_due ON hookwire.jobs (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX jobs_deadline ON hookwire.jobs (deadline_at) WHERE deadline_at IS NOT NULL;
CREATE INDEX jobs_local ON hookwire.jobs (due_local) WHERE due_local IS NOT NULL;
CREATE UNIQUE INDEX jobs_uniq ON hookwire.jobs (kind, uniq) WHERE uniq IS NOT NULL;
CREATE UNIQUE INDEX jobs_token ON hookwire.jobs (token) WHERE token IS NOT NULL;
CREATE INDEX jobs_assignee ON hookwire.jobs (assignee, seq) WHERE assignee IS NOT NULL;
CREATE INDEX jobs_people ON hookwire.jobs (kind, seq) WHERE for_people AND state = 'available';

-- A job has several rows where requests have merged (JB-46).
CREATE TABLE hookwire.job_requests (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id uuid NOT NULL,
    requester text,
    callbacks jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE hookwire.job_requests IS 'Callbacks of requests that enqueued a job, or merged with one.';
COMMENT ON COLUMN hookwire.job_requests.number IS 'The order of the requests.';
COMMENT ON COLUMN hookwire.job_requests.requester IS 'The key or role that asked.';
COMMENT ON COLUMN hookwire.job_requests.callbacks IS 'The kinds of the jobs that follow each end of the job.';

CREATE INDEX job_requests_job ON hookwire.job_requests (job_id);

CREATE TABLE hookwire.job_archive (
    id uuid NOT NULL PRIMARY KEY,
    seq bigint NOT NULL UNIQUE,
    tenant text NOT NULL DEFAULT 'default',
    kind text COLLATE "C" NOT NULL,
    queue text NOT NULL,
    state text NOT NULL CHECK (state IN ('completed', 'cancelled', 'discarded')),
    args jsonb NOT NULL,
    key text NOT NULL,
    uniq text COLLATE "C",
    priority smallint NOT NULL,
    attempts integer NOT NULL,
    attempts_max integer NOT NULL,
    run_seconds real NOT NULL,
    worker text,
    assignee text COLLATE "C",
    performer text COLLATE "C",
    number integer NOT NULL,
    result jsonb,
    errors jsonb NOT NULL,
    reason text,
    created_by text,
    created_at timestamptz NOT NULL,
    claimed_at timestamptz,
    ended_at timestamptz NOT NULL,
    ended_by text
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

CREATE INDEX job_archive_age ON hookwire.job_archive (kind, ended_at);
CREATE INDEX job_archive_uniq ON hookwire.job_archive (kind, uniq, ended_at) WHERE uniq IS NOT NULL;

CREATE TABLE hookwire.job_rates (
    kind text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    tokens double precision NOT NULL,
    counted_at timestamptz NOT NULL,
    PRIMARY KEY (kind, key)
) WITH (fillfactor = 50);
COMMENT ON TABLE hookwire.job_rates IS
    'Tokens of the rate limits of jobs: one row for a limited key, written under the lock of its kind.';
COMMENT ON COLUMN hookwire.job_rates.tokens IS 'As of counted_at.';
COMMENT ON COLUMN hookwire.job_rates.counted_at IS 'When the tokens were counted last.';

CREATE TABLE hookwire.job_schedules (
    name text COLLATE "C" PRIMARY KEY CHECK (hookwire.is_queue_name(name)),
    tenant text NOT NULL DEFAULT 'default',
    cron text NOT NULL,
    zone text NOT NULL DEFAULT 'UTC',
    missed text NOT NULL DEFAULT 'coalesce' CHECK (missed IN ('skip', 'coalesce', 'catch_up')),
    job jsonb NOT NULL,
    is_paused boolean NOT NULL DEFAULT false,
    next_at timestamptz NOT NULL,
    last_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE hookwire.job_schedules IS 'Schedules that enqueue jobs by a cron expression.';
COMMENT ON COLUMN hookwire.job_schedules.cron IS 'The cron expression.';
COMMENT ON COLUMN hookwire.job_schedules.zone IS 'The time zone in which it is read.';
COMMENT ON COLUMN hookwire.job_schedules.missed IS 'What happens to times that were missed: skip, coalesce or catch_up.';
COMMENT ON COLUMN hookwire.job_schedules.job IS 'The draft that is enqueued.';
COMMENT ON COLUMN hookwire.job_schedules.next_at IS 'The next time.';
COMMENT ON COLUMN hookwire.job_schedules.last_at IS 'The last time that was enqueued.';

CREATE INDEX job_schedules_due ON hookwire.job_schedules (next_at) WHERE NOT is_paused;

-- --- enqueue ---

-- Return whether a job goes to people, by the automation of its kind. The share is drawn from the id, so it can be judged
-- again.
CREATE FUNCTION hookwire.job_is_for_people(id uuid, args jsonb, policy hookwire.job_kinds) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN CASE policy.automation
    WHEN 'manual' THEN true
    WHEN 'mostly' THEN NOT (coalesce(args @> policy.machine_rule, false)
                            OR (hashtext(id::text) & 2147483647) % 100 < policy.machine_percent)
    ELSE false END;

CREATE FUNCTION hookwire.check_job_draft(draft jsonb) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
    wrong text;
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
    END;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'hookwire.enqueue: ' || wrong;
    END IF;
    IF octet_length((draft->'args')::text) > 1048576 THEN
        RAISE EXCEPTION USING ERRCODE = 'HW003', MESSAGE = 'hookwire.enqueue: args are larger than 1 MiB',
            HINT = 'Store large content elsewhere and enqueue a link.';
    END IF;
    IF NOT (SELECT i.kinds_auto_create FROM hookwire.installation i)
       AND NOT EXISTS (SELECT FROM hookwire.job_kinds k WHERE k.kind = draft->>'kind') THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('unknown kind %L', draft->>'kind'),
            HINT = 'Make it with PUT /jobs/kinds/{kind}, or set HOOKWIRE_KINDS_AUTO_CREATE.';
    END IF;
END
$$;

CREATE FUNCTION hookwire.is_person(name text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN coalesce(octet_length(name) BETWEEN 1 AND 200 AND name !~ '[\x01-\x1f\x7f]', false);

-- Enqueue jobs in the caller's transaction: each is made, merged, replaced or skipped. A draft is what POST /jobs
-- takes. A draft whose (kind, uniq) is live attaches to that job, which cannot end before this transaction (JB-46).
CREATE FUNCTION hookwire.add_jobs(drafts jsonb, actor text DEFAULT NULL) RETURNS TABLE (n integer, id uuid, outcome text, state text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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
        job.due_local := (draft->>'due_local')::timestamp;
        job.due_zone := draft->>'due_zone';
        due := coalesce(job.due_local AT TIME ZONE job.due_zone, (draft->>'due_at')::timestamptz,
                        job.created_at + make_interval(secs => coalesce((draft->>'delay_seconds')::double precision, 0)));
        job.due_at := CASE WHEN due > job.created_at THEN due END;
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

-- Add one job. If (kind, uniq) is live or was recently, `on_conflict` of the draft decides.
CREATE FUNCTION hookwire.add_job(job hookwire.jobs, draft jsonb, OUT id uuid, OUT outcome text, OUT state text)
LANGUAGE plpgsql AS $$
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

-- Enqueue one job in the caller's transaction. Return its id, or that of the live job with the same uniq. `uniq` '-' stands
-- for the args.
CREATE FUNCTION hookwire.enqueue(
    kind text, args jsonb DEFAULT '{}', uniq text DEFAULT NULL, key text DEFAULT NULL, queue text DEFAULT NULL,
    priority integer DEFAULT NULL, due_at timestamptz DEFAULT NULL, delay_seconds double precision DEFAULT NULL,
    attempts_max integer DEFAULT NULL, run_seconds double precision DEFAULT NULL, deadline_seconds double precision DEFAULT NULL,
    assignee text DEFAULT NULL, on_conflict text DEFAULT NULL, callbacks jsonb DEFAULT NULL, requester text DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT a.id FROM hookwire.add_jobs(jsonb_build_array(jsonb_strip_nulls(jsonb_build_object(
        'kind', enqueue.kind, 'uniq', enqueue.uniq, 'key', enqueue.key, 'queue', enqueue.queue, 'priority', enqueue.priority,
        'due_at', enqueue.due_at, 'delay_seconds', enqueue.delay_seconds, 'attempts_max', enqueue.attempts_max,
        'run_seconds', enqueue.run_seconds, 'deadline_seconds', enqueue.deadline_seconds, 'assignee', enqueue.assignee,
        'on_conflict', enqueue.on_conflict, 'callbacks', enqueue.callbacks)) || jsonb_build_object('args', enqueue.args)),
        enqueue.requester) AS a);
END
$$;

-- --- events and callbacks ---

-- Announce jobs that have just changed their state: publish the events of their kind, and enqueue the callbacks of their
-- requests. A body is small: a result of more than 64 KiB is left to GET /jobs/{id}. Ended jobs are passed as they were, with
-- their results.
CREATE FUNCTION hookwire.announce_jobs(
    changed hookwire.jobs[], in_state text DEFAULT NULL, actor text DEFAULT NULL, results_of uuid[] DEFAULT NULL, results jsonb[] DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    topics text[];
    bodies jsonb[];
    follow_ups jsonb;
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
               || CASE WHEN octet_length(coalesce(r.result, j.result)::text) <= 65536 THEN jsonb_build_object('result', coalesce(r.result, j.result)) ELSE '{}' END AS body
        FROM unnest(changed) AS j JOIN policies p ON p.kind = j.kind
        CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM hookwire.job_requests q WHERE q.job_id = j.id) AS is_called_back) AS c
        LEFT JOIN unnest(results_of, results) AS r(id, result) ON r.id = j.id
        WHERE coalesce(in_state, j.state) = ANY (p.events) OR c.is_called_back
    )
    SELECT array_agg('hookwire.job.' || b.kind || '.' || b.state ORDER BY b.seq) FILTER (WHERE b.is_published),
           array_agg(b.body ORDER BY b.seq) FILTER (WHERE b.is_published),
           (SELECT jsonb_agg(jsonb_build_object('kind', hooks.kind, 'args', c.body || jsonb_strip_nulls(jsonb_build_object('requester', r.requester)))
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
        PERFORM hookwire.add_jobs(follow_ups, 'callback');
    END IF;
END
$$;

-- End these jobs, which the caller has locked. They leave the table and go into the archive; their events and callbacks commit
-- with them.
CREATE FUNCTION hookwire.end_jobs(ids uuid[], in_state text, results jsonb[] DEFAULT NULL, why text DEFAULT NULL, actor text DEFAULT NULL,
                                  results_of uuid[] DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    ended hookwire.jobs[];
BEGIN
    WITH gone AS (
        DELETE FROM hookwire.jobs j WHERE j.id = ANY (ids) RETURNING j.*
    ), policies AS MATERIALIZED (
        SELECT p.kind, p.retention_days
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
    SELECT coalesce(array_agg(g ORDER BY g.seq), '{}') INTO ended FROM gone g;
    -- In a later statement than the DELETE, which has waited for the requests that were merging.
    PERFORM hookwire.announce_jobs(ended, in_state, actor, coalesce(results_of, ids), results);
    DELETE FROM hookwire.job_requests r WHERE r.job_id = ANY (ids);
END
$$;

-- --- claim ---

-- Lock a limited kind, so that its counts are exact. Claims take milliseconds; false: the lock was not free in half a second.
CREATE FUNCTION hookwire.lock_job_kind(kind text) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '500ms' AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1215262574, hashtext(kind));
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END
$$;

-- Claims of kinds with a limit for each key (JB-70, JB-71) look at the head of the queue first. As long as most of it may
-- run, that is the whole answer, at the price of a claim without limits. Only where blocked keys fill the head are the keys
-- walked one by one (docs/adr/0040-priority-as-a-rank-and-limits-under-a-lock.md).

-- Return how many jobs of each of these keys may begin now, `room` at most.
CREATE FUNCTION hookwire.key_allowances(policy hookwire.job_kinds, keys text[], room integer, moment timestamptz)
RETURNS TABLE (key text, most bigint)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT k.key, CASE WHEN k.key = '' THEN room::bigint ELSE greatest(0, least(
        room::bigint,
        policy.key_running_max - (SELECT count(*) FROM hookwire.jobs j WHERE j.kind = policy.kind AND j.key = k.key AND j.state = 'running'),
        CASE WHEN policy.key_rate_per_second IS NOT NULL THEN floor(coalesce(
            least(policy.key_burst, r.tokens + extract(epoch FROM moment - r.counted_at) * policy.key_rate_per_second), policy.key_burst))::bigint END)) END
    FROM (SELECT DISTINCT unnest(keys) AS key) AS k LEFT JOIN hookwire.job_rates r ON r.kind = policy.kind AND r.key = k.key;
END
$$;

-- Return the first `room` jobs in order of rank that may begin; NULL where the head of the queue cannot tell.
CREATE FUNCTION hookwire.pick_at_head(policy hookwire.job_kinds, in_queue text, room integer, moment timestamptz) RETURNS uuid[]
LANGUAGE plpgsql STABLE AS $$
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

-- The same by the keys, regardless of the jobs at the head. It looks at 500 keys, beginning at a random one where there are
-- more. Within each key it looks at as many jobs as the key may run: a blocked key costs one step, however long its queue.
CREATE FUNCTION hookwire.pick_by_key(policy hookwire.job_kinds, in_queue text, room integer, moment timestamptz) RETURNS uuid[]
LANGUAGE plpgsql AS $$
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

-- Lock up to `most` jobs of a limited kind (JB-70, JB-71), under its lock.
CREATE FUNCTION hookwire.pick_limited_jobs(policy hookwire.job_kinds, in_queue text, most integer) RETURNS uuid[]
LANGUAGE plpgsql AS $$
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
        RETURN ARRAY(SELECT j.id FROM hookwire.jobs j
                     WHERE j.queue = in_queue AND j.kind = policy.kind AND j.state = 'available' AND NOT j.for_people
                     ORDER BY j.rank_at, j.seq LIMIT room FOR NO KEY UPDATE SKIP LOCKED);
    END IF;
    candidates := hookwire.pick_at_head(policy, in_queue, room, moment);
    IF candidates IS NULL THEN
        candidates := hookwire.pick_by_key(policy, in_queue, room, moment);
    END IF;
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

-- Return the next keys that have available jobs, by steps through the index.
CREATE FUNCTION hookwire.job_keys(in_queue text, in_kind text, after_key text, most integer) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
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

-- Return the kinds of a queue that have available jobs for workers.
CREATE FUNCTION hookwire.available_kinds(in_queue text) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
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

-- Claim up to `most` jobs of these kinds (NULL: all) for a worker, by priority and age. The attempt counts from here (JB-61).
CREATE FUNCTION hookwire.claim_jobs(
    kinds text[], most integer, worker text, lease_seconds double precision DEFAULT NULL, queue text DEFAULT 'default'
) RETURNS TABLE (
    id uuid, claim bigint, attempts integer, lease_until timestamptz, run_until timestamptz, kind text, args jsonb, key text,
    attempts_max integer, created_at timestamptz, resumed jsonb
)
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
    claimed hookwire.jobs[];
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
        -- The best of all kinds: those that others hold meanwhile are left out, so each kind offers a few more.
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
    SELECT array_agg(t ORDER BY t.rank_at, t.seq) INTO claimed FROM taken t;
    PERFORM hookwire.announce_jobs(claimed);
    RETURN QUERY SELECT c.id, c.claim, c.attempts, c.lease_until, c.run_until, c.kind, c.args, c.key, c.attempts_max, c.created_at, c.resumed
                 FROM unnest(claimed) AS c;
END
$$;

-- --- settle: by the worker, with its receipt ---
CREATE FUNCTION hookwire.held_jobs(ids uuid[], claims bigint[]) RETURNS uuid[]
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (SELECT coalesce(array_agg(d.id), '{}')
    FROM (SELECT r.id, r.claim FROM unnest(ids, claims) AS r(id, claim) ORDER BY r.id) AS r
    CROSS JOIN LATERAL (
        SELECT j.id FROM hookwire.jobs j WHERE j.id BETWEEN r.id AND r.id AND j.claim = r.claim AND j.state = 'running'
        ORDER BY j.id LIMIT 1 FOR NO KEY UPDATE OF j   -- requests that merge may lock its key
    ) AS d);
END
$$;

CREATE FUNCTION hookwire.refuse_stale_job(job_id uuid, claim bigint) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'HW001', MESSAGE = format('the claim %s does not hold the job %s any more; nothing was changed', claim, job_id),
        HINT = 'Its lease or its time ended, or it was settled before. Claim again.';
END
$$;

CREATE FUNCTION hookwire.check_job_result(result jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF octet_length(result::text) > 1048576 THEN
        RAISE EXCEPTION USING ERRCODE = 'HW003', MESSAGE = 'the result is larger than 1 MiB',
            HINT = 'Store large content elsewhere and return a link.';
    END IF;
END
$$;

-- Complete the jobs that their claims still hold: they end, or wait for their review. Return their ids. `extras` holds for each
-- {"events": [{"topic", "payload", "key"?, "content_type"?, "headers"?}], "jobs": [draft]}: published and enqueued in the
-- same transaction, for held jobs alone.
CREATE FUNCTION hookwire.complete_jobs(ids uuid[], claims bigint[], results jsonb[] DEFAULT NULL, extras jsonb[] DEFAULT NULL) RETURNS SETOF uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    held CONSTANT uuid[] := hookwire.held_jobs(ids, claims);
    reviewed hookwire.jobs[];
    extra record;
BEGIN
    PERFORM hookwire.check_job_result(r) FROM unnest(results) AS r;
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
    IF cardinality(reviewed) < cardinality(held) THEN
        PERFORM hookwire.end_jobs(ARRAY(SELECT unnest(held) EXCEPT SELECT w.id FROM unnest(reviewed) AS w), 'completed', results,
                                  results_of => ids);
    END IF;
    FOR extra IN SELECT x.id, x.extra FROM unnest(ids, extras) AS x(id, extra) WHERE x.id = ANY (held) AND x.extra IS NOT NULL LOOP
        PERFORM hookwire.publish_all(extra.extra->'events');
        PERFORM hookwire.add_jobs(coalesce(nullif(extra.extra->'jobs', 'null'), '[]'), 'job:' || extra.id);
    END LOOP;
    RETURN QUERY SELECT unnest(held);
END
$$;

CREATE FUNCTION hookwire.publish_all(events jsonb) RETURNS void
LANGUAGE plpgsql AS $$
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

-- Complete one job: HW001 if the claim is stale. In the caller's transaction, so that its own rows commit with it (JB-67).
CREATE FUNCTION hookwire.complete_job(id uuid, claim bigint, result jsonb DEFAULT NULL, events jsonb DEFAULT NULL, jobs jsonb DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM hookwire.complete_jobs(ARRAY[complete_job.id], ARRAY[complete_job.claim], ARRAY[complete_job.result],
                                                      ARRAY[jsonb_build_object('events', events, 'jobs', jobs)])) THEN
        PERFORM hookwire.refuse_stale_job(complete_job.id, complete_job.claim);
    END IF;
END
$$;

CREATE FUNCTION hookwire.job_backoff_seconds(attempt integer, policy hookwire.job_kinds) RETURNS double precision
LANGUAGE sql IMMUTABLE
RETURN least(policy.backoff_seconds_max::double precision,
             policy.backoff_seconds_min * power(2::double precision, least(greatest(attempt, 1) - 1, policy.doublings_max))
             * (1 + greatest(attempt - 1 - policy.doublings_max, 0)));

-- Settle the failure of a locked running job: it goes to people, waits for its next attempt, or is discarded. Return its new
-- state.
CREATE FUNCTION hookwire.settle_failure(job hookwire.jobs, why text, for_good boolean, retry_seconds double precision) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    policy CONSTANT hookwire.job_kinds := hookwire.job_policy(job.kind);
    failure CONSTANT jsonb := jsonb_build_object('attempt', job.attempts, 'error', left(why, 2000), 'worker', job.worker,
        'at', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'));
    moved hookwire.jobs;
BEGIN
    UPDATE hookwire.jobs j
    SET errors = CASE WHEN jsonb_array_length(j.errors) >= 20 THEN j.errors - 0 ELSE j.errors END || failure
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

CREATE FUNCTION hookwire.running_job(job_id uuid, of_claim bigint) RETURNS hookwire.jobs
LANGUAGE plpgsql AS $$
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

-- Record that a job failed (JB-48). `dead`: no further attempt. Return retryable, available (to people) or discarded. A job
-- that was to be cancelled is cancelled.
CREATE FUNCTION hookwire.fail_job(id uuid, claim bigint, error text, dead boolean DEFAULT false, retry_seconds double precision DEFAULT NULL) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

-- Run a job later, without the cost of an attempt (JB-75). With a token it is parked until `resume_job`, at most so long
-- (JB-55). A job that was to be cancelled is cancelled: a pushed job has no heartbeat that would tell its worker.
CREATE FUNCTION hookwire.snooze_job(id uuid, claim bigint, seconds double precision, token text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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
    UPDATE hookwire.jobs j
    SET state = 'scheduled', due_at = clock_timestamp() + make_interval(secs => seconds), attempts = j.attempts - 1, claim = NULL,
        lease_until = NULL, run_until = NULL, number = j.number + 1, token = snooze_job.token, resumed = NULL
    WHERE j.id = job.id RETURNING j.* INTO moved;
    PERFORM hookwire.announce_jobs(ARRAY[moved]);
END
$$;

CREATE FUNCTION hookwire.resume_job(token text, answer jsonb DEFAULT 'true') RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

-- Give back jobs of a worker that leaves: an interruption never costs an attempt (JB-78). A job that was to be cancelled is.
CREATE FUNCTION hookwire.release_jobs(ids uuid[], claims bigint[]) RETURNS SETOF uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    held CONSTANT uuid[] := hookwire.held_jobs(ids, claims);
    cancelled CONSTANT uuid[] := ARRAY(SELECT j.id FROM hookwire.jobs j WHERE j.id = ANY (held) AND j.is_cancelled);
    moved hookwire.jobs[];
BEGIN
    WITH freed AS (
        UPDATE hookwire.jobs j SET state = 'available', claim = NULL, lease_until = NULL, run_until = NULL, attempts = j.attempts - 1,
            number = j.number + 1
        WHERE j.id = ANY (held) AND NOT j.is_cancelled RETURNING j.*
    )
    SELECT coalesce(array_agg(f), '{}') INTO moved FROM freed f;
    PERFORM hookwire.announce_jobs(moved);
    IF cancelled <> '{}' THEN
        PERFORM hookwire.end_jobs(cancelled, 'cancelled', NULL, 'cancelled while it ran');
    END IF;
    RETURN QUERY SELECT unnest(held);
END
$$;

-- Extend leases: the heartbeat. Return the jobs that are still held, and whether each is to be cancelled. The lease never
-- passes the run limit or the deadline, so a heartbeat hides no stuck handler (JB-62).
CREATE FUNCTION hookwire.extend_jobs(ids uuid[], claims bigint[], lease_seconds double precision DEFAULT 30) RETURNS TABLE (id uuid, lease_until timestamptz, is_cancelled boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

-- Store the progress of a job, for GET /jobs/{id} and for events of its kind (JB-50). Return whether it is to be cancelled.
CREATE FUNCTION hookwire.progress_job(id uuid, claim bigint, done bigint, total bigint DEFAULT NULL, note text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

-- --- people and operators: by name, without a receipt ---

-- Return the job, locked, if it is in one of these states; else raise 42704 or HW002. Of two people that click at once the
-- second sees the change of the first.
CREATE FUNCTION hookwire.locked_job(job_id uuid, verb text, states text[]) RETURNS hookwire.jobs
LANGUAGE plpgsql AS $$
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

CREATE FUNCTION hookwire.note_job(job_id uuid, verb text, actor text, why text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT hookwire.is_person(actor) THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'actor is the name of a person, 1-200 printable bytes';
    END IF;
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason) VALUES ('default', actor, 'job.' || verb, job_id::text, left(why, 500));
END
$$;

-- Assign a job of the pool (JB-41): compare-and-set, so an assigned job is refused. `on_due` acts at the due date.
CREATE FUNCTION hookwire.assign_job(
    id uuid, assignee text, actor text, due_at timestamptz DEFAULT NULL, on_due text DEFAULT NULL, why text DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

-- Return a job to the pool. It stays with people, unless its kind is automatic.
CREATE FUNCTION hookwire.unassign_job(id uuid, actor text, why text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

-- Delay a job until a date (JB-42). Then it returns to its assignee, or to the pool. A far date is given as local time and
-- zone.
CREATE FUNCTION hookwire.delay_job(
    id uuid, actor text, due_at timestamptz DEFAULT NULL, due_local timestamp DEFAULT NULL, due_zone text DEFAULT NULL,
    to_pool boolean DEFAULT false, why text DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

-- Finish a job of its assignee: it ends, or waits for its review if its kind needs one.
CREATE FUNCTION hookwire.finish_job(id uuid, actor text, result jsonb DEFAULT NULL, why text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

CREATE FUNCTION hookwire.check_reviewer(job hookwire.jobs, actor text) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF job.state = 'review' AND job.performer = actor AND (hookwire.job_policy(job.kind)).reviewer_differs THEN
        RAISE EXCEPTION USING ERRCODE = 'HW002', MESSAGE = format('%s has done the job %s; another person reviews it', actor, job.id);
    END IF;
END
$$;

CREATE FUNCTION hookwire.approve_job(id uuid, actor text, why text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    job CONSTANT hookwire.jobs := hookwire.locked_job(approve_job.id, 'approve', '{review}');
BEGIN
    PERFORM hookwire.check_reviewer(job, actor);
    PERFORM hookwire.note_job(job.id, 'approve', actor, why);
    PERFORM hookwire.end_jobs(ARRAY[job.id], 'completed', NULL, why, actor);
END
$$;

-- Send a job back to the person who did it, or to people where a machine did it.
CREATE FUNCTION hookwire.send_back_job(id uuid, actor text, why text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

CREATE FUNCTION hookwire.decline_job(id uuid, actor text, why text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    job CONSTANT hookwire.jobs := hookwire.locked_job(decline_job.id, 'decline', '{review,assigned}');
BEGIN
    PERFORM hookwire.check_reviewer(job, actor);
    PERFORM hookwire.note_job(job.id, 'decline', actor, why);
    PERFORM hookwire.end_jobs(ARRAY[job.id], 'discarded', NULL, coalesce(why, 'declined'), actor);
END
$$;

-- Cancel a job (JB-74). If it runs, it is asked to stop: its worker learns of it by its next heartbeat, and after
-- `grace_seconds` its claim ends (JB-74). Returns the state.
CREATE FUNCTION hookwire.cancel_job(id uuid, actor text, why text DEFAULT NULL, grace_seconds double precision DEFAULT 30) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

-- Run a job now that waits for a date or for its next attempt. A discarded or cancelled job runs again under its old id.
CREATE FUNCTION hookwire.retry_job(id uuid, actor text, why text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

-- Set how jobs of a kind are treated. Settings that are not named are those of all kinds. Waiting jobs follow at once: under
-- another automation they go to people or to machines, with their ids and history (JB-45).
CREATE FUNCTION hookwire.put_job_kind(kind text, settings jsonb, actor text) RETURNS hookwire.job_kinds
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    in_kind CONSTANT text := put_job_kind.kind;
    stored hookwire.job_kinds;
BEGIN
    SELECT * INTO stored FROM hookwire.job_kinds k WHERE k.kind = in_kind FOR UPDATE;
    DELETE FROM hookwire.job_kinds k WHERE k.kind = in_kind;
    INSERT INTO hookwire.job_kinds
    SELECT p.* FROM jsonb_populate_record(NULL::hookwire.job_kinds,
        jsonb_build_object('is_paused', coalesce(stored.is_paused, false)) || settings || jsonb_build_object('kind', in_kind)) AS p
    RETURNING * INTO stored;
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason) VALUES ('default', actor, 'job.kind', in_kind, left(settings::text, 500));
    UPDATE hookwire.jobs j SET for_people = NOT j.for_people
    WHERE (j.kind = in_kind OR in_kind = '*') AND j.state IN ('scheduled', 'available', 'retryable') AND j.assignee IS NULL
      AND j.errors = '[]' AND j.for_people <> hookwire.job_is_for_people(j.id, j.args, hookwire.job_policy(j.kind));
    RETURN stored;
END
$$;

CREATE FUNCTION hookwire.pause_job_kind(kind text, is_paused boolean, actor text, why text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO hookwire.job_kinds AS k (kind, is_paused) VALUES (pause_job_kind.kind, pause_job_kind.is_paused)
    ON CONFLICT (kind) DO UPDATE SET is_paused = excluded.is_paused;
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason)
    VALUES ('default', actor, CASE WHEN pause_job_kind.is_paused THEN 'job.pause' ELSE 'job.resume' END, pause_job_kind.kind, left(why, 500));
END
$$;

-- --- the keeper ---

-- Make one bounded pass over dates that have come, deadlines that have passed, and claims whose lease or run limit is over.
-- Any number of passes may run at once: rows that another pass holds are skipped.
CREATE FUNCTION hookwire.keep_jobs(most integer) RETURNS TABLE (promoted bigint, returned bigint, discarded bigint, cancelled bigint)
LANGUAGE plpgsql AS $$
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

-- Act on the due date of an assigned job (JB-44).
CREATE FUNCTION hookwire.act_on_due_job(job hookwire.jobs) RETURNS void
LANGUAGE plpgsql AS $$
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

-- Fire a tick of a schedule: the jobs and the next moment commit together, and only if no other scheduler was here (JB-73).
CREATE FUNCTION hookwire.fire_schedule(schedule text, expected timestamptz, next_moment timestamptz, ticks timestamptz[]) RETURNS integer
LANGUAGE plpgsql AS $$
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

-- --- jobs from events ---
--
-- A topic whose sinks name `jobs` has a rule, and each of its events enqueues one job by it (topics.job).

-- Refuse a rule as a job would be refused. Its kind has a row from now on, so that no setting refuses its jobs later.
CREATE FUNCTION hookwire.admit_job_rule(rule jsonb) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM hookwire.check_job_draft(rule);
    INSERT INTO hookwire.job_kinds (kind) VALUES (rule->>'kind') ON CONFLICT DO NOTHING;
END
$$;

-- Return the arguments of an event's job. The content is `data` where it is JSON, else `payload` where it is text, else
-- `payload_base64`. Content that does not fit into arguments is left out, and GET /events/{id} has it.
CREATE FUNCTION hookwire.event_job_args(event_id text, topic text, key text, accepted_at timestamptz, content_type text, headers jsonb, payload bytea)
RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
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
LANGUAGE plpgsql STABLE AS $$
DECLARE
    data CONSTANT jsonb := hookwire.json_of(payload);
BEGIN
    IF data IS NOT NULL THEN
        RETURN jsonb_build_object('data', data);
    END IF;
    RETURN jsonb_build_object('payload', convert_from(payload, 'UTF8'));
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
    RETURN jsonb_build_object('payload_base64', translate(encode(payload, 'base64'), E'\n', ''));
END
$$;

-- Enqueue one job for each of these events, in the transaction that takes them out of the outbox. Return how many.
CREATE FUNCTION hookwire.enqueue_events(ids bigint[], incarnation text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    drafts CONSTANT jsonb := (
        SELECT jsonb_agg(t.job || jsonb_build_object('key', coalesce(e.key, ''), 'args', hookwire.event_job_args(
                   format('evt_%s_%s', incarnation, e.id), e.topic, e.key, e.accepted_at, e.content_type, e.headers, e.payload)) ORDER BY e.id)
        FROM unnest(ids) AS i(id)
        CROSS JOIN LATERAL (SELECT x.* FROM hookwire.events x WHERE x.id BETWEEN i.id AND i.id ORDER BY x.id LIMIT 1) AS e
        JOIN hookwire.topics t ON t.tenant = e.tenant AND t.name = e.topic
        WHERE t.job IS NOT NULL);
BEGIN
    RETURN (SELECT count(*) FROM hookwire.add_jobs(coalesce(drafts, '[]'), 'topic'));
END
$$;

-- --- views: people, workers and durations (JB-53) ---
CREATE VIEW hookwire.all_jobs AS
SELECT j.id, j.kind, j.queue, j.state, j.key, j.uniq, j.args, j.result, j.priority, j.attempts, j.assignee, j.performer, j.worker,
       j.created_by, j.created_at, j.claimed_at, NULL::timestamptz AS ended_at, NULL::text AS ended_by, NULL::text AS reason
FROM hookwire.jobs j
UNION ALL
SELECT a.id, a.kind, a.queue, a.state, a.key, a.uniq, a.args, a.result, a.priority, a.attempts, a.assignee, a.performer, a.worker,
       a.created_by, a.created_at, a.claimed_at, a.ended_at, a.ended_by, a.reason
FROM hookwire.job_archive a;
COMMENT ON VIEW hookwire.all_jobs IS 'Live and ended jobs in one shape.';

CREATE VIEW hookwire.job_statistics AS
SELECT a.kind, a.state, coalesce(a.performer, a.ended_by) AS performer, count(*) AS jobs,
       avg(extract(epoch FROM a.claimed_at - a.created_at)) AS wait_seconds,
       avg(extract(epoch FROM a.ended_at - a.claimed_at)) AS run_seconds,
       avg(extract(epoch FROM a.ended_at - a.created_at)) AS total_seconds,
       avg(a.attempts) AS attempts
FROM hookwire.job_archive a GROUP BY a.kind, a.state, coalesce(a.performer, a.ended_by);
COMMENT ON VIEW hookwire.job_statistics IS 'Jobs by kind and state, with their ages.';

CREATE VIEW hookwire.job_trail AS
SELECT a.subject::uuid AS job_id, a.at, a.actor, substr(a.action, 5) AS verb, a.reason
FROM hookwire.audit a WHERE starts_with(a.action, 'job.') AND a.subject ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$';
COMMENT ON VIEW hookwire.job_trail IS 'What happened to each job, from its audit records.';

REVOKE EXECUTE ON FUNCTION
    hookwire.claim_jobs, hookwire.complete_jobs, hookwire.complete_job, hookwire.fail_job, hookwire.snooze_job, hookwire.resume_job,
    hookwire.release_jobs, hookwire.extend_jobs, hookwire.progress_job, hookwire.assign_job, hookwire.unassign_job, hookwire.delay_job,
    hookwire.finish_job, hookwire.approve_job, hookwire.send_back_job, hookwire.decline_job, hookwire.cancel_job, hookwire.retry_job,
    hookwire.put_job_kind, hookwire.pause_job_kind
FROM PUBLIC;
