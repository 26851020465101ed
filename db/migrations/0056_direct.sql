-- The direct path (ADR 47): where nothing stands before an event, the commit that publishes it also makes its deliveries,
-- claimed already by the worker of the same process.

-- What the process offers. low: below that id no outbox row of the webhooks is left or can still appear, and origin is the
-- origin of that knowledge (FC-01). timeout_seconds and lease_margin_seconds make the lease, as in a claim. deliveries_max
-- of one commit; a tenant may have patterns_max subscriptions by pattern.
CREATE TYPE hookwire.direct_terms AS (
    low bigint, origin uuid, timeout_seconds double precision, lease_margin_seconds double precision,
    deliveries_max integer, patterns_max integer
);

-- Draft n is delivered to this subscription; to none where subscription_id is NULL.
CREATE TYPE hookwire.direct_delivery AS (
    n integer, subscription_id bigint, version bigint, lease_seconds double precision, lane text
);

-- The drafts that may take the direct way, with their audience; what is not named here takes the outbox.
--
-- One statement, so that all conditions hold at one moment: an event leaves the outbox in the statement that makes its
-- deliveries. The caller holds the stripes of the keys, so every earlier event of a key is committed; and it keeps
-- subscriptions from being activated or changed until COMMIT (RR-10). An event in slices keeps its outbox row, so its
-- cursor is not looked for. A snapshot older than the locks would show none of this: hence only READ COMMITTED.
CREATE FUNCTION hookwire.direct_audience(
    tenant text, units integer[], topics text[], keys text[], orders boolean[], routes text[], busy integer[],
    terms hookwire.direct_terms
) RETURNS SETOF hookwire.direct_delivery
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    in_tenant CONSTANT text := direct_audience.tenant;
BEGIN
    RETURN QUERY
    WITH draft AS MATERIALIZED (
        -- Of two events of a key in one commit the second waits for the first.
        SELECT q.n, q.topic, q.key
        FROM (SELECT d.n::integer AS n, d.unit, d.topic, d.key, d.ordered, d.route,
                     count(*) OVER (PARTITION BY d.key) AS of_key
              FROM unnest(units, topics, keys, orders, routes) WITH ORDINALITY AS d(unit, topic, key, ordered, route, n)) AS q
        WHERE q.unit <> ALL (busy) AND 'webhooks' = ANY (string_to_array(q.route, ','))
          AND (SELECT t.name FROM hookwire.topics t WHERE t.tenant = in_tenant AND t.name = q.topic) IS NOT NULL
          AND (q.key IS NULL OR (q.ordered AND q.of_key = 1 AND (
                  SELECT o.id FROM hookwire.outbox o
                  WHERE o.sink = 'webhooks' AND o.shard = hookwire.shard_of(hookwire.lane_digest(q.topic, q.key))
                    AND o.id >= terms.low
                  ORDER BY o.id LIMIT 1) IS NULL))
    ), pattern AS MATERIALIZED (
        SELECT x.id, x.topic_regex FROM hookwire.subscriptions x
        WHERE x.tenant = in_tenant AND x.state = 'active' AND x.topic_regex IS NOT NULL
        LIMIT terms.patterns_max + 1
    ), chosen AS MATERIALIZED (
        SELECT d.n, d.key, s.id
        FROM draft d CROSS JOIN LATERAL (
            SELECT x.id FROM hookwire.subscriptions x
            WHERE x.tenant = in_tenant AND x.topic = d.topic AND x.state = 'active' AND x.topic_regex IS NULL
            LIMIT terms.deliveries_max + 1
        ) AS s
        UNION ALL
        SELECT d.n, d.key, p.id FROM draft d CROSS JOIN pattern p WHERE d.topic ~ p.topic_regex
    ), owed AS MATERIALIZED (
        -- is_plain: nothing has to be judged, counted or waited for. The lane of a pattern holds the key in other topics,
        -- too, whose stripes are not held here.
        SELECT c.n, s.*,
               s.is_usual AND (SELECT g.subscription_id FROM hookwire.delivery_gates g
                               WHERE g.subscription_id = s.id AND g.trips > 0) IS NULL
               AND (s.lane IS NULL OR (SELECT x.event_id FROM hookwire.deliveries x
                                       WHERE x.subscription_id = s.id AND x.lane = s.lane
                                       ORDER BY x.event_id LIMIT 1) IS NULL) AS is_plain
        FROM chosen c CROSS JOIN LATERAL (
            SELECT x.id, x.version,
                   coalesce(x.timeout_seconds, terms.timeout_seconds) + terms.lease_margin_seconds AS lease_seconds,
                   CASE WHEN x.ordered THEN c.key END AS lane,
                   x.protocol IN ('webhook', 'websub') AND x.filter_path IS NULL AND x.rate_per_second IS NULL
                   AND NOT x.at_most_once AND x.format <> 'batch' AND NOT (x.ordered AND x.topic_regex IS NOT NULL)
                   AND (x.paused_until IS NULL OR x.paused_until <= clock_timestamp()) AS is_usual
            FROM hookwire.subscriptions x
            WHERE x.id = c.id
              AND (x.protocol NOT IN ('webhook', 'websub') OR x.lease_until IS NULL OR x.lease_until > clock_timestamp())
            LIMIT 1
        ) AS s
    )
    SELECT d.n, o.id, o.version, o.lease_seconds, o.lane
    FROM draft d LEFT JOIN owed o ON o.n = d.n
    WHERE NOT EXISTS (SELECT FROM owed x WHERE x.n = d.n AND NOT x.is_plain)
      AND (SELECT count(*) FROM chosen) <= terms.deliveries_max
      AND (SELECT count(*) FROM pattern) <= terms.patterns_max
      AND (SELECT h.id FROM hookwire.held h WHERE h.sink = 'webhooks' ORDER BY h.id LIMIT 1) IS NULL
      AND (SELECT h.topic FROM hookwire.holds h WHERE h.sink = 'webhooks' LIMIT 1) IS NULL
      -- While a layout is changed, the leases are closed.
      AND (SELECT t.grp FROM hookwire.relay_terms t WHERE t.sink = 'webhooks' AND NOT t.is_open LIMIT 1) IS NULL
      AND hookwire.origin() = terms.origin
      AND current_setting('transaction_isolation') = 'read committed';
END
$$;

DROP FUNCTION hookwire.publish_batch(text, integer[], text[], text[], text[], text[], bytea[], text[], bytea[], boolean);

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

-- Whoever activates or changes a subscription waits, at its COMMIT, for the direct commits that have read the subscriptions
-- before it; later ones see the change, or take the outbox. A transaction takes one of eight locks, so that several can be
-- committed at once; a direct commit takes all of them, shared. At COMMIT no other lock is waited for any more, so this one
-- takes part in no deadlock.
CREATE FUNCTION hookwire.await_direct_commits() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1215262575, pg_backend_pid() & 7);
    RETURN NULL;
END
$$;

CREATE CONSTRAINT TRIGGER await_direct_commits_made AFTER INSERT ON hookwire.subscriptions
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.state = 'active')
    EXECUTE FUNCTION hookwire.await_direct_commits();

CREATE CONSTRAINT TRIGGER await_direct_commits_changed AFTER UPDATE ON hookwire.subscriptions
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN ((NEW.version, NEW.state, NEW.topic) IS DISTINCT FROM (OLD.version, OLD.state, OLD.topic)
          OR (NEW.protocol <> 'pull' AND NEW.lease_until IS DISTINCT FROM OLD.lease_until))
    EXECUTE FUNCTION hookwire.await_direct_commits();
