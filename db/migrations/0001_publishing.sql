-- Publishing: from a topic to an event that is stored, and owed to its sinks.
--
--   hookwire.publish, hookwire.stash, POST /topics/{topic}/events
--        |
--        v
--   publish_batch --> events (the contents)  +  outbox (a row for each sink that is owed the event)
--
-- The next files follow the event: 0002 to webhooks, 0003 to brokers, 0004 to other protocols. The files after them stand
-- beside it: queues and tasks, jobs, services. Every table of users' data carries its tenant.

CREATE SCHEMA IF NOT EXISTS hookwire;

-- db/migrate.py makes this table before it runs the first file.
COMMENT ON TABLE hookwire.migrations IS 'Migrations that were applied, with checksums: a database with another history is refused.';
COMMENT ON COLUMN hookwire.migrations.version IS 'The number in the file''s name.';
COMMENT ON COLUMN hookwire.migrations.checksum IS 'SHA-256 of the file.';

-- --- the installation, its sinks and topics ---

CREATE TABLE hookwire.installation (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    incarnation text NOT NULL CHECK (incarnation ~ '^[a-z2-7]{8}$'),
    layout smallint NOT NULL DEFAULT 1,
    topics_auto_create boolean NOT NULL DEFAULT true,
    sql_notify boolean NOT NULL DEFAULT true,
    payload_bytes_max integer NOT NULL DEFAULT 1048576,
    created_at timestamptz NOT NULL DEFAULT now(),
    queues_auto_create boolean NOT NULL DEFAULT true,
    kinds_auto_create boolean NOT NULL DEFAULT true,
    services_auto_create boolean NOT NULL DEFAULT true
);
COMMENT ON TABLE hookwire.installation IS
    'One row: what makes this installation itself, and what its publishing functions need of the settings.';
COMMENT ON COLUMN hookwire.installation.singleton IS 'Always true: there is one row.';
COMMENT ON COLUMN hookwire.installation.incarnation IS
    'Eight characters drawn when the database was made; part of each public event id.';
COMMENT ON COLUMN hookwire.installation.layout IS 'The number of the current layout of shards and partition groups.';
COMMENT ON COLUMN hookwire.installation.topics_auto_create IS 'Whether a first publish creates its topic.';
COMMENT ON COLUMN hookwire.installation.sql_notify IS 'Whether hookwire.publish sends NOTIFY (RR-15).';
COMMENT ON COLUMN hookwire.installation.queues_auto_create IS 'Whether a first message creates its queue.';
COMMENT ON COLUMN hookwire.installation.kinds_auto_create IS 'Whether a first job creates its kind.';
COMMENT ON COLUMN hookwire.installation.services_auto_create IS 'Whether a first request creates its service.';

INSERT INTO hookwire.installation (incarnation)
SELECT string_agg(substr('abcdefghijklmnopqrstuvwxyz234567',
                         1 + (get_byte(uuid_send(gen_random_uuid()), 0) & 31), 1), '')
FROM generate_series(1, 8);

