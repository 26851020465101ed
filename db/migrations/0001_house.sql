-- The house: topics, events, outbox, terms, subscriptions, deliveries, attempts, dead letters, and publishing.
-- Every table of users' data carries its tenant; secrets are stored sealed; events and attempts are
-- partitioned by the event's id (rules RR-03..RR-13).

CREATE SCHEMA IF NOT EXISTS hookwire;

-- One row: what makes this installation itself.
CREATE TABLE hookwire.installation (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    -- Eight characters of base32: part of every event id, so that ids of two installations never collide.
    incarnation text NOT NULL CHECK (incarnation ~ '^[a-z2-7]{8}$'),
    -- The numbered layout of RR-11: groups, order scope and hash version that new outbox rows are written for.
    layout smallint NOT NULL DEFAULT 1,
    topics_auto_create boolean NOT NULL DEFAULT true,
    -- NOTIFY from hookwire.publish; a switch, because it slows commits and forbids two-phase commit (RR-15).
    sql_notify boolean NOT NULL DEFAULT true,
    payload_bytes_max integer NOT NULL DEFAULT 1048576,
    created_at timestamptz NOT NULL DEFAULT now()
);

INSERT INTO hookwire.installation (incarnation)
SELECT string_agg(substr('abcdefghijklmnopqrstuvwxyz234567',
                         1 + (get_byte(uuid_send(gen_random_uuid()), 0) & 31), 1), '')
FROM generate_series(1, 8);

CREATE TABLE hookwire.sinks (
    name text PRIMARY KEY CHECK (name IN ('kafka', 'amqp', 'webhooks')),
    configured boolean NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now()
);

INSERT INTO hookwire.sinks (name, configured) VALUES ('webhooks', true), ('kafka', false), ('amqp', false);

CREATE TABLE hookwire.topics (
    tenant text NOT NULL DEFAULT 'default',
    name text NOT NULL,
    sinks text[],                                   -- NULL: every configured sink
    ordered boolean NOT NULL DEFAULT true,          -- false: no key lock, no sequence
    kafka_topic text,                               -- NULL: the topic's own name
    amqp_exchange text,                             -- NULL: the configured exchange
    amqp_routing_key text,                          -- NULL: the topic's own name
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, name)
);

-- CACHE 1: a larger cache hands out stale low numbers per connection (RP-08).
CREATE SEQUENCE hookwire.event_id AS bigint CACHE 1;

CREATE TABLE hookwire.events (
    id bigint NOT NULL,
    accepted_at timestamptz NOT NULL,
    ordered boolean NOT NULL,
    tenant text NOT NULL,
    topic text NOT NULL,
    key text,
    content_type text,
    headers jsonb NOT NULL,                         -- lower-case names; CloudEvents attributes as ce-*
    sinks text[] NOT NULL,                          -- where it was routed when it was accepted
    payload bytea NOT NULL,
    PRIMARY KEY (id)
) PARTITION BY RANGE (id);

-- "The latest event of this topic", for GET /topics/{topic}.
CREATE INDEX events_topic ON hookwire.events (tenant, topic, id);

