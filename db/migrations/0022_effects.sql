-- A call without an effect says so. A reply that is repeated with another body differs: the first one stays.
CREATE OR REPLACE FUNCTION hookwire.reply_by(id uuid, claim bigint, body bytea, content_type text) RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    parsed record;
    outcome text;
BEGIN
    PERFORM hookwire.check_contents(ARRAY[reply_by.body], ARRAY[reply_by.content_type]);
    parsed := hookwire.parse_frames(reply_by.content_type, reply_by.body);
    outcome := (SELECT s.outcome FROM hookwire.settle_requests(
        ARRAY[reply_by.id], ARRAY[reply_by.claim], ARRAY[parsed.body], ARRAY[parsed.content_type], ARRAY[parsed.frame_bytes::text]) AS s);
    IF outcome = 'stored' AND EXISTS (
        SELECT FROM hookwire.requests r WHERE r.id = reply_by.id
        AND (r.reply, r.reply_content_type, r.reply_frame_bytes) IS DISTINCT FROM (parsed.body, parsed.content_type, parsed.frame_bytes)
    ) THEN
        RETURN 'differs';
    END IF;
    RETURN outcome;
END
$$;

-- By the part of a topic's URL in which two spellings of one address agree.
CREATE INDEX IF NOT EXISTS foreign_topics_loose_url ON hookwire.foreign_topics ((left(regexp_replace(regexp_replace(lower(url), '^https?://(www[.])?', ''), '(:80|:443)?/*([?#].*)?$', ''), 500)));
