-- One live task per kind and description, however it came in.

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

-- Its result is a text now: the living task may have been inserted with any id. What roles were granted stays granted.
DO $body$
DECLARE
    rights CONSTANT aclitem[] := (
        SELECT p.proacl FROM pg_proc p
        WHERE p.oid = 'hookwire.enqueue_task(text, jsonb, double precision, boolean)'::regprocedure);
    item record;
BEGIN
    DROP FUNCTION hookwire.enqueue_task(text, jsonb, double precision, boolean);
    EXECUTE $create$
CREATE FUNCTION hookwire.enqueue_task(kind text, args jsonb DEFAULT '{}'::jsonb, delay_seconds double precision DEFAULT 0, is_unique boolean DEFAULT NULL::boolean)
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
    $create$;
    IF rights IS NOT NULL THEN
        REVOKE EXECUTE ON FUNCTION hookwire.enqueue_task FROM PUBLIC;
        FOR item IN
            SELECT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS role,
                   CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END AS option
            FROM aclexplode(rights) a
        LOOP
            EXECUTE 'GRANT EXECUTE ON FUNCTION hookwire.enqueue_task TO ' || item.role || item.option;
        END LOOP;
    END IF;
END
$body$;
COMMENT ON FUNCTION hookwire.enqueue_task IS
'Enqueue a task in the caller''s transaction. Return its id. The same kind and arguments are the same task while it is
live, unless the kind or the call says otherwise: then the id of the living one is returned.';
