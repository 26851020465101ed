-- Pull subscriptions (WH-A07): their deliveries wait to be fetched. callback is empty; lease_until ends one that nobody
-- has asked for its whole lifetime.
ALTER TABLE hookwire.subscriptions
    DROP CONSTRAINT subscriptions_protocol_check,
    ADD CONSTRAINT subscriptions_protocol_check CHECK (protocol IN ('webhook', 'websub', 'pull')),
    ADD COLUMN lifetime_seconds integer;

-- hookwire.* is the hub's own namespace: nobody publishes there from outside, by SQL neither.
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
    IF jsonb_typeof(coalesce(headers, '{}')) <> 'object'
       OR EXISTS (SELECT FROM jsonb_each(coalesce(headers, '{}')) AS h
                  WHERE jsonb_typeof(h.value) <> 'string' OR h.key <> lower(h.key) OR h.key !~ '^[a-z0-9_.-]{1,200}$'
                     OR (h.value #>> '{}') ~ '[\x01-\x1f\x7f]')
       OR content_type ~ '[\x01-\x1f\x7f]' OR octet_length(content_type) > 255 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'hookwire.publish: headers must be a JSON object of lower-case names and one-line texts, content_type one line of at most 255 bytes';
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
