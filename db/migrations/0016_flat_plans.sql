-- Look each row up by its key, regardless of the statistics of its table. A plan that was made while a table was small
-- would read the whole table later, until the next ANALYZE.

CREATE INDEX IF NOT EXISTS holds_due ON hookwire.holds (probe_at);
CREATE INDEX IF NOT EXISTS job_kinds_reviewed ON hookwire.job_kinds (automation, needs_review)
    WHERE needs_review OR automation = 'assisted';

CREATE OR REPLACE FUNCTION hookwire.publish_batch(tenant text, units integer[], topics text[], keys text[], content_types text[], headers text[], payloads bytea[], idempotency_keys text[], fingerprints bytea[], wait boolean, direct hookwire.direct_terms DEFAULT NULL::hookwire.direct_terms) RETURNS TABLE(item integer, outcome text, event_id bigint, accepted_at timestamp with time zone, ordered boolean, in_flight boolean, is_owed boolean, fence bigint, claims hookwire.direct_delivery[])
    LANGUAGE plpgsql
    AS $_$
#variable_conflict use_column
DECLARE
    stripe_class CONSTANT integer := 1215262571;
    idempotency_class CONSTANT integer := 1215262572;
    audience_class CONSTANT integer := 1215262575;
    in_tenant CONSTANT text := publish_batch.tenant;
    has_names CONSTANT boolean := array_remove(publish_batch.idempotency_keys, NULL) <> '{}';
    in_layout smallint;
    default_sinks text[];
    inner_sinks text[];   -- of events about jobs and services: brokers get them only where a topic says so
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
          LEFT JOIN LATERAL (
              SELECT x.ordered, x.sinks FROM hookwire.topics x WHERE x.tenant = in_tenant AND x.name = d.topic LIMIT 1
          ) AS t ON true) AS q;

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
$_$;

CREATE OR REPLACE FUNCTION hookwire.check_drafts(topics text[], keys text[], payloads bytea[]) RETURNS void
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
          AND (SELECT t.name FROM hookwire.topics t WHERE t.tenant = 'default' AND t.name = d.topic) IS NULL LIMIT 1;
        IF wrong IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('hookwire.publish: unknown topic %L', wrong);
        END IF;
    END IF;
END
$_$;

CREATE OR REPLACE FUNCTION hookwire.enqueue_events(ids bigint[], incarnation text) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
DECLARE
    drafts CONSTANT jsonb := (
        SELECT jsonb_agg(t.job || jsonb_build_object('key', coalesce(e.key, ''), 'args', hookwire.event_job_args(
                   format('evt_%s_%s', incarnation, e.id), e.topic, e.key, e.accepted_at, e.content_type, e.headers, e.payload)) ORDER BY e.id)
        FROM unnest(ids) AS i(id)
        CROSS JOIN LATERAL (SELECT x.* FROM hookwire.events x WHERE x.id BETWEEN i.id AND i.id ORDER BY x.id LIMIT 1) AS e
        CROSS JOIN LATERAL (SELECT x.job FROM hookwire.topics x WHERE x.tenant = e.tenant AND x.name = e.topic LIMIT 1) AS t
        WHERE t.job IS NOT NULL);
BEGIN
    RETURN (SELECT count(*) FROM hookwire.add_jobs(coalesce(drafts, '[]'), 'topic'));
END
$$;

CREATE OR REPLACE FUNCTION hookwire.check_services_open(services text[]) RETURNS void
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    wrong text;
BEGIN
    SELECT w INTO wrong FROM unnest(services) AS w
    WHERE NOT (SELECT i.services_auto_create FROM hookwire.installation i)
      AND (SELECT s.name FROM hookwire.services s WHERE s.name = w) IS NULL LIMIT 1;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('unknown service %L', left(wrong, 80)),
            HINT = 'Make it with PUT /services/{name}, or set HOOKWIRE_SERVICES_AUTO_CREATE.';
    END IF;
    SELECT s.name INTO wrong FROM hookwire.services s WHERE s.name = ANY (services) AND s.disabled LIMIT 1;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'HW002', MESSAGE = format('the service %L is disabled', wrong);
    END IF;
    SELECT s.name INTO wrong FROM hookwire.services s
    WHERE s.name = ANY (services) AND s.without_workers = 'refuse' AND NOT hookwire.has_workers(s.name) LIMIT 1;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'HW002', MESSAGE = format('the service %L has no worker', wrong);
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION hookwire.check_job_draft(draft jsonb) RETURNS void
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    wrong text;
    unknown text;
