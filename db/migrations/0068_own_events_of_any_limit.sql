-- An event of the hub about a job has the job's result, up to 64 KiB, and its last error. With a smaller HOOKWIRE_EVENT_BYTES_MAX
-- the job could not be completed: its work was repeated until no attempt was left.
CREATE OR REPLACE FUNCTION hookwire.check_drafts(topics text[], keys text[], payloads bytea[])
 RETURNS void
 LANGUAGE plpgsql
 STABLE
AS $function$
DECLARE
    own_bytes_max CONSTANT integer := 131072;   -- of an event about a job: its result, its error and what names it
    house hookwire.installation;
    wrong text;
BEGIN
    SELECT * INTO house FROM hookwire.installation;
    SELECT CASE
               WHEN d.topic IS NULL OR octet_length(d.topic) > 249 OR d.topic !~ '^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$'
                   THEN format('invalid topic %L: 1-249 of A-Z a-z 0-9 . _ - in dot-separated words', left(d.topic, 80))
               WHEN d.key = '' OR octet_length(d.key) > 1024 OR d.key ~ '[\x01-\x1f\x7f]'
                   THEN 'invalid key: 1-1024 bytes without control characters, or NULL for none'
               WHEN d.payload IS NULL OR octet_length(d.payload) > greatest(house.payload_bytes_max, own_bytes_max * starts_with(d.topic, 'hookwire.')::integer)
                   THEN format('payload missing or larger than %s bytes', house.payload_bytes_max)
           END
    INTO wrong
    FROM unnest(topics, keys, payloads) AS d(topic, key, payload)
    WHERE d.topic IS NULL OR octet_length(d.topic) > 249 OR d.topic !~ '^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$'
       OR d.key = '' OR octet_length(d.key) > 1024 OR d.key ~ '[\x01-\x1f\x7f]'
       OR d.payload IS NULL OR octet_length(d.payload) > greatest(house.payload_bytes_max, own_bytes_max * starts_with(d.topic, 'hookwire.')::integer)
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
$function$;
COMMENT ON FUNCTION hookwire.check_drafts(text[],text[],bytea[]) IS
'Refuse records that no sink could carry, so that poison does not enter. The hub''s own topics need no row, also where
a first publish creates no topic, and no limit for publishers keeps their events of at most 128 KiB out.';
