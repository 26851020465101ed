-- Claims are bounded by bytes: content that does not fit is not leased, and comes with the next claim (ADR 66). The first
-- item always fits, and the last one may cross the limit. Functions with a known signature keep it.

CREATE FUNCTION hookwire.answer_bytes_max() RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN 8388608;

-- Return how many of these jobs, in this order, fit, and the bytes of their contents. JSON has to be read to be measured, so
-- nothing is read behind the limit.
CREATE FUNCTION hookwire.jobs_within(ids uuid[], bytes_max bigint, OUT count integer, OUT bytes bigint)
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

DROP FUNCTION hookwire.pick_limited_jobs(hookwire.job_kinds, text, integer);

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

CREATE OR REPLACE FUNCTION hookwire.claim_jobs(kinds text[], most integer, worker text, lease_seconds double precision DEFAULT NULL::double precision, queue text DEFAULT 'default'::text) RETURNS TABLE(id uuid, claim bigint, attempts integer, lease_until timestamp with time zone, run_until timestamp with time zone, kind text, args jsonb, key text, attempts_max integer, created_at timestamp with time zone, resumed jsonb)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    RETURN QUERY SELECT * FROM hookwire.take_jobs(claim_jobs.kinds, claim_jobs.most, claim_jobs.worker, claim_jobs.lease_seconds, claim_jobs.queue);
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

CREATE OR REPLACE FUNCTION hookwire.receive(queue text, count integer DEFAULT 1, lease_seconds double precision DEFAULT NULL::double precision, filter jsonb DEFAULT NULL::jsonb, receiver text DEFAULT NULL::text, after_id bigint DEFAULT 0) RETURNS TABLE(id bigint, claim bigint, deliveries integer, lease_until timestamp with time zone, created_at timestamp with time zone, content_type text, headers jsonb, payload bytea, type text, key text, priority smallint)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    RETURN QUERY SELECT * FROM hookwire.take_messages(receive.queue, receive.count, receive.lease_seconds, receive.filter, receive.receiver, receive.after_id);
END
$$;

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

CREATE OR REPLACE FUNCTION hookwire.receive_copies(queue text, name text, count integer DEFAULT 1, lease_seconds double precision DEFAULT 30, filter jsonb DEFAULT NULL::jsonb) RETURNS TABLE(id bigint, claim bigint, deliveries integer, lease_until timestamp with time zone, created_at timestamp with time zone, content_type text, headers jsonb, payload bytea, type text, key text, priority smallint)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    RETURN QUERY SELECT * FROM hookwire.take_copies(receive_copies.queue, receive_copies.name, receive_copies.count, receive_copies.lease_seconds, receive_copies.filter);
END
$$;

DROP FUNCTION hookwire.lease_requests(text, integer, double precision, text, double precision);

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

CREATE OR REPLACE FUNCTION hookwire.claim_tasks(kinds text[], most integer, worker text) RETURNS TABLE(outcome text, id text, kind text, description text, claim bigint, attempts integer, created_at timestamp with time zone, lease_until timestamp with time zone)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
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

REVOKE EXECUTE ON FUNCTION
    hookwire.answer_bytes_max(), hookwire.jobs_within(uuid[], bigint),
    hookwire.pick_limited_jobs(hookwire.job_kinds, text, integer, bigint),
    hookwire.take_jobs(text[], integer, text, double precision, text, bigint),
    hookwire.take_messages(text, integer, double precision, jsonb, text, bigint, bigint),
    hookwire.take_copies(text, text, integer, double precision, jsonb, bigint),
    hookwire.lease_requests(text, integer, double precision, text, double precision, bigint)
FROM PUBLIC;

-- The functions that were made anew since migration 0016 need its settings, too.
DO $$
DECLARE
    signature regprocedure;
BEGIN
    FOR signature IN SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'hookwire'::regnamespace AND p.prosecdef LOOP
        EXECUTE format('ALTER FUNCTION %s SET enable_seqscan TO off', signature);
        EXECUTE format('ALTER FUNCTION %s SET plan_cache_mode TO force_generic_plan', signature);
        EXECUTE format('ALTER FUNCTION %s SET jit TO off', signature);
    END LOOP;
END
$$;
