-- Message queues (JB-01..JB-19) and transactional tasks (JB-20..JB-39), on the lease core that messages, tasks and jobs
-- share (JB-60..JB-64).
--
-- A lease is a fence, drawn from one sequence and stored in the row that it protects. A statement that settles names the
-- fence, and changes nothing once another receiver has drawn a newer one. The claim counts the attempt. Only the reaper ends
-- leases, so that a claim reads one index of free rows (docs/adr/0036-the-reaper-ends-leases.md).

CREATE SEQUENCE hookwire.lease_fence AS bigint CACHE 1;

CREATE SEQUENCE hookwire.message_id AS bigint CACHE 1;

-- A queue is a row of settings. Messages name their queue, and need no row: a submission inside a foreign transaction must
-- not lock what every other submitter needs (RR-04). The hub adds missing rows.
CREATE TABLE hookwire.queues (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text NOT NULL DEFAULT 'default',
    name text COLLATE "C" NOT NULL UNIQUE,
    moves boolean NOT NULL DEFAULT true,
    copies boolean NOT NULL DEFAULT false,
    history boolean NOT NULL DEFAULT false,
    lease_seconds real NOT NULL DEFAULT 30 CHECK (lease_seconds BETWEEN 0.05 AND 43200),
    deliveries_max integer NOT NULL DEFAULT 5 CHECK (deliveries_max BETWEEN 1 AND 1000),
    retention_days integer NOT NULL DEFAULT 14 CHECK (retention_days BETWEEN 1 AND 3660),
    paused boolean NOT NULL DEFAULT false,
    owner text,
    expires_at timestamptz,
    lifetime_seconds integer CHECK ((lifetime_seconds IS NULL) = (expires_at IS NULL)),
    graduated boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    CHECK (moves OR copies)
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

CREATE INDEX queues_expire ON hookwire.queues (expires_at) WHERE expires_at IS NOT NULL;

-- Live messages only: accepted and dead messages leave the table in the statement that settles them (JS-01).
CREATE TABLE hookwire.messages (
    id bigint NOT NULL PRIMARY KEY,
    tenant text NOT NULL DEFAULT 'default',
    queue text COLLATE "C" NOT NULL,
    claim bigint,
    due_at timestamptz,
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
COMMENT ON TABLE hookwire.messages IS 'Live messages. Accepted and dead ones leave the table in the statement that settles them.';
COMMENT ON COLUMN hookwire.messages.claim IS 'The fence of the current lease; NULL: available or delayed.';
COMMENT ON COLUMN hookwire.messages.due_at IS 'Not available before; NULL: at once.';
COMMENT ON COLUMN hookwire.messages.lease_until IS 'When the reaper makes it available again.';
COMMENT ON COLUMN hookwire.messages.deliveries IS 'How often it was handed to a receiver.';
COMMENT ON COLUMN hookwire.messages.receiver IS 'The client that holds it.';
COMMENT ON COLUMN hookwire.messages.type IS 'A word by which receivers filter.';
COMMENT ON COLUMN hookwire.messages.last_reason IS 'Why it was rejected last.';

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
COMMENT ON TABLE hookwire.message_archive IS 'Accepted messages of queues that keep history.';
COMMENT ON COLUMN hookwire.message_archive.deliveries IS 'How often it was handed to a receiver.';
COMMENT ON COLUMN hookwire.message_archive.receiver IS 'The client that accepted it.';
COMMENT ON COLUMN hookwire.message_archive.type IS 'As in messages.';

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
COMMENT ON TABLE hookwire.dead_messages IS 'Messages that were delivered too often or given up.';
COMMENT ON COLUMN hookwire.dead_messages.deliveries IS 'How often it was handed to a receiver.';
COMMENT ON COLUMN hookwire.dead_messages.receiver IS 'The client that held it last.';
COMMENT ON COLUMN hookwire.dead_messages.type IS 'As in messages.';

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
COMMENT ON TABLE hookwire.message_log IS 'Copies: an append-only log that durable consumers read.';
COMMENT ON COLUMN hookwire.message_log.xid IS 'The transaction that submitted it: with id the place in the log.';
COMMENT ON COLUMN hookwire.message_log.type IS 'As in messages.';

CREATE INDEX message_log_age ON hookwire.message_log (queue, created_at);

CREATE TABLE hookwire.consumers (
    tenant text NOT NULL DEFAULT 'default',
    queue text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    xid xid8 NOT NULL,
    id bigint NOT NULL,
    after_id bigint NOT NULL,
    since timestamptz NOT NULL,
    claim bigint,
    lease_until timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (queue, name)
);
COMMENT ON TABLE hookwire.consumers IS 'Durable consumers of copies, each with its position (xid, id) in the log.';
COMMENT ON COLUMN hookwire.consumers.xid IS 'The position: the transaction of the last accepted message.';
COMMENT ON COLUMN hookwire.consumers.id IS 'The position: messages up to this id are accepted.';
COMMENT ON COLUMN hookwire.consumers.after_id IS 'Of the messages before its registration it reads those above this id.';
COMMENT ON COLUMN hookwire.consumers.since IS 'And those from this moment on.';
COMMENT ON COLUMN hookwire.consumers.claim IS 'The fence of the reader that holds the next messages.';

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

-- Return the settings of a queue. A queue without a row has the defaults, unless queues need a row (42704).
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

-- Submit messages in the caller's transaction. Return their ids in the order of the payloads (JB-02). NULL for an array
-- stands for its default in each place. The shared lock lets `register_consumer` wait for open submissions.
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

-- Refuse a filter of a receiver that is not of this form (JB-17): {"type", "key", "headers": {...}, "priority_min",
-- "age_seconds_min"}.
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

-- Claim up to `count` available messages in the order of their ids, under one fresh fence. The index is read from `after_id`
-- on. A receiver that remembers it does not walk over messages that others have taken, while an old snapshot keeps their dead
-- entries (JS-02). It must ask from 0 again and again, because lower ids may still be committed or returned.
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

-- Find messages by type or key through an index. The rest of the filter is judged on the first 1,000 that this leaves.
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

-- Lock those of these (id, claim) pairs that the claim still holds, by claim and id (JS-13). In plpgsql, which keeps the
-- plan: a function in SQL is planned at each call.
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

-- Accept each of these messages that its claim still holds: it leaves the table. It goes into the archive if its queue keeps
-- history (JB-05).
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

-- Give back each of these messages that its claim still holds: to its old place, or after a delay. It becomes a dead letter
-- where `dead` says so, or once it was delivered as often as its queue allows (JB-06, JB-08). `counts` false: the delivery
-- does not count.
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

-- The three functions below settle for one claim, all or nothing: HW001 if the claim holds one of the ids no more.
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

-- Return how many messages of a queue are available (JB-10).
CREATE FUNCTION hookwire.message_count(queue text) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN (SELECT count(*) FROM hookwire.messages m WHERE m.queue = message_count.queue AND m.claim IS NULL AND m.due_at IS NULL);

-- --- the reaper ---

-- End one bounded batch of leases that are over, oldest first, and of delays (JB-08, JB-63). A message that was
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

-- Register a durable consumer; false: the name is taken. It reads messages that commit from now on and, from `since` on, those
-- that the log still has. The exclusive lock waits for open submissions to this queue: an id that is drawn after it belongs to
-- a message that commits later. No transaction below the snapshot's xmin submits again.
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

-- Return the next messages of a durable consumer, under a lease of the whole batch. While one reader holds it, another gets
-- nothing. Only messages below the oldest running transaction are read (JB-15).
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

-- Accept everything up to and including the last of these messages: the position moves there and the lease ends. False: the
-- claim is stale.
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

-- Give the batch back: the lease ends, and the same messages come again.
CREATE FUNCTION hookwire.release_copies(queue text, name text, claim bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    UPDATE hookwire.consumers c SET claim = NULL, lease_until = NULL
    WHERE c.queue = release_copies.queue AND c.name = release_copies.name AND c.claim = release_copies.claim;
    RETURN FOUND;
END
$$;

-- Return available messages without a claim, oldest first (JB-14, browse).
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

-- Give a queue a table of its own, messages_<number>, a child of hookwire.messages. Every statement goes on seeing both, in
-- the order of ids, so nothing is lost, doubled or re-ordered meanwhile. Its owner adds columns that link to domain rows, such
-- as: order_id bigint GENERATED ALWAYS AS ((headers->>'order-id')::bigint) STORED REFERENCES shop.orders.
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

-- Move one batch of the messages that are still in the general table. Return how many moved. Claimed messages stay until they
-- are settled.
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

-- Give low transaction ids to positions of consumers that are ahead of this server. A dump that is restored elsewhere brings
-- transaction ids of another server. Until this server has counted up to them, consumers of copies would read nothing. They
-- would pass over messages that are submitted meanwhile, and the ledger would wait.
--
-- The positions keep their order. Messages between two positions get the id of the later one. Return whether anything was
-- changed: nothing is where all ids are of the past.
CREATE FUNCTION hookwire.adopt_transaction_ids() RETURNS boolean LANGUAGE plpgsql AS $$
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

-- USAGE on the schema lets a role submit, as it lets it publish. The right to work is granted by name (docs/reference/sql.md).
REVOKE EXECUTE ON FUNCTION
    hookwire.receive, hookwire.accept, hookwire.reject, hookwire.extend, hookwire.accept_held, hookwire.reject_held,
    hookwire.extend_held, hookwire.browse, hookwire.register_consumer, hookwire.receive_copies, hookwire.accept_copies,
    hookwire.release_copies
FROM PUBLIC;

-- --- tasks ---
--
-- A task exists if and only if the transaction that enqueued it committed. The row is the truth. A notification only wakes a
-- worker: it may come early, late, twice or never.

-- Changes count at once (JB-37).
CREATE TABLE hookwire.task_kinds (
    kind text COLLATE "C" PRIMARY KEY CHECK (kind = '*' OR hookwire.is_queue_name(kind)),
    on_crash text CHECK (on_crash IN ('retry', 'compensate', 'abandon')),
    compensation_kind text CHECK (compensation_kind IS NULL OR hookwire.is_queue_name(compensation_kind)),
    notify text CHECK (notify IN ('nobody', 'notify', 'relay', 'enqueuer')),
    lookup_seconds real CHECK (lookup_seconds BETWEEN 0.01 AND 60),
    giveup_seconds real CHECK (giveup_seconds BETWEEN 0 AND 600),
    cleanup_seconds real CHECK (cleanup_seconds BETWEEN 0.1 AND 86400),
    crash_seconds real CHECK (crash_seconds BETWEEN 0.1 AND 2592000),
    attempts_max integer CHECK (attempts_max BETWEEN 1 AND 1000000),
    age_seconds_max real CHECK (age_seconds_max > 0),
    backoff_seconds_min real CHECK (backoff_seconds_min BETWEEN 0 AND 86400),
    backoff_seconds_max real CHECK (backoff_seconds_max BETWEEN 0 AND 2592000),
    doublings_max integer CHECK (doublings_max BETWEEN 0 AND 60),
    keeps_record boolean,
    is_unique boolean,
    CHECK (kind <> '*' OR num_nulls(on_crash, lookup_seconds, giveup_seconds, cleanup_seconds, crash_seconds, attempts_max,
                                    backoff_seconds_min, backoff_seconds_max, doublings_max, keeps_record, is_unique) = 0)
);
COMMENT ON TABLE hookwire.task_kinds IS 'How tasks of a kind are treated. A kind needs no row; NULL means as in the row ''*''.';
COMMENT ON COLUMN hookwire.task_kinds.on_crash IS 'What the cleaner does with a crashed task: retry, compensate or abandon.';
COMMENT ON COLUMN hookwire.task_kinds.compensation_kind IS 'The kind of the task that undoes a crashed one.';
COMMENT ON COLUMN hookwire.task_kinds.notify IS 'How workers are notified: nobody, notify, relay or enqueuer.';
COMMENT ON COLUMN hookwire.task_kinds.lookup_seconds IS
    'Between two looks for a row that a notification named and that is not there yet.';
COMMENT ON COLUMN hookwire.task_kinds.giveup_seconds IS 'After which such a notification is dropped.';
COMMENT ON COLUMN hookwire.task_kinds.cleanup_seconds IS 'After which the cleaner notifies of a task again.';
COMMENT ON COLUMN hookwire.task_kinds.crash_seconds IS 'After which a task that was begun counts as crashed.';
COMMENT ON COLUMN hookwire.task_kinds.age_seconds_max IS 'With attempts_max: dead when both are passed.';
COMMENT ON COLUMN hookwire.task_kinds.doublings_max IS 'How often the backoff doubles before it grows by the last step.';
COMMENT ON COLUMN hookwire.task_kinds.keeps_record IS 'Whether finished tasks go into the archive.';
COMMENT ON COLUMN hookwire.task_kinds.is_unique IS 'Whether enqueueing the same description again finds the same task.';

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
    id text COLLATE "C" PRIMARY KEY CHECK (octet_length(id) BETWEEN 1 AND 200 AND id !~ '[\x01-\x1f\x7f]'),
    tenant text NOT NULL DEFAULT 'default',
    description text NOT NULL CHECK (octet_length(description) <= 1048576),
    start_time timestamptz,
    finish_time timestamptz,
    kind text COLLATE "C" NOT NULL,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    due_at timestamptz,
    notify_at timestamptz,
    claim bigint,
    worker text,
    lease_until timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    last_error text
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
        autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 100000);
COMMENT ON TABLE hookwire.task_rows IS 'Live tasks. A task exists if and only if the transaction that enqueued it committed.';
COMMENT ON COLUMN hookwire.task_rows.description IS 'The arguments.';
COMMENT ON COLUMN hookwire.task_rows.start_time IS 'When it was begun; NULL: nobody has begun it.';
COMMENT ON COLUMN hookwire.task_rows.finish_time IS 'When it was finished; then it is archived.';
COMMENT ON COLUMN hookwire.task_rows.seq IS 'The order of enqueueing.';
COMMENT ON COLUMN hookwire.task_rows.due_at IS 'Not to be begun before; NULL: at once.';
COMMENT ON COLUMN hookwire.task_rows.notify_at IS 'When the cleaner notifies of it again; NULL: never.';
COMMENT ON COLUMN hookwire.task_rows.claim IS 'The fence of the worker that has begun it.';
COMMENT ON COLUMN hookwire.task_rows.lease_until IS 'When it counts as crashed.';

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
COMMENT ON TABLE hookwire.task_archive IS 'Finished tasks of kinds that keep a record.';
COMMENT ON COLUMN hookwire.task_archive.description IS 'The arguments.';
COMMENT ON COLUMN hookwire.task_archive.outcome IS 'How it ended.';

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
    told_at timestamptz
);
COMMENT ON TABLE hookwire.dead_tasks IS 'Tasks that were given up.';
COMMENT ON COLUMN hookwire.dead_tasks.number IS 'Tells rows of one id apart.';
COMMENT ON COLUMN hookwire.dead_tasks.description IS 'The arguments.';
COMMENT ON COLUMN hookwire.dead_tasks.told_at IS 'When operators were notified.';

CREATE INDEX dead_tasks_untold ON hookwire.dead_tasks (number) WHERE told_at IS NULL;
CREATE INDEX dead_tasks_age ON hookwire.dead_tasks (died_at);

-- A worker that is seen no more has crashed, long before the crash interval of its tasks (JB-35).
CREATE TABLE hookwire.task_workers (
    name text PRIMARY KEY,
    kinds text[] NOT NULL,
    slots integer NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    seen_until timestamptz NOT NULL,
    completed bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
COMMENT ON TABLE hookwire.task_workers IS 'Workers of tasks that are present.';
COMMENT ON COLUMN hookwire.task_workers.kinds IS 'The kinds that it works on.';
COMMENT ON COLUMN hookwire.task_workers.slots IS 'How many tasks it runs at once.';
COMMENT ON COLUMN hookwire.task_workers.seen_until IS 'When it counts as crashed unless it is seen again.';
COMMENT ON COLUMN hookwire.task_workers.completed IS 'Tasks that it finished.';
COMMENT ON COLUMN hookwire.task_workers.failed IS 'Tasks that failed there.';

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

-- Complete a row that an application inserts itself. Its kind is that of the row, or its description if that is a word, or
-- `default`.
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

-- The table of the original article. Its statements work as they are: INSERT (id, description, start_time), SELECT ... FOR
-- UPDATE, UPDATE of start_time or finish_time, DELETE.
CREATE VIEW hookwire.tasks AS
SELECT id, description, start_time, finish_time, kind, created_at, due_at, attempts, worker, last_error FROM hookwire.task_rows;
COMMENT ON VIEW hookwire.tasks IS 'Live tasks in the columns of the original article; INSERT enqueues.';

GRANT INSERT ON hookwire.tasks TO PUBLIC;

-- Enqueue a task in the caller's transaction. Return its id. The same kind and arguments are the same task while it is live
-- (JB-20), unless the kind or the call says otherwise.
CREATE FUNCTION hookwire.enqueue_task(
    kind text, args jsonb DEFAULT '{}', delay_seconds double precision DEFAULT 0, is_unique boolean DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

-- --- claim ---

-- Claim a task by its id, from a notification (JB-24). The outcome is one of these:
--   claimed    by this call
--   taken      begun by another worker, or of another kind than `kinds`
--   waiting    for its retry
--   absent     its transaction has not committed, or it is done
--
-- Another claim takes milliseconds; the call waits for it, at most a second.
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

-- Claim up to `most` waiting tasks of these kinds, the oldest of each first. Rows that another claim locks are skipped.
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

-- Finish tasks: the rows leave the table. They go into the archive if their kind keeps a record (JB-29).
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

-- Give back tasks of a worker that leaves. The attempt does not count (JB-09, JB-78).
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

-- Return the backoff. It doubles `doublings_max` times, then grows by the last step, then is flat (App Engine's fields, JB-38).
CREATE FUNCTION hookwire.task_backoff_seconds(attempt integer, policy hookwire.task_kinds) RETURNS double precision
LANGUAGE sql IMMUTABLE
RETURN least(policy.backoff_seconds_max::double precision,
             policy.backoff_seconds_min * power(2::double precision, least(attempt - 1, policy.doublings_max))
             * (1 + greatest(attempt - 1 - policy.doublings_max, 0)));

-- Return whether a task is given up after so many attempts at this age. Where both limits are set, both have to be passed.
CREATE FUNCTION hookwire.task_is_worn(attempts integer, created_at timestamptz, policy hookwire.task_kinds) RETURNS boolean
LANGUAGE sql STABLE
RETURN attempts >= coalesce(policy.attempts_max, 0)
   AND (policy.age_seconds_max IS NULL OR created_at <= clock_timestamp() - make_interval(secs => policy.age_seconds_max));

-- Publish notices for operators on the topic hookwire.operator, if a subscription asks for the hub's own topics (WH-I08).
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

-- Give up these tasks: they leave the table, and operators are notified in the same statement (JB-33).
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

-- Record that a task failed: it is tried again after its backoff, or is dead. Return retry, dead or stale.
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

-- Recover one crashed task by the policy of its kind (JB-33). Return the action, which is also in the audit trail.
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

-- Return how the cleaner notifies of tasks whose enqueuer notifies: by the relay where AMQP is configured, else by NOTIFY.
CREATE FUNCTION hookwire.notify_way() RETURNS text
LANGUAGE sql STABLE
RETURN CASE WHEN (SELECT s.configured FROM hookwire.sinks s WHERE s.name = 'amqp') THEN 'relay' ELSE 'notify' END;

-- Make one bounded pass. Tasks that no worker has begun are notified again, with damping (JB-30, JB-31). Retries that are
-- due are freed, finished rows are archived, and crashed tasks are recovered. One pass runs at a time; two would do no harm
-- (JB-34).
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