CREATE TABLE hookwire.outbox (
    id bigint NOT NULL,
    layout smallint NOT NULL,
    shard smallint NOT NULL,
    sink text COLLATE "C" NOT NULL,
    PRIMARY KEY (sink, shard, id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
        autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 100000);

-- One reign per (sink, partition group). UNIQUE (sink, grp, term) makes a change of the term conflict with
-- FOR KEY SHARE, while renewals and batch numbers do not (RR-08).
CREATE TABLE hookwire.relay_terms (
    sink text COLLATE "C" NOT NULL,
    grp smallint NOT NULL,
    layout smallint NOT NULL DEFAULT 1,
    term bigint NOT NULL DEFAULT 0,
    owner text,
    lease_until timestamptz NOT NULL DEFAULT '-infinity',
    batch_no bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (sink, grp),
    UNIQUE (sink, grp, term)
) WITH (fillfactor = 50);

-- A manifest: what batch batch_no of a group holds, written before it is sent (RR-06).
CREATE TABLE hookwire.relay_batches (
    sink text COLLATE "C" NOT NULL,
    layout smallint NOT NULL,
    grp smallint NOT NULL,
    batch_no bigint NOT NULL,
    shards smallint[] NOT NULL,
    ids bigint[] NOT NULL,
    PRIMARY KEY (sink, layout, grp, batch_no)
);

-- A hold stops one key (after a poison record) or one topic (missing exchange, unroutable) of one sink; the
-- records it holds wait in the side table and are drained, in order, before it is lifted (RR-07, RO-08).
CREATE TABLE hookwire.holds (
    sink text COLLATE "C" NOT NULL,
    tenant text NOT NULL,
    topic text NOT NULL,
    key text NOT NULL DEFAULT '',                   -- '' holds the whole topic
    reason text NOT NULL,
    detail text NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    since timestamptz NOT NULL DEFAULT now(),
    probe_at timestamptz NOT NULL,
    PRIMARY KEY (sink, tenant, topic, key)
);

CREATE TABLE hookwire.held (
    sink text COLLATE "C" NOT NULL,
    tenant text NOT NULL,
    topic text NOT NULL,
    key text NOT NULL DEFAULT '',
    id bigint NOT NULL,
    shard smallint NOT NULL,
    layout smallint NOT NULL,
    PRIMARY KEY (sink, tenant, topic, key, id)
);

CREATE INDEX held_id ON hookwire.held (sink, id);

CREATE TABLE hookwire.subscriptions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    public_id text NOT NULL UNIQUE,
    tenant text NOT NULL DEFAULT 'default',
    protocol text NOT NULL CHECK (protocol IN ('webhook', 'websub')),
    topic text NOT NULL,                            -- a name or a pattern
    topic_regex text,                               -- NULL: an exact name
    topic_url text,                                 -- WebSub: the topic URL as the subscriber sent it
    callback text NOT NULL,                         -- raw, as given (WS-62)
    state text NOT NULL CHECK (state IN ('active', 'disabled', 'gone', 'expired', 'denied', 'deleted')),
    state_reason text,
    ordered boolean NOT NULL DEFAULT false,
    signature_method text NOT NULL DEFAULT 'sha256',
    retry_schedule_seconds integer[],               -- NULL: the configured schedule
    timeout_seconds real,                           -- NULL: the configured deadline
    lease_until timestamptz,                        -- NULL: no end (API subscriptions)
    paused_until timestamptz,
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX subscriptions_exact ON hookwire.subscriptions (tenant, topic) WHERE state = 'active' AND topic_regex IS NULL;
CREATE INDEX subscriptions_pattern ON hookwire.subscriptions (tenant) WHERE state = 'active' AND topic_regex IS NOT NULL;
CREATE UNIQUE INDEX subscriptions_websub ON hookwire.subscriptions (tenant, topic_url, callback)
    WHERE protocol = 'websub' AND state IN ('active', 'disabled');

-- Newest first signs first; an expired one no longer signs (WH-S17).
CREATE TABLE hookwire.subscription_secrets (
    subscription_id bigint NOT NULL REFERENCES hookwire.subscriptions ON DELETE CASCADE,
    number integer NOT NULL,
    tenant text NOT NULL DEFAULT 'default',
    key_id text NOT NULL,
    sealed bytea NOT NULL,
    expires_at timestamptz,
    PRIMARY KEY (subscription_id, number)
);

-- Open deliveries only. due_at is both "not before" and, while claimed, the end of the lease: a worker that
-- dies leaves a row that is due again by itself. fence is the token of the latest claim.
CREATE TABLE hookwire.deliveries (
    event_id bigint NOT NULL,
    subscription_id bigint NOT NULL,
    due_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    fence bigint,
    attempts integer NOT NULL DEFAULT 0,
    last_status smallint,
    tenant text NOT NULL,
    lane text,                                      -- the key, in an ordered subscription
    last_outcome text,
    PRIMARY KEY (event_id, subscription_id)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
        autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 100000);

CREATE INDEX deliveries_due ON hookwire.deliveries (subscription_id, due_at, event_id);
CREATE INDEX deliveries_lane ON hookwire.deliveries (subscription_id, lane, event_id) WHERE lane IS NOT NULL;

-- An event with more subscribers than one transaction should write is fanned out in slices (RR-10).
CREATE TABLE hookwire.fanout_cursors (
    event_id bigint PRIMARY KEY,
    tenant text NOT NULL,
    last_subscription_id bigint NOT NULL,
    upper_subscription_id bigint NOT NULL
);

CREATE SEQUENCE hookwire.delivery_fence AS bigint CACHE 1;

CREATE TABLE hookwire.attempts (
    event_id bigint NOT NULL,
    subscription_id bigint NOT NULL,
    started_at timestamptz NOT NULL,
    number integer NOT NULL,
    status smallint,
    connect_seconds real,
    first_byte_seconds real,
    total_seconds real NOT NULL,
    tenant text NOT NULL,
    outcome text NOT NULL,                          -- delivered, client_error, ... (webhooks.outcome)
    decision text NOT NULL CHECK (decision IN ('delivered', 'retry', 'dead', 'dropped')),
    trigger text NOT NULL,                          -- first, retry
    worker text NOT NULL,
    address text,
    detail text,
    response_headers jsonb,
    response_body bytea,
    PRIMARY KEY (event_id, subscription_id, number)
) PARTITION BY RANGE (event_id);

CREATE INDEX attempts_subscription ON hookwire.attempts (subscription_id, event_id);

CREATE TABLE hookwire.dead_letters (
    event_id bigint NOT NULL,
    subscription_id bigint NOT NULL,
    tenant text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('exhausted', 'aborted', 'gone', 'internal')),
    attempts integer NOT NULL,
    last_status smallint,
    last_outcome text,
    detail text,
    died_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (event_id, subscription_id)
);

