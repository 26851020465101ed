-- SQL functions as all migrations together make them. Written by `make schema`, never by hand.

CREATE OR REPLACE FUNCTION hookwire.announce_tasks()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
BEGIN
    PERFORM hookwire.notify_tasks(array_agg(a.id), array_agg((hookwire.task_policy(a.kind)).notify))
    FROM added a WHERE a.start_time IS NULL AND a.due_at IS NULL AND a.notify_at IS NOT NULL;
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION hookwire.announce_tasks() IS
'Notify of tasks that were inserted, if they are due.';
REVOKE EXECUTE ON FUNCTION hookwire.announce_tasks() FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.bury_tasks(ids text[], why text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
    notices jsonb[];
BEGIN
    WITH gone AS (
        DELETE FROM hookwire.task_rows t WHERE t.id = ANY (ids) RETURNING t.*
    ), buried AS (
        INSERT INTO hookwire.dead_tasks (id, kind, description, reason, attempts, worker, created_at, is_unique)
        SELECT g.id, g.kind, g.description, left(why, 2000), g.attempts, g.worker, g.created_at, g.is_unique FROM gone g RETURNING *
    )
    SELECT array_agg(jsonb_build_object(
        'type', 'task.dead', 'about', jsonb_build_object('kind', 'task', 'id', b.id), 'task_kind', b.kind,
        'reason', b.reason, 'attempts', b.attempts)) INTO notices FROM buried b;
    PERFORM hookwire.tell_operators(notices);
END
$function$;
COMMENT ON FUNCTION hookwire.bury_tasks(text[],text) IS
'Give up these tasks: they leave the table, and operators are notified in the same statement.';
REVOKE EXECUTE ON FUNCTION hookwire.bury_tasks(text[],text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.claim_task(task_id text, worker text, kinds text[] DEFAULT NULL::text[])
 RETURNS TABLE(outcome text, id text, kind text, description text, claim bigint, attempts integer, created_at timestamp with time zone, lease_until timestamp with time zone)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET lock_timeout TO '1s'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
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
$function$;
COMMENT ON FUNCTION hookwire.claim_task(text,text,text[]) IS
'Claim a task by its id, from a notification. The outcome is one of these:
  claimed    by this call
  taken      begun by another worker, or of another kind than `kinds`
  waiting    for its retry
  absent     its transaction has not committed, or it is done

Another claim takes milliseconds; the call waits for it, at most a second.';
REVOKE EXECUTE ON FUNCTION hookwire.claim_task(text,text,text[]) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.claim_tasks(kinds text[], most integer, worker text)
 RETURNS TABLE(outcome text, id text, kind text, description text, claim bigint, attempts integer, created_at timestamp with time zone, lease_until timestamp with time zone)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
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
$function$;
COMMENT ON FUNCTION hookwire.claim_tasks(text[],integer,text) IS
'Claim up to `most` waiting tasks of these kinds, the oldest of each first. Rows that another claim locks are skipped.';
REVOKE EXECUTE ON FUNCTION hookwire.claim_tasks(text[],integer,text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.clean_tasks(most integer)
 RETURNS TABLE(notified bigint, freed bigint, archived bigint, retried bigint, compensated bigint, abandoned bigint)
 LANGUAGE plpgsql
AS $function$
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
$function$;
COMMENT ON FUNCTION hookwire.clean_tasks(integer) IS
'Make one bounded pass. Tasks that no worker has begun are notified again, with damping. Retries that are due are
freed, finished rows are archived, and crashed tasks are recovered. One pass runs at a time; two would do no harm.';
REVOKE EXECUTE ON FUNCTION hookwire.clean_tasks(integer) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.complete_task()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
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
        NEW.id := coalesce(NEW.id, gen_random_uuid()::text);
        NEW.is_unique := coalesce(NEW.is_unique, policy.is_unique);
        -- The first message may merely be queued: nothing is notified again before two intervals are over.
        NEW.notify_at := CASE WHEN policy.notify <> 'nobody' THEN clock_timestamp() + make_interval(secs => 2 * policy.cleanup_seconds) END;
        IF NEW.start_time IS NOT NULL THEN           -- an application has begun it already: it crashes like any other
            NEW.claim := coalesce(NEW.claim, nextval('hookwire.lease_fence'));
            NEW.attempts := greatest(NEW.attempts, 1);
            NEW.lease_until := coalesce(NEW.lease_until, clock_timestamp() + make_interval(secs => policy.crash_seconds));
        END IF;
    ELSIF NEW.start_time IS NULL THEN                -- an application gives it back
        NEW.claim := NULL; NEW.worker := NULL; NEW.lease_until := NULL;
    ELSE                                             -- an application begins it, by the article's UPDATE
        NEW.claim := nextval('hookwire.lease_fence');
        NEW.attempts := OLD.attempts + 1;
        NEW.lease_until := clock_timestamp() + make_interval(secs => (hookwire.task_policy(NEW.kind)).crash_seconds);
    END IF;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION hookwire.complete_task() IS
'Complete a row that an application inserts itself. Its kind is that of the row, or its description if that is a word,
or `default`. An id that is left out is made.';
REVOKE EXECUTE ON FUNCTION hookwire.complete_task() FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.enqueue_task(kind text, args jsonb DEFAULT '{}'::jsonb, delay_seconds double precision DEFAULT 0, is_unique boolean DEFAULT NULL::boolean)
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
    in_kind CONSTANT text := enqueue_task.kind;
    unique_now CONSTANT boolean := coalesce(enqueue_task.is_unique, (hookwire.task_policy(in_kind)).is_unique);
    made text;
    living text;
BEGIN
    IF args IS NULL OR octet_length(args::text) > 1048576 THEN
        RAISE EXCEPTION USING ERRCODE = CASE WHEN args IS NULL THEN '22023' ELSE 'HW003' END,
            MESSAGE = 'hookwire.enqueue_task: args is JSON of at most 1 MiB';
    END IF;
    IF delay_seconds NOT BETWEEN 0 AND 315360000 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'hookwire.enqueue_task: delay_seconds is 0 to 315360000';
    END IF;
    made := CASE WHEN unique_now
                 THEN encode(substring(sha256(convert_to(in_kind || E'\n' || args::text, 'UTF8')) FOR 16), 'hex')::uuid::text
                 ELSE gen_random_uuid()::text END;
    LOOP
        INSERT INTO hookwire.task_rows (id, description, kind, due_at, is_unique)
        VALUES (made, args::text, in_kind, CASE WHEN delay_seconds > 0 THEN clock_timestamp() + make_interval(secs => delay_seconds) END,
                unique_now)
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN made;
        END IF;
        -- The same task lives under another id, or under this one since before tasks were marked.
        SELECT t.id INTO living FROM hookwire.task_rows t
        WHERE t.kind = in_kind AND sha256(replace(t.description, '\', '\\')::bytea) = sha256(convert_to(args::text, 'UTF8'))
          AND t.is_unique AND t.finish_time IS NULL;
        IF NOT FOUND THEN
            SELECT t.id INTO living FROM hookwire.task_rows t WHERE t.id = made AND t.finish_time IS NULL;
        END IF;
        IF FOUND THEN
            RETURN living;
        END IF;
        made := gen_random_uuid()::text; -- it has ended meanwhile, and waits for the archive
    END LOOP;
END
$function$;
COMMENT ON FUNCTION hookwire.enqueue_task(text,jsonb,double precision,boolean) IS
'Enqueue a task in the caller''s transaction. Return its id. The same kind and arguments are the same task while it is
live, unless the kind or the call says otherwise: then the id of the living one is returned.';

CREATE OR REPLACE FUNCTION hookwire.fail_task(task_id text, of_claim bigint, why text, dead boolean DEFAULT false)
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
$function$;
COMMENT ON FUNCTION hookwire.fail_task(text,bigint,text,boolean) IS
'Record that a task failed: it is tried again after its backoff, or is dead. Return retry, dead or stale.';
REVOKE EXECUTE ON FUNCTION hookwire.fail_task(text,bigint,text,boolean) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.finish_tasks(ids text[], claims bigint[])
 RETURNS SETOF text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
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
$function$;
COMMENT ON FUNCTION hookwire.finish_tasks(text[],bigint[]) IS
'Finish tasks: the rows leave the table. They go into the archive if their kind keeps a record.';
REVOKE EXECUTE ON FUNCTION hookwire.finish_tasks(text[],bigint[]) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.held_tasks(ids text[], claims bigint[])
 RETURNS text[]
 LANGUAGE plpgsql
AS $function$
BEGIN
    RETURN (SELECT coalesce(array_agg(d.id), '{}')
    FROM (SELECT r.id, r.claim FROM unnest(ids, claims) AS r(id, claim) ORDER BY r.id) AS r
    CROSS JOIN LATERAL (
        SELECT t.id FROM hookwire.task_rows t WHERE t.id BETWEEN r.id AND r.id AND t.claim = r.claim
        ORDER BY t.id LIMIT 1 FOR UPDATE OF t
    ) AS d);
END
$function$;
COMMENT ON FUNCTION hookwire.held_tasks(text[],bigint[]) IS
'Lock those of these (id, claim) pairs that the claim still holds.';
REVOKE EXECUTE ON FUNCTION hookwire.held_tasks(text[],bigint[]) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.notify_tasks(ids text[], ways text[])
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
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
$function$;
COMMENT ON FUNCTION hookwire.notify_tasks(text[],text[]) IS
'Notify of these tasks, as each kind says. It runs in the transaction that makes or frees them; the relay sends after
COMMIT. The topic hookwire.tasks takes the bare id to AMQP''s default exchange, for the queue task_queue. A relay with
AMQP makes that topic at its start. Without such a relay the first notification makes it.';
REVOKE EXECUTE ON FUNCTION hookwire.notify_tasks(text[],text[]) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.notify_way()
 RETURNS text
 LANGUAGE sql
 STABLE
RETURN CASE WHEN (SELECT s.configured FROM hookwire.sinks s WHERE (s.name = 'amqp'::text)) THEN 'relay'::text ELSE 'notify'::text END;
COMMENT ON FUNCTION hookwire.notify_way() IS
'Return how the cleaner notifies of tasks whose enqueuer notifies: by the relay where AMQP is configured, else by
NOTIFY.';
REVOKE EXECUTE ON FUNCTION hookwire.notify_way() FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.recover_task(crashed hookwire.task_rows)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
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
$function$;
COMMENT ON FUNCTION hookwire.recover_task(hookwire.task_rows) IS
'Recover one crashed task by the policy of its kind. Return the action, which is also in the audit trail.';
REVOKE EXECUTE ON FUNCTION hookwire.recover_task(hookwire.task_rows) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.release_tasks(ids text[], claims bigint[], reason text DEFAULT NULL::text)
 RETURNS SETOF text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
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
$function$;
COMMENT ON FUNCTION hookwire.release_tasks(text[],bigint[],text) IS
'Give back tasks that their claims still hold, without the cost of an attempt. Return their ids. A release counts,
unless its reason is ''stop''; beyond `releases_max` in a row the attempt fails.';
REVOKE EXECUTE ON FUNCTION hookwire.release_tasks(text[],bigint[],text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.task_backoff_seconds(attempt integer, policy hookwire.task_kinds)
 RETURNS double precision
 LANGUAGE sql
 IMMUTABLE
RETURN LEAST(((policy).backoff_seconds_max)::double precision, (((policy).backoff_seconds_min * power((2)::double precision, (LEAST((attempt - 1), (policy).doublings_max))::double precision)) * ((1 + GREATEST(((attempt - 1) - (policy).doublings_max), 0)))::double precision));
COMMENT ON FUNCTION hookwire.task_backoff_seconds(integer,hookwire.task_kinds) IS
'Return the backoff. It doubles `doublings_max` times, then grows by the last step, then is flat (App Engine''s
fields).';
REVOKE EXECUTE ON FUNCTION hookwire.task_backoff_seconds(integer,hookwire.task_kinds) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.task_is_worn(attempts integer, created_at timestamp with time zone, policy hookwire.task_kinds)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN ((attempts >= COALESCE((policy).attempts_max, 0)) AND (((policy).age_seconds_max IS NULL) OR (created_at <= (clock_timestamp() - make_interval(secs => ((policy).age_seconds_max)::double precision)))));
COMMENT ON FUNCTION hookwire.task_is_worn(integer,timestamp with time zone,hookwire.task_kinds) IS
'Return whether a task is given up after so many attempts at this age. Where both limits are set, both have to be
passed.';
REVOKE EXECUTE ON FUNCTION hookwire.task_is_worn(integer,timestamp with time zone,hookwire.task_kinds) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.task_policy(of_kind text)
 RETURNS hookwire.task_kinds
 LANGUAGE sql
 STABLE
RETURN (SELECT ROW(task_policy.of_kind, COALESCE(k.on_crash, d.on_crash), COALESCE(k.compensation_kind, d.compensation_kind), COALESCE(k.notify, d.notify, CASE WHEN (SELECT s.configured FROM hookwire.sinks s WHERE (s.name = 'amqp'::text)) THEN 'relay'::text ELSE 'nobody'::text END), COALESCE(k.lookup_seconds, d.lookup_seconds), COALESCE(k.giveup_seconds, d.giveup_seconds), COALESCE(k.cleanup_seconds, d.cleanup_seconds), COALESCE(k.crash_seconds, d.crash_seconds), COALESCE(k.attempts_max, d.attempts_max), COALESCE(k.age_seconds_max, d.age_seconds_max), COALESCE(k.backoff_seconds_min, d.backoff_seconds_min), COALESCE(k.backoff_seconds_max, d.backoff_seconds_max), COALESCE(k.doublings_max, d.doublings_max), COALESCE(k.keeps_record, d.keeps_record), COALESCE(k.is_unique, d.is_unique))::hookwire.task_kinds AS "row" FROM (hookwire.task_kinds d LEFT JOIN hookwire.task_kinds k ON ((k.kind = task_policy.of_kind))) WHERE (d.kind = '*'::text));
COMMENT ON FUNCTION hookwire.task_policy(text) IS
'Return the settings of a kind of task. A kind without a row has those of the kind `*`.';
REVOKE EXECUTE ON FUNCTION hookwire.task_policy(text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.waiting_kinds()
 RETURNS SETOF text
 LANGUAGE sql
 STABLE
AS $function$
    WITH RECURSIVE names AS (
        (SELECT t.kind FROM hookwire.task_rows t WHERE t.start_time IS NULL AND t.due_at IS NULL ORDER BY t.kind LIMIT 1)
        UNION ALL
        SELECT (SELECT t.kind FROM hookwire.task_rows t WHERE t.start_time IS NULL AND t.due_at IS NULL AND t.kind > n.kind ORDER BY t.kind LIMIT 1)
        FROM names n WHERE n.kind IS NOT NULL
    )
    SELECT n.kind FROM names n WHERE n.kind IS NOT NULL
$function$;
COMMENT ON FUNCTION hookwire.waiting_kinds() IS
'Return the kinds that have waiting tasks, by steps through the index.';
REVOKE EXECUTE ON FUNCTION hookwire.waiting_kinds() FROM PUBLIC;
