-- Identity by topic, and what an SQL publisher may send.
--
--   An Idempotency-Key, and the identity (source, id) of a CloudEvent, belong to one topic (FC-07, FS-12).
--   The same name with another digest is a conflict (FC-07).
--   A key whose first transaction is still open holds up its own requests, and nobody else's (FC-09).
--   A topic's row is read once for each batch (FC-11).
--   Headers of an SQL publish are bounded, and the hub's own are refused (FS-03, FS-13).

-- The default serves a call that began before this migration and writes after it; no lookup ever finds ''.
ALTER TABLE hookwire.idempotency_keys ADD COLUMN topic text NOT NULL DEFAULT '';

-- What makes two CloudEvents of one source and id the same event: ordering key, content type, attributes, data.
-- `time` and the tracing attributes may differ when a publisher builds its event anew to repeat it.
CREATE FUNCTION hookwire.event_digest(key text, content_type text, headers jsonb, payload bytea) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE
RETURN sha256(sha256(payload) || convert_to(jsonb_build_array(
    key, content_type,
    (SELECT jsonb_object_agg(h.key, h.value) FROM jsonb_each_text(coalesce(headers, '{}')) AS h
     WHERE starts_with(h.key, 'ce-') AND h.key NOT IN ('ce-time', 'ce-traceparent', 'ce-tracestate'))
)::text, 'UTF8'));

-- A fingerprint that is the digest of the key itself says: the key is a CloudEvent's identity.
UPDATE hookwire.idempotency_keys k
SET topic = e.topic,
    fingerprint = CASE WHEN k.fingerprint = sha256(convert_to(k.key, 'UTF8'))
                       THEN hookwire.event_digest(e.key, e.content_type, e.headers, e.payload)
                       ELSE k.fingerprint END
FROM hookwire.events e WHERE e.id = k.event_id;

ALTER TABLE hookwire.idempotency_keys
    DROP CONSTRAINT idempotency_keys_pkey,
    ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (tenant, topic, key);

-- Stores drafts and what is owed for them: the one place that knows stripes, shards and routing.
--
-- A unit is a set of drafts that is stored whole or not at all (one request). Per draft one row comes back:
--   stored    with its id
--   busy      another transaction holds a stripe of its unit (only when NOT wait), or has one of its idempotency keys
--             and is still open (in_flight); nothing of the unit was stored
--   replayed  its idempotency key was used before on its topic, with the same digest: the earlier id
--   conflict  its idempotency key was used before on its topic, with another digest
--
-- The digest is the fingerprint. Where that is NULL, or the digest of the key itself (as the code before this migration
-- has it), it is made of the event: the key is a CloudEvent's identity.
--
-- A unit of which one part conflicts and another was stored raises unique_violation: everything is rolled back,
-- and the caller finds the unit by halving (RR-12).
--
-- Order of steps, each needed by a rule: draw the transaction id (RR-07), read the topics once, take the stripes
-- (RO-02: before any id is drawn; by try-lock in shared commits, RR-03), take the idempotency keys by try-lock, sorted
-- (RR-12), draw ids, claim the keys and store what won, then read the losers in a second statement (RR-12).
DROP FUNCTION hookwire.publish_batch(text, integer[], text[], text[], text[], text[], bytea[], text[], bytea[], boolean);
CREATE FUNCTION hookwire.publish_batch(
    tenant text, units integer[], topics text[], keys text[], content_types text[], headers text[],
    payloads bytea[], idempotency_keys text[], fingerprints bytea[], wait boolean
) RETURNS TABLE (
    item integer, outcome text, event_id bigint, accepted_at timestamptz, ordered boolean, in_flight boolean
)
LANGUAGE plpgsql AS $$
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

-- What a stranger's transaction may send as headers (RL-23, FS-03, FS-13); raises invalid_parameter_value.
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

-- As in 0010, with the headers judged above.
CREATE OR REPLACE FUNCTION hookwire.publish(topic text, payload bytea, key text DEFAULT NULL::text, content_type text DEFAULT NULL::text, headers jsonb DEFAULT '{}'::jsonb) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
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
$_$;