CREATE INDEX dead_letters_subscription ON hookwire.dead_letters (subscription_id, event_id);

-- Unpartitioned, with its own copy of the answer, so that partitions of events can go (RR-05).
CREATE TABLE hookwire.idempotency_keys (
    tenant text NOT NULL,
    key text NOT NULL,
    fingerprint bytea NOT NULL,
    event_id bigint NOT NULL,
    accepted_at timestamptz NOT NULL,
    ordered boolean NOT NULL,
    PRIMARY KEY (tenant, key)
);

CREATE INDEX idempotency_keys_age ON hookwire.idempotency_keys (accepted_at);

-- The last id seen per day: the rate from which partitions are made ahead.
CREATE TABLE hookwire.id_watermarks (
    day date PRIMARY KEY,
    last_id bigint NOT NULL
);

-- Makes the partitions of events and attempts for the ids of the next 30 days at the current rate, at least
-- `spare` of them. By LIKE + ATTACH, which inserts of other sessions do not wait for (RR-05).
CREATE FUNCTION hookwire.ensure_partitions(spare integer DEFAULT 3) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    size CONSTANT bigint := 10000000;
    current_id bigint;
    ids_per_day bigint;
    target bigint;
    lower_id bigint;
    made integer := 0;
    parent text;
    child text;
BEGIN
    -- One maker at a time; the class is hookwire's, the number is this duty's.
    PERFORM pg_advisory_xact_lock(1215262571, -1);
    SELECT last_value INTO current_id FROM hookwire.event_id;
    INSERT INTO hookwire.id_watermarks AS w (day, last_id) VALUES (current_date, current_id)
        ON CONFLICT (day) DO UPDATE SET last_id = excluded.last_id;
    SELECT coalesce((current_id - min(last_id)) / greatest(count(*) - 1, 1), 0) INTO ids_per_day
        FROM hookwire.id_watermarks WHERE day >= current_date - 7;
    target := current_id + greatest(30 * ids_per_day, spare * size);
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

SELECT hookwire.ensure_partitions();

-- The documented hash of (topic, key): SHA-256 of topic, a zero byte, key (vectors: openapi/key-hash-vectors.json).
CREATE FUNCTION hookwire.key_digest(topic text, key text) RETURNS bytea
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN sha256(convert_to(topic, 'UTF8') || '\x00'::bytea || convert_to(key, 'UTF8'));

-- 64 virtual shards: the relay's share of the key space.
CREATE FUNCTION hookwire.shard_of(digest bytea) RETURNS smallint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (get_byte(digest, 0) & 63)::smallint;

-- 1,024 stripes: the locks that make commit order id order within a key.
CREATE FUNCTION hookwire.stripe_of(digest bytea) RETURNS integer
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN ((get_byte(digest, 1) << 8) | get_byte(digest, 2)) & 1023;

-- Refuses what no sink could carry, so that poison does not enter (RO-08).
CREATE FUNCTION hookwire.check_drafts(topics text[], keys text[], payloads bytea[]) RETURNS void
LANGUAGE plpgsql STABLE AS $$
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
        WHERE NOT EXISTS (SELECT FROM hookwire.topics t WHERE t.tenant = 'default' AND t.name = d.topic) LIMIT 1;
        IF wrong IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('hookwire.publish: unknown topic %L', wrong);
        END IF;
    END IF;
