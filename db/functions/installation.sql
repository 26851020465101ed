-- SQL functions as all migrations together make them. Written by `make schema`, never by hand.

CREATE OR REPLACE FUNCTION hookwire.answer_bytes_max()
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN 8388608;
COMMENT ON FUNCTION hookwire.answer_bytes_max() IS
'Return the largest number of bytes that one claim returns.';
REVOKE EXECUTE ON FUNCTION hookwire.answer_bytes_max() FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.check_writable()
 RETURNS timestamp with time zone
 LANGUAGE plpgsql
 SET work_mem TO '64kB'
AS $function$
DECLARE
    moment timestamptz;
BEGIN
    -- OFFSET 0 makes the wide column before the sort, which then has to write it.
    PERFORM count(wide) FROM (
        SELECT repeat(n::text, 300) AS wide FROM generate_series(1, 600) AS n ORDER BY hashint4(n) OFFSET 0
    ) AS spilled;
    INSERT INTO hookwire.readiness AS r (written_at) VALUES (now())
    ON CONFLICT (singleton) DO UPDATE SET written_at = excluded.written_at
    RETURNING r.written_at INTO moment;
    RETURN moment;
END $function$;
COMMENT ON FUNCTION hookwire.check_writable() IS
'Write one row and half a mebibyte of temporary file: a read-only server and a full disk answer every question. The row
is changed in place; the spilled sort takes new blocks of the disk. Raise the server''s error when it cannot write.';
REVOKE EXECUTE ON FUNCTION hookwire.check_writable() FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.ensure_partitions(spare integer DEFAULT 3)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
DECLARE
    size CONSTANT bigint := 10000000;
    current_id bigint;
    target bigint;
    lower_id bigint;
    made integer := 0;
    parent text;
    child text;
BEGIN
    -- One maker at a time; the class is hookwire's, the number is this duty's.
    PERFORM pg_advisory_xact_lock(1215262571, -1);
    PERFORM hookwire.mark_numbers();
    SELECT last_value INTO current_id FROM hookwire.event_id;
    INSERT INTO hookwire.id_watermarks AS w (day, last_id) VALUES (current_date, current_id)
        ON CONFLICT (day) DO UPDATE SET last_id = excluded.last_id;
    target := current_id + greatest(30 * hookwire.ids_per_day(), spare * size);
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
$function$;
COMMENT ON FUNCTION hookwire.ensure_partitions(integer) IS
'Make the partitions of events and attempts for the ids of the next 30 days at the current rate, at least `spare` of
them. By LIKE and ATTACH, which inserts of other sessions do not wait for. Return how many were made.';
REVOKE EXECUTE ON FUNCTION hookwire.ensure_partitions(integer) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.event_name(id bigint, incarnation text)
 RETURNS text
 LANGUAGE sql
 STABLE PARALLEL SAFE
AS $function$
    SELECT format('evt_%s_%s', coalesce((
        SELECT f.incarnation FROM hookwire.former_incarnations f WHERE f.through_id >= event_name.id ORDER BY f.through_id LIMIT 1),
        event_name.incarnation), event_name.id)
