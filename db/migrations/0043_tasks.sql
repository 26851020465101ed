-- Transactional tasks (JB-20..JB-39): a task exists if and only if the transaction that enqueued it committed. The row is the
-- truth. A notification only wakes a worker: it may come early, late, twice or never.

ALTER TABLE hookwire.installation ADD COLUMN kinds_auto_create boolean NOT NULL DEFAULT true;

-- How tasks of a kind are treated. A kind needs no row; NULL means as in the row '*'. Changes count at once (JB-37).
CREATE TABLE hookwire.task_kinds (
    kind text COLLATE "C" PRIMARY KEY CHECK (kind = '*' OR hookwire.is_queue_name(kind)),
    on_crash text CHECK (on_crash IN ('retry', 'compensate', 'abandon')),
    compensation_kind text CHECK (compensation_kind IS NULL OR hookwire.is_queue_name(compensation_kind)),
    notify text CHECK (notify IN ('nobody', 'notify', 'relay', 'enqueuer')), -- NULL in '*': relay where AMQP is configured
    lookup_seconds real CHECK (lookup_seconds BETWEEN 0.01 AND 60),          -- between two looks for a row that is not there yet
    giveup_seconds real CHECK (giveup_seconds BETWEEN 0 AND 600),            -- then the notification is dropped
    cleanup_seconds real CHECK (cleanup_seconds BETWEEN 0.1 AND 86400),
    crash_seconds real CHECK (crash_seconds BETWEEN 0.1 AND 2592000),
    attempts_max integer CHECK (attempts_max BETWEEN 1 AND 1000000),
    age_seconds_max real CHECK (age_seconds_max > 0),                        -- with attempts_max: dead when both are passed
    backoff_seconds_min real CHECK (backoff_seconds_min BETWEEN 0 AND 86400),
    backoff_seconds_max real CHECK (backoff_seconds_max BETWEEN 0 AND 2592000),
    doublings_max integer CHECK (doublings_max BETWEEN 0 AND 60),
    keeps_record boolean,                                                    -- finished tasks go into the archive
    is_unique boolean,                                                       -- enqueue: the same description is the same task
    CHECK (kind <> '*' OR num_nulls(on_crash, lookup_seconds, giveup_seconds, cleanup_seconds, crash_seconds, attempts_max,
                                    backoff_seconds_min, backoff_seconds_max, doublings_max, keeps_record, is_unique) = 0)
);
INSERT INTO hookwire.task_kinds (kind, on_crash, lookup_seconds, giveup_seconds, cleanup_seconds, crash_seconds, attempts_max,
                                 backoff_seconds_min, backoff_seconds_max, doublings_max, keeps_record, is_unique)
VALUES ('*', 'retry', 2, 6, 60, 3600, 5, 1, 3600, 10, false, true);

CREATE FUNCTION hookwire.task_policy(of_kind text) RETURNS hookwire.task_kinds
LANGUAGE sql STABLE
RETURN (SELECT ROW(of_kind, coalesce(k.on_crash, d.on_crash), coalesce(k.compensation_kind, d.compensation_kind),
            coalesce(k.notify, d.notify, CASE WHEN (SELECT s.configured FROM hookwire.sinks s WHERE s.name = 'amqp') THEN 'relay' ELSE 'nobody' END),
            coalesce(k.lookup_seconds, d.lookup_seconds), coalesce(k.giveup_seconds, d.giveup_seconds),
            coalesce(k.cleanup_seconds, d.cleanup_seconds), coalesce(k.crash_seconds, d.crash_seconds),
            coalesce(k.attempts_max, d.attempts_max), coalesce(k.age_seconds_max, d.age_seconds_max),
            coalesce(k.backoff_seconds_min, d.backoff_seconds_min), coalesce(k.backoff_seconds_max, d.backoff_seconds_max),
            coalesce(k.doublings_max, d.doublings_max), coalesce(k.keeps_record, d.keeps_record),
            coalesce(k.is_unique, d.is_unique))::hookwire.task_kinds
        FROM hookwire.task_kinds d LEFT JOIN hookwire.task_kinds k ON k.kind = of_kind WHERE d.kind = '*');

CREATE TABLE hookwire.task_rows (
    id text COLLATE "C" PRIMARY KEY CHECK (octet_length(id) BETWEEN 1 AND 200),
    tenant text NOT NULL DEFAULT 'default',
    description text NOT NULL CHECK (octet_length(description) <= 1048576),
    start_time timestamptz,                          -- NULL: nobody has begun it
    finish_time timestamptz,                         -- set by workers of the variation that keeps a record; then it is archived
    kind text COLLATE "C" NOT NULL,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    due_at timestamptz,                              -- not to be begun before; NULL: at once
    notify_at timestamptz,                           -- when the cleaner notifies again; NULL: never
    claim bigint,
    worker text,
    lease_until timestamptz,                         -- begun, and taken for crashed after this
    attempts integer NOT NULL DEFAULT 0,
    last_error text
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
        autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 100000);
