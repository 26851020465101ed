-- Bound every time and duration that a caller gives. Times are in the years 1 to 9999, as most programs can hold them.
-- Durations are bounded as the functions beside them. `infinity` and `-infinity` are refused, but for internal columns.
CREATE FUNCTION hookwire.is_bounded_time(moment timestamp with time zone) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN moment >= '0001-01-01 00:00:00+00'::timestamptz AND moment <= '9999-12-31 23:59:59.999999+00'::timestamptz;
REVOKE EXECUTE ON FUNCTION hookwire.is_bounded_time(timestamptz) FROM PUBLIC;

CREATE FUNCTION hookwire.bounded_time(moment timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN moment IS NOT NULL THEN
        greatest(least(moment, '9999-12-31 23:59:59.999999+00'::timestamptz), '0001-01-01 00:00:00+00'::timestamptz) END;
REVOKE EXECUTE ON FUNCTION hookwire.bounded_time(timestamptz) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.job_due(draft jsonb, moment timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE plpgsql STABLE
    AS $$
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
$$;

CREATE OR REPLACE FUNCTION hookwire.delay_job(id uuid, actor text, due_at timestamp with time zone DEFAULT NULL::timestamp with time zone, due_local timestamp without time zone DEFAULT NULL::timestamp without time zone, due_zone text DEFAULT NULL::text, to_pool boolean DEFAULT false, why text DEFAULT NULL::text) RETURNS void
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
$$;

CREATE OR REPLACE FUNCTION hookwire.assign_job(id uuid, assignee text, actor text, due_at timestamp with time zone DEFAULT NULL::timestamp with time zone, on_due text DEFAULT NULL::text, why text DEFAULT NULL::text) RETURNS void
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
$$;

CREATE OR REPLACE FUNCTION hookwire.cancel_job(id uuid, actor text, why text DEFAULT NULL::text, grace_seconds double precision DEFAULT 30) RETURNS text
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
$$;

CREATE OR REPLACE FUNCTION hookwire.release_request(id uuid, claim bigint, delay_seconds double precision, why text DEFAULT NULL::text) RETURNS text
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
    IF delay_seconds NOT BETWEEN 0 AND 31536000 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'delay_seconds is 0 to 31536000';
    END IF;
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

CREATE OR REPLACE FUNCTION hookwire.extend_requests(ids uuid[], claims bigint[], lease_seconds double precision) RETURNS TABLE(id uuid, claim bigint)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
BEGIN
    IF lease_seconds NOT BETWEEN 0.05 AND 43200 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'lease_seconds is 0.05 to 43200';
    END IF;
    PERFORM FROM hookwire.requests r WHERE r.id = ANY (ids) ORDER BY r.id FOR UPDATE;
    FOR n IN 1 .. cardinality(ids) LOOP
        RETURN QUERY
        UPDATE hookwire.requests r SET state = 'leased', deadline_at = clock_timestamp() + make_interval(secs => lease_seconds)
        WHERE r.id = ids[n] AND r.claim = claims[n] AND r.state IN ('waiting', 'leased')
        RETURNING r.id, r.claim;
    END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION hookwire.request_by(service text, body bytea, content_type text, via text, caller text, client text, number text, expiry_seconds double precision) RETURNS TABLE(id uuid, repeated boolean)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    parsed record;
BEGIN
    IF expiry_seconds NOT BETWEEN 0.05 AND 31536000 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'expiry_seconds is 0.05 to 31536000';
    END IF;
    PERFORM hookwire.check_service_name(request_by.service), hookwire.check_contents(ARRAY[request_by.body], ARRAY[request_by.content_type]);
    parsed := hookwire.parse_frames(request_by.content_type, request_by.body);
    RETURN QUERY
    SELECT s.id, s.repeated
    FROM hookwire.store_requests(
        ARRAY[request_by.service], ARRAY[parsed.body], request_by.via, ARRAY[parsed.content_type], ARRAY[parsed.frame_bytes::text],
        ARRAY[request_by.caller], ARRAY[request_by.client], ARRAY[request_by.number], ARRAY[request_by.expiry_seconds]) AS s;
END
$$;

CREATE OR REPLACE FUNCTION hookwire.take_copies(queue text, name text, count integer, lease_seconds double precision, filter jsonb, bytes_max bigint DEFAULT hookwire.answer_bytes_max()) RETURNS TABLE(id bigint, claim bigint, deliveries integer, lease_until timestamp with time zone, created_at timestamp with time zone, content_type text, headers jsonb, payload bytea, type text, key text, priority smallint)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    in_queue CONSTANT text := take_copies.queue;
    in_name CONSTANT text := take_copies.name;
    most CONSTANT integer := take_copies.count;
    until CONSTANT timestamptz := clock_timestamp() + make_interval(secs => greatest(0, least(coalesce(lease_seconds, 30), 43200)));
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

CREATE OR REPLACE FUNCTION hookwire.register_consumer(queue text, name text, since timestamp with time zone DEFAULT 'infinity'::timestamp with time zone) RETURNS boolean
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
    IF NOT (isfinite(register_consumer.since) IS NOT TRUE OR hookwire.is_bounded_time(register_consumer.since)) THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'since is in the years 1 to 9999, or infinity, or -infinity';
    END IF;
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

CREATE OR REPLACE FUNCTION hookwire.complete_task() RETURNS trigger
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
$$;

UPDATE hookwire.task_rows t SET start_time = hookwire.bounded_time(t.start_time), finish_time = hookwire.bounded_time(t.finish_time), created_at = hookwire.bounded_time(t.created_at), due_at = hookwire.bounded_time(t.due_at), notify_at = hookwire.bounded_time(t.notify_at), lease_until = hookwire.bounded_time(t.lease_until)
WHERE NOT (coalesce(hookwire.is_bounded_time(t.start_time), true) AND coalesce(hookwire.is_bounded_time(t.finish_time), true) AND coalesce(hookwire.is_bounded_time(t.created_at), true) AND coalesce(hookwire.is_bounded_time(t.due_at), true) AND coalesce(hookwire.is_bounded_time(t.notify_at), true) AND coalesce(hookwire.is_bounded_time(t.lease_until), true));
UPDATE hookwire.task_archive t SET created_at = hookwire.bounded_time(t.created_at), start_time = hookwire.bounded_time(t.start_time), finish_time = hookwire.bounded_time(t.finish_time)
WHERE NOT (coalesce(hookwire.is_bounded_time(t.created_at), true) AND coalesce(hookwire.is_bounded_time(t.start_time), true) AND coalesce(hookwire.is_bounded_time(t.finish_time), true));
UPDATE hookwire.dead_tasks t SET created_at = hookwire.bounded_time(t.created_at)
WHERE NOT (coalesce(hookwire.is_bounded_time(t.created_at), true));
UPDATE hookwire.jobs t SET due_at = hookwire.bounded_time(t.due_at), rank_at = hookwire.bounded_time(t.rank_at)
WHERE NOT (coalesce(hookwire.is_bounded_time(t.due_at), true) AND coalesce(hookwire.is_bounded_time(t.rank_at), true));
DROP FUNCTION hookwire.bounded_time(timestamptz);  -- only rows of before needed it

-- Without the function above: whoever inserts a row would need the right to call them.
ALTER TABLE hookwire.task_rows ADD CONSTRAINT task_times_are_in_the_years_1_to_9999 CHECK (
    least(start_time, finish_time, created_at, due_at, notify_at, lease_until) >= '0001-01-01 00:00:00+00'
    AND greatest(start_time, finish_time, created_at, due_at, notify_at, lease_until) <= '9999-12-31 23:59:59.999999+00');
