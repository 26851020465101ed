-- SQL functions as all migrations together make them. Written by `make schema`, never by hand.

CREATE OR REPLACE FUNCTION hookwire.await_direct_commits()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    PERFORM pg_advisory_xact_lock(1215262575, pg_backend_pid() & 7);
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION hookwire.await_direct_commits() IS
'A transaction that activates or changes a subscription waits, at its COMMIT, for the direct commits that read the
subscriptions before. Later commits see the change, or take the outbox. The transaction takes one of eight locks, so
that several can be committed at once. A direct commit takes all of them, shared. At COMMIT a transaction waits for no
other lock any more, so this lock takes part in no deadlock.';
REVOKE EXECUTE ON FUNCTION hookwire.await_direct_commits() FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.condition_count(filter_path jsonpath)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN (SELECT (length(t.text) - length(replace(t.text, '$'::text, ''::text))) FROM (SELECT regexp_replace((condition_count.filter_path)::text, '"([^"\\]|\\.)*"'::text, ''::text, 'g'::text) AS text) t);
COMMENT ON FUNCTION hookwire.condition_count(jsonpath) IS
'Return the number of conditions of a filter: each one begins a path with $. A negated condition begins two.';
REVOKE EXECUTE ON FUNCTION hookwire.condition_count(jsonpath) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.direct_audience(tenant text, units integer[], topics text[], keys text[], orders boolean[], routes text[], busy integer[], terms hookwire.direct_terms)
 RETURNS SETOF hookwire.direct_delivery
 LANGUAGE plpgsql
AS $function$
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
        -- A limit for the whole commit: where it is passed, all drafts take the outbox, and nothing more is read.
        SELECT c.* FROM (
            SELECT d.n, d.key, s.id
            FROM draft d CROSS JOIN LATERAL (
                SELECT x.id FROM hookwire.subscriptions x
                WHERE x.tenant = in_tenant AND x.topic = d.topic AND x.state = 'active' AND x.topic_regex IS NULL
                LIMIT terms.deliveries_max + 1
            ) AS s
            UNION ALL
            SELECT d.n, d.key, p.id FROM draft d CROSS JOIN pattern p WHERE d.topic ~ p.topic_regex
        ) AS c
        LIMIT terms.deliveries_max + 1
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
      AND NOT EXISTS (SELECT FROM hookwire.sinks k WHERE k.name = 'webhooks' AND k.paused_at IS NOT NULL)
      -- While a layout is changed, the leases are closed.
      AND (SELECT t.grp FROM hookwire.relay_terms t WHERE t.sink = 'webhooks' AND NOT t.is_open LIMIT 1) IS NULL
      AND hookwire.origin() = terms.origin
      AND current_setting('transaction_isolation') = 'read committed';
END
$function$;
COMMENT ON FUNCTION hookwire.direct_audience(text,integer[],text[],text[],boolean[],text[],integer[],hookwire.direct_terms) IS
'The drafts that may take the direct path, with their audience. A draft that is not returned takes the outbox.

