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
    PERFORM count(*) FROM (SELECT n FROM generate_series(1, 20000) AS n ORDER BY hashint4(n)) AS spilled;
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
$function$;
COMMENT ON FUNCTION hookwire.ensure_partitions(integer) IS
'Make the partitions of events and attempts for the ids of the next 30 days at the current rate, at least `spare` of
them. By LIKE and ATTACH, which inserts of other sessions do not wait for. Return how many were made.';
REVOKE EXECUTE ON FUNCTION hookwire.ensure_partitions(integer) FROM PUBLIC;

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

CREATE OR REPLACE FUNCTION hookwire.tell_operators(notices jsonb[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    IF cardinality(notices) > 0 AND (
        EXISTS (SELECT FROM hookwire.subscriptions x
                WHERE x.tenant = 'default' AND x.state = 'active' AND x.topic_regex IS NULL AND x.topic = 'hookwire.operator')
        OR EXISTS (SELECT FROM hookwire.subscriptions x
                   WHERE x.tenant = 'default' AND x.state = 'active' AND x.topic_regex IS NOT NULL AND x.topic LIKE 'hookwire.%')) THEN
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
'Publish notices for operators on the topic hookwire.operator, if a subscription asks for the hub''s own topics.';
REVOKE EXECUTE ON FUNCTION hookwire.tell_operators(jsonb[]) FROM PUBLIC;
