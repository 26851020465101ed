-- A publisher cannot announce a coding of the body: subscribers get the very bytes that were published.
CREATE OR REPLACE FUNCTION hookwire.check_headers(headers jsonb) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
    bytes_max CONSTANT integer := 16384;
    names_max CONSTANT integer := 64;
    wrong text;
BEGIN
    IF jsonb_typeof(headers) <> 'object'
       OR EXISTS (SELECT FROM jsonb_each(headers) AS h
                  WHERE jsonb_typeof(h.value) <> 'string' OR h.key <> lower(h.key) OR h.key !~ '^[a-z0-9_.-]{1,200}$'
                     OR (h.value #>> '{}') ~ '[\x01-\x1f\x7f]') THEN
        wrong := 'headers must be a JSON object of lower-case names and one-line texts';
    ELSIF octet_length(headers::text) > bytes_max THEN
        wrong := format('the headers have %s bytes as JSON, at most %s are accepted', octet_length(headers::text), bytes_max);
    ELSIF (SELECT count(*) FROM jsonb_object_keys(headers)) > names_max THEN
        wrong := format('there are more than %s headers', names_max);
    ELSE
        SELECT CASE
                   WHEN h.key = 'hookwire-ttl' THEN 'the header hookwire-ttl is a number of seconds, 1 to 31536000'
                   WHEN h.key = 'hookwire-retry' THEN 'the header hookwire-retry is never, or left out'
                   WHEN h.key = 'content-encoding' THEN 'the header content-encoding would change the body for subscribers; leave it out'
                   WHEN starts_with(h.key, 'hookwire-') THEN format('the header %s is the hub''s own; leave it out', h.key)
                   ELSE format('the header %s would be sent to every subscriber; leave it out', h.key)
               END
        INTO wrong
        FROM jsonb_each_text(headers) AS h
        WHERE CASE h.key
                  WHEN 'hookwire-ttl' THEN CASE WHEN h.value ~ '^[0-9]{1,8}$' THEN h.value::bigint NOT BETWEEN 1 AND 31536000 ELSE true END
                  WHEN 'hookwire-retry' THEN h.value <> 'never'
                  ELSE starts_with(h.key, 'hookwire-') OR starts_with(h.key, 'proxy-') OR starts_with(h.key, 'x-forwarded-')
                       OR h.key IN ('authorization', 'cookie', 'set-cookie', 'x-api-key', 'forwarded', 'content-encoding')
              END
        LIMIT 1;
    END IF;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'hookwire.publish: ' || wrong;
    END IF;
END
$$;
