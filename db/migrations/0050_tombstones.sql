-- A payload that is NULL is a tombstone: a null value on Kafka, an empty body elsewhere (FM-05).

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
$_$;