BEGIN
    wrong := CASE
        WHEN jsonb_typeof(draft) <> 'object' THEN 'a job is a JSON object'
        WHEN draft - ARRAY['kind', 'args', 'uniq', 'uniq_seconds', 'on_conflict', 'key', 'queue', 'priority', 'due_at', 'delay_seconds',
                           'due_local', 'due_zone', 'attempts_max', 'run_seconds', 'deadline_seconds', 'callbacks', 'assignee'] <> '{}'
            THEN format('unknown members in the job %s', left(draft::text, 200))
        WHEN NOT hookwire.is_queue_name(draft->>'kind')
            THEN format('invalid kind %L: 1-200 of A-Z a-z 0-9 . _ - in dot-separated words', left(draft->>'kind', 80))
        WHEN draft->>'queue' IS NOT NULL AND NOT hookwire.is_queue_name(draft->>'queue')
            THEN format('invalid queue %L: 1-200 of A-Z a-z 0-9 . _ - in dot-separated words', left(draft->>'queue', 80))
        WHEN draft->>'uniq' = '' OR octet_length(draft->>'uniq') > 1024 OR octet_length(draft->>'key') > 1024
            THEN 'uniq is 1-1024 bytes, key at most 1024'
        WHEN draft->>'assignee' IS NOT NULL AND NOT hookwire.is_person(draft->>'assignee') THEN 'assignee is 1-200 printable bytes'
        WHEN (draft->>'priority')::numeric NOT BETWEEN -1000 AND 1000 THEN 'priority is -1000 to 1000'
        WHEN (draft->>'delay_seconds')::double precision NOT BETWEEN 0 AND 315360000 THEN 'delay_seconds is 0 to 315360000'
        WHEN (draft->>'attempts_max')::numeric NOT BETWEEN 1 AND 1000000 THEN 'attempts_max is 1 to 1000000'
        WHEN (draft->>'run_seconds')::double precision NOT BETWEEN 0.05 AND 2592000 THEN 'run_seconds is 0.05 to 2592000'
        WHEN (draft->>'deadline_seconds')::double precision NOT BETWEEN 0.05 AND 315360000 THEN 'deadline_seconds is 0.05 to 315360000'
        WHEN (draft->>'uniq_seconds')::double precision NOT BETWEEN 0 AND 315360000 THEN 'uniq_seconds is 0 to 315360000'
        WHEN draft->>'on_conflict' NOT IN ('merge', 'replace', 'skip', 'error') THEN 'on_conflict is merge, replace, skip or error'
        WHEN num_nonnulls(draft->>'due_local', draft->>'due_zone') = 1 THEN 'due_local and due_zone are given together'
        WHEN nullif(draft->'callbacks', 'null') IS NOT NULL AND (
            jsonb_typeof(draft->'callbacks') <> 'object'
            OR (draft->'callbacks') - ARRAY['on_status', 'on_complete', 'on_retry', 'on_fail'] <> '{}'
            OR EXISTS (SELECT FROM jsonb_each_text(draft->'callbacks') c WHERE NOT hookwire.is_queue_name(c.value)))
            THEN 'callbacks is an object of on_status, on_complete, on_retry, on_fail; each names a kind'
        WHEN NOT hookwire.is_readable_json(draft->'args')
            THEN 'args are nested deeper than 64, or hold a number of more than 1,000 digits'
    END;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'hookwire.enqueue: ' || wrong;
    END IF;
    IF octet_length((draft->'args')::text) > 1048576 THEN
        RAISE EXCEPTION USING ERRCODE = 'HW003', MESSAGE = 'hookwire.enqueue: args are larger than 1 MiB',
            HINT = 'Store large content elsewhere and enqueue a link.';
    END IF;
    PERFORM hookwire.job_due(draft, now());
    IF NOT (SELECT i.kinds_auto_create FROM hookwire.installation i) THEN
        SELECT n.kind INTO unknown
        FROM (SELECT draft->>'kind' AS kind UNION ALL SELECT c.value FROM jsonb_each_text(nullif(draft->'callbacks', 'null')) AS c) AS n
        WHERE (SELECT k.kind FROM hookwire.job_kinds k WHERE k.kind = n.kind) IS NULL LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('unknown kind %L', unknown),
                HINT = 'Make it with PUT /jobs/kinds/{kind}, or set HOOKWIRE_KINDS_AUTO_CREATE.';
        END IF;
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION hookwire.announce_jobs(changed hookwire.jobs[], in_state text DEFAULT NULL::text, actor text DEFAULT NULL::text, results_of uuid[] DEFAULT NULL::uuid[], results jsonb[] DEFAULT NULL::jsonb[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    topics text[];
    bodies jsonb[];
    follow_ups jsonb[];
BEGIN
    IF changed = '{}' THEN
        RETURN;
    END IF;
    WITH policies AS MATERIALIZED (
        SELECT k.kind, (hookwire.job_policy(k.kind)).events FROM (SELECT DISTINCT j.kind FROM unnest(changed) AS j) AS k
    ), body AS MATERIALIZED (
        SELECT j.id, j.kind, j.seq, c.is_called_back, coalesce(in_state, j.state) AS state,
               coalesce(in_state, j.state) = ANY (p.events) AS is_published,
               jsonb_strip_nulls(jsonb_build_object(
                   'id', j.id, 'kind', j.kind, 'state', coalesce(in_state, j.state), 'number', j.number + (results_of IS NOT NULL)::integer, 'attempts', j.attempts,
                   'assignee', j.assignee, 'by', coalesce(actor, j.worker),
                   'at', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
                   'progress', CASE WHEN in_state = 'progress' THEN jsonb_build_array(j.progress_done, j.progress_total) END,
                   'error', CASE WHEN coalesce(in_state, j.state) IN ('retryable', 'discarded') THEN j.errors -> -1 ->> 'error' END))
               || CASE WHEN hookwire.is_told_result(coalesce(r.result, j.result)) THEN jsonb_build_object('result', coalesce(r.result, j.result)) ELSE '{}' END AS body
        FROM unnest(changed) AS j JOIN policies p ON p.kind = j.kind
        CROSS JOIN LATERAL (
            SELECT (SELECT q.number FROM hookwire.job_requests q WHERE q.job_id = j.id LIMIT 1) IS NOT NULL AS is_called_back
        ) AS c
        LEFT JOIN unnest(results_of, results) AS r(id, result) ON r.id = j.id
        WHERE coalesce(in_state, j.state) = ANY (p.events) OR c.is_called_back
    )
    SELECT array_agg('hookwire.job.' || b.kind || '.' || b.state ORDER BY b.seq) FILTER (WHERE b.is_published),
           array_agg(b.body ORDER BY b.seq) FILTER (WHERE b.is_published),
           (SELECT array_agg(jsonb_build_object('kind', hooks.kind, 'args', c.body || jsonb_strip_nulls(jsonb_build_object('requester', r.requester)))
                             ORDER BY r.number)
            FROM body c
            CROSS JOIN LATERAL (SELECT q.* FROM hookwire.job_requests q WHERE q.job_id = c.id OFFSET 0) AS r
            CROSS JOIN LATERAL (VALUES
                (r.callbacks->>'on_status'),
                (CASE WHEN c.state = 'completed' THEN r.callbacks->>'on_complete' END),
                (CASE WHEN c.state = 'retryable' THEN r.callbacks->>'on_retry' END),
                (CASE WHEN c.state = 'discarded' THEN r.callbacks->>'on_fail' END)) AS hooks(kind)
            WHERE c.is_called_back AND hooks.kind IS NOT NULL)
    INTO topics, bodies, follow_ups FROM body b;
    IF topics IS NOT NULL THEN
        PERFORM hookwire.publish_batch(
            'default', array_fill(1, size), topics, array_fill(NULL::text, size), array_fill('application/json'::text, size),
            array_fill('{}'::text, size), ARRAY(SELECT convert_to(b::text, 'UTF8') FROM unnest(bodies) AS b),
            array_fill(NULL::text, size), array_fill(NULL::bytea, size), true)
        FROM (SELECT ARRAY[cardinality(topics)] AS size) AS s;
        IF (SELECT i.sql_notify FROM hookwire.installation i) THEN
            PERFORM pg_notify('hookwire_outbox', '');
        END IF;
    END IF;
    IF follow_ups IS NOT NULL THEN
        PERFORM hookwire.add_callbacks(follow_ups);
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION hookwire.pick_filtered(in_queue text, most integer, filter jsonb, after_id bigint) RETURNS bigint[]
    LANGUAGE plpgsql
    AS $$
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
        WHERE m.id = ANY (found) AND num_nulls(m.claim, m.due_at) = 2 -- two IS NULL would allow a partial index
          AND (filter->>'key' IS NULL OR m.key = filter->>'key')
          AND m.headers @> coalesce(filter->'headers', '{}')
          AND m.priority >= coalesce((filter->>'priority_min')::numeric, -32768)
          AND m.created_at <= clock_timestamp() - make_interval(secs => coalesce((filter->>'age_seconds_min')::double precision, 0))
        ORDER BY m.id LIMIT most FOR UPDATE SKIP LOCKED);
END
$$;

CREATE OR REPLACE FUNCTION hookwire.complete_jobs(ids uuid[], claims bigint[], results jsonb[] DEFAULT NULL::jsonb[], extras jsonb[] DEFAULT NULL::jsonb[]) RETURNS SETOF uuid
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    held uuid[];
    reviewed hookwire.jobs[];
    extra record;
BEGIN
    -- A shorter result has neither 65 levels nor 250 digits.
    PERFORM hookwire.check_job_result(r) FROM unnest(results) AS r WHERE octet_length(r::text) > 128;
    IF (SELECT k.kind FROM hookwire.job_kinds k WHERE k.needs_review OR k.automation = 'assisted'
        ORDER BY k.automation, k.needs_review LIMIT 1) IS NULL THEN
        held := hookwire.end_jobs(ids, 'completed', results, claims => claims);
    ELSE
        held := hookwire.held_jobs(ids, claims);
        WITH policies AS MATERIALIZED (
            SELECT k.kind FROM (SELECT DISTINCT j.kind FROM hookwire.jobs j WHERE j.id = ANY (held)) AS k
            CROSS JOIN LATERAL hookwire.job_policy(k.kind) AS p WHERE p.needs_review OR p.automation = 'assisted'
        ), waiting AS (
            UPDATE hookwire.jobs j SET state = 'review', result = r.result, performer = j.worker, claim = NULL, lease_until = NULL,
                run_until = NULL, number = j.number + 1
            FROM unnest(ids, results) AS r(id, result)
            WHERE j.id = ANY (held) AND r.id = j.id AND j.kind IN (SELECT p.kind FROM policies p)
            RETURNING j AS job
        )
        SELECT coalesce(array_agg(w.job ORDER BY (w.job).seq), '{}') INTO reviewed FROM waiting w;
        PERFORM hookwire.announce_jobs(reviewed);
        IF cardinality(reviewed) < cardinality(held) THEN
            PERFORM hookwire.end_jobs(ARRAY(SELECT unnest(held) EXCEPT SELECT w.id FROM unnest(reviewed) AS w), 'completed', results,
                                      results_of => ids);
        END IF;
    END IF;
    IF extras IS NOT NULL THEN
        FOR extra IN SELECT x.id, x.extra FROM unnest(ids, extras) AS x(id, extra) WHERE x.id = ANY (held) AND x.extra IS NOT NULL LOOP
            PERFORM hookwire.publish_all(extra.extra->'events');
            PERFORM hookwire.add_jobs(coalesce(nullif(extra.extra->'jobs', 'null'), '[]'), 'job:' || extra.id);
        END LOOP;
    END IF;
    RETURN QUERY SELECT unnest(held);
END
$$;

CREATE OR REPLACE FUNCTION hookwire.reap_messages(most integer) RETURNS TABLE(returned bigint, dead bigint, promoted bigint)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    moment CONSTANT timestamptz := clock_timestamp(); -- an index has no condition on a function that changes
    expired CONSTANT bigint[] := ARRAY(
        SELECT m.id FROM hookwire.messages m WHERE m.claim IS NOT NULL AND m.lease_until <= moment
        ORDER BY m.lease_until LIMIT most FOR UPDATE SKIP LOCKED);
    due CONSTANT bigint[] := ARRAY(
        SELECT m.id FROM hookwire.messages m WHERE m.due_at <= moment
        ORDER BY m.due_at LIMIT most FOR UPDATE SKIP LOCKED);
BEGIN
    RETURN QUERY
    WITH worn AS MATERIALIZED (
        SELECT m.id FROM hookwire.messages m
        WHERE m.id = ANY (expired)
          AND m.deliveries >= coalesce((SELECT q.deliveries_max FROM hookwire.queues q WHERE q.name = m.queue), 5)
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

CREATE OR REPLACE FUNCTION hookwire.clean_tasks(most integer) RETURNS TABLE(notified bigint, freed bigint, archived bigint, retried bigint, compensated bigint, abandoned bigint)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    moment CONSTANT timestamptz := clock_timestamp(); -- an index has no condition on a function that changes
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

    waiting := ARRAY(SELECT t.id FROM hookwire.task_rows t WHERE t.due_at <= moment ORDER BY t.due_at LIMIT most FOR UPDATE SKIP LOCKED);
    UPDATE hookwire.task_rows t SET due_at = NULL, notify_at = clock_timestamp() WHERE t.id = ANY (waiting) AND t.start_time IS NULL;
    GET DIAGNOSTICS freed = ROW_COUNT;

    waiting := ARRAY(SELECT t.id FROM hookwire.task_rows t
                     WHERE t.start_time IS NULL AND t.due_at IS NULL AND t.notify_at <= moment
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

    lost := ARRAY(SELECT w.name FROM hookwire.task_workers w WHERE w.seen_until <= moment ORDER BY w.seen_until LIMIT 100);
    FOR crashed IN
        (SELECT t.* FROM hookwire.task_rows t
         WHERE t.start_time IS NOT NULL AND t.finish_time IS NULL AND t.lease_until <= moment
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
    WHERE w.name = ANY (lost) AND w.seen_until <= moment
      AND NOT EXISTS (SELECT FROM hookwire.task_rows t WHERE t.worker = w.name);
    RETURN NEXT;
END
$$;

-- The session that calls one of these has settings of its own, and its tables may not be analysed yet.
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