$function$;
COMMENT ON FUNCTION hookwire.event_name(bigint,text) IS
'Return the public id of an event: with the present incarnation, or with one of before.';
REVOKE EXECUTE ON FUNCTION hookwire.event_name(bigint,text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.ids_left()
 RETURNS bigint
 LANGUAGE sql
 STABLE
AS $function$
    SELECT CASE WHEN bool_or(p.low <= n.next_id AND n.next_id < p.high) THEN max(p.high) - n.next_id ELSE 0 END
    FROM (SELECT e.last_value + e.is_called::integer AS next_id FROM hookwire.event_id e) AS n
    LEFT JOIN (SELECT substring(b.bound FROM 'FROM \(''(\d+)''\)')::bigint AS low, substring(b.bound FROM 'TO \(''(\d+)''\)')::bigint AS high
               FROM (SELECT pg_get_expr(c.relpartbound, c.oid) AS bound FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
                     WHERE i.inhparent = 'hookwire.events'::regclass AND NOT i.inhdetachpending) AS b) AS p ON true
    GROUP BY n.next_id
$function$;
COMMENT ON FUNCTION hookwire.ids_left() IS
'Return how many ids fit into the partitions that exist; 0 where the next id has none.';
REVOKE EXECUTE ON FUNCTION hookwire.ids_left() FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.ids_per_day()
 RETURNS bigint
 LANGUAGE sql
 STABLE
AS $function$
    SELECT coalesce(sum(greatest(d.last_id - d.before_id - d.skipped, 0)) / greatest(count(*), 1), 0)::bigint
    FROM (SELECT w.last_id, w.skipped, lag(w.last_id) OVER (ORDER BY w.day) AS before_id
          FROM hookwire.id_watermarks w WHERE w.day >= current_date - 7) AS d
    WHERE d.before_id IS NOT NULL
$function$;
COMMENT ON FUNCTION hookwire.ids_per_day() IS
'Return the rate by which partitions are made ahead. Ids that were skipped do not count.';
REVOKE EXECUTE ON FUNCTION hookwire.ids_per_day() FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.is_bounded_time(moment timestamp with time zone)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN ((moment >= '0001-01-01 00:00:00+00'::timestamp with time zone) AND (moment <= '9999-12-31 23:59:59.999999+00'::timestamp with time zone));
COMMENT ON FUNCTION hookwire.is_bounded_time(timestamp with time zone) IS
'Tell whether a time is in the years 1 to 9999.';
REVOKE EXECUTE ON FUNCTION hookwire.is_bounded_time(timestamp with time zone) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.is_readable_json(value jsonb, levels_max integer DEFAULT 64)
 RETURNS boolean
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
BEGIN
    IF jsonb_path_exists(value, format('$.**{%s}', levels_max + 1)::jsonpath) THEN
        RETURN false;
    END IF;
    -- Only a text with so many digits in a row can hold such a number, so most texts need no search.
    RETURN value IS NULL OR value::text !~ '[0-9]{250}'
        OR NOT jsonb_path_exists(value, '$.** ? (@.type() == "number" && (@ >= 1e1000 || @ <= -1e1000))');
END
$function$;
COMMENT ON FUNCTION hookwire.is_readable_json(jsonb,integer) IS
'Return whether JSON has at most so many levels, and numbers of at most 1,000 digits.';
REVOKE EXECUTE ON FUNCTION hookwire.is_readable_json(jsonb,integer) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.lock_sequence(sequence text)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
DECLARE
    last bigint;
BEGIN
    EXECUTE format('ALTER SEQUENCE hookwire.%I NO CYCLE', sequence);
    EXECUTE format('SELECT CASE WHEN s.is_called THEN s.last_value ELSE 0 END FROM hookwire.%I AS s', sequence) INTO last;
    RETURN last;
END
$function$;
COMMENT ON FUNCTION hookwire.lock_sequence(text) IS
'Lock a sequence against every session that draws from it, and return its last number.';
REVOKE EXECUTE ON FUNCTION hookwire.lock_sequence(text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.mark_numbers()
 RETURNS void
 LANGUAGE sql
AS $function$
    INSERT INTO hookwire.number_marks AS m (sequence, last_number)
    SELECT s.sequencename, s.last_value FROM pg_sequences s
    WHERE s.schemaname = 'hookwire' AND s.sequencename <> 'horizon' AND s.last_value IS NOT NULL ORDER BY s.sequencename COLLATE "C"
    ON CONFLICT (sequence) DO UPDATE SET last_number = excluded.last_number WHERE m.last_number < excluded.last_number
$function$;
COMMENT ON FUNCTION hookwire.mark_numbers() IS
'Keep the last number of each sequence, which no later row may have again.';
REVOKE EXECUTE ON FUNCTION hookwire.mark_numbers() FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.numbers(OUT sequence text, OUT last bigint, OUT used bigint, OUT most bigint)
 RETURNS SETOF record
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
    SELECT s.sequencename::text, coalesce(s.last_value, 0),
           CASE WHEN r.sequence IS NOT NULL THEN greatest(r.used, m.last_number, 0) END, s.max_value
    FROM pg_sequences s
    LEFT JOIN (
        SELECT 'event_id' AS sequence, greatest(
            (SELECT max(e.id) FROM hookwire.events e), (SELECT max(a.event_id) FROM hookwire.attempts a),
            (SELECT max(d.event_id) FROM hookwire.deliveries d), (SELECT max(l.event_id) FROM hookwire.dead_letters l),
            (SELECT max(l.event_id) FROM hookwire.relay_dead_letters l), (SELECT max(c.event_id) FROM hookwire.fanout_cursors c),
            (SELECT max(o.id) FROM hookwire.sinks k CROSS JOIN generate_series(0, 63) AS g(shard) CROSS JOIN LATERAL (
                 SELECT x.id FROM hookwire.outbox x WHERE x.sink = k.name AND x.shard = g.shard ORDER BY x.id DESC LIMIT 1) AS o),
            (SELECT max(h.id) FROM hookwire.sinks k CROSS JOIN LATERAL (
                 SELECT x.id FROM hookwire.held x WHERE x.sink = k.name ORDER BY x.id DESC LIMIT 1) AS h),
            (SELECT max(k.event_id) FROM (SELECT x.event_id FROM hookwire.idempotency_keys x ORDER BY x.accepted_at DESC LIMIT 10) AS k),
            (SELECT max(n) FROM (SELECT x.ids FROM hookwire.ledger_entries x ORDER BY x.id DESC LIMIT 10) AS e CROSS JOIN unnest(e.ids) AS n),
            (SELECT max(greatest(x.owed_max, x.settled_max))
             FROM (SELECT y.owed_max, y.settled_max FROM hookwire.ledger y ORDER BY y.hour DESC LIMIT 10) AS x),
            (SELECT greatest(c.through_id, c.mark_id) FROM hookwire.ledger_cursor c),
            -- Events that a replay names may never have existed.
            (SELECT max(nullif(r.upper_event_id, 1))
             FROM (SELECT x.upper_event_id, x.event_ids FROM hookwire.replays x ORDER BY x.id DESC LIMIT 10) AS r WHERE r.event_ids IS NULL),
            (SELECT max(nullif(w.last_id, 1)) FROM (SELECT x.last_id FROM hookwire.id_watermarks x ORDER BY x.day DESC LIMIT 31) AS w)
        ) AS used
        UNION ALL SELECT 'message_id', greatest(
            (SELECT max(m.id) FROM hookwire.messages m), (SELECT max(d.id) FROM hookwire.dead_messages d))
        UNION ALL SELECT 'request_number', (SELECT max(r.number) FROM hookwire.requests r)
        UNION ALL SELECT 'delivery_fence', (SELECT max(d.fence) FROM (
            SELECT x.fence FROM hookwire.deliveries x WHERE x.attempts > 0 AND x.fence IS NOT NULL AND x.parked_at IS NULL
            ORDER BY x.event_id DESC, x.subscription_id DESC LIMIT 10) AS d)
        UNION ALL SELECT 'lease_fence', greatest(
            (SELECT max(m.claim) FROM (SELECT x.claim FROM hookwire.messages x WHERE x.claim IS NOT NULL ORDER BY x.lease_until DESC LIMIT 10) AS m),
            (SELECT max(t.claim) FROM (SELECT x.claim FROM hookwire.task_rows x WHERE x.start_time IS NOT NULL ORDER BY x.lease_until DESC LIMIT 10) AS t),
            (SELECT max(j.claim) FROM (SELECT x.claim FROM hookwire.jobs x WHERE x.state = 'running' ORDER BY x.lease_until DESC LIMIT 10) AS j),
            (SELECT max(r.claim) FROM (SELECT x.claim FROM hookwire.requests x ORDER BY x.number DESC LIMIT 10) AS r))
        UNION ALL SELECT 'api_keys_id_seq', (SELECT max(k.id) FROM hookwire.api_keys k)
        UNION ALL SELECT 'audit_id_seq', (SELECT max(a.id) FROM hookwire.audit a)
        UNION ALL SELECT 'dead_tasks_number_seq', (SELECT max(d.number) FROM hookwire.dead_tasks d)
        UNION ALL SELECT 'delivery_members_id_seq', greatest(
            (SELECT max(m.id) FROM hookwire.delivery_members m),
            (SELECT max(d.member) FROM (
                SELECT x.member FROM hookwire.deliveries x WHERE x.attempts > 0 AND x.fence IS NOT NULL AND x.parked_at IS NULL
                ORDER BY x.event_id DESC, x.subscription_id DESC LIMIT 10) AS d))
        UNION ALL SELECT 'former_audiences_number_seq', NULL
        UNION ALL SELECT 'holds_id_seq', (SELECT max(h.id) FROM hookwire.holds h)
        UNION ALL SELECT 'incidents_id_seq', (SELECT max(i.id) FROM hookwire.incidents i)
        UNION ALL SELECT 'intents_id_seq', (SELECT max(i.id) FROM hookwire.intents i)
        UNION ALL SELECT 'job_requests_number_seq', (SELECT max(r.number) FROM hookwire.job_requests r)
        UNION ALL SELECT 'jobs_seq_seq', greatest(
            (SELECT max(j.seq) FROM hookwire.jobs j), (SELECT max(a.seq) FROM hookwire.job_archive a))
        UNION ALL SELECT 'ledger_entries_id_seq', (SELECT max(e.id) FROM hookwire.ledger_entries e)
        UNION ALL SELECT 'queues_id_seq', (SELECT max(q.id) FROM hookwire.queues q)
        UNION ALL SELECT 'rabbithub_resources_id_seq', (SELECT max(r.id) FROM hookwire.rabbithub_resources r)
        UNION ALL SELECT 'relay_members_id_seq', greatest(
            (SELECT max(m.id) FROM hookwire.relay_members m), (SELECT max(t.member) FROM hookwire.relay_terms t))
        UNION ALL SELECT 'replays_id_seq', (SELECT max(r.id) FROM hookwire.replays r)
        UNION ALL SELECT 'services_id_seq', (SELECT max(v.id) FROM hookwire.services v)
        UNION ALL SELECT 'source_refusals_id_seq', (SELECT max(r.id) FROM hookwire.source_refusals r)
        UNION ALL SELECT 'subscriptions_id_seq', greatest(
            (SELECT max(x.id) FROM hookwire.subscriptions x), (SELECT max(a.subscription_id) FROM hookwire.attempts a),
            (SELECT max(d.subscription_id) FROM hookwire.deliveries d), (SELECT max(l.subscription_id) FROM hookwire.dead_letters l),
            (SELECT max(f.subscription_id) FROM hookwire.delivery_failures f), (SELECT max(g.subscription_id) FROM hookwire.delivery_gates g),
            (SELECT max(f.subscription_id) FROM hookwire.former_audiences f))
        UNION ALL SELECT 'task_rows_seq_seq', greatest(
            (SELECT max(t.seq) FROM (SELECT x.seq FROM hookwire.task_rows x WHERE x.start_time IS NOT NULL ORDER BY x.lease_until DESC LIMIT 10) AS t),
            (SELECT max(t.seq) FROM (SELECT x.seq FROM hookwire.task_rows x WHERE x.due_at IS NOT NULL ORDER BY x.due_at DESC LIMIT 10) AS t))
    ) AS r ON r.sequence = s.sequencename
    LEFT JOIN hookwire.number_marks m ON m.sequence = s.sequencename
    WHERE s.schemaname = 'hookwire' AND s.sequencename <> 'horizon'
$function$;
COMMENT ON FUNCTION hookwire.numbers() IS
'Return each sequence, its last number, and the greatest number that is in use or was used. NULL: there is no rule. A
sequence that never drew a number has the value 1.';
REVOKE EXECUTE ON FUNCTION hookwire.numbers() FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.set_numbers_forward(seen text DEFAULT NULL::text, margin bigint DEFAULT 1000000, OUT sequence text, OUT last bigint, OUT used bigint, OUT next bigint, OUT reason text)
 RETURNS SETOF record
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
DECLARE
    known text;
    here text;
    is_elsewhere boolean;
    forward bigint;
    one record;
BEGIN
    SELECT i.server INTO known FROM hookwire.installation i FOR NO KEY UPDATE;
    here := concat_ws(' ', coalesce(seen, 'unknown'), 'database', (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()),
                      'table', 'hookwire.installation'::regclass::oid);
    is_elsewhere := coalesce(known <> here, false);
    FOR one IN SELECT n.* FROM hookwire.numbers() n WHERE is_elsewhere OR n.last < n.used ORDER BY n.sequence COLLATE "C" LOOP
        sequence := one.sequence;
        last := one.last;
        used := one.used;
        IF is_elsewhere THEN
            -- Of an integer two thousand million are all there are.
            forward := greatest(last, used) + CASE WHEN one.most > 2147483647 THEN margin ELSE margin / 1000 END;
            reason := format('numbers were drawn last at %s, and this is %s', known, here);
        ELSE
            last := hookwire.lock_sequence(sequence);
            CONTINUE WHEN last >= used;
            forward := used;
            reason := 'it was behind the greatest number that was used';
        END IF;
        PERFORM setval(format('hookwire.%I', sequence), forward);
        next := forward + 1;
        IF sequence = 'event_id' THEN
            INSERT INTO hookwire.id_watermarks AS w (day, last_id, skipped) VALUES (current_date, forward, forward - last)
            ON CONFLICT (day) DO UPDATE SET last_id = excluded.last_id, skipped = w.skipped + excluded.skipped;
        END IF;
        RETURN NEXT;
    END LOOP;
    UPDATE hookwire.installation SET server = here WHERE server IS DISTINCT FROM here;
    IF hookwire.ids_left() = 0 THEN
        PERFORM hookwire.ensure_partitions();
    END IF;
END
$function$;
COMMENT ON FUNCTION hookwire.set_numbers_forward(text,bigint) IS
'Set sequences forward that are behind, before numbers are drawn at a server that names itself `seen`. Where numbers were
drawn elsewhere last, set all of them forward by `margin`. Return the sequences that were set.';
REVOKE EXECUTE ON FUNCTION hookwire.set_numbers_forward(text,bigint) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.tell_operators(notices jsonb[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    IF cardinality(notices) > 0 AND (
        EXISTS (SELECT FROM hookwire.subscriptions x
                WHERE x.tenant = 'default' AND x.state = 'active' AND x.topic_regex IS NULL AND x.topic = 'hookwire.operator')
        OR EXISTS (SELECT FROM hookwire.subscriptions x
                   WHERE x.tenant = 'default' AND x.state = 'active' AND x.topic_regex IS NOT NULL AND x.topic LIKE 'hookwire.%')
        OR EXISTS (SELECT FROM hookwire.topics t
                   WHERE t.tenant = 'default' AND t.name = 'hookwire.operator'
                     AND cardinality(array_remove(t.sinks, 'webhooks')) > 0)) THEN
        PERFORM hookwire.publish_batch(
            'default', array_fill(1, size), array_fill('hookwire.operator'::text, size), array_fill(NULL::text, size),
            array_fill('application/json'::text, size), array_fill('{}'::text, size),
            ARRAY(SELECT convert_to((n || jsonb_build_object('at', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')))::text, 'UTF8')
                  FROM unnest(notices) AS n),
            array_fill(NULL::text, size), array_fill(NULL::bytea, size), true)
        FROM (SELECT ARRAY[cardinality(notices)] AS size) AS s;
    END IF;
END
$function$;
COMMENT ON FUNCTION hookwire.tell_operators(jsonb[]) IS
'Publish notices for operators on the topic hookwire.operator, if a subscription asks for the hub''s own topics, or if
the topic''s own settings name another sink than webhooks.';
REVOKE EXECUTE ON FUNCTION hookwire.tell_operators(jsonb[]) FROM PUBLIC;