END
$$;

-- Stores drafts and what is owed for them: the one place that knows stripes, shards and routing.
--
-- A unit is a set of drafts that is stored whole or not at all (one request). Per draft one row comes back:
--   stored    with its id
--   busy      a stripe of its unit is held by another transaction; nothing of the unit was stored (only when NOT wait)
--   replayed  its idempotency key was used before with the same fingerprint: the earlier id
--   conflict  its idempotency key was used before with another fingerprint
--
-- Order of steps, each needed by a rule: draw the transaction id (RR-07), take the stripes (RO-02: before any
-- id is drawn; by try-lock in shared commits, RR-03), draw ids, claim idempotency keys in sorted order and
-- store what won, then read the losers in a second statement (RR-12).
CREATE FUNCTION hookwire.publish_batch(
    tenant text, units integer[], topics text[], keys text[], content_types text[], headers text[],
    payloads bytea[], idempotency_keys text[], fingerprints bytea[], wait boolean
) RETURNS TABLE (item integer, outcome text, event_id bigint, accepted_at timestamptz, ordered boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    lock_class CONSTANT integer := 1215262571;
    in_tenant CONSTANT text := publish_batch.tenant;
    in_layout smallint;
    default_sinks text[];
    refused integer[] := '{}';
    busy integer[] := '{}';
    moment timestamptz;
    stored_items integer[];
    stored_ids bigint[];
    stored_ordered boolean[];
BEGIN
    PERFORM hookwire.check_drafts(topics, keys, payloads);
    PERFORM pg_current_xact_id();
    SELECT i.layout INTO in_layout FROM hookwire.installation i;
    SELECT coalesce(array_agg(s.name ORDER BY s.name), '{}') INTO default_sinks FROM hookwire.sinks s WHERE s.configured;

    IF wait THEN
        PERFORM pg_advisory_xact_lock(lock_class, wanted.stripe)
        FROM (SELECT DISTINCT hookwire.stripe_of(hookwire.key_digest(d.topic, d.key)) AS stripe
              FROM unnest(topics, keys) AS d(topic, key)
              LEFT JOIN hookwire.topics t ON t.tenant = in_tenant AND t.name = d.topic
              WHERE d.key IS NOT NULL AND coalesce(t.ordered, true)
              ORDER BY stripe) AS wanted;
    ELSE
        SELECT coalesce(array_agg(wanted.stripe), '{}') INTO refused
        FROM (SELECT DISTINCT hookwire.stripe_of(hookwire.key_digest(d.topic, d.key)) AS stripe
              FROM unnest(topics, keys) AS d(topic, key)
              LEFT JOIN hookwire.topics t ON t.tenant = in_tenant AND t.name = d.topic
              WHERE d.key IS NOT NULL AND coalesce(t.ordered, true)
              ORDER BY stripe) AS wanted
        WHERE NOT pg_try_advisory_xact_lock(lock_class, wanted.stripe);
        IF refused <> '{}' THEN
            SELECT coalesce(array_agg(DISTINCT d.unit), '{}') INTO busy
            FROM unnest(units, topics, keys) AS d(unit, topic, key)
            WHERE d.key IS NOT NULL AND hookwire.stripe_of(hookwire.key_digest(d.topic, d.key)) = ANY (refused);
            RETURN QUERY SELECT d.n::integer, 'busy', NULL::bigint, NULL::timestamptz, NULL::boolean
            FROM unnest(units) WITH ORDINALITY AS d(unit, n) WHERE d.unit = ANY (busy);
        END IF;
    END IF;

    moment := clock_timestamp();
    WITH draft AS MATERIALIZED (
        SELECT q.*, nextval('hookwire.event_id') AS id
        FROM (SELECT d.*, coalesce(t.sinks, default_sinks) AS sinks, coalesce(t.ordered, true) AS ordered
              FROM unnest(units, topics, keys, content_types, headers, payloads, idempotency_keys, fingerprints)
                       WITH ORDINALITY AS d(unit, topic, key, content_type, headers, payload, idempotency_key, fingerprint, n)
              LEFT JOIN hookwire.topics t ON t.tenant = in_tenant AND t.name = d.topic
              WHERE d.unit <> ALL (busy)
              ORDER BY d.n
              OFFSET 0) AS q
    ), claimed AS (
        INSERT INTO hookwire.idempotency_keys AS k (tenant, key, fingerprint, event_id, accepted_at, ordered)
        SELECT in_tenant, d.idempotency_key, d.fingerprint, d.id, moment, d.ordered
        FROM draft d WHERE d.idempotency_key IS NOT NULL ORDER BY d.idempotency_key
        ON CONFLICT DO NOTHING
        RETURNING k.event_id
    ), won AS MATERIALIZED (
        SELECT d.* FROM draft d
        WHERE d.idempotency_key IS NULL OR d.id IN (SELECT c.event_id FROM claimed c)
    ), stored AS (
        INSERT INTO hookwire.events (id, accepted_at, ordered, tenant, topic, key, content_type, headers, sinks, payload)
        SELECT w.id, moment, w.ordered, in_tenant, w.topic, w.key, w.content_type,
               coalesce(w.headers::jsonb, '{}'), w.sinks, w.payload
        FROM won w
    ), owed AS (
        INSERT INTO hookwire.outbox (id, layout, shard, sink)
        SELECT w.id, in_layout,
               CASE WHEN w.key IS NULL OR NOT w.ordered THEN (w.id & 63)::smallint
                    ELSE hookwire.shard_of(hookwire.key_digest(w.topic, w.key)) END,
               sink
        FROM won w, unnest(w.sinks) AS sink
    )
    SELECT coalesce(array_agg(w.n::integer), '{}'), array_agg(w.id), array_agg(w.ordered)
    INTO stored_items, stored_ids, stored_ordered FROM won w;

    RETURN QUERY SELECT s.n, 'stored', s.id, moment, s.ordered
    FROM unnest(stored_items, stored_ids, stored_ordered) AS s(n, id, ordered);

    IF array_remove(idempotency_keys, NULL) <> '{}' THEN
        RETURN QUERY
        SELECT d.n::integer, CASE WHEN k.fingerprint = d.fingerprint THEN 'replayed' ELSE 'conflict' END,
               k.event_id, k.accepted_at, k.ordered
        FROM unnest(units, idempotency_keys, fingerprints) WITH ORDINALITY AS d(unit, idempotency_key, fingerprint, n)
        JOIN hookwire.idempotency_keys k ON k.tenant = in_tenant AND k.key = d.idempotency_key
        WHERE d.unit <> ALL (busy) AND d.n <> ALL (stored_items);
    END IF;
END
$$;

-- hookwire.publish in anybody's transaction. Waits for the key's stripe for as long as the caller's
-- lock_timeout allows, and holds it until the caller's transaction ends (RO-02). Returns the event id.
CREATE FUNCTION hookwire.publish(
    topic text, payload bytea, key text DEFAULT NULL, content_type text DEFAULT NULL, headers jsonb DEFAULT '{}'
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    house hookwire.installation;
    stored record;
BEGIN
    SELECT * INTO house FROM hookwire.installation;
    IF jsonb_typeof(coalesce(headers, '{}')) <> 'object'
       OR EXISTS (SELECT FROM jsonb_each(coalesce(headers, '{}')) AS h
                  WHERE jsonb_typeof(h.value) <> 'string' OR h.key <> lower(h.key) OR h.key !~ '^[a-z0-9_.-]{1,200}$'
                     OR (h.value #>> '{}') ~ '[\x01-\x1f\x7f]')
       OR content_type ~ '[\x01-\x1f\x7f]' OR octet_length(content_type) > 255 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'hookwire.publish: headers must be a JSON object of lower-case names and one-line texts, content_type one line of at most 255 bytes';
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

CREATE FUNCTION hookwire.publish(
    topic text, payload text, key text DEFAULT NULL, content_type text DEFAULT 'text/plain; charset=utf-8',
    headers jsonb DEFAULT '{}'
) RETURNS text
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN hookwire.publish(topic, convert_to(payload, 'UTF8'), key, content_type, headers);

CREATE FUNCTION hookwire.publish(
    topic text, payload jsonb, key text DEFAULT NULL, content_type text DEFAULT 'application/json',
    headers jsonb DEFAULT '{}'
) RETURNS text
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN hookwire.publish(topic, convert_to(payload::text, 'UTF8'), key, content_type, headers);
