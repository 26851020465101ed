-- A plain INSERT into a queue, as tasks and events have it.

CREATE VIEW hookwire.message_queue AS
SELECT NULL::bigint AS id,           -- filled in by the insert: RETURNING id
       NULL::text AS queue,
       NULL::text AS payload,        -- text, or
       NULL::bytea AS payload_bytes, -- bytes; both NULL: an empty message
       NULL::text AS content_type,
       NULL::jsonb AS headers,
       NULL::text AS type,
       NULL::text AS key,
       NULL::integer AS priority,
       NULL::double precision AS delay_seconds
WHERE false;
COMMENT ON VIEW hookwire.message_queue IS 'INSERT here to submit messages in your transaction; see docs/reference/sql.md';

CREATE FUNCTION hookwire.submit_row() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.payload IS NOT NULL AND NEW.payload_bytes IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'hookwire.message_queue: give payload (text) or payload_bytes, not both';
    END IF;
    IF NEW.payload IS NOT NULL THEN
        NEW.content_type := coalesce(NEW.content_type, 'text/plain; charset=utf-8');
        NEW.payload_bytes := convert_to(NEW.payload, 'UTF8');
    END IF;
    NEW.id := hookwire.submit(NEW.queue, coalesce(NEW.payload_bytes, ''::bytea), NEW.content_type, coalesce(NEW.headers, '{}'),
                              NEW.type, NEW.key, coalesce(NEW.priority, 0), coalesce(NEW.delay_seconds, 0));
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION hookwire.submit_row() IS
'Submit a row that is inserted into the view `hookwire.message_queue`. It runs as the role that inserts.';
REVOKE EXECUTE ON FUNCTION hookwire.submit_row() FROM PUBLIC;

CREATE TRIGGER submit INSTEAD OF INSERT ON hookwire.message_queue FOR EACH ROW EXECUTE FUNCTION hookwire.submit_row();

-- USAGE on the schema is the right to submit, as with the function.
GRANT SELECT, INSERT ON hookwire.message_queue TO PUBLIC;
