-- Publishing by a plain INSERT, for writers that call no function: any language, any ORM, COPY excepted (RO-02b).

-- A view that holds nothing. Its trigger calls hookwire.publish, which takes the key's lock before it draws the id: a
-- trigger on a table would come too late, after the column's default was evaluated (RO-02b, 3 inversions in 960).
CREATE VIEW hookwire.stash AS
SELECT NULL::text AS event_id,       -- filled in by the insert: RETURNING event_id
       NULL::text AS topic,
       NULL::text AS key,
       NULL::text AS payload,        -- text, or
       NULL::bytea AS payload_bytes, -- bytes; both NULL: an empty event
       NULL::text AS content_type,
       NULL::jsonb AS headers
WHERE false;

COMMENT ON VIEW hookwire.stash IS 'INSERT here to publish in your transaction; see docs/how-to/publish-from-your-transaction.md';

CREATE FUNCTION hookwire.stash_row() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.payload IS NOT NULL AND NEW.payload_bytes IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'hookwire.stash: give payload (text) or payload_bytes, not both';
    END IF;
    IF NEW.payload IS NOT NULL THEN
        NEW.content_type := coalesce(NEW.content_type, 'text/plain; charset=utf-8');
        NEW.payload_bytes := convert_to(NEW.payload, 'UTF8');
    END IF;
    NEW.headers := coalesce(NEW.headers, '{}');
    NEW.event_id := hookwire.publish(NEW.topic, coalesce(NEW.payload_bytes, ''::bytea), NEW.key, NEW.content_type, NEW.headers);
    RETURN NEW;
END
$$;

CREATE TRIGGER publish INSTEAD OF INSERT ON hookwire.stash FOR EACH ROW EXECUTE FUNCTION hookwire.stash_row();

-- As with the function: USAGE on the schema decides who may publish, and is all that a role needs.
GRANT SELECT, INSERT ON hookwire.stash TO PUBLIC;
