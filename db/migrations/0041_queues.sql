-- Message queues (JB-01..JB-19) on the lease core that messages, tasks and jobs share (JB-60..JB-64).
--
-- A lease is a fence drawn from one sequence, stored in the row that it protects. A statement that settles names the fence,
-- and changes nothing once another receiver has drawn a newer one. The attempt is counted when the row is claimed. The
-- reaper alone ends leases, so that a claim reads one index of rows that are free (docs/adr/0036-the-reaper-ends-leases.md).
CREATE SEQUENCE hookwire.lease_fence AS bigint CACHE 1;
CREATE SEQUENCE hookwire.message_id AS bigint CACHE 1;

ALTER TABLE hookwire.installation ADD COLUMN queues_auto_create boolean NOT NULL DEFAULT true;

-- A queue is a row of settings. Messages name their queue, and need no row: a submission inside a foreign transaction must
-- not lock what every other submitter needs (RR-04). The hub adds missing rows.
CREATE TABLE hookwire.queues (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text NOT NULL DEFAULT 'default',
    name text COLLATE "C" NOT NULL UNIQUE,
    moves boolean NOT NULL DEFAULT true,             -- receivers compete, each message goes to one of them
    copies boolean NOT NULL DEFAULT false,           -- each named consumer reads every message
    history boolean NOT NULL DEFAULT false,          -- accepted messages are archived
    lease_seconds real NOT NULL DEFAULT 30 CHECK (lease_seconds BETWEEN 0.05 AND 43200),
    deliveries_max integer NOT NULL DEFAULT 5 CHECK (deliveries_max BETWEEN 1 AND 1000),
    retention_days integer NOT NULL DEFAULT 14 CHECK (retention_days BETWEEN 1 AND 3660), -- archive, copies, dead letters
    paused boolean NOT NULL DEFAULT false,
    owner text,                                      -- of a temporary queue, tmp.*: removed by its owner or at expires_at
    expires_at timestamptz,                          -- put off by every receive
    lifetime_seconds integer CHECK ((lifetime_seconds IS NULL) = (expires_at IS NULL)),
    graduated boolean NOT NULL DEFAULT false,        -- its messages lie in a table of their own, messages_<id>
    created_at timestamptz NOT NULL DEFAULT now(),
    CHECK (moves OR copies)
);
CREATE INDEX queues_expire ON hookwire.queues (expires_at) WHERE expires_at IS NOT NULL;

-- Live messages only: accepted and dead ones leave the table in the statement that settles them (JS-01).
CREATE TABLE hookwire.messages (
    id bigint NOT NULL PRIMARY KEY,
    tenant text NOT NULL DEFAULT 'default',
    queue text COLLATE "C" NOT NULL,
    claim bigint,                                    -- the fence of the receiver that holds it; NULL: available or delayed
    due_at timestamptz,                              -- delayed until then; NULL: not delayed
    lease_until timestamptz,
    claimed_at timestamptz,
    created_at timestamptz NOT NULL,
    deliveries integer NOT NULL DEFAULT 0,
    priority smallint NOT NULL DEFAULT 0,
    receiver text,
    type text COLLATE "C",
    key text COLLATE "C",
    content_type text,
    headers jsonb NOT NULL DEFAULT '{}',
    payload bytea NOT NULL,
    last_reason text
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
        autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 100000);