CREATE INDEX task_rows_waiting ON hookwire.task_rows (kind, seq) WHERE start_time IS NULL AND due_at IS NULL;
CREATE INDEX task_rows_notify ON hookwire.task_rows (notify_at) WHERE start_time IS NULL AND due_at IS NULL AND notify_at IS NOT NULL;
CREATE INDEX task_rows_due ON hookwire.task_rows (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX task_rows_lease ON hookwire.task_rows (lease_until) WHERE start_time IS NOT NULL;
CREATE INDEX task_rows_worker ON hookwire.task_rows (worker) WHERE worker IS NOT NULL;
CREATE INDEX task_rows_finished ON hookwire.task_rows (finish_time) WHERE finish_time IS NOT NULL;

CREATE TABLE hookwire.task_archive (
    id text NOT NULL,
    tenant text NOT NULL DEFAULT 'default',
    kind text NOT NULL,
    description text NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('finished', 'compensated')),
    created_at timestamptz NOT NULL,
    start_time timestamptz,
    finish_time timestamptz NOT NULL,
    attempts integer NOT NULL,
    worker text
);
CREATE INDEX task_archive_age ON hookwire.task_archive (finish_time);

CREATE TABLE hookwire.dead_tasks (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL,
    tenant text NOT NULL DEFAULT 'default',
    kind text COLLATE "C" NOT NULL,
    description text NOT NULL,
    reason text NOT NULL,
    attempts integer NOT NULL,
    worker text,
    created_at timestamptz NOT NULL,
    died_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    told_at timestamptz                              -- the command hook and the e-mail are done
);
CREATE INDEX dead_tasks_untold ON hookwire.dead_tasks (number) WHERE told_at IS NULL;
CREATE INDEX dead_tasks_age ON hookwire.dead_tasks (died_at);