CREATE TABLE hookwire.sinks (
    name text PRIMARY KEY CHECK (name IN ('kafka', 'amqp', 'webhooks', 'jobs')),
    configured boolean NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE hookwire.sinks IS 'The sinks that exist: webhooks, pull, kafka, amqp and jobs.';
COMMENT ON COLUMN hookwire.sinks.configured IS 'Whether a process of this installation carries records to the sink.';

INSERT INTO hookwire.sinks (name, configured) VALUES ('webhooks', true), ('kafka', false), ('amqp', false), ('jobs', true);

CREATE TABLE hookwire.topics (
    tenant text NOT NULL DEFAULT 'default',
    name text NOT NULL,
    sinks text[],
    ordered boolean NOT NULL DEFAULT true,
    kafka_topic text,                               -- NULL: the topic's own name
    amqp_exchange text,                             -- NULL: the configured exchange
    amqp_routing_key text,                          -- NULL: the topic's own name
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    on_refused text CHECK (on_refused IN ('hold_key', 'skip', 'stop')),
    validator_url text,
    moved_to text,
    retention_days integer CHECK (retention_days BETWEEN 0 AND 36500),
    version integer NOT NULL DEFAULT 1,
    amqp_exchange_type text CHECK (amqp_exchange_type IN ('direct', 'fanout', 'topic', 'headers')),
    job jsonb,
    PRIMARY KEY (tenant, name),
    CONSTRAINT topics_job_check CHECK (
        'jobs' = ANY (sinks) IS NOT TRUE
        OR (jsonb_typeof(job) = 'object' AND NOT starts_with(name, 'hookwire.') AND name <> 'hookwire') IS TRUE)
);
COMMENT ON TABLE hookwire.topics IS 'Topics with their settings. The hub''s own topics need no row.';
COMMENT ON COLUMN hookwire.topics.sinks IS 'The sinks that events of the topic go to; NULL: those of the hub''s settings.';
COMMENT ON COLUMN hookwire.topics.ordered IS 'Whether events of a key keep the order of their commits.';
COMMENT ON COLUMN hookwire.topics.on_refused IS
    'What a record that a broker refuses for good does to its key: hold_key, skip or stop; NULL: as the sink''s setting says.';
COMMENT ON COLUMN hookwire.topics.validator_url IS
    'The URL that is asked about each WebSub subscribe request; NULL: nobody is asked.';
COMMENT ON COLUMN hookwire.topics.moved_to IS
    'The URL at which the topic is published now; requests for it are redirected there.';
COMMENT ON COLUMN hookwire.topics.retention_days IS 'How long events are kept; 0: for ever; NULL: as the hub''s setting says.';
COMMENT ON COLUMN hookwire.topics.version IS 'Rises with each change of the settings; the ETag of the API.';
COMMENT ON COLUMN hookwire.topics.job IS
    'The rule by which the sink jobs enqueues a job for each event; NULL: there was never one.';

-- --- events and what is owed for them ---

-- CACHE 1: with a larger cache a connection keeps low numbers and uses them late (RP-08).
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
    sinks text[] NOT NULL,
    payload bytea NOT NULL,
    PRIMARY KEY (id)
) PARTITION BY RANGE (id);
COMMENT ON TABLE hookwire.events IS
    'Published events with their contents, partitioned by id. No foreign key refers to it, so that partitions can be dropped (RR-05).';
COMMENT ON COLUMN hookwire.events.id IS 'Drawn under the key''s stripe lock: ids of one key rise in commit order.';
COMMENT ON COLUMN hookwire.events.accepted_at IS 'When the publishing transaction stored the event, by the database''s clock.';
COMMENT ON COLUMN hookwire.events.ordered IS
    'Whether the topic kept order when the event was accepted; then id is also the sequence.';
COMMENT ON COLUMN hookwire.events.sinks IS 'The sinks that the event was owed to at its acceptance.';
COMMENT ON COLUMN hookwire.events.payload IS 'The body as it was received; empty for a tombstone, which a header marks.';

-- The latest event of a topic, for GET /topics/{topic}.
CREATE INDEX events_topic ON hookwire.events (tenant, topic, id);
CREATE INDEX events_key ON hookwire.events (tenant, key, id) WHERE key IS NOT NULL;

