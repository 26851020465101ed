-- The order scope of a layout (RO-03, RG-10): what is kept in order is a topic's key, or a key in all topics.

-- What stripe and shard are made of. Changing the scope replaces this function: a function is never seen in an old
-- version, whatever snapshot a publisher's transaction has, as a row would be.
CREATE FUNCTION hookwire.lane_digest(topic text, key text) RETURNS bytea
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN hookwire.key_digest(topic, key);

CREATE FUNCTION hookwire.scope_of(layout smallint) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN (SELECT l.order_scope FROM hookwire.layouts l WHERE l.number = layout);

-- Stores drafts and what is owed for them: the one place that knows stripes, shards and routing.
--
-- A unit is a set of drafts that is stored whole or not at all (one request). Per draft one row comes back:
--   stored    with its id
--   busy      a stripe of its unit is held by another transaction; nothing of the unit was stored (only when NOT wait)
--   replayed  its idempotency key was used before with the same fingerprint: the earlier id
--   conflict  its idempotency key was used before with another fingerprint
--
-- A unit of which one part conflicts and another was stored raises unique_violation: everything is rolled back,
-- and the caller finds the unit by halving (RR-12).
--
-- Order of steps, each needed by a rule: draw the transaction id (RR-07), take the stripes (RO-02: before any
-- id is drawn; by try-lock in shared commits, RR-03), draw ids, claim idempotency keys in sorted order and
-- store what won, then read the losers in a second statement (RR-12).
CREATE OR REPLACE FUNCTION hookwire.publish_batch(
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
        FROM (SELECT DISTINCT hookwire.stripe_of(hookwire.lane_digest(d.topic, d.key)) AS stripe
              FROM unnest(topics, keys) AS d(topic, key)
              LEFT JOIN hookwire.topics t ON t.tenant = in_tenant AND t.name = d.topic
              WHERE d.key IS NOT NULL AND coalesce(t.ordered, true)
              ORDER BY stripe) AS wanted;
    ELSE
        SELECT coalesce(array_agg(wanted.stripe), '{}') INTO refused
        FROM (SELECT DISTINCT hookwire.stripe_of(hookwire.lane_digest(d.topic, d.key)) AS stripe
              FROM unnest(topics, keys) AS d(topic, key)
              LEFT JOIN hookwire.topics t ON t.tenant = in_tenant AND t.name = d.topic
              WHERE d.key IS NOT NULL AND coalesce(t.ordered, true)
              ORDER BY stripe) AS wanted
        WHERE NOT pg_try_advisory_xact_lock(lock_class, wanted.stripe);
        IF refused <> '{}' THEN
            SELECT coalesce(array_agg(DISTINCT d.unit), '{}') INTO busy
            FROM unnest(units, topics, keys) AS d(unit, topic, key)
            WHERE d.key IS NOT NULL AND hookwire.stripe_of(hookwire.lane_digest(d.topic, d.key)) = ANY (refused);
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
                    ELSE hookwire.shard_of(hookwire.lane_digest(w.topic, w.key)) END,
               sink
        FROM won w, unnest(w.sinks) AS sink
    )
    SELECT coalesce(array_agg(w.n::integer), '{}'), array_agg(w.id), array_agg(w.ordered)
    INTO stored_items, stored_ids, stored_ordered FROM won w;

    RETURN QUERY SELECT s.n, 'stored', s.id, moment, s.ordered
    FROM unnest(stored_items, stored_ids, stored_ordered) AS s(n, id, ordered);

    IF array_remove(idempotency_keys, NULL) <> '{}' THEN
        IF EXISTS (
            SELECT FROM unnest(units, idempotency_keys, fingerprints) WITH ORDINALITY
                            AS d(unit, idempotency_key, fingerprint, n)
            JOIN hookwire.idempotency_keys k ON k.tenant = in_tenant AND k.key = d.idempotency_key
            WHERE k.fingerprint <> d.fingerprint AND d.n <> ALL (stored_items)
              AND d.unit IN (SELECT units[s.n] FROM unnest(stored_items) AS s(n))
        ) THEN
            RAISE EXCEPTION USING ERRCODE = 'unique_violation',
                MESSAGE = 'hookwire.publish: an idempotency key was used before with other contents';
        END IF;
        RETURN QUERY
        SELECT d.n::integer, CASE WHEN k.fingerprint = d.fingerprint THEN 'replayed' ELSE 'conflict' END,
               k.event_id, k.accepted_at, k.ordered
        FROM unnest(units, idempotency_keys, fingerprints) WITH ORDINALITY AS d(unit, idempotency_key, fingerprint, n)
        JOIN hookwire.idempotency_keys k ON k.tenant = in_tenant AND k.key = d.idempotency_key
        WHERE d.unit <> ALL (busy) AND d.n <> ALL (stored_items);
    END IF;
END
$$;