-- Presence (JB-35): a worker that is not seen any more has crashed, long before the crash interval of its tasks.
CREATE TABLE hookwire.task_workers (
    name text PRIMARY KEY,
    kinds text[] NOT NULL,
    slots integer NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    seen_until timestamptz NOT NULL,
    completed bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- Notify of these tasks, as each kind says. It runs in the transaction that makes or frees them; the relay sends after
-- COMMIT. The topic hookwire.tasks takes the bare id to AMQP's default exchange, for the queue task_queue. A relay with
-- AMQP makes that topic at its start. Without such a relay the first notification makes it.
CREATE FUNCTION hookwire.notify_tasks(ids text[], ways text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

-- A row that an application inserts itself has a kind: its own, or its description if that is a word, or `default`.
CREATE FUNCTION hookwire.complete_task() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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
CREATE TRIGGER complete_new BEFORE INSERT ON hookwire.task_rows FOR EACH ROW EXECUTE FUNCTION hookwire.complete_task();
CREATE TRIGGER complete_begun BEFORE UPDATE ON hookwire.task_rows FOR EACH ROW
    WHEN ((OLD.start_time IS NULL) <> (NEW.start_time IS NULL) AND OLD.claim IS NOT DISTINCT FROM NEW.claim)
    EXECUTE FUNCTION hookwire.complete_task();

CREATE FUNCTION hookwire.announce_tasks() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM hookwire.notify_tasks(array_agg(a.id), array_agg((hookwire.task_policy(a.kind)).notify))
    FROM added a WHERE a.start_time IS NULL AND a.due_at IS NULL AND a.notify_at IS NOT NULL;
    RETURN NULL;
END
$$;
CREATE TRIGGER announce AFTER INSERT ON hookwire.task_rows REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION hookwire.announce_tasks();

-- The article's table. Its statements work as they are: INSERT (id, description, start_time), SELECT ... FOR UPDATE, UPDATE
-- of start_time or finish_time, DELETE.
CREATE VIEW hookwire.tasks AS
SELECT id, description, start_time, finish_time, kind, created_at, due_at, attempts, worker, last_error FROM hookwire.task_rows;
GRANT INSERT ON hookwire.tasks TO PUBLIC;

-- Enqueues in the caller's transaction; returns the id. The same kind and arguments are the same task while it is live
-- (JB-20), unless the kind or the call says otherwise.
CREATE FUNCTION hookwire.enqueue(
    kind text, args jsonb DEFAULT '{}', delay_seconds double precision DEFAULT 0, is_unique boolean DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    in_kind CONSTANT text := enqueue.kind;
    unique_now CONSTANT boolean := coalesce(enqueue.is_unique, (hookwire.task_policy(in_kind)).is_unique);
    made uuid;
BEGIN
    IF args IS NULL OR octet_length(args::text) > 1048576 THEN
        RAISE EXCEPTION USING ERRCODE = CASE WHEN args IS NULL THEN '22023' ELSE 'HW003' END,
            MESSAGE = 'hookwire.enqueue: args is JSON of at most 1 MiB';
    END IF;
    IF delay_seconds NOT BETWEEN 0 AND 315360000 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'hookwire.enqueue: delay_seconds is 0 to 315360000';
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

-- --- claim ---

-- One task by its id, from a notification (JB-24): claimed, taken (begun by another worker), waiting (for its retry), absent
-- (its transaction has not committed, or it is done). One of another kind than `kinds` counts as taken. Waits for a rival's claim, which takes milliseconds, at most a second.
CREATE FUNCTION hookwire.claim_task(task_id text, worker text, kinds text[] DEFAULT NULL) RETURNS TABLE (
    outcome text, id text, kind text, description text, claim bigint, attempts integer, created_at timestamptz, lease_until timestamptz
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
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

-- Up to `most` waiting tasks of these kinds, the oldest of each first, without waiting for anybody.
CREATE FUNCTION hookwire.claim_tasks(kinds text[], most integer, worker text) RETURNS TABLE (
    outcome text, id text, kind text, description text, claim bigint, attempts integer, created_at timestamptz, lease_until timestamptz
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    in_worker CONSTANT text := left(claim_tasks.worker, 200);
    picked text[] := '{}';
    one text;
BEGIN
    FOREACH one IN ARRAY coalesce(kinds, ARRAY(SELECT k FROM hookwire.waiting_kinds() AS k)) LOOP
        EXIT WHEN cardinality(picked) >= most;
        picked := picked || ARRAY(
            SELECT t.id FROM hookwire.task_rows t WHERE t.kind = one AND t.start_time IS NULL AND t.due_at IS NULL
            ORDER BY t.seq LIMIT most - cardinality(picked) FOR UPDATE SKIP LOCKED);
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

CREATE FUNCTION hookwire.waiting_kinds() RETURNS SETOF text
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE names AS (
        (SELECT t.kind FROM hookwire.task_rows t WHERE t.start_time IS NULL AND t.due_at IS NULL ORDER BY t.kind LIMIT 1)
        UNION ALL
        SELECT (SELECT t.kind FROM hookwire.task_rows t WHERE t.start_time IS NULL AND t.due_at IS NULL AND t.kind > n.kind ORDER BY t.kind LIMIT 1)
        FROM names n WHERE n.kind IS NOT NULL
    )
    SELECT n.kind FROM names n WHERE n.kind IS NOT NULL
$$;

-- --- settle ---

CREATE FUNCTION hookwire.held_tasks(ids text[], claims bigint[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (SELECT coalesce(array_agg(d.id), '{}')
    FROM (SELECT r.id, r.claim FROM unnest(ids, claims) AS r(id, claim) ORDER BY r.id) AS r
    CROSS JOIN LATERAL (
        SELECT t.id FROM hookwire.task_rows t WHERE t.id BETWEEN r.id AND r.id AND t.claim = r.claim
        ORDER BY t.id LIMIT 1 FOR UPDATE OF t
    ) AS d);
END
$$;

-- Done: the rows leave the table, where the kind keeps a record into the archive (JB-29).
CREATE FUNCTION hookwire.finish_tasks(ids text[], claims bigint[]) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

-- Given back by a worker that leaves; the attempt does not count (JB-09, JB-78).
CREATE FUNCTION hookwire.release_tasks(ids text[], claims bigint[]) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    held CONSTANT text[] := hookwire.held_tasks(ids, claims);
BEGIN
    RETURN QUERY
    UPDATE hookwire.task_rows t SET start_time = NULL, claim = NULL, worker = NULL, lease_until = NULL, attempts = t.attempts - 1
    WHERE t.id = ANY (held) RETURNING t.id;
    PERFORM hookwire.notify_tasks(array_agg(t.id), array_agg((hookwire.task_policy(t.kind)).notify))
    FROM hookwire.task_rows t WHERE t.id = ANY (held);
END
$$;

-- Doubles `doublings_max` times, then grows by the last step, then is flat (App Engine's fields, JB-38).
CREATE FUNCTION hookwire.task_backoff_seconds(attempt integer, policy hookwire.task_kinds) RETURNS double precision
LANGUAGE sql IMMUTABLE
RETURN least(policy.backoff_seconds_max::double precision,
             policy.backoff_seconds_min * power(2::double precision, least(attempt - 1, policy.doublings_max))
             * (1 + greatest(attempt - 1 - policy.doublings_max, 0)));

-- Whether a task that was begun so often and is so old has had all its chances: where both limits are set, both are passed.
CREATE FUNCTION hookwire.task_is_worn(attempts integer, created_at timestamptz, policy hookwire.task_kinds) RETURNS boolean
LANGUAGE sql STABLE
RETURN attempts >= coalesce(policy.attempts_max, 0)
   AND (policy.age_seconds_max IS NULL OR created_at <= clock_timestamp() - make_interval(secs => policy.age_seconds_max));

-- What operators hear, on the topic hookwire.operator, if anybody subscribes to the hub's own topics (WH-I08).
CREATE FUNCTION hookwire.tell_operators(notices jsonb[]) RETURNS void
LANGUAGE plpgsql AS $$
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

-- These tasks are given up: they leave the table, and operators hear of it in the same statement (JB-33).
CREATE FUNCTION hookwire.bury_tasks(ids text[], why text) RETURNS void
LANGUAGE plpgsql AS $$
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

-- A worker says that a task failed: it is tried again after its backoff, or is dead. Returns retry, dead or stale.
CREATE FUNCTION hookwire.fail_task(task_id text, of_claim bigint, why text, dead boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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
    SET start_time = NULL, claim = NULL, worker = NULL, lease_until = NULL, last_error = left(why, 2000),
        due_at = clock_timestamp() + make_interval(secs => hookwire.task_backoff_seconds(found.attempts, policy) * (0.8 + 0.4 * random()))
    WHERE t.id = task_id;
    RETURN 'retry';
END
$$;

-- --- the cleaner ---

-- One crashed task, by the policy of its kind (JB-33); what was done is in the audit trail. Returns what it was.
CREATE FUNCTION hookwire.recover_task(crashed hookwire.task_rows) RETURNS text
LANGUAGE plpgsql AS $$
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
        PERFORM hookwire.enqueue(coalesce(policy.compensation_kind, left(crashed.kind, 189) || '.compensate'),
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

-- How the cleaner notifies of tasks that their enqueuer has notified of: by what there is.
CREATE FUNCTION hookwire.notify_way() RETURNS text
LANGUAGE sql STABLE
RETURN CASE WHEN (SELECT s.configured FROM hookwire.sinks s WHERE s.name = 'amqp') THEN 'relay' ELSE 'notify' END;

-- One bounded pass: what nobody has begun is notified again, with damping (JB-30, JB-31); retries that are due are freed;
-- finished rows are archived; crashed ones recovered. One pass at a time, and harmless if that were not so (JB-34).
CREATE FUNCTION hookwire.clean_tasks(most integer) RETURNS TABLE (
    notified bigint, freed bigint, archived bigint, retried bigint, compensated bigint, abandoned bigint
)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
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

    waiting := ARRAY(SELECT t.id FROM hookwire.task_rows t WHERE t.due_at <= clock_timestamp() ORDER BY t.due_at LIMIT most FOR UPDATE SKIP LOCKED);
    UPDATE hookwire.task_rows t SET due_at = NULL, notify_at = clock_timestamp() WHERE t.id = ANY (waiting) AND t.start_time IS NULL;
    GET DIAGNOSTICS freed = ROW_COUNT;

    waiting := ARRAY(SELECT t.id FROM hookwire.task_rows t
                     WHERE t.start_time IS NULL AND t.due_at IS NULL AND t.notify_at <= clock_timestamp()
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

    lost := ARRAY(SELECT w.name FROM hookwire.task_workers w WHERE w.seen_until <= clock_timestamp() ORDER BY w.seen_until LIMIT 100);
    FOR crashed IN
        (SELECT t.* FROM hookwire.task_rows t
         WHERE t.start_time IS NOT NULL AND t.finish_time IS NULL AND t.lease_until <= clock_timestamp()
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
    WHERE w.name = ANY (lost) AND w.seen_until <= clock_timestamp()
      AND NOT EXISTS (SELECT FROM hookwire.task_rows t WHERE t.worker = w.name);
    RETURN NEXT;
END
$$;

REVOKE EXECUTE ON FUNCTION
    hookwire.claim_task, hookwire.claim_tasks, hookwire.finish_tasks, hookwire.release_tasks, hookwire.fail_task, hookwire.notify_tasks
FROM PUBLIC;