-- One index, and vacuum by the number of dead rows: the table is small, and every row of it lives for moments.
CREATE TABLE hookwire.outbox (
    id bigint NOT NULL,
    layout smallint NOT NULL,
    shard smallint NOT NULL,
    sink text COLLATE "C" NOT NULL,
    PRIMARY KEY (sink, shard, id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
        autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 100000);
COMMENT ON TABLE hookwire.outbox IS
    'What each sink is still owed: one row for each event and sink, deleted when the sink has confirmed it.';
COMMENT ON COLUMN hookwire.outbox.id IS 'The id of the event.';
COMMENT ON COLUMN hookwire.outbox.layout IS 'The layout under which the shard was computed.';
COMMENT ON COLUMN hookwire.outbox.shard IS 'One of 64 parts of the key space; of an event without a key, a part by its id.';

CREATE TABLE hookwire.idempotency_keys (
    tenant text NOT NULL,
    key text NOT NULL,
    fingerprint bytea NOT NULL,
    event_id bigint NOT NULL,
    accepted_at timestamptz NOT NULL,
    ordered boolean NOT NULL,
    topic text NOT NULL DEFAULT '',
    PRIMARY KEY (tenant, topic, key)
);
COMMENT ON TABLE hookwire.idempotency_keys IS
    'Idempotency keys of publishers, each with its answer. Not partitioned, so that partitions of events can go (RR-05).';
COMMENT ON COLUMN hookwire.idempotency_keys.fingerprint IS 'A hash of the draft: another draft under the same key is a conflict.';
COMMENT ON COLUMN hookwire.idempotency_keys.ordered IS 'As in events, for the answer.';

CREATE INDEX idempotency_keys_age ON hookwire.idempotency_keys (accepted_at);

-- --- keys: locks and shards ---

-- The documented hash of (topic, key): SHA-256 of topic, a zero byte, key (vectors: openapi/key-hash-vectors.json).
CREATE FUNCTION hookwire.key_digest(topic text, key text) RETURNS bytea
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN sha256(convert_to(topic, 'UTF8') || '\x00'::bytea || convert_to(key, 'UTF8'));

-- The input of stripe and shard: a topic's key, or a key in all topics (RO-03, RG-10). A change of the order scope replaces
-- this function. A transaction never sees an old version of a function, as it would see an old row.
CREATE FUNCTION hookwire.lane_digest(topic text, key text) RETURNS bytea
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN hookwire.key_digest(topic, key);

-- 64 virtual shards: the relay's share of the key space.
CREATE FUNCTION hookwire.shard_of(digest bytea) RETURNS smallint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (get_byte(digest, 0) & 63)::smallint;

-- 1,024 stripes: the locks that make commit order id order within a key.
CREATE FUNCTION hookwire.stripe_of(digest bytea) RETURNS integer
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN ((get_byte(digest, 1) << 8) | get_byte(digest, 2)) & 1023;

-- --- publish ---

-- Refuse records that no sink could carry, so that poison does not enter (RO-08). The hub's own topics need no row, also where
-- a first publish creates no topic.
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
        WHERE NOT starts_with(d.topic, 'hookwire.')
          AND NOT EXISTS (SELECT FROM hookwire.topics t WHERE t.tenant = 'default' AND t.name = d.topic) LIMIT 1;
        IF wrong IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('hookwire.publish: unknown topic %L', wrong);
        END IF;
    END IF;
END
$$;

-- The members that make two CloudEvents of one source and id the same event: ordering key, content type, attributes, data.
-- `time` and the tracing attributes may differ when a publisher builds its event anew to repeat it.
CREATE FUNCTION hookwire.event_digest(key text, content_type text, headers jsonb, payload bytea) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE
RETURN sha256(sha256(payload) || convert_to(jsonb_build_array(
    key, content_type,
    (SELECT jsonb_object_agg(h.key, h.value) FROM jsonb_each_text(coalesce(headers, '{}')) AS h
     WHERE starts_with(h.key, 'ce-') AND h.key NOT IN ('ce-time', 'ce-traceparent', 'ce-tracestate'))
)::text, 'UTF8'));

-- The terms on which a process offers the direct path (ADR 47). low: below that id no outbox row of the webhooks is left or can
-- still appear, and origin is the origin of that knowledge (FC-01). timeout_seconds and lease_margin_seconds make the lease,
-- as in a claim. deliveries_max limits a commit; a tenant may have patterns_max subscriptions by pattern.
CREATE TYPE hookwire.direct_terms AS (
    low bigint, origin uuid, timeout_seconds double precision, lease_margin_seconds double precision,
    deliveries_max integer, patterns_max integer
);

-- Draft n is delivered to this subscription; to none where subscription_id is NULL.
CREATE TYPE hookwire.direct_delivery AS (
    n integer, subscription_id bigint, version bigint, lease_seconds double precision, lane text
);

-- Store drafts and the outbox rows for them: the only place that knows stripes, shards and routing.
--
-- A unit is a set of drafts that is stored whole or not at all (one request). One row comes back for each draft:
--   stored      with its id
--   busy        an open transaction holds a stripe of its unit (only when NOT wait), or one of its idempotency keys
--   replayed    its idempotency key was used before on its topic, with the same digest: the earlier id
--   conflict    its idempotency key was used before on its topic, with another digest
--
-- Of a busy unit nothing was stored; in_flight tells that the cause is an idempotency key.
--
-- The digest is the fingerprint. Where that is NULL, or the digest of the key itself, it is made of the event: the key is a
-- CloudEvent's identity (FC-07).
--
-- A unit that conflicts in one part and was stored in another raises unique_violation. Everything is rolled back then, and the
-- caller finds the unit by halving (RR-12).
--
-- Each step of this order is needed by a rule:
--   1. Draw the transaction id (RR-07), and read the topics once (FC-11).
--   2. Take the stripes, before any id is drawn (RO-02); by try-lock in shared commits (RR-03).
--   3. Take the idempotency keys by try-lock, sorted (FC-09).
--   4. Choose the drafts of the direct path.
--   5. Draw ids, claim the keys, and store the drafts that won.
--   6. Read the others in a second statement (RR-12).
--
-- Topics below hookwire.job and hookwire.service go to webhooks and pull only, unless their settings name other sinks. Only a
-- topic's own settings name the sink jobs.
CREATE FUNCTION hookwire.publish_batch(
    tenant text, units integer[], topics text[], keys text[], content_types text[], headers text[],
    payloads bytea[], idempotency_keys text[], fingerprints bytea[], wait boolean,
    direct hookwire.direct_terms DEFAULT NULL
) RETURNS TABLE (
    item integer, outcome text, event_id bigint, accepted_at timestamptz, ordered boolean, in_flight boolean,
    is_owed boolean, fence bigint, claims hookwire.direct_delivery[]
)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    stripe_class CONSTANT integer := 1215262571;
    idempotency_class CONSTANT integer := 1215262572;
    audience_class CONSTANT integer := 1215262575;
    in_tenant CONSTANT text := publish_batch.tenant;
    has_names CONSTANT boolean := array_remove(publish_batch.idempotency_keys, NULL) <> '{}';
    in_layout smallint;
    default_sinks text[];
    inner_sinks text[];   -- those of what the hub says of jobs and services: brokers get it only where a topic says so
    orders boolean[];     -- of each draft: does its topic keep order
    routes text[];        -- of each draft: its sinks, with commas
    stripes integer[];    -- of each draft: the lock of its key; NULL without order
    names integer[];      -- of each draft: the lock of its idempotency key; the parts of a request share one
    digests bytea[];
    refused integer[] := '{}';
    busy integer[] := '{}';
    running integer[] := '{}';
    moment timestamptz;
    stored_items integer[];
    stored_ids bigint[];
    stored_ordered boolean[];
    is_audience_kept boolean := false;   -- no subscription is activated or changed before COMMIT
    made hookwire.direct_delivery[] := '{}';
    direct_items integer[] := '{}';      -- of the drafts: which take the direct way
BEGIN
    PERFORM hookwire.check_drafts(topics, keys, payloads);
    PERFORM pg_current_xact_id();
    SELECT i.layout INTO in_layout FROM hookwire.installation i;
    SELECT coalesce(array_agg(s.name ORDER BY s.name), '{}'),
           coalesce(array_agg(s.name ORDER BY s.name) FILTER (WHERE s.name = 'webhooks'), '{}')
    INTO default_sinks, inner_sinks
    FROM hookwire.sinks s WHERE s.configured AND s.name <> 'jobs';

    SELECT array_agg(q.ordered ORDER BY q.n), array_agg(q.route ORDER BY q.n), array_agg(q.stripe ORDER BY q.n)
    INTO orders, routes, stripes
    FROM (SELECT d.n, coalesce(t.ordered, true) AS ordered,
                 array_to_string(coalesce(t.sinks, CASE WHEN starts_with(d.topic, 'hookwire.') AND d.topic ~ '^hookwire[.](job|service)([.]|$)'
                                                        THEN inner_sinks ELSE default_sinks END), ',') AS route,
                 CASE WHEN d.key IS NOT NULL AND coalesce(t.ordered, true)
                      THEN hookwire.stripe_of(hookwire.lane_digest(d.topic, d.key)) END AS stripe
          FROM unnest(topics, keys) WITH ORDINALITY AS d(topic, key, n)
          LEFT JOIN hookwire.topics t ON t.tenant = in_tenant AND t.name = d.topic) AS q;

    IF wait THEN
        PERFORM pg_advisory_xact_lock(stripe_class, wanted.stripe)
        FROM (SELECT DISTINCT s.stripe FROM unnest(stripes) AS s(stripe)
              WHERE s.stripe IS NOT NULL ORDER BY s.stripe) AS wanted;
    ELSE
        SELECT coalesce(array_agg(wanted.stripe), '{}') INTO refused
        FROM (SELECT DISTINCT s.stripe FROM unnest(stripes) AS s(stripe)
              WHERE s.stripe IS NOT NULL ORDER BY s.stripe) AS wanted
        WHERE NOT pg_try_advisory_xact_lock(stripe_class, wanted.stripe);
        IF refused <> '{}' THEN
            SELECT coalesce(array_agg(DISTINCT d.unit), '{}') INTO busy
            FROM unnest(units, stripes) AS d(unit, stripe) WHERE d.stripe = ANY (refused);
        END IF;
    END IF;

    IF has_names THEN
        SELECT array_agg(hashtext(d.topic || E'\x1f' || split_part(d.idempotency_key, E'\x1f', 1)) ORDER BY d.n),
               array_agg(CASE WHEN d.idempotency_key IS NULL THEN NULL
                              WHEN d.fingerprint IS NULL OR d.fingerprint = sha256(convert_to(d.idempotency_key, 'UTF8'))
                              THEN hookwire.event_digest(d.key, d.content_type, d.headers::jsonb, d.payload)
                              ELSE d.fingerprint END ORDER BY d.n)
        INTO names, digests
        FROM unnest(topics, keys, content_types, headers, payloads, idempotency_keys, fingerprints)
                 WITH ORDINALITY AS d(topic, key, content_type, headers, payload, idempotency_key, fingerprint, n);

        SELECT coalesce(array_agg(wanted.name), '{}') INTO refused
        FROM (SELECT DISTINCT d.name FROM unnest(units, names) AS d(unit, name)
              WHERE d.name IS NOT NULL AND d.unit <> ALL (busy) ORDER BY d.name) AS wanted
        WHERE NOT pg_try_advisory_xact_lock(idempotency_class, wanted.name);
        IF refused <> '{}' THEN
            SELECT coalesce(array_agg(DISTINCT d.unit), '{}') INTO running
            FROM unnest(units, names) AS d(unit, name) WHERE d.name = ANY (refused) AND d.unit <> ALL (busy);
            busy := busy || running;
        END IF;
    END IF;

    IF busy <> '{}' THEN
        RETURN QUERY SELECT d.n::integer, 'busy', NULL::bigint, NULL::timestamptz, NULL::boolean, d.unit = ANY (running),
               false, NULL::bigint, NULL::hookwire.direct_delivery[]
        FROM unnest(units) WITH ORDINALITY AS d(unit, n) WHERE d.unit = ANY (busy);
    END IF;

    IF direct IS NOT NULL THEN
        SELECT bool_and(pg_try_advisory_xact_lock_shared(audience_class, s.slot)) INTO is_audience_kept
        FROM generate_series(0, 7) AS s(slot);
    END IF;
    IF is_audience_kept THEN
        -- A later statement than those that took the locks: it sees all that their former holders committed (RR-13).
        made := ARRAY(SELECT a FROM hookwire.direct_audience(in_tenant, units, topics, keys, orders, routes, busy, direct) AS a);
        direct_items := ARRAY(SELECT DISTINCT m.n FROM unnest(made) AS m);
    END IF;

    moment := clock_timestamp();
    WITH draft AS MATERIALIZED (
        SELECT q.*, nextval('hookwire.event_id') AS id
        FROM (SELECT d.*
              FROM unnest(units, topics, keys, content_types, headers, payloads, idempotency_keys, digests, orders, routes)
                       WITH ORDINALITY AS d(unit, topic, key, content_type, headers, payload, idempotency_key, digest,
                                            ordered, route, n)
              WHERE d.unit <> ALL (busy)
              ORDER BY d.n
              OFFSET 0) AS q
    ), claimed AS (
        INSERT INTO hookwire.idempotency_keys AS k (tenant, topic, key, fingerprint, event_id, accepted_at, ordered)
        SELECT in_tenant, d.topic, d.idempotency_key, d.digest, d.id, moment, d.ordered
        FROM draft d WHERE d.idempotency_key IS NOT NULL ORDER BY d.topic, d.idempotency_key, d.n
        ON CONFLICT DO NOTHING
        RETURNING k.event_id
    ), won AS MATERIALIZED (
        SELECT d.* FROM draft d
        WHERE d.idempotency_key IS NULL OR d.id IN (SELECT c.event_id FROM claimed c)
    ), stored AS (
        INSERT INTO hookwire.events (id, accepted_at, ordered, tenant, topic, key, content_type, headers, sinks, payload)
        SELECT w.id, moment, w.ordered, in_tenant, w.topic, w.key, w.content_type,
               coalesce(w.headers::jsonb, '{}'), string_to_array(w.route, ','), w.payload
        FROM won w
    ), owed AS (
        INSERT INTO hookwire.outbox (id, layout, shard, sink)
        SELECT w.id, in_layout,
               CASE WHEN w.key IS NULL OR NOT w.ordered THEN (w.id & 63)::smallint
                    ELSE hookwire.shard_of(hookwire.lane_digest(w.topic, w.key)) END,
               sink
        FROM won w, unnest(string_to_array(w.route, ',')) AS sink
        WHERE sink <> 'webhooks' OR w.n <> ALL (direct_items)
    )
    SELECT coalesce(array_agg(w.n::integer), '{}'), array_agg(w.id), array_agg(w.ordered)
    INTO stored_items, stored_ids, stored_ordered FROM won w;

    IF direct_items <> '{}' THEN
        -- A lease, counted from now, and a fence, as a claim gives them. The ledger entry is that of a purge.
        fence := nextval('hookwire.delivery_fence');
        WITH delivery AS MATERIALIZED (
            SELECT s.id, m.subscription_id, m.lease_seconds, m.lane
            FROM unnest(stored_items, stored_ids) AS s(n, id) JOIN unnest(made) AS m ON m.n = s.n
        ), claimed AS (
            INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, fence, attempts, tenant, lane)
            SELECT d.id, d.subscription_id, clock_timestamp() + make_interval(secs => d.lease_seconds), moment, fence, 1,
                   in_tenant, d.lane
            FROM delivery d WHERE d.subscription_id IS NOT NULL
        )
        INSERT INTO hookwire.ledger_entries (sink, outcome, ids)
        SELECT 'webhooks', 'sent', array_agg(DISTINCT d.id) FROM delivery d HAVING count(*) > 0;
    END IF;

    RETURN QUERY
    SELECT s.n, 'stored', s.id, moment, s.ordered, false, s.n <> ALL (direct_items) OR routes[s.n] <> 'webhooks', fence,
           ARRAY(SELECT m FROM unnest(made) AS m WHERE m.n = s.n AND m.subscription_id IS NOT NULL)
    FROM unnest(stored_items, stored_ids, stored_ordered) AS s(n, id, ordered);

    IF has_names THEN
        IF EXISTS (
            SELECT FROM unnest(units, topics, idempotency_keys, digests) WITH ORDINALITY
                            AS d(unit, topic, idempotency_key, digest, n)
            JOIN hookwire.idempotency_keys k ON k.tenant = in_tenant AND k.topic = d.topic AND k.key = d.idempotency_key
            WHERE k.fingerprint <> d.digest AND d.n <> ALL (stored_items)
              AND d.unit IN (SELECT units[s.n] FROM unnest(stored_items) AS s(n))
        ) THEN
            RAISE EXCEPTION USING ERRCODE = 'unique_violation',
                MESSAGE = 'hookwire.publish: an idempotency key was used before with other contents';
        END IF;
        RETURN QUERY
        SELECT d.n::integer, CASE WHEN k.fingerprint = d.digest THEN 'replayed' ELSE 'conflict' END,
               k.event_id, k.accepted_at, k.ordered, false, false, NULL::bigint, NULL::hookwire.direct_delivery[]
        FROM unnest(units, topics, idempotency_keys, digests) WITH ORDINALITY AS d(unit, topic, idempotency_key, digest, n)
        JOIN hookwire.idempotency_keys k ON k.tenant = in_tenant AND k.topic = d.topic AND k.key = d.idempotency_key
        WHERE d.unit <> ALL (busy) AND d.n <> ALL (stored_items);
    END IF;
