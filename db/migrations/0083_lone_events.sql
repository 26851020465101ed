-- One event that SQL publishes alone needs three statements inside of publish_batch, and none for headers that it has
-- not. It needed seventeen, and each of them costs more to begin and end than its work.
-- The event of a reply is a common commit. Events below hookwire. were none, because those of jobs and services are for
-- webhooks only where their topic names no sinks, and may be larger. A larger one still takes the general way.
CREATE OR REPLACE FUNCTION hookwire.publish_batch(tenant text, units integer[], topics text[], keys text[], content_types text[], headers text[], payloads bytea[], idempotency_keys text[], fingerprints bytea[], wait boolean, direct hookwire.direct_terms DEFAULT NULL::hookwire.direct_terms, prefix boolean DEFAULT false, left_out text DEFAULT NULL::text, publishers text[] DEFAULT NULL::text[], member integer DEFAULT NULL::integer)
 RETURNS TABLE(item integer, outcome text, event_id bigint, accepted_at timestamp with time zone, ordered boolean, in_flight boolean, is_owed boolean, fence bigint, claims hookwire.direct_delivery[])
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
    stripe_class CONSTANT integer := 1215262571;
    idempotency_class CONSTANT integer := 1215262572;
    audience_class CONSTANT integer := 1215262575;
    in_tenant CONSTANT text := publish_batch.tenant;
    has_names CONSTANT boolean := array_remove(publish_batch.idempotency_keys, NULL) <> '{}';
    transaction_id CONSTANT xid8 := pg_current_xact_id();   -- never read: it is drawn before any id of an event
    is_common CONSTANT boolean :=        -- events of one topic without keys, which a worker waits for
        direct IS NOT NULL AND array_remove(publish_batch.keys, NULL) = '{}' AND topics[1] = ALL (topics)
        AND NOT (wait OR prefix OR has_names) AND left_out IS NULL
        AND octet_length(topics[1]) <= 249 AND topics[1] ~ '^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$';
    is_inner CONSTANT boolean := topics[1] ~ '^hookwire[.](job|service)([.]|$)';   -- looked at in a common commit
    is_lone CONSTANT boolean :=          -- one event that waits for its key, as SQL publishes it
        wait AND cardinality(units) = 1 AND direct IS NULL AND NOT (prefix OR has_names) AND left_out IS NULL
        AND octet_length(topics[1]) <= 249 AND topics[1] ~ '^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$'
        AND NOT starts_with(topics[1], 'hookwire.')
        AND (keys[1] IS NULL OR octet_length(keys[1]) BETWEEN 1 AND 1024 AND keys[1] !~ '[\x01-\x1f\x7f]');
    audience hookwire.direct_delivery[]; -- of each event of a common commit; NULL: the outbox
    is_alone boolean;                    -- a common commit is for webhooks only
    is_in_order boolean;
    in_layout smallint;
    default_sinks text[];
    inner_sinks text[];   -- of events about jobs and services: brokers get them only where a topic says so
    orders boolean[];     -- of each draft: does its topic keep order
    routes text[];        -- of each draft: its sinks, with commas
    stripes integer[];    -- of each draft: the lock of its key; NULL without order
    names integer[];      -- of each draft: the lock of its idempotency key; the parts of a request share one
    digests bytea[];
    in_turn record;
    refused integer[] := '{}';
    busy integer[] := '{}';
    running integer[] := '{}';
    moment timestamptz;
    lone_id bigint;
    stored_items integer[];
    stored_ids bigint[];
    stored_ordered boolean[];
    is_audience_kept boolean := false;   -- no subscription is activated or changed before COMMIT
    made hookwire.direct_delivery[] := '{}';
    direct_items integer[] := '{}';      -- of the drafts: which take the direct way