One statement, so that all conditions hold at one moment: an event leaves the outbox in the statement that makes its
deliveries. The caller holds the stripes of the keys, so every earlier event of a key is committed. It also keeps
subscriptions from being activated or changed until COMMIT. An event in slices keeps its outbox row, so its cursor is
not looked for. A snapshot older than the locks would show none of this: hence only READ COMMITTED.';
REVOKE EXECUTE ON FUNCTION hookwire.direct_audience(text,integer[],text[],text[],boolean[],text[],integer[],hookwire.direct_terms) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.event_passes(topic text, key text, accepted_at timestamp with time zone, content_type text, headers jsonb, payload bytea, filter_path jsonpath)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN CASE WHEN (filter_path IS NULL) THEN true WHEN hookwire.is_affordable(hookwire.value_count(payload), filter_path) THEN hookwire.passes(hookwire.filter_document(topic, key, accepted_at, content_type, headers, payload), filter_path) ELSE false END;
COMMENT ON FUNCTION hookwire.event_passes(text,text,timestamp with time zone,text,jsonb,bytea,jsonpath) IS
'Return whether a subscription gets an event by its filter: always without one, never by a filter that is too expensive.';
REVOKE EXECUTE ON FUNCTION hookwire.event_passes(text,text,timestamp with time zone,text,jsonb,bytea,jsonpath) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.filter_document(topic text, key text, accepted_at timestamp with time zone, content_type text, headers jsonb, payload bytea)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
RETURN jsonb_build_object('topic', topic, 'key', key, 'time', to_char((accepted_at AT TIME ZONE 'UTC'::text), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'::text), 'content_type', content_type, 'headers', headers, 'data', hookwire.json_of(payload));
COMMENT ON FUNCTION hookwire.filter_document(text,text,timestamp with time zone,text,jsonb,bytea) IS
'Return the document that filters look at.';
REVOKE EXECUTE ON FUNCTION hookwire.filter_document(text,text,timestamp with time zone,text,jsonb,bytea) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.is_affordable(value_count integer, filter_path jsonpath)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN ((value_count <= 7812) OR (((value_count)::bigint * hookwire.condition_count(filter_path)) <= 1000000));
COMMENT ON FUNCTION hookwire.is_affordable(integer,jsonpath) IS
'Return whether a filter may judge an event: each condition may read each value, at most 1,000,000 in all (0.1 s).';
REVOKE EXECUTE ON FUNCTION hookwire.is_affordable(integer,jsonpath) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.json_of(payload bytea)
 RETURNS jsonb
 LANGUAGE plpgsql
 STABLE STRICT
AS $function$
BEGIN
    RETURN convert_from(payload, 'UTF8')::jsonb;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION hookwire.json_of(bytea) IS
'Return a payload as JSON, NULL where it is none; never an error.';
REVOKE EXECUTE ON FUNCTION hookwire.json_of(bytea) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.next_in_lane(subscription bigint, lane text, event bigint)
 RETURNS TABLE(place tid)
 LANGUAGE sql
 STABLE
AS $function$
    SELECT x.ctid FROM hookwire.deliveries x
    WHERE x.subscription_id = $1 AND x.lane = $2 AND x.event_id > $3
    ORDER BY x.event_id LIMIT 1
$function$;
COMMENT ON FUNCTION hookwire.next_in_lane(bigint,text,bigint) IS
'The delivery that waits behind another one of its lane. STABLE and one SELECT, so that PostgreSQL inlines it into the
statements that call it: they are planned as if it stood there.';
REVOKE EXECUTE ON FUNCTION hookwire.next_in_lane(bigint,text,bigint) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.note_disabled()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    NEW.disabled_after_id := CASE WHEN NEW.state = 'disabled' THEN
        (SELECT CASE WHEN e.is_called THEN e.last_value ELSE 0 END FROM hookwire.event_id e) END;
    NEW.drains := NEW.drains AND NEW.state = 'disabled';
    RETURN NEW;
END $function$;
COMMENT ON FUNCTION hookwire.note_disabled() IS
'Note where a subscription that is disabled stops to get events; forget it, and its drain, when it is enabled or ends.';
REVOKE EXECUTE ON FUNCTION hookwire.note_disabled() FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.note_former_audience()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    INSERT INTO hookwire.former_audiences (subscription_id, until_id, tenant, topic, topic_regex, filter_path, lease_until)
    SELECT OLD.id, e.last_value, OLD.tenant, OLD.topic, OLD.topic_regex, OLD.filter_path, OLD.lease_until
    FROM hookwire.event_id e
    WHERE e.is_called;
    RETURN NULL;
END $function$;
COMMENT ON FUNCTION hookwire.note_former_audience() IS
'No event up to the last id drawn was accepted after this change. An event that is committed later is judged by it,
too.';
REVOKE EXECUTE ON FUNCTION hookwire.note_former_audience() FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.passes(document jsonb, filter_path jsonpath)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN COALESCE(jsonb_path_match(document, filter_path, '{}'::jsonb, true), false);
COMMENT ON FUNCTION hookwire.passes(jsonb,jsonpath) IS
'Return whether an event passes a filter; never an error, never unknown.';
REVOKE EXECUTE ON FUNCTION hookwire.passes(jsonb,jsonpath) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.value_count(payload bytea)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN (octet_length(payload) <= 7812) THEN octet_length(payload) ELSE (SELECT ((octet_length(t.text) - octet_length(replace(t.text, ','::text, ''::text))) + 1) FROM (SELECT encode(value_count.payload, 'escape'::text) AS text) t) END;
COMMENT ON FUNCTION hookwire.value_count(bytea) IS
'Return a bound of the number of values in a JSON text: its commas, or in a small one its bytes. Nothing is parsed.';
REVOKE EXECUTE ON FUNCTION hookwire.value_count(bytea) FROM PUBLIC;
