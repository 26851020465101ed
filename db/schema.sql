-- What all migrations together make. Written by `make schema`, never by hand.

CREATE SCHEMA hookwire;

CREATE FUNCTION hookwire.assert_origin(origin uuid, done_id bigint) RETURNS boolean
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    IF origin <> hookwire.origin() OR done_id > (SELECT e.last_value FROM hookwire.event_id e) THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'event ids may begin anew: the server was restarted, replaced or restored since they were read';
    END IF;
    RETURN true;
END
$$;

CREATE FUNCTION hookwire.check_drafts(topics text[], keys text[], payloads bytea[]) RETURNS void
    LANGUAGE plpgsql STABLE
    AS $_$
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
$_$;

CREATE FUNCTION hookwire.check_headers(headers jsonb) RETURNS void
    LANGUAGE plpgsql STABLE
    AS $_$
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
$_$;

CREATE FUNCTION hookwire.check_writable() RETURNS timestamp with time zone
    LANGUAGE plpgsql
    SET work_mem TO '64kB'
    AS $$
DECLARE
    moment timestamptz;
BEGIN
    PERFORM count(*) FROM (SELECT n FROM generate_series(1, 20000) AS n ORDER BY hashint4(n)) AS spilled;
    INSERT INTO hookwire.readiness AS r (written_at) VALUES (now())
    ON CONFLICT (singleton) DO UPDATE SET written_at = excluded.written_at
    RETURNING r.written_at INTO moment;
    RETURN moment;
END $$;

CREATE FUNCTION hookwire.ensure_partitions(spare integer DEFAULT 3) RETURNS integer
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION hookwire.event_digest(key text, content_type text, headers jsonb, payload bytea) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN sha256((sha256(payload) || convert_to((jsonb_build_array(key, content_type, (SELECT jsonb_object_agg(h.key, h.value) AS jsonb_object_agg FROM jsonb_each_text(COALESCE(event_digest.headers, '{}'::jsonb)) h(key, value) WHERE (starts_with(h.key, 'ce-'::text) AND (h.key <> ALL (ARRAY['ce-time'::text, 'ce-traceparent'::text, 'ce-tracestate'::text]))))))::text, 'UTF8'::name)));

CREATE FUNCTION hookwire.json_of(payload bytea) RETURNS jsonb
    LANGUAGE plpgsql STABLE STRICT
    AS $$
BEGIN
    RETURN convert_from(payload, 'UTF8')::jsonb;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END
$$;