CREATE INDEX messages_available ON hookwire.messages (queue, id) WHERE claim IS NULL AND due_at IS NULL;
CREATE INDEX messages_type ON hookwire.messages (queue, type, id) WHERE claim IS NULL AND due_at IS NULL AND type IS NOT NULL;
CREATE INDEX messages_key ON hookwire.messages (queue, key, id) WHERE claim IS NULL AND due_at IS NULL AND key IS NOT NULL;
CREATE INDEX messages_leased ON hookwire.messages (lease_until) WHERE claim IS NOT NULL;
CREATE INDEX messages_delayed ON hookwire.messages (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE hookwire.message_archive (
    id bigint NOT NULL,
    tenant text NOT NULL DEFAULT 'default',
    queue text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    claimed_at timestamptz NOT NULL,
    accepted_at timestamptz NOT NULL,
    deliveries integer NOT NULL,
    priority smallint NOT NULL,
    receiver text,
    type text,
    key text,
    content_type text,
    headers jsonb NOT NULL,
    payload bytea NOT NULL
);
CREATE INDEX message_archive_age ON hookwire.message_archive (queue, accepted_at);

CREATE TABLE hookwire.dead_messages (
    id bigint NOT NULL PRIMARY KEY,
    tenant text NOT NULL DEFAULT 'default',
    queue text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    died_at timestamptz NOT NULL,
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
CREATE INDEX dead_messages_queue ON hookwire.dead_messages (queue, id);
CREATE INDEX dead_messages_age ON hookwire.dead_messages (queue, died_at);

-- Copies (JB-14, JB-15): an append-only log that move consumers never touch. A consumer's position is (xid, id). Ids are
-- drawn before COMMIT, so it reads only below the oldest transaction that is still running: nothing can appear there.
CREATE TABLE hookwire.message_log (
    tenant text NOT NULL DEFAULT 'default',
    queue text COLLATE "C" NOT NULL,
    xid xid8 NOT NULL,
    id bigint NOT NULL,
    created_at timestamptz NOT NULL,
    priority smallint NOT NULL,
    type text,
    key text,
    content_type text,
    headers jsonb NOT NULL,
    payload bytea NOT NULL,
    PRIMARY KEY (queue, xid, id)
);
CREATE INDEX message_log_age ON hookwire.message_log (queue, created_at);

CREATE TABLE hookwire.consumers (
    tenant text NOT NULL DEFAULT 'default',
    queue text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    xid xid8 NOT NULL,
    id bigint NOT NULL,                              -- accepted up to here
    after_id bigint NOT NULL,                        -- of the messages before its registration it wants those above this id
    since timestamptz NOT NULL,                      -- and those from this moment on
    claim bigint,
    lease_until timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (queue, name)
);

-- --- rules that every way in shares ---

CREATE FUNCTION hookwire.is_queue_name(name text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN coalesce(octet_length(name) <= 200 AND name ~ '^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$', false);

CREATE FUNCTION hookwire.check_queue_name(name text) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF NOT hookwire.is_queue_name(name) THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('invalid queue %L: 1-200 of A-Z a-z 0-9 . _ - in dot-separated words', left(name, 80));
    END IF;
END
$$;

-- The settings of a queue. One without a row has the defaults, unless queues are not made by their first use (42704).
CREATE FUNCTION hookwire.queue_settings(name text) RETURNS hookwire.queues
LANGUAGE plpgsql STABLE AS $$
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

CREATE FUNCTION hookwire.check_messages(payloads bytea[], content_types text[], headers jsonb[], types text[], keys text[]) RETURNS void
LANGUAGE plpgsql STABLE AS $$
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
$$;

-- --- submit ---

-- Several messages in one statement, in the caller's transaction; their ids in the order of the payloads (JB-02). NULL for
-- an array stands for its default in each place. The shared lock lets `register_consumer` wait for open submissions.
CREATE FUNCTION hookwire.submit_batch(
    queue text, payloads bytea[], content_types text[] DEFAULT NULL, headers jsonb[] DEFAULT NULL, types text[] DEFAULT NULL,
    keys text[] DEFAULT NULL, priorities integer[] DEFAULT NULL, delays_seconds double precision[] DEFAULT NULL
) RETURNS SETOF bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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
$$;

CREATE FUNCTION hookwire.submit(
    queue text, payload bytea, content_type text DEFAULT NULL, headers jsonb DEFAULT '{}', type text DEFAULT NULL,
    key text DEFAULT NULL, priority integer DEFAULT 0, delay_seconds double precision DEFAULT 0
) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN (SELECT hookwire.submit_batch(queue, ARRAY[payload], ARRAY[content_type], ARRAY[headers], ARRAY[type], ARRAY[key],
                                     ARRAY[priority], ARRAY[delay_seconds]));

CREATE FUNCTION hookwire.submit(
    queue text, payload text, content_type text DEFAULT 'text/plain; charset=utf-8', headers jsonb DEFAULT '{}',
    type text DEFAULT NULL, key text DEFAULT NULL, priority integer DEFAULT 0, delay_seconds double precision DEFAULT 0
) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN hookwire.submit(queue, convert_to(payload, 'UTF8'), content_type, headers, type, key, priority, delay_seconds);

CREATE FUNCTION hookwire.submit(
    queue text, payload jsonb, content_type text DEFAULT 'application/json', headers jsonb DEFAULT '{}',
    type text DEFAULT NULL, key text DEFAULT NULL, priority integer DEFAULT 0, delay_seconds double precision DEFAULT 0
) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN hookwire.submit(queue, convert_to(payload::text, 'UTF8'), content_type, headers, type, key, priority, delay_seconds);

-- --- receive ---

-- What a receiver may ask for (JB-17), as data: {"type", "key", "headers": {...}, "priority_min", "age_seconds_min"}.
CREATE FUNCTION hookwire.check_filter(filter jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
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

-- Claims up to `count` available messages in the order of their ids, under one fresh fence. `after_id` bounds where the
-- index is read from: a receiver that remembers it does not walk over what others have taken while an old snapshot keeps
-- dead entries (JS-02). It must ask from 0 again and again, because lower ids may still be committed or returned.
CREATE FUNCTION hookwire.receive(
    queue text, count integer DEFAULT 1, lease_seconds double precision DEFAULT NULL, filter jsonb DEFAULT NULL,
    receiver text DEFAULT NULL, after_id bigint DEFAULT 0
) RETURNS TABLE (
    id bigint, claim bigint, deliveries integer, lease_until timestamptz, created_at timestamptz, content_type text,
    headers jsonb, payload bytea, type text, key text, priority smallint
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    in_queue CONSTANT text := receive.queue;
    in_receiver CONSTANT text := left(receive.receiver, 200);
    most CONSTANT integer := receive.count;
    settings hookwire.queues;
    until timestamptz;
    picked bigint[];
BEGIN
    settings := hookwire.queue_settings(in_queue);
    IF most NOT BETWEEN 1 AND 10000 OR receive.lease_seconds NOT BETWEEN 0.05 AND 43200 THEN
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
            SELECT m.id FROM hookwire.messages m
            WHERE m.queue = in_queue AND m.claim IS NULL AND m.due_at IS NULL AND m.id > after_id
            ORDER BY m.id LIMIT most FOR UPDATE SKIP LOCKED);
    ELSE
        PERFORM hookwire.check_filter(filter);
        picked := hookwire.pick_filtered(in_queue, most, filter, after_id);
    END IF;
    IF picked = '{}' THEN
        RETURN;
    END IF;
    until := clock_timestamp() + make_interval(secs => coalesce(receive.lease_seconds, settings.lease_seconds));
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

-- By type or key through their index; what is left of a filter is judged on the first 1,000 that these leave.
CREATE FUNCTION hookwire.pick_filtered(in_queue text, most integer, filter jsonb, after_id bigint) RETURNS bigint[]
LANGUAGE plpgsql AS $$
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
        WHERE m.id = ANY (found) AND m.claim IS NULL AND m.due_at IS NULL
          AND (filter->>'key' IS NULL OR m.key = filter->>'key')
          AND m.headers @> coalesce(filter->'headers', '{}')
          AND m.priority >= coalesce((filter->>'priority_min')::numeric, -32768)
          AND m.created_at <= clock_timestamp() - make_interval(secs => coalesce((filter->>'age_seconds_min')::double precision, 0))
        ORDER BY m.id LIMIT most FOR UPDATE SKIP LOCKED);
END
$$;

-- --- settle ---

-- Which of these (id, claim) pairs are held by that claim; locked, by claim and id (JS-13). In plpgsql, which keeps
-- the plan: a function in SQL is planned at each call.
CREATE FUNCTION hookwire.held_messages(ids bigint[], claims bigint[], in_queue text) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE AS $$
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

-- Each of these that its claim still holds leaves the table; where its queue keeps history, into the archive (JB-05).
CREATE FUNCTION hookwire.accept_held(ids bigint[], claims bigint[], queue text DEFAULT NULL) RETURNS SETOF bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    in_queue CONSTANT text := accept_held.queue;
    held record;
BEGIN
    -- Claim by claim, so that the DELETE itself finds what is held: a lock before it would write each row once more.
    FOR held IN SELECT r.claim, array_agg(r.id ORDER BY r.id) AS ids FROM unnest(ids, claims) AS r(id, claim) GROUP BY r.claim ORDER BY r.claim LOOP
    RETURN QUERY
    WITH gone AS (
        DELETE FROM hookwire.messages m
        WHERE m.id = ANY (held.ids) AND m.claim = held.claim AND (in_queue IS NULL OR m.queue = in_queue) RETURNING m.*
    ), archived AS (
        INSERT INTO hookwire.message_archive (id, queue, created_at, claimed_at, accepted_at, deliveries, priority, receiver,
                                              type, key, content_type, headers, payload)
        SELECT g.id, g.queue, g.created_at, g.claimed_at, clock_timestamp(), g.deliveries, g.priority, g.receiver,
               g.type, g.key, g.content_type, g.headers, g.payload
        FROM gone g JOIN hookwire.queues q ON q.name = g.queue AND q.history
    )
    SELECT g.id FROM gone g;
    END LOOP;
END
$$;

-- Each of these that its claim still holds is available again in its old place, or after a delay, or is a dead letter: if
-- asked for, or if it was delivered as often as its queue allows (JB-06, JB-08). `counts` false: no delivery is counted.
CREATE FUNCTION hookwire.reject_held(
    ids bigint[], claims bigint[], queue text DEFAULT NULL, delay_seconds double precision DEFAULT 0, reason text DEFAULT NULL,
    dead boolean DEFAULT false, counts boolean DEFAULT true
) RETURNS SETOF bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    in_queue CONSTANT text := reject_held.queue;
    in_reason CONSTANT text := left(reject_held.reason, 500);
    held bigint[];
BEGIN
    IF delay_seconds NOT BETWEEN 0 AND 315360000 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'hookwire.reject: delay_seconds is 0 to 315360000';
    END IF;
    held := hookwire.held_messages(ids, claims, in_queue);
    RETURN QUERY
    WITH worn AS MATERIALIZED (
        SELECT m.id FROM hookwire.messages m LEFT JOIN hookwire.queues q ON q.name = m.queue
        WHERE m.id = ANY (held) AND (dead OR (counts AND m.deliveries >= coalesce(q.deliveries_max, 5)))
    ), buried AS (
        DELETE FROM hookwire.messages m WHERE m.id = ANY (ARRAY(SELECT w.id FROM worn w)) RETURNING m.*
    ), letters AS (
        INSERT INTO hookwire.dead_messages (id, queue, created_at, died_at, deliveries, reason, priority, receiver, type, key,
                                            content_type, headers, payload)
        SELECT b.id, b.queue, b.created_at, clock_timestamp(), b.deliveries, coalesce(in_reason, 'rejected'), b.priority,
               b.receiver, b.type, b.key, b.content_type, b.headers, b.payload
        FROM buried b
    ), returned AS (
        UPDATE hookwire.messages m
        SET claim = NULL, lease_until = NULL, claimed_at = NULL, last_reason = in_reason,
            deliveries = m.deliveries - CASE WHEN counts THEN 0 ELSE 1 END,
            due_at = CASE WHEN delay_seconds > 0 THEN clock_timestamp() + make_interval(secs => delay_seconds) END
        WHERE m.id = ANY (ARRAY(SELECT h FROM unnest(held) AS h EXCEPT SELECT w.id FROM worn w))
        RETURNING m.id
    )
    SELECT b.id FROM buried b UNION ALL SELECT r.id FROM returned r;
END
$$;

CREATE FUNCTION hookwire.extend_held(ids bigint[], claims bigint[], queue text DEFAULT NULL, lease_seconds double precision DEFAULT 30) RETURNS SETOF bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

-- As the three above for one claim, all or nothing: HW001 when one of the ids is not held by it any more.
CREATE FUNCTION hookwire.refuse_stale(wanted bigint[], settled bigint[], claim bigint) RETURNS integer
LANGUAGE plpgsql IMMUTABLE AS $$
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

CREATE FUNCTION hookwire.accept(ids bigint[], claim bigint) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN hookwire.refuse_stale(ids, ARRAY(SELECT hookwire.accept_held(ids, array_fill(claim, ARRAY[cardinality(ids)]))), claim);
END
$$;

CREATE FUNCTION hookwire.reject(
    ids bigint[], claim bigint, delay_seconds double precision DEFAULT 0, reason text DEFAULT NULL, dead boolean DEFAULT false,
    counts boolean DEFAULT true
) RETURNS integer
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN hookwire.refuse_stale(ids, ARRAY(SELECT hookwire.reject_held(
    ids, array_fill(claim, ARRAY[cardinality(ids)]), NULL, delay_seconds, reason, dead, counts)), claim);

CREATE FUNCTION hookwire.extend(ids bigint[], claim bigint, lease_seconds double precision DEFAULT 30) RETURNS integer
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN hookwire.refuse_stale(ids, ARRAY(SELECT hookwire.extend_held(
    ids, array_fill(claim, ARRAY[cardinality(ids)]), NULL, lease_seconds)), claim);

-- The seed's message_count: available messages of a queue (JB-10).
CREATE FUNCTION hookwire.message_count(queue text) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN (SELECT count(*) FROM hookwire.messages m WHERE m.queue = message_count.queue AND m.claim IS NULL AND m.due_at IS NULL);

-- --- the reaper ---

-- One bounded batch (JB-08, JB-63): leases that are over, oldest first, and delays that are over. A message that was
-- delivered as often as its queue allows becomes a dead letter.
CREATE FUNCTION hookwire.reap_messages(most integer) RETURNS TABLE (returned bigint, dead bigint, promoted bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    expired CONSTANT bigint[] := ARRAY(
        SELECT m.id FROM hookwire.messages m WHERE m.claim IS NOT NULL AND m.lease_until <= clock_timestamp()
        ORDER BY m.lease_until LIMIT most FOR UPDATE SKIP LOCKED);
    due CONSTANT bigint[] := ARRAY(
        SELECT m.id FROM hookwire.messages m WHERE m.due_at <= clock_timestamp()
        ORDER BY m.due_at LIMIT most FOR UPDATE SKIP LOCKED);
BEGIN
    RETURN QUERY
    WITH worn AS MATERIALIZED (
        SELECT m.id FROM hookwire.messages m LEFT JOIN hookwire.queues q ON q.name = m.queue
        WHERE m.id = ANY (expired) AND m.deliveries >= coalesce(q.deliveries_max, 5)
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

-- --- copies ---

-- Registers a durable consumer; false: there is one of that name. It reads what is committed from now on and, where `since`
-- says so, what the log still has from that moment on. The exclusive lock waits for open submissions to this queue: an id
-- that is drawn after it belongs to a message that commits later. No transaction below the snapshot's xmin submits again.
CREATE FUNCTION hookwire.register_consumer(queue text, name text, since timestamptz DEFAULT 'infinity') RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

-- The next messages of a durable consumer, under a lease of the whole batch: one reader at a time. Nothing comes while
-- another reader holds it. Only below the oldest running transaction (JB-15).
CREATE FUNCTION hookwire.receive_copies(
    queue text, name text, count integer DEFAULT 1, lease_seconds double precision DEFAULT 30, filter jsonb DEFAULT NULL
) RETURNS TABLE (
    id bigint, claim bigint, deliveries integer, lease_until timestamptz, created_at timestamptz, content_type text,
    headers jsonb, payload bytea, type text, key text, priority smallint
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    in_queue CONSTANT text := receive_copies.queue;
    in_name CONSTANT text := receive_copies.name;
    most CONSTANT integer := receive_copies.count;
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
    )
    SELECT b.id, consumer.claim, 1, until, b.created_at, b.content_type, b.headers, b.payload, b.type, b.key, b.priority
    FROM batch b
    WHERE filter IS NULL
       OR ((filter->>'type' IS NULL OR b.type = filter->>'type') AND (filter->>'key' IS NULL OR b.key = filter->>'key')
           AND b.headers @> coalesce(filter->'headers', '{}')
           AND b.priority >= coalesce((filter->>'priority_min')::numeric, -32768))
    ORDER BY b.xid, b.id;
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

-- Done with everything up to and including the last of these messages: the position moves there and the lease ends. False:
-- stale.
CREATE FUNCTION hookwire.accept_copies(queue text, name text, claim bigint, ids bigint[]) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

-- Not done: the lease ends and the same messages come again.
CREATE FUNCTION hookwire.release_copies(queue text, name text, claim bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    UPDATE hookwire.consumers c SET claim = NULL, lease_until = NULL
    WHERE c.queue = release_copies.queue AND c.name = release_copies.name AND c.claim = release_copies.claim;
    RETURN FOUND;
END
$$;

-- Looks without touching (JB-14, browse): what is available, oldest first.
CREATE FUNCTION hookwire.browse(queue text, count integer DEFAULT 1, after_id bigint DEFAULT 0) RETURNS TABLE (
    id bigint, created_at timestamptz, content_type text, headers jsonb, payload bytea, type text, key text, priority smallint,
    deliveries integer
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT m.id, m.created_at, m.content_type, m.headers, m.payload, m.type, m.key, m.priority, m.deliveries
    FROM hookwire.messages m
    WHERE m.queue = browse.queue AND m.claim IS NULL AND m.due_at IS NULL AND m.id > after_id
    ORDER BY m.id LIMIT least(browse.count, 10000)
$$;

-- --- graduation (JB-18) ---

-- Gives a queue a table of its own, messages_<number>, a child of hookwire.messages: every statement goes on seeing both,
-- in the order of ids, so nothing is lost, doubled or re-ordered whatever runs meanwhile. Its owner adds columns that link to
-- domain rows, such as: order_id bigint GENERATED ALWAYS AS ((headers->>'order-id')::bigint) STORED REFERENCES shop.orders.
CREATE FUNCTION hookwire.graduate(queue text) RETURNS text
LANGUAGE plpgsql AS $$
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

-- One batch of what still lies in the general table; returns how many moved. Claimed messages stay until they are settled.
CREATE FUNCTION hookwire.graduate_batch(queue text, most integer) RETURNS bigint
LANGUAGE plpgsql AS $$
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
$$;

-- USAGE on the schema lets a role submit, as it lets it publish. Working is granted by name (docs/reference/sql.md).
REVOKE EXECUTE ON FUNCTION
    hookwire.receive, hookwire.accept, hookwire.reject, hookwire.extend, hookwire.accept_held, hookwire.reject_held,
    hookwire.extend_held, hookwire.browse, hookwire.register_consumer, hookwire.receive_copies, hookwire.accept_copies,
    hookwire.release_copies
FROM PUBLIC;