BEGIN
    IF is_common THEN
        -- An expression costs a tenth of a statement.
        is_audience_kept :=
            pg_try_advisory_xact_lock_shared(audience_class, 0) AND pg_try_advisory_xact_lock_shared(audience_class, 1)
            AND pg_try_advisory_xact_lock_shared(audience_class, 2) AND pg_try_advisory_xact_lock_shared(audience_class, 3)
            AND pg_try_advisory_xact_lock_shared(audience_class, 4) AND pg_try_advisory_xact_lock_shared(audience_class, 5)
            AND pg_try_advisory_xact_lock_shared(audience_class, 6) AND pg_try_advisory_xact_lock_shared(audience_class, 7);
    END IF;

    IF is_audience_kept THEN
        -- After the locks, one statement for what check_drafts and direct_audience look at, for events that differ in
        -- their contents only. No row: they take the outbox, or are refused below. What has a limit is counted as it
        -- was read, with subscriptions whose lease is over: beyond a limit, others were not read.
        SELECT coalesce(t.sinks, configured.sinks) = '{webhooks}', t.ordered, chosen.audience
        INTO is_alone, is_in_order, audience
        FROM hookwire.topics t
        CROSS JOIN (
            SELECT ARRAY(SELECT k.name FROM hookwire.sinks k
                         WHERE k.configured AND k.name <> 'jobs' AND (k.name = 'webhooks' OR NOT is_inner)) AS sinks
        ) AS configured
        CROSS JOIN (
            SELECT coalesce(array_agg(ROW(NULL, s.id, s.version, s.lease_seconds, NULL)::hookwire.direct_delivery)
                            FILTER (WHERE s.is_chosen AND s.is_alive), '{}') AS audience,
                   coalesce(bool_and(s.is_plain) FILTER (WHERE s.is_chosen AND s.is_alive), true) AS is_plain,
                   count(*) FILTER (WHERE s.is_chosen) AS deliveries, count(*) FILTER (WHERE s.is_pattern) AS patterns
            FROM (
                SELECT x.id, x.version, x.topic_regex IS NOT NULL AS is_pattern,
                       coalesce(topics[1] ~ x.topic_regex, true) AS is_chosen,
                       x.protocol NOT IN ('webhook', 'websub') OR x.lease_until IS NULL OR x.lease_until > clock_timestamp()
                           AS is_alive,
                       coalesce(x.timeout_seconds, direct.timeout_seconds) + direct.lease_margin_seconds AS lease_seconds,
                       x.protocol IN ('webhook', 'websub') AND x.filter_path IS NULL AND x.rate_per_second IS NULL
                       AND NOT x.at_most_once AND x.format <> 'batch' AND NOT (x.ordered AND x.topic_regex IS NOT NULL)
                       AND (x.paused_until IS NULL OR x.paused_until <= clock_timestamp())
                       AND (SELECT g.subscription_id FROM hookwire.delivery_gates g
                            WHERE g.subscription_id = x.id AND g.trips > 0) IS NULL AS is_plain
                FROM (
                    -- Each column is described in each step when the statement starts, so that only those looked at are read.
                    (SELECT e.id, e.version, e.topic_regex, e.protocol, e.format, e.ordered, e.at_most_once, e.filter_path,
                            e.rate_per_second, e.timeout_seconds, e.paused_until, e.lease_until
                     FROM hookwire.subscriptions e
                     WHERE e.tenant = in_tenant AND e.topic = topics[1] AND e.state = 'active' AND e.topic_regex IS NULL
                     LIMIT direct.deliveries_max + 1)
                    UNION ALL
                    (SELECT p.id, p.version, p.topic_regex, p.protocol, p.format, p.ordered, p.at_most_once, p.filter_path,
                            p.rate_per_second, p.timeout_seconds, p.paused_until, p.lease_until
                     FROM hookwire.subscriptions p
                     WHERE p.tenant = in_tenant AND p.state = 'active' AND p.topic_regex IS NOT NULL
                     LIMIT direct.patterns_max + 1)
                ) AS x
            ) AS s
        ) AS chosen
        WHERE t.tenant = in_tenant AND t.name = topics[1] AND 'webhooks' = ANY (coalesce(t.sinks, configured.sinks))
          AND chosen.is_plain AND chosen.patterns <= direct.patterns_max
          AND chosen.deliveries * cardinality(units) <= direct.deliveries_max
          AND NOT EXISTS (SELECT FROM unnest(payloads) AS d(payload)
                          WHERE d.payload IS NULL
                             OR octet_length(d.payload) > (SELECT i.payload_bytes_max FROM hookwire.installation i))
          AND (SELECT h.id FROM hookwire.held h WHERE h.sink = 'webhooks' ORDER BY h.id LIMIT 1) IS NULL
          AND (SELECT h.topic FROM hookwire.holds h WHERE h.sink = 'webhooks' LIMIT 1) IS NULL
          AND NOT EXISTS (SELECT FROM hookwire.sinks k WHERE k.name = 'webhooks' AND k.paused_at IS NOT NULL)
          AND (SELECT r.grp FROM hookwire.relay_terms r WHERE r.sink = 'webhooks' AND NOT r.is_open LIMIT 1) IS NULL
          AND hookwire.origin() = direct.origin
          AND current_setting('transaction_isolation') = 'read committed';
    END IF;

    IF is_alone THEN
        moment := clock_timestamp();
        fence := nextval('hookwire.delivery_fence');
        RETURN QUERY
        WITH draft AS MATERIALIZED (
            SELECT d.*, nextval('hookwire.event_id') AS id
            FROM unnest(content_types, headers, payloads, publishers)
                     WITH ORDINALITY AS d(content_type, headers, payload, publisher, n)
        ), stored AS (
            INSERT INTO hookwire.events (id, accepted_at, ordered, tenant, topic, content_type, headers, sinks, payload,
                                         published_by)
            SELECT d.id, moment, is_in_order, in_tenant, topics[1], d.content_type, coalesce(d.headers::jsonb, '{}'),
                   '{webhooks}', d.payload, d.publisher
            FROM draft d
        ), claimed AS (
            INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, fence, attempts, tenant, member)
            SELECT d.id, a.subscription_id, clock_timestamp() + make_interval(secs => a.lease_seconds), moment, fence, 1,
                   in_tenant, publish_batch.member
            FROM draft d CROSS JOIN unnest(audience) AS a
        ), noted AS (
            INSERT INTO hookwire.ledger_entries (sink, outcome, ids)
            SELECT 'webhooks', 'sent', array_agg(d.id) FROM draft d
        )
        SELECT d.n::integer, 'stored', d.id, moment, is_in_order, false, false, fence, audience FROM draft d;
        RETURN;
    END IF;

    IF is_lone THEN
        -- One statement for what check_drafts and the statements behind it look at. No row: it is refused below.
        SELECT i.layout, coalesce(t.ordered, true), coalesce(t.sinks, ARRAY(
                   SELECT k.name FROM hookwire.sinks k WHERE k.configured AND k.name <> 'jobs' ORDER BY k.name))
        INTO in_layout, is_in_order, default_sinks
        FROM hookwire.installation i
        LEFT JOIN LATERAL (
            SELECT x.name, x.ordered, x.sinks FROM hookwire.topics x WHERE x.tenant = in_tenant AND x.name = topics[1] LIMIT 1
        ) AS t ON true
        WHERE octet_length(payloads[1]) <= i.payload_bytes_max AND (i.topics_auto_create OR t.name IS NOT NULL);
    END IF;
    IF in_layout IS NOT NULL THEN
        IF is_in_order AND keys[1] IS NOT NULL THEN
            PERFORM pg_advisory_xact_lock(stripe_class, hookwire.stripe_of(hookwire.lane_digest(topics[1], keys[1])));
        END IF;
        moment := clock_timestamp();
        lone_id := nextval('hookwire.event_id');
        WITH stored AS (
            INSERT INTO hookwire.events (id, accepted_at, ordered, tenant, topic, key, content_type, headers, sinks, payload,
                                         published_by)
            VALUES (lone_id, moment, is_in_order, in_tenant, topics[1], keys[1], content_types[1],
                    coalesce(headers[1]::jsonb, '{}'), default_sinks, payloads[1], publishers[1])
        )
        INSERT INTO hookwire.outbox (id, layout, shard, sink)
        SELECT lone_id, in_layout,
               CASE WHEN keys[1] IS NULL OR NOT is_in_order THEN (lone_id & 63)::smallint
                    ELSE hookwire.shard_of(hookwire.lane_digest(topics[1], keys[1])) END,
               s.sink
        FROM unnest(default_sinks) AS s(sink);
        RETURN QUERY SELECT 1, 'stored', lone_id, moment, is_in_order, false, true, NULL::bigint,
                            '{}'::hookwire.direct_delivery[];
        RETURN;
    END IF;

    PERFORM hookwire.check_drafts(topics, keys, payloads);
    SELECT i.layout INTO in_layout FROM hookwire.installation i;
    SELECT coalesce(array_agg(s.name ORDER BY s.name), '{}'),
           coalesce(array_agg(s.name ORDER BY s.name) FILTER (WHERE s.name = 'webhooks'), '{}')
    INTO default_sinks, inner_sinks
    FROM hookwire.sinks s WHERE s.configured AND s.name <> 'jobs' AND s.name IS DISTINCT FROM left_out;

    SELECT array_agg(q.ordered ORDER BY q.n), array_agg(q.route ORDER BY q.n), array_agg(q.stripe ORDER BY q.n)
    INTO orders, routes, stripes
    FROM (SELECT d.n, coalesce(t.ordered, true) AS ordered,
                 array_to_string(coalesce(t.sinks, CASE WHEN starts_with(d.topic, 'hookwire.') AND d.topic ~ '^hookwire[.](job|service)([.]|$)'
                                                        THEN inner_sinks ELSE default_sinks END), ',') AS route,
                 CASE WHEN d.key IS NOT NULL AND coalesce(t.ordered, true)
                      THEN hookwire.stripe_of(hookwire.lane_digest(d.topic, d.key)) END AS stripe
          FROM unnest(topics, keys) WITH ORDINALITY AS d(topic, key, n)
          LEFT JOIN LATERAL (
              SELECT x.ordered, x.sinks FROM hookwire.topics x WHERE x.tenant = in_tenant AND x.name = d.topic LIMIT 1
          ) AS t ON true) AS q;

    IF prefix THEN
        FOR in_turn IN
            SELECT min(d.unit) AS unit, d.stripe FROM unnest(units, stripes) AS d(unit, stripe)
            WHERE d.stripe IS NOT NULL GROUP BY d.stripe ORDER BY min(d.unit), d.stripe
        LOOP
            IF wait AND in_turn.unit = units[1] THEN
                PERFORM pg_advisory_xact_lock(stripe_class, in_turn.stripe);
            ELSIF NOT pg_try_advisory_xact_lock(stripe_class, in_turn.stripe) THEN
                SELECT array_agg(DISTINCT d.unit) INTO busy FROM unnest(units) AS d(unit) WHERE d.unit >= in_turn.unit;
                EXIT;
            END IF;
        END LOOP;
    ELSIF wait THEN
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

    IF direct IS NOT NULL AND is_common IS NOT TRUE THEN
        SELECT bool_and(pg_try_advisory_xact_lock_shared(audience_class, s.slot)) INTO is_audience_kept
        FROM generate_series(0, 7) AS s(slot);
    END IF;
    IF is_audience_kept AND is_common THEN
        -- The sinks were read again meanwhile, for the outbox. What no longer goes to webhooks has no deliveries.
        made := ARRAY(SELECT ROW(d.n, a.subscription_id, a.version, a.lease_seconds, NULL)::hookwire.direct_delivery
                      FROM generate_series(1, cardinality(units)) AS d(n) LEFT JOIN unnest(audience) AS a ON true
                      WHERE audience IS NOT NULL AND 'webhooks' = ANY (string_to_array(routes[d.n], ',')));
    ELSIF is_audience_kept THEN
        -- A later statement than those that took the locks: it sees all that their former holders committed.
        made := ARRAY(SELECT a FROM hookwire.direct_audience(in_tenant, units, topics, keys, orders, routes, busy, direct) AS a);
    END IF;
    IF is_audience_kept THEN
        direct_items := ARRAY(SELECT DISTINCT m.n FROM unnest(made) AS m);
    END IF;

    moment := clock_timestamp();
    WITH draft AS MATERIALIZED (
        SELECT q.*, nextval('hookwire.event_id') AS id
        FROM (SELECT d.*
              FROM unnest(units, topics, keys, content_types, headers, payloads, idempotency_keys, digests, orders, routes,
                          publishers)
                       WITH ORDINALITY AS d(unit, topic, key, content_type, headers, payload, idempotency_key, digest,
                                            ordered, route, publisher, n)
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
        INSERT INTO hookwire.events (id, accepted_at, ordered, tenant, topic, key, content_type, headers, sinks, payload,
                                     published_by)
        SELECT w.id, moment, w.ordered, in_tenant, w.topic, w.key, w.content_type,
               coalesce(w.headers::jsonb, '{}'), string_to_array(w.route, ','), w.payload, w.publisher
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
            INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, fence, attempts, tenant, lane,
                                             member)
            SELECT d.id, d.subscription_id, clock_timestamp() + make_interval(secs => d.lease_seconds), moment, fence, 1,
                   in_tenant, d.lane, publish_batch.member
            FROM delivery d WHERE d.subscription_id IS NOT NULL
        )
        INSERT INTO hookwire.ledger_entries (sink, outcome, ids)
        SELECT 'webhooks', 'sent', array_agg(DISTINCT d.id) FROM delivery d HAVING count(*) > 0;
    END IF;

    RETURN QUERY
    SELECT s.n, 'stored', s.id, moment, s.ordered, false, s.n <> ALL (direct_items) OR routes[s.n] <> 'webhooks', fence,
           ARRAY(SELECT m FROM unnest(made) AS m WHERE m.n = s.n AND m.subscription_id IS NOT NULL)
    FROM unnest(stored_items, stored_ids, stored_ordered) AS s(n, id, ordered);

    IF has_names AND cardinality(stored_items) < cardinality(units) THEN
        IF EXISTS (
            SELECT FROM unnest(units, topics, idempotency_keys, digests) WITH ORDINALITY
                            AS d(unit, topic, idempotency_key, digest, n)
            CROSS JOIN LATERAL (
                SELECT x.fingerprint FROM hookwire.idempotency_keys x
                WHERE x.tenant = in_tenant AND x.topic = d.topic AND x.key = d.idempotency_key LIMIT 1
            ) AS k
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
        CROSS JOIN LATERAL (
            SELECT x.* FROM hookwire.idempotency_keys x
            WHERE x.tenant = in_tenant AND x.topic = d.topic AND x.key = d.idempotency_key LIMIT 1
        ) AS k
        WHERE d.unit <> ALL (busy) AND d.n <> ALL (stored_items);
    END IF;
END
$function$;

COMMENT ON FUNCTION hookwire.publish_batch(text,integer[],text[],text[],text[],text[],bytea[],text[],bytea[],boolean,hookwire.direct_terms,boolean,text,text[],integer) IS
'Store drafts and the outbox rows for them: the only place that knows stripes, shards and routing.

A unit is a set of drafts that is stored whole or not at all (one request). One row comes back for each draft:
  stored      with its id
  busy        an open transaction holds a stripe of its unit (only when NOT wait), or one of its idempotency keys
  replayed    its idempotency key was used before on its topic, with the same digest: the earlier id
  conflict    its idempotency key was used before on its topic, with another digest

Of a busy unit nothing was stored; in_flight tells that the cause is an idempotency key.

With prefix, the units are in an order that has to be kept. Stripes are taken by try-lock in this order, and the units
from the first busy one on are busy. So no stripe of a unit behind it is held. If wait is set too, only the first
unit waits.

The digest is the fingerprint. Where that is NULL, or the digest of the key itself, it is made of the event: the key
is a CloudEvent''s identity.

A unit that conflicts in one part and was stored in another raises unique_violation. Everything is rolled back then,
and the caller finds the unit by halving.

Each step of this order is needed by a rule:
  1. Draw the transaction id, and read the topics once.
  2. Take the stripes, before any id is drawn; by try-lock in shared commits.
  3. Take the idempotency keys by try-lock, sorted.
  4. Choose the drafts of the direct path.
  5. Draw ids, claim the keys, and store the drafts that won.
  6. Read the others in a second statement.

A common commit has events of one topic without keys, for a worker. There is no stripe or key to take, and one
statement does step 4 for all of them. If they go to webhooks only, another one does step 5.

A lone event is published by SQL: one event without an idempotency key, which waits for its key. One statement reads the
topic, and another one does step 5.

Topics below hookwire.job and hookwire.service go to webhooks and pull only, unless their settings name other sinks.
Only a topic''s own settings name the sink jobs, and the sink left_out.

Of each draft, publishers has the API key that published it. The direct path claims for the member.';

CREATE OR REPLACE FUNCTION hookwire.publish(topic text, payload bytea, key text DEFAULT NULL::text, content_type text DEFAULT NULL::text, headers jsonb DEFAULT '{}'::jsonb)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
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
    IF headers <> '{}' THEN
        PERFORM hookwire.check_headers(headers);
    END IF;
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
$function$;

COMMENT ON TABLE hookwire.relay_batches IS
'Manifests: the records of each Kafka batch, stored before the batch is committed.';