CREATE FUNCTION hookwire.filter_document(topic text, key text, accepted_at timestamp with time zone, content_type text, headers jsonb, payload bytea) RETURNS jsonb
    LANGUAGE sql STABLE
    RETURN jsonb_build_object('topic', topic, 'key', key, 'time', to_char((accepted_at AT TIME ZONE 'UTC'::text), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'::text), 'content_type', content_type, 'headers', headers, 'data', hookwire.json_of(payload));

CREATE TABLE hookwire.layouts (
    number smallint NOT NULL,
    groups jsonb NOT NULL,
    order_scope text NOT NULL,
    hash_version smallint NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT layouts_hash_version_check CHECK ((hash_version = 1)),
    CONSTRAINT layouts_order_scope_check CHECK ((order_scope = ANY (ARRAY['topic_key'::text, 'key'::text])))
);

CREATE FUNCTION hookwire.groups_of(layout smallint, sink text) RETURNS smallint
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN (SELECT COALESCE(((l.groups ->> groups_of.sink))::smallint, (1)::smallint) AS "coalesce" FROM hookwire.layouts l WHERE (l.number = groups_of.layout));

CREATE FUNCTION hookwire.key_digest(topic text, key text) RETURNS bytea
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN sha256(((convert_to(topic, 'UTF8'::name) || '\x00'::bytea) || convert_to(key, 'UTF8'::name)));

CREATE FUNCTION hookwire.lane_digest(topic text, key text) RETURNS bytea
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN hookwire.key_digest(topic, key);

CREATE TABLE hookwire.relay_batch_numbers (
    sink text NOT NULL COLLATE pg_catalog."C",
    layout smallint NOT NULL,
    grp smallint NOT NULL,
    batch_no bigint NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_insert_threshold='-1', autovacuum_vacuum_cost_delay='0');

CREATE FUNCTION hookwire.last_batch_no(sink text, layout smallint, grp smallint) RETURNS bigint
    LANGUAGE sql
    RETURN COALESCE((SELECT n.batch_no FROM hookwire.relay_batch_numbers n WHERE ((n.sink = last_batch_no.sink) AND (n.layout = last_batch_no.layout) AND (n.grp = last_batch_no.grp)) ORDER BY n.batch_no DESC LIMIT 1), (0)::bigint);

CREATE FUNCTION hookwire.ledger_hash(id bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN ((('x'::text || "left"(encode(sha256(int8send(id)), 'hex'::text), 16)))::bit(64))::bigint;

CREATE FUNCTION hookwire.ledger_sum(total numeric) RETURNS numeric
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN mod((mod(COALESCE(total, (0)::numeric), '18446744073709551616'::numeric) + '18446744073709551616'::numeric), '18446744073709551616'::numeric);

CREATE FUNCTION hookwire.next_in_lane(subscription bigint, lane text, event bigint) RETURNS TABLE(place tid)
    LANGUAGE sql STABLE
    AS $_$
    SELECT x.ctid FROM hookwire.deliveries x
    WHERE x.subscription_id = $1 AND x.lane = $2 AND x.event_id > $3
    ORDER BY x.event_id LIMIT 1
$_$;

CREATE FUNCTION hookwire.note_batch_no() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    NEW.batch_no := greatest(NEW.batch_no, hookwire.last_batch_no(NEW.sink, NEW.layout, NEW.grp));
    RETURN NEW;
END $$;

CREATE FUNCTION hookwire.note_former_audience() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO hookwire.former_audiences (subscription_id, until_id, tenant, topic, topic_regex, filter_path, lease_until)
    SELECT OLD.id, e.last_value, OLD.tenant, OLD.topic, OLD.topic_regex, OLD.filter_path, OLD.lease_until
    FROM hookwire.event_id e
    WHERE e.is_called;
    RETURN NULL;
END $$;

CREATE FUNCTION hookwire.origin() RETURNS uuid
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT encode(substr(sha256(convert_to(concat_ws(' ', extract(epoch FROM pg_postmaster_start_time()),
               pg_relation_filepath('hookwire.event_id')), 'UTF8')), 1, 16), 'hex')::uuid
$$;

CREATE FUNCTION hookwire.passes(document jsonb, filter_path jsonpath) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN COALESCE(jsonb_path_match(document, filter_path, '{}'::jsonb, true), false);

CREATE FUNCTION hookwire.publish(topic text, payload bytea, key text DEFAULT NULL::text, content_type text DEFAULT NULL::text, headers jsonb DEFAULT '{}'::jsonb) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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
    SELECT * INTO STRICT stored FROM hookwire.publish_batch(
        'default', ARRAY[1], ARRAY[topic], ARRAY[key], ARRAY[content_type], ARRAY[headers::text],
        ARRAY[payload], ARRAY[NULL::text], ARRAY[NULL::bytea], true);
    IF house.sql_notify THEN
        PERFORM pg_notify('hookwire_outbox', '');
    END IF;
    RETURN 'evt_' || house.incarnation || '_' || stored.event_id;
END
$$;

CREATE FUNCTION hookwire.publish(topic text, payload jsonb, key text DEFAULT NULL::text, content_type text DEFAULT 'application/json'::text, headers jsonb DEFAULT '{}'::jsonb) RETURNS text
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    RETURN hookwire.publish(topic, convert_to((payload)::text, 'UTF8'::name), key, content_type, headers);

CREATE FUNCTION hookwire.publish(topic text, payload text, key text DEFAULT NULL::text, content_type text DEFAULT 'text/plain; charset=utf-8'::text, headers jsonb DEFAULT '{}'::jsonb) RETURNS text
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    RETURN hookwire.publish(topic, convert_to(payload, 'UTF8'::name), key, content_type, headers);

CREATE FUNCTION hookwire.publish_batch(tenant text, units integer[], topics text[], keys text[], content_types text[], headers text[], payloads bytea[], idempotency_keys text[], fingerprints bytea[], wait boolean) RETURNS TABLE(item integer, outcome text, event_id bigint, accepted_at timestamp with time zone, ordered boolean, in_flight boolean)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    stripe_class CONSTANT integer := 1215262571;
    idempotency_class CONSTANT integer := 1215262572;
    in_tenant CONSTANT text := publish_batch.tenant;
    has_names CONSTANT boolean := array_remove(publish_batch.idempotency_keys, NULL) <> '{}';
    in_layout smallint;
    default_sinks text[];
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
BEGIN
    PERFORM hookwire.check_drafts(topics, keys, payloads);
    PERFORM pg_current_xact_id();
    SELECT i.layout INTO in_layout FROM hookwire.installation i;
    SELECT coalesce(array_agg(s.name ORDER BY s.name), '{}') INTO default_sinks FROM hookwire.sinks s WHERE s.configured;

    SELECT array_agg(q.ordered ORDER BY q.n), array_agg(q.route ORDER BY q.n), array_agg(q.stripe ORDER BY q.n)
    INTO orders, routes, stripes
    FROM (SELECT d.n, coalesce(t.ordered, true) AS ordered,
                 array_to_string(coalesce(t.sinks, default_sinks), ',') AS route,
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
        RETURN QUERY SELECT d.n::integer, 'busy', NULL::bigint, NULL::timestamptz, NULL::boolean, d.unit = ANY (running)
        FROM unnest(units) WITH ORDINALITY AS d(unit, n) WHERE d.unit = ANY (busy);
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
    )
    SELECT coalesce(array_agg(w.n::integer), '{}'), array_agg(w.id), array_agg(w.ordered)
    INTO stored_items, stored_ids, stored_ordered FROM won w;

    RETURN QUERY SELECT s.n, 'stored', s.id, moment, s.ordered, false
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
               k.event_id, k.accepted_at, k.ordered, false
        FROM unnest(units, topics, idempotency_keys, digests) WITH ORDINALITY AS d(unit, topic, idempotency_key, digest, n)
        JOIN hookwire.idempotency_keys k ON k.tenant = in_tenant AND k.topic = d.topic AND k.key = d.idempotency_key
        WHERE d.unit <> ALL (busy) AND d.n <> ALL (stored_items);
    END IF;
END
$$;

CREATE FUNCTION hookwire.scope_of(layout smallint) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN (SELECT l.order_scope FROM hookwire.layouts l WHERE (l.number = scope_of.layout));

CREATE FUNCTION hookwire.shard_of(digest bytea) RETURNS smallint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN ((get_byte(digest, 0) & 63))::smallint;

CREATE FUNCTION hookwire.stash_row() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION hookwire.stripe_of(digest bytea) RETURNS integer
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (((get_byte(digest, 1) << 8) | get_byte(digest, 2)) & 1023);

CREATE TABLE hookwire.api_keys (
    id bigint NOT NULL,
    public_id text NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    name text NOT NULL,
    digest bytea NOT NULL,
    scopes text[] NOT NULL,
    topics text[],
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT api_keys_digest_check CHECK ((length(digest) = 32)),
    CONSTRAINT api_keys_scopes_check CHECK (((scopes <@ ARRAY['publish'::text, 'subscribe'::text, 'read'::text, 'admin'::text]) AND (cardinality(scopes) > 0))),
    CONSTRAINT api_keys_topics_check CHECK ((cardinality(topics) > 0))
);

ALTER TABLE hookwire.api_keys ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.api_keys_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.attempts (
    event_id bigint NOT NULL,
    subscription_id bigint NOT NULL,
    started_at timestamp with time zone NOT NULL,
    number integer NOT NULL,
    status smallint,
    connect_seconds real,
    first_byte_seconds real,
    total_seconds real NOT NULL,
    tenant text NOT NULL,
    outcome text NOT NULL,
    decision text NOT NULL,
    trigger text NOT NULL,
    worker text NOT NULL,
    address text,
    detail text,
    response_headers jsonb,
    response_body bytea,
    CONSTRAINT attempts_decision_check CHECK ((decision = ANY (ARRAY['delivered'::text, 'retry'::text, 'park'::text, 'dead'::text, 'dropped'::text])))
)
PARTITION BY RANGE (event_id);

CREATE TABLE hookwire.audit (
    id bigint NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    tenant text NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    subject text NOT NULL,
    reason text,
    records bigint DEFAULT 1 NOT NULL
);

ALTER TABLE hookwire.audit ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.audit_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.compat_parked (
    outbox text NOT NULL,
    key text NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    record_id bigint NOT NULL,
    topic text NOT NULL,
    reason text NOT NULL,
    detail text NOT NULL,
    attempts integer DEFAULT 1 NOT NULL,
    since timestamp with time zone DEFAULT now() NOT NULL,
    probe_at timestamp with time zone NOT NULL
);

CREATE TABLE hookwire.dead_letters (
    event_id bigint NOT NULL,
    subscription_id bigint NOT NULL,
    tenant text NOT NULL,
    kind text NOT NULL,
    attempts integer NOT NULL,
    last_status smallint,
    last_outcome text,
    detail text,
    died_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT dead_letters_kind_check CHECK ((kind = ANY (ARRAY['exhausted'::text, 'aborted'::text, 'gone'::text, 'internal'::text])))
);

CREATE TABLE hookwire.deliveries (
    event_id bigint NOT NULL,
    subscription_id bigint NOT NULL,
    due_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    fence bigint,
    attempts integer DEFAULT 0 NOT NULL,
    last_status smallint,
    tenant text NOT NULL,
    lane text,
    last_outcome text,
    free_attempts integer DEFAULT 0 NOT NULL,
    woken_at timestamp with time zone,
    planned_at timestamp with time zone,
    replay_id bigint,
    last_seconds real,
    parked_at timestamp with time zone
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='20000', autovacuum_vacuum_insert_threshold='-1', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='100000');

CREATE TABLE hookwire.delivery_failures (
    subscription_id bigint NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    failures integer NOT NULL,
    failures_before integer DEFAULT 0 NOT NULL,
    succeeded_at timestamp with time zone,
    settled_at timestamp with time zone[] NOT NULL,
    failed boolean[] NOT NULL
)
WITH (fillfactor='50');

CREATE SEQUENCE hookwire.delivery_fence
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE hookwire.delivery_gates (
    subscription_id bigint NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    tokens double precision DEFAULT 0 NOT NULL,
    refilled_at timestamp with time zone DEFAULT now() NOT NULL,
    trips integer DEFAULT 0 NOT NULL,
    open_until timestamp with time zone,
    failing_since timestamp with time zone
)
WITH (fillfactor='50');

CREATE SEQUENCE hookwire.event_id
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE hookwire.events (
    id bigint NOT NULL,
    accepted_at timestamp with time zone NOT NULL,
    ordered boolean NOT NULL,
    tenant text NOT NULL,
    topic text NOT NULL,
    key text,
    content_type text,
    headers jsonb NOT NULL,
    sinks text[] NOT NULL,
    payload bytea NOT NULL
)
PARTITION BY RANGE (id);

CREATE TABLE hookwire.fanout_cursors (
    event_id bigint NOT NULL,
    tenant text NOT NULL,
    last_subscription_id bigint NOT NULL,
    upper_subscription_id bigint NOT NULL
);

CREATE TABLE hookwire.foreign_topics (
    tenant text DEFAULT 'default'::text NOT NULL,
    topic text NOT NULL,
    url text NOT NULL,
    self_url text,
    hub_url text,
    feed_diff boolean DEFAULT false NOT NULL,
    always_deliver boolean DEFAULT false NOT NULL,
    pings bigint DEFAULT 0 NOT NULL,
    pings_fetched bigint DEFAULT 0 NOT NULL,
    due_at timestamp with time zone,
    claimed_until timestamp with time zone,
    claims bigint DEFAULT 0 NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    etag text,
    last_modified text,
    digest bytea,
    entries jsonb,
    last_status smallint,
    last_error text,
    fetched_at timestamp with time zone,
    changed_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE hookwire.former_audiences (
    subscription_id bigint NOT NULL,
    until_id bigint NOT NULL,
    tenant text NOT NULL,
    topic text NOT NULL,
    topic_regex text,
    filter_path jsonpath,
    lease_until timestamp with time zone,
    number bigint NOT NULL
);

ALTER TABLE hookwire.former_audiences ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.former_audiences_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.held (
    sink text NOT NULL COLLATE pg_catalog."C",
    tenant text NOT NULL,
    topic text NOT NULL,
    key text DEFAULT ''::text NOT NULL,
    id bigint NOT NULL,
    shard smallint NOT NULL,
    layout smallint NOT NULL,
    grp smallint DEFAULT 0 NOT NULL
);

CREATE TABLE hookwire.holds (
    sink text NOT NULL COLLATE pg_catalog."C",
    tenant text NOT NULL,
    topic text NOT NULL,
    key text DEFAULT ''::text NOT NULL,
    reason text NOT NULL,
    detail text NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    since timestamp with time zone DEFAULT now() NOT NULL,
    probe_at timestamp with time zone NOT NULL,
    id bigint NOT NULL,
    grp smallint DEFAULT 0 NOT NULL
);

ALTER TABLE hookwire.holds ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.holds_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE SEQUENCE hookwire.horizon
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE hookwire.id_watermarks (
    day date NOT NULL,
    last_id bigint NOT NULL
);

CREATE TABLE hookwire.idempotency_keys (
    tenant text NOT NULL,
    key text NOT NULL,
    fingerprint bytea NOT NULL,
    event_id bigint NOT NULL,
    accepted_at timestamp with time zone NOT NULL,
    ordered boolean NOT NULL,
    topic text DEFAULT ''::text NOT NULL
);

CREATE TABLE hookwire.installation (
    singleton boolean DEFAULT true NOT NULL,
    incarnation text NOT NULL,
    layout smallint DEFAULT 1 NOT NULL,
    topics_auto_create boolean DEFAULT true NOT NULL,
    sql_notify boolean DEFAULT true NOT NULL,
    payload_bytes_max integer DEFAULT 1048576 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT installation_incarnation_check CHECK ((incarnation ~ '^[a-z2-7]{8}$'::text)),
    CONSTRAINT installation_singleton_check CHECK (singleton)
);

CREATE TABLE hookwire.intents (
    id bigint NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    mode text NOT NULL,
    topic text NOT NULL,
    topic_url text NOT NULL,
    callback text NOT NULL,
    callback_host text NOT NULL,
    identity bytea NOT NULL,
    lease_seconds bigint,
    signature_method text NOT NULL,
    verify_token text,
    key_id text,
    sealed bytea,
    state text DEFAULT 'requested'::text NOT NULL,
    due_at timestamp with time zone NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    reason text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    decided_at timestamp with time zone,
    stage text DEFAULT 'verify'::text NOT NULL,
    stage_from integer DEFAULT 0 NOT NULL,
    denial text,
    requester text,
    verify text,
    permanent boolean DEFAULT false NOT NULL,
    rabbithub jsonb,
    requester_network text,
    CONSTRAINT intents_check CHECK (((key_id IS NULL) = (sealed IS NULL))),
    CONSTRAINT intents_identity_check CHECK ((length(identity) = 32)),
    CONSTRAINT intents_lease_check CHECK (((lease_seconds IS NULL) = ((mode = 'unsubscribe'::text) OR (stage = 'deny'::text)))),
    CONSTRAINT intents_mode_check CHECK ((mode = ANY (ARRAY['subscribe'::text, 'unsubscribe'::text]))),
    CONSTRAINT intents_stage_check CHECK ((stage = ANY (ARRAY['validate'::text, 'verify'::text, 'deny'::text]))),
    CONSTRAINT intents_state_check CHECK ((state = ANY (ARRAY['requested'::text, 'verifying'::text, 'verified'::text, 'failed'::text, 'superseded'::text, 'denied'::text]))),
    CONSTRAINT intents_verify_check CHECK ((verify = ANY (ARRAY['sync'::text, 'async'::text])))
);

ALTER TABLE hookwire.intents ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.intents_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.lake_backlog (
    tenant text NOT NULL,
    at timestamp with time zone NOT NULL,
    topic text NOT NULL,
    subscription text NOT NULL,
    waiting bigint NOT NULL,
    oldest_seconds double precision NOT NULL
);

CREATE TABLE hookwire.lake_batches (
    job text NOT NULL,
    batch text NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE hookwire.lake_metrics (
    tenant text NOT NULL,
    hour timestamp with time zone NOT NULL,
    topic text NOT NULL,
    subscription text NOT NULL,
    attempts bigint NOT NULL,
    delivered bigint NOT NULL,
    retries bigint NOT NULL,
    dead bigint NOT NULL,
    p50_seconds double precision NOT NULL,
    p95_seconds double precision NOT NULL,
    p99_seconds double precision NOT NULL,
    tries_to_success double precision,
    oldest_seconds double precision
);

CREATE TABLE hookwire.lake_slo (
    tenant text NOT NULL,
    day date NOT NULL,
    subscription text NOT NULL,
    attempts bigint NOT NULL,
    delivered bigint NOT NULL,
    share double precision NOT NULL,
    target double precision NOT NULL,
    burn double precision NOT NULL
);

CREATE TABLE hookwire.ledger (
    sink text NOT NULL COLLATE pg_catalog."C",
    tenant text NOT NULL,
    topic text NOT NULL,
    hour timestamp with time zone NOT NULL,
    bucket smallint NOT NULL,
    owed_count bigint DEFAULT 0 NOT NULL,
    owed_sum numeric(20,0) DEFAULT 0 NOT NULL,
    owed_min bigint,
    owed_max bigint,
    sent_count bigint DEFAULT 0 NOT NULL,
    dead_count bigint DEFAULT 0 NOT NULL,
    settled_sum numeric(20,0) DEFAULT 0 NOT NULL,
    settled_min bigint,
    settled_max bigint
)
WITH (fillfactor='70');

CREATE TABLE hookwire.ledger_cursor (
    singleton boolean DEFAULT true NOT NULL,
    since_at timestamp with time zone NOT NULL,
    through_id bigint NOT NULL,
    through_at timestamp with time zone NOT NULL,
    mark_id bigint,
    mark_at timestamp with time zone,
    mark_xid xid8,
    CONSTRAINT ledger_cursor_singleton_check CHECK (singleton)
);

CREATE TABLE hookwire.ledger_entries (
    id bigint NOT NULL,
    sink text NOT NULL COLLATE pg_catalog."C",
    outcome text NOT NULL,
    ids bigint[] NOT NULL,
    CONSTRAINT ledger_entries_outcome_check CHECK ((outcome = ANY (ARRAY['sent'::text, 'dead'::text, 'revived'::text])))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_insert_threshold='-1', autovacuum_vacuum_cost_delay='0');
ALTER TABLE ONLY hookwire.ledger_entries ALTER COLUMN ids SET STORAGE MAIN;

ALTER TABLE hookwire.ledger_entries ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.ledger_entries_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.migrations (
    version integer NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE hookwire.outbox (
    id bigint NOT NULL,
    layout smallint NOT NULL,
    shard smallint NOT NULL,
    sink text NOT NULL COLLATE pg_catalog."C"
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='20000', autovacuum_vacuum_insert_threshold='-1', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='100000');

CREATE TABLE hookwire.rabbithub_resources (
    id bigint NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    vhost text NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    exchange_type text,
    source bigint,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT rabbithub_resources_check CHECK ((((kind = 'x'::text) = (exchange_type IS NOT NULL)) AND ((kind = 'q'::text) = (source IS NOT NULL)))),
    CONSTRAINT rabbithub_resources_exchange_type_check CHECK ((exchange_type = ANY (ARRAY['direct'::text, 'fanout'::text, 'topic'::text, 'headers'::text]))),
    CONSTRAINT rabbithub_resources_kind_check CHECK ((kind = ANY (ARRAY['x'::text, 'q'::text])))
);

ALTER TABLE hookwire.rabbithub_resources ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.rabbithub_resources_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.rabbithub_subscriptions (
    subscription_id bigint NOT NULL,
    resource_id bigint NOT NULL,
    hub_topic text NOT NULL,
    lease_seconds bigint NOT NULL,
    details jsonb DEFAULT '{}'::jsonb NOT NULL,
    queue_id bigint,
    error_count bigint DEFAULT 0 NOT NULL,
    first_error_at timestamp with time zone,
    last_error_at timestamp with time zone,
    last_error text,
    window_from timestamp with time zone,
    window_errors bigint DEFAULT 0 NOT NULL,
    told_until timestamp with time zone
);

CREATE TABLE hookwire.readiness (
    singleton boolean DEFAULT true NOT NULL,
    written_at timestamp with time zone NOT NULL,
    CONSTRAINT readiness_singleton_check CHECK (singleton)
);

CREATE TABLE hookwire.relay_batches (
    sink text NOT NULL COLLATE pg_catalog."C",
    layout smallint NOT NULL,
    grp smallint NOT NULL,
    batch_no bigint NOT NULL,
    shards smallint[] NOT NULL,
    ids bigint[] NOT NULL
);

CREATE TABLE hookwire.relay_dead_letters (
    sink text NOT NULL COLLATE pg_catalog."C",
    event_id bigint NOT NULL,
    tenant text NOT NULL,
    topic text NOT NULL,
    key text,
    shard smallint NOT NULL,
    layout smallint NOT NULL,
    reason text NOT NULL,
    detail text NOT NULL,
    died_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE hookwire.relay_members (
    id integer NOT NULL,
    name text NOT NULL,
    sinks text[] NOT NULL,
    until timestamp with time zone NOT NULL
)
WITH (fillfactor='50');

ALTER TABLE hookwire.relay_members ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.relay_members_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.relay_terms (
    sink text NOT NULL COLLATE pg_catalog."C",
    grp smallint NOT NULL,
    layout smallint DEFAULT 1 NOT NULL,
    term bigint DEFAULT 0 NOT NULL,
    owner text,
    lease_until timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    batch_no bigint DEFAULT 0 NOT NULL,
    member integer,
    is_open boolean DEFAULT true NOT NULL
)
WITH (fillfactor='50');

CREATE TABLE hookwire.replays (
    id bigint NOT NULL,
    tenant text NOT NULL,
    state text DEFAULT 'running'::text NOT NULL,
    source text NOT NULL,
    subscription_id bigint,
    topic text,
    kinds text[],
    statuses smallint[],
    event_ids bigint[],
    since_at timestamp with time zone,
    until_at timestamp with time zone,
    rate_per_second integer,
    actor text NOT NULL,
    reason text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    lower_event_id bigint NOT NULL,
    last_event_id bigint NOT NULL,
    last_subscription_id bigint DEFAULT 0 NOT NULL,
    upper_event_id bigint NOT NULL,
    examined bigint DEFAULT 0 NOT NULL,
    replayed bigint DEFAULT 0 NOT NULL,
    due_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT replays_check CHECK (((subscription_id IS NOT NULL) OR (source = 'dead_letters'::text))),
    CONSTRAINT replays_rate_per_second_check CHECK ((rate_per_second > 0)),
    CONSTRAINT replays_source_check CHECK ((source = ANY (ARRAY['events'::text, 'dead_letters'::text]))),
    CONSTRAINT replays_state_check CHECK ((state = ANY (ARRAY['running'::text, 'paused'::text, 'done'::text, 'cancelled'::text])))
);

ALTER TABLE hookwire.replays ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.replays_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.sinks (
    name text NOT NULL,
    configured boolean NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT sinks_name_check CHECK ((name = ANY (ARRAY['kafka'::text, 'amqp'::text, 'webhooks'::text])))
);

CREATE VIEW hookwire.stash AS
 SELECT NULL::text AS event_id,
    NULL::text AS topic,
    NULL::text AS key,
    NULL::text AS payload,
    NULL::bytea AS payload_bytes,
    NULL::text AS content_type,
    NULL::jsonb AS headers
  WHERE false;

COMMENT ON VIEW hookwire.stash IS 'INSERT here to publish in your transaction; see docs/how-to/publish-from-your-transaction.md';

CREATE TABLE hookwire.subscription_secrets (
    subscription_id bigint NOT NULL,
    number integer NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    key_id text NOT NULL,
    sealed bytea NOT NULL,
    expires_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE hookwire.subscriptions (
    id bigint NOT NULL,
    public_id text NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    protocol text NOT NULL,
    topic text NOT NULL,
    topic_regex text,
    topic_url text,
    callback text NOT NULL,
    state text NOT NULL,
    state_reason text,
    ordered boolean DEFAULT false NOT NULL,
    signature_method text DEFAULT 'sha256'::text NOT NULL,
    retry_schedule_seconds integer[],
    timeout_seconds real,
    lease_until timestamp with time zone,
    paused_until timestamp with time zone,
    version bigint DEFAULT 1 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    identity bytea,
    filter jsonb,
    filter_path jsonpath,
    lifetime_seconds integer,
    retry_age_seconds_max integer,
    on_4xx text DEFAULT 'retry'::text NOT NULL,
    on_410 text DEFAULT 'end'::text NOT NULL,
    at_most_once boolean DEFAULT false NOT NULL,
    on_exhausted text DEFAULT 'skip'::text NOT NULL,
    header_names text[],
    headers_key_id text,
    headers_sealed bytea,
    pshb03 boolean DEFAULT false NOT NULL,
    permanent boolean DEFAULT false NOT NULL,
    verify_token text,
    rate_per_second double precision,
    rate_burst integer,
    format text DEFAULT 'as_published'::text NOT NULL,
    request_origin text,
    batch_max integer,
    template text,
    callback_host text,
    requester_network text,
    CONSTRAINT subscriptions_batch_max_check CHECK (((batch_max >= 1) AND (batch_max <= 1000))),
    CONSTRAINT subscriptions_format_check CHECK ((format = ANY (ARRAY['as_published'::text, 'raw'::text, 'binary'::text, 'structured'::text, 'batch'::text, 'websub_ping'::text, 'slack'::text, 'mattermost'::text]))),
    CONSTRAINT subscriptions_headers_check CHECK ((((headers_sealed IS NULL) = (headers_key_id IS NULL)) AND ((headers_sealed IS NULL) = (header_names IS NULL)))),
    CONSTRAINT subscriptions_identity_check CHECK ((length(identity) = 32)),
    CONSTRAINT subscriptions_mode_check CHECK ((NOT (at_most_once AND ordered))),
    CONSTRAINT subscriptions_on_410_check CHECK ((on_410 = ANY (ARRAY['end'::text, 'as_4xx'::text]))),
    CONSTRAINT subscriptions_on_4xx_check CHECK ((on_4xx = ANY (ARRAY['retry'::text, 'give_up'::text]))),
    CONSTRAINT subscriptions_on_exhausted_check CHECK ((on_exhausted = ANY (ARRAY['park'::text, 'skip'::text]))),
    CONSTRAINT subscriptions_protocol_check CHECK ((protocol = ANY (ARRAY['webhook'::text, 'websub'::text, 'pull'::text, 'rabbithub'::text]))),
    CONSTRAINT subscriptions_rate_burst_check CHECK ((rate_burst > 0)),
    CONSTRAINT subscriptions_rate_per_second_check CHECK ((rate_per_second > (0)::double precision)),
    CONSTRAINT subscriptions_state_check CHECK ((state = ANY (ARRAY['active'::text, 'disabled'::text, 'gone'::text, 'expired'::text, 'denied'::text, 'deleted'::text])))
);

ALTER TABLE hookwire.subscriptions ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.subscriptions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.topics (
    tenant text DEFAULT 'default'::text NOT NULL,
    name text NOT NULL,
    sinks text[],
    ordered boolean DEFAULT true NOT NULL,
    kafka_topic text,
    amqp_exchange text,
    amqp_routing_key text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    on_refused text,
    validator_url text,
    moved_to text,
    retention_days integer,
    version integer DEFAULT 1 NOT NULL,
    CONSTRAINT topics_on_refused_check CHECK ((on_refused = ANY (ARRAY['hold_key'::text, 'skip'::text, 'stop'::text]))),
    CONSTRAINT topics_retention_days_check CHECK (((retention_days >= 0) AND (retention_days <= 36500)))
);

CREATE TABLE hookwire.upstreams (
    tenant text DEFAULT 'default'::text NOT NULL,
    topic text NOT NULL,
    url text NOT NULL,
    token text NOT NULL,
    key_id text NOT NULL,
    sealed bytea NOT NULL,
    hub_url text,
    self_url text,
    state text DEFAULT 'wanted'::text NOT NULL,
    reason text,
    lease_until timestamp with time zone,
    due_at timestamp with time zone DEFAULT now(),
    claimed_until timestamp with time zone,
    claims bigint DEFAULT 0 NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT upstreams_state_check CHECK ((state = ANY (ARRAY['wanted'::text, 'requested'::text, 'active'::text, 'denied'::text, 'ended'::text])))
);

CREATE TABLE hookwire.verification_buckets (
    tenant text NOT NULL,
    host text NOT NULL,
    tokens double precision NOT NULL,
    refilled_at timestamp with time zone NOT NULL,
    CONSTRAINT verification_buckets_check CHECK (((tenant = ''::text) <> (host = ''::text)))
)
WITH (fillfactor='50');

ALTER TABLE ONLY hookwire.api_keys
    ADD CONSTRAINT api_keys_digest_key UNIQUE (digest);

ALTER TABLE ONLY hookwire.api_keys
    ADD CONSTRAINT api_keys_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.api_keys
    ADD CONSTRAINT api_keys_public_id_key UNIQUE (public_id);

ALTER TABLE ONLY hookwire.attempts
    ADD CONSTRAINT attempts_pkey PRIMARY KEY (event_id, subscription_id, number);

ALTER TABLE ONLY hookwire.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.compat_parked
    ADD CONSTRAINT compat_parked_pkey PRIMARY KEY (outbox, key);

ALTER TABLE ONLY hookwire.dead_letters
    ADD CONSTRAINT dead_letters_pkey PRIMARY KEY (event_id, subscription_id);

ALTER TABLE ONLY hookwire.deliveries
    ADD CONSTRAINT deliveries_pkey PRIMARY KEY (event_id, subscription_id);

ALTER TABLE ONLY hookwire.delivery_failures
    ADD CONSTRAINT delivery_failures_pkey PRIMARY KEY (subscription_id);

ALTER TABLE ONLY hookwire.delivery_gates
    ADD CONSTRAINT delivery_gates_pkey PRIMARY KEY (subscription_id);

ALTER TABLE ONLY hookwire.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.fanout_cursors
    ADD CONSTRAINT fanout_cursors_pkey PRIMARY KEY (event_id);

ALTER TABLE ONLY hookwire.foreign_topics
    ADD CONSTRAINT foreign_topics_pkey PRIMARY KEY (tenant, topic);

ALTER TABLE ONLY hookwire.former_audiences
    ADD CONSTRAINT former_audiences_pkey PRIMARY KEY (subscription_id, until_id, number);

ALTER TABLE ONLY hookwire.held
    ADD CONSTRAINT held_pkey PRIMARY KEY (sink, grp, tenant, topic, key, id);

ALTER TABLE ONLY hookwire.holds
    ADD CONSTRAINT holds_id UNIQUE (id);

ALTER TABLE ONLY hookwire.holds
    ADD CONSTRAINT holds_pkey PRIMARY KEY (sink, grp, tenant, topic, key);

ALTER TABLE ONLY hookwire.id_watermarks
    ADD CONSTRAINT id_watermarks_pkey PRIMARY KEY (day);

ALTER TABLE ONLY hookwire.idempotency_keys
    ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (tenant, topic, key);

ALTER TABLE ONLY hookwire.installation
    ADD CONSTRAINT installation_pkey PRIMARY KEY (singleton);

ALTER TABLE ONLY hookwire.intents
    ADD CONSTRAINT intents_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.lake_backlog
    ADD CONSTRAINT lake_backlog_pkey PRIMARY KEY (tenant, at, topic, subscription);

ALTER TABLE ONLY hookwire.lake_batches
    ADD CONSTRAINT lake_batches_pkey PRIMARY KEY (job, batch);

ALTER TABLE ONLY hookwire.lake_metrics
    ADD CONSTRAINT lake_metrics_pkey PRIMARY KEY (tenant, hour, topic, subscription);

ALTER TABLE ONLY hookwire.lake_slo
    ADD CONSTRAINT lake_slo_pkey PRIMARY KEY (tenant, day, subscription);

ALTER TABLE ONLY hookwire.layouts
    ADD CONSTRAINT layouts_pkey PRIMARY KEY (number);

ALTER TABLE ONLY hookwire.ledger_cursor
    ADD CONSTRAINT ledger_cursor_pkey PRIMARY KEY (singleton);

ALTER TABLE ONLY hookwire.ledger_entries
    ADD CONSTRAINT ledger_entries_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.ledger
    ADD CONSTRAINT ledger_pkey PRIMARY KEY (hour, sink, tenant, topic, bucket);

ALTER TABLE ONLY hookwire.migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (version);

ALTER TABLE ONLY hookwire.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (sink, shard, id);

ALTER TABLE ONLY hookwire.rabbithub_resources
    ADD CONSTRAINT rabbithub_resources_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.rabbithub_resources
    ADD CONSTRAINT rabbithub_resources_tenant_vhost_kind_name_key UNIQUE (tenant, vhost, kind, name);

ALTER TABLE ONLY hookwire.rabbithub_subscriptions
    ADD CONSTRAINT rabbithub_subscriptions_pkey PRIMARY KEY (subscription_id);

ALTER TABLE ONLY hookwire.readiness
    ADD CONSTRAINT readiness_pkey PRIMARY KEY (singleton);

ALTER TABLE ONLY hookwire.relay_batch_numbers
    ADD CONSTRAINT relay_batch_numbers_pkey PRIMARY KEY (sink, layout, grp, batch_no);

ALTER TABLE ONLY hookwire.relay_batches
    ADD CONSTRAINT relay_batches_pkey PRIMARY KEY (sink, layout, grp, batch_no);

ALTER TABLE ONLY hookwire.relay_dead_letters
    ADD CONSTRAINT relay_dead_letters_pkey PRIMARY KEY (event_id, sink);

ALTER TABLE ONLY hookwire.relay_members
    ADD CONSTRAINT relay_members_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.relay_terms
    ADD CONSTRAINT relay_terms_pkey PRIMARY KEY (sink, grp);

ALTER TABLE ONLY hookwire.relay_terms
    ADD CONSTRAINT relay_terms_sink_grp_term_key UNIQUE (sink, grp, term);

ALTER TABLE ONLY hookwire.replays
    ADD CONSTRAINT replays_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.sinks
    ADD CONSTRAINT sinks_pkey PRIMARY KEY (name);

ALTER TABLE ONLY hookwire.subscription_secrets
    ADD CONSTRAINT subscription_secrets_pkey PRIMARY KEY (subscription_id, number);

ALTER TABLE ONLY hookwire.subscriptions
    ADD CONSTRAINT subscriptions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.subscriptions
    ADD CONSTRAINT subscriptions_public_id_key UNIQUE (public_id);

ALTER TABLE ONLY hookwire.topics
    ADD CONSTRAINT topics_pkey PRIMARY KEY (tenant, name);

ALTER TABLE ONLY hookwire.upstreams
    ADD CONSTRAINT upstreams_pkey PRIMARY KEY (tenant, topic);

ALTER TABLE ONLY hookwire.upstreams
    ADD CONSTRAINT upstreams_token_key UNIQUE (token);

ALTER TABLE ONLY hookwire.verification_buckets
    ADD CONSTRAINT verification_buckets_pkey PRIMARY KEY (tenant, host);

CREATE INDEX attempts_subscription ON ONLY hookwire.attempts USING btree (subscription_id, event_id);

CREATE INDEX dead_letters_subscription ON hookwire.dead_letters USING btree (subscription_id, event_id);

CREATE INDEX deliveries_due ON hookwire.deliveries USING btree (subscription_id, due_at, event_id);

CREATE INDEX deliveries_lane ON hookwire.deliveries USING btree (subscription_id, lane, event_id) WHERE (lane IS NOT NULL);

CREATE INDEX deliveries_parked ON hookwire.deliveries USING btree (event_id, subscription_id) WHERE (parked_at IS NOT NULL);

CREATE INDEX deliveries_retrying ON hookwire.deliveries USING btree (event_id, subscription_id) WHERE ((attempts > 0) AND (fence IS NULL) AND (parked_at IS NULL));

CREATE INDEX deliveries_sending ON hookwire.deliveries USING btree (event_id, subscription_id) WHERE ((attempts > 0) AND (fence IS NOT NULL) AND (parked_at IS NULL));

CREATE INDEX events_topic ON ONLY hookwire.events USING btree (tenant, topic, id);

CREATE INDEX foreign_topics_due ON hookwire.foreign_topics USING btree (due_at) WHERE (due_at IS NOT NULL);

CREATE INDEX former_audiences_by_topic ON hookwire.former_audiences USING btree (tenant, until_id);

CREATE INDEX held_id ON hookwire.held USING btree (sink, id);

CREATE INDEX idempotency_keys_age ON hookwire.idempotency_keys USING btree (accepted_at);

CREATE INDEX intents_decided ON hookwire.intents USING btree (decided_at) WHERE (decided_at IS NOT NULL);

CREATE INDEX intents_due ON hookwire.intents USING btree (due_at) WHERE (state = ANY (ARRAY['requested'::text, 'verifying'::text]));

CREATE INDEX intents_in_flight ON hookwire.intents USING btree (callback_host, mode) WHERE (state = 'verifying'::text);

CREATE INDEX intents_of_host ON hookwire.intents USING btree (callback_host) WHERE ((state = ANY (ARRAY['requested'::text, 'verifying'::text])) AND (mode = 'subscribe'::text));

CREATE INDEX intents_of_requester ON hookwire.intents USING btree (requester_network) WHERE (state = ANY (ARRAY['requested'::text, 'verifying'::text]));

CREATE INDEX intents_pair ON hookwire.intents USING btree (tenant, identity, id);

CREATE INDEX ledger_unequal ON hookwire.ledger USING btree (hour) WHERE ((sink <> ''::text) AND ((((owed_count IS DISTINCT FROM (sent_count + dead_count)) OR (owed_sum IS DISTINCT FROM settled_sum)) OR (owed_min IS DISTINCT FROM settled_min)) OR (owed_max IS DISTINCT FROM settled_max)));

CREATE INDEX rabbithub_subscriptions_bindings ON hookwire.rabbithub_subscriptions USING btree (queue_id) WHERE (queue_id IS NOT NULL);

CREATE INDEX rabbithub_subscriptions_resource ON hookwire.rabbithub_subscriptions USING btree (resource_id);

CREATE INDEX replays_running ON hookwire.replays USING btree (due_at) WHERE (state = 'running'::text);

CREATE UNIQUE INDEX subscriptions_binding ON hookwire.subscriptions USING btree (tenant, identity) WHERE ((protocol = 'pull'::text) AND (state <> 'deleted'::text) AND (identity IS NOT NULL));

CREATE INDEX subscriptions_ended ON hookwire.subscriptions USING btree (updated_at) WHERE ((protocol = 'websub'::text) AND (state = ANY (ARRAY['expired'::text, 'denied'::text, 'deleted'::text])));

CREATE INDEX subscriptions_exact ON hookwire.subscriptions USING btree (tenant, topic) WHERE ((state = 'active'::text) AND (topic_regex IS NULL));

CREATE INDEX subscriptions_lease ON hookwire.subscriptions USING btree (lease_until) WHERE ((protocol = 'websub'::text) AND (state = ANY (ARRAY['active'::text, 'disabled'::text])));

CREATE INDEX subscriptions_of_host ON hookwire.subscriptions USING btree (callback_host) WHERE ((protocol = 'websub'::text) AND (state = ANY (ARRAY['active'::text, 'disabled'::text])));

CREATE INDEX subscriptions_of_requester ON hookwire.subscriptions USING btree (requester_network) WHERE ((protocol = 'websub'::text) AND (state = ANY (ARRAY['active'::text, 'disabled'::text])));

CREATE INDEX subscriptions_pair ON hookwire.subscriptions USING btree (tenant, identity, id) WHERE (protocol = 'websub'::text);

CREATE INDEX subscriptions_pattern ON hookwire.subscriptions USING btree (tenant) WHERE ((state = 'active'::text) AND (topic_regex IS NOT NULL));

CREATE INDEX subscriptions_permanent ON hookwire.subscriptions USING btree (lease_until) WHERE (permanent AND (protocol = 'websub'::text) AND (state = ANY (ARRAY['active'::text, 'disabled'::text])));

CREATE INDEX subscriptions_pull_lease ON hookwire.subscriptions USING btree (lease_until) WHERE ((protocol = 'pull'::text) AND (state = 'active'::text));

CREATE UNIQUE INDEX subscriptions_rabbithub ON hookwire.subscriptions USING btree (tenant, identity) WHERE ((protocol = 'rabbithub'::text) AND (state <> 'deleted'::text));

CREATE INDEX subscriptions_rabbithub_lease ON hookwire.subscriptions USING btree (lease_until) WHERE ((protocol = 'rabbithub'::text) AND (state = 'active'::text));

CREATE UNIQUE INDEX subscriptions_websub ON hookwire.subscriptions USING btree (tenant, identity) WHERE ((protocol = 'websub'::text) AND (state = ANY (ARRAY['active'::text, 'disabled'::text])));

CREATE INDEX upstreams_due ON hookwire.upstreams USING btree (due_at) WHERE (due_at IS NOT NULL);

CREATE TRIGGER note_batch_no BEFORE UPDATE OF term ON hookwire.relay_terms FOR EACH ROW EXECUTE FUNCTION hookwire.note_batch_no();

CREATE TRIGGER note_former_audience AFTER UPDATE ON hookwire.subscriptions FOR EACH ROW WHEN (((old.state = 'active'::text) AND ((new.protocol <> 'websub'::text) OR (new.state = ANY (ARRAY['active'::text, 'disabled'::text]))) AND ((new.state <> 'active'::text) OR (new.topic <> old.topic) OR (new.topic_regex IS DISTINCT FROM old.topic_regex) OR ((new.filter_path)::text IS DISTINCT FROM (old.filter_path)::text)))) EXECUTE FUNCTION hookwire.note_former_audience();

CREATE TRIGGER publish INSTEAD OF INSERT ON hookwire.stash FOR EACH ROW EXECUTE FUNCTION hookwire.stash_row();

ALTER TABLE ONLY hookwire.rabbithub_resources
    ADD CONSTRAINT rabbithub_resources_source_fkey FOREIGN KEY (source) REFERENCES hookwire.subscriptions(id);

ALTER TABLE ONLY hookwire.rabbithub_subscriptions
    ADD CONSTRAINT rabbithub_subscriptions_queue_id_fkey FOREIGN KEY (queue_id) REFERENCES hookwire.rabbithub_resources(id) ON DELETE CASCADE;

ALTER TABLE ONLY hookwire.rabbithub_subscriptions
    ADD CONSTRAINT rabbithub_subscriptions_resource_id_fkey FOREIGN KEY (resource_id) REFERENCES hookwire.rabbithub_resources(id) ON DELETE CASCADE;

ALTER TABLE ONLY hookwire.rabbithub_subscriptions
    ADD CONSTRAINT rabbithub_subscriptions_subscription_id_fkey FOREIGN KEY (subscription_id) REFERENCES hookwire.subscriptions(id) ON DELETE CASCADE;

ALTER TABLE ONLY hookwire.subscription_secrets
    ADD CONSTRAINT subscription_secrets_subscription_id_fkey FOREIGN KEY (subscription_id) REFERENCES hookwire.subscriptions(id) ON DELETE CASCADE;