END
$$;

-- Refuse headers that a foreign transaction may not send (RL-23, FS-03, FS-13); raise invalid_parameter_value.
CREATE FUNCTION hookwire.check_headers(headers jsonb) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
    bytes_max CONSTANT integer := 16384;
    names_max CONSTANT integer := 64;
    wrong text;
BEGIN
    IF jsonb_typeof(headers) <> 'object'
       OR EXISTS (SELECT FROM jsonb_each(headers) AS h
                  WHERE jsonb_typeof(h.value) <> 'string' OR h.key <> lower(h.key) OR h.key !~ '^[a-z0-9_.-]{1,200}$'
                     OR (h.value #>> '{}') ~ '[\x01-\x1f\x7f]') THEN
        wrong := 'headers must be a JSON object of lower-case names and one-line texts';
    ELSIF octet_length(headers::text) > bytes_max THEN
        wrong := format('the headers have %s bytes as JSON, at most %s are accepted', octet_length(headers::text), bytes_max);
    ELSIF (SELECT count(*) FROM jsonb_object_keys(headers)) > names_max THEN
        wrong := format('there are more than %s headers', names_max);
    ELSE
        SELECT CASE
                   WHEN h.key = 'hookwire-ttl' THEN 'the header hookwire-ttl is a number of seconds, 1 to 31536000'
                   WHEN h.key = 'hookwire-retry' THEN 'the header hookwire-retry is never, or left out'
                   WHEN starts_with(h.key, 'hookwire-') THEN format('the header %s is the hub''s own; leave it out', h.key)
                   ELSE format('the header %s would be sent to every subscriber; leave it out', h.key)
               END
        INTO wrong
        FROM jsonb_each_text(headers) AS h
        WHERE CASE h.key
                  WHEN 'hookwire-ttl' THEN CASE WHEN h.value ~ '^[0-9]{1,8}$' THEN h.value::bigint NOT BETWEEN 1 AND 31536000 ELSE true END
                  WHEN 'hookwire-retry' THEN h.value <> 'never'
                  ELSE starts_with(h.key, 'hookwire-') OR starts_with(h.key, 'proxy-') OR starts_with(h.key, 'x-forwarded-')
                       OR h.key IN ('authorization', 'cookie', 'set-cookie', 'x-api-key', 'forwarded')
              END
        LIMIT 1;
    END IF;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'hookwire.publish: ' || wrong;
    END IF;
END
$$;

-- Publish in any transaction. Wait for the key's stripe for as long as the caller's lock_timeout allows, and hold it until the
-- transaction ends (RO-02). Return the event id. hookwire.* is the hub's own namespace, so nothing is published there. A
-- payload that is NULL is a tombstone: a null value on Kafka, an empty body elsewhere (FM-05).
CREATE FUNCTION hookwire.publish(
    topic text, payload bytea, key text DEFAULT NULL, content_type text DEFAULT NULL, headers jsonb DEFAULT '{}'
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    house hookwire.installation;
    stored record;
BEGIN
    SELECT * INTO house FROM hookwire.installation;
    IF topic = 'hookwire' OR starts_with(topic, 'hookwire.') THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('hookwire.publish: the topic %L is the hub''s own', left(topic, 80));
    END IF;
    IF content_type ~ '[\x01-\x1f\x7f]' OR octet_length(content_type) > 255 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'hookwire.publish: content_type must be one line of at most 255 bytes';
    END IF;
    PERFORM hookwire.check_headers(coalesce(headers, '{}'));
    IF payload IS NULL THEN
        IF key IS NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
                MESSAGE = 'hookwire.publish: the payload is missing; a tombstone (payload NULL) has a key';
        END IF;
        payload := '';
        content_type := NULL;
        headers := coalesce(headers, '{}') || '{"hookwire-tombstone": "true"}';
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

-- Publishing by a plain INSERT, for writers that call no function: any language, any ORM, but not COPY (RO-02b).
--
-- The view holds nothing. Its trigger calls hookwire.publish, which takes the key's lock before it draws the id. A trigger on
-- a table would come too late, after the column's default was evaluated (RO-02b, 3 inversions in 960).
CREATE VIEW hookwire.stash AS
SELECT NULL::text AS event_id,       -- filled in by the insert: RETURNING event_id
       NULL::text AS topic,
       NULL::text AS key,
       NULL::text AS payload,        -- text, or
       NULL::bytea AS payload_bytes, -- bytes; both NULL: an empty event
       NULL::text AS content_type,
       NULL::jsonb AS headers
WHERE false;
COMMENT ON VIEW hookwire.stash IS 'INSERT here to publish in your transaction; see docs/how-to/publish-from-your-transaction.md';

CREATE FUNCTION hookwire.stash_row() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.payload IS NOT NULL AND NEW.payload_bytes IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'hookwire.stash: give payload (text) or payload_bytes, not both';
    END IF;
    IF NEW.payload IS NOT NULL THEN
        NEW.content_type := coalesce(NEW.content_type, 'text/plain; charset=utf-8');
        NEW.payload_bytes := convert_to(NEW.payload, 'UTF8');
    END IF;
    NEW.headers := coalesce(NEW.headers, '{}');
    NEW.event_id := hookwire.publish(NEW.topic, coalesce(NEW.payload_bytes, ''::bytea), NEW.key, NEW.content_type, NEW.headers);
    RETURN NEW;
END
$$;

CREATE TRIGGER publish INSTEAD OF INSERT ON hookwire.stash FOR EACH ROW EXECUTE FUNCTION hookwire.stash_row();

-- USAGE on the schema is the right to publish, as with the function. A role needs nothing else.
GRANT SELECT, INSERT ON hookwire.stash TO PUBLIC;
