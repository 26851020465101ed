-- SQL functions as all migrations together make them. Written by `make schema`, never by hand.

CREATE OR REPLACE FUNCTION hookwire.is_quiet(upstream hookwire.upstreams)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN (((upstream).state = 'active'::text) AND (clock_timestamp() > (COALESCE((upstream).received_at, (upstream).created_at) + GREATEST(((2)::double precision * COALESCE((upstream).longest_gap, '12:00:00'::interval)), '01:00:00'::interval))));
COMMENT ON FUNCTION hookwire.is_quiet(hookwire.upstreams) IS
'Tell whether an active upstream has sent nothing for twice its longest gap, and for an hour or more.';
REVOKE EXECUTE ON FUNCTION hookwire.is_quiet(hookwire.upstreams) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.loose_url(url text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN "left"(regexp_replace(regexp_replace(lower(url), '^https?://(www\.)?'::text, ''::text), '(:80|:443)?/*([?#].*)?$'::text, ''::text), 500);
COMMENT ON FUNCTION hookwire.loose_url(text) IS
'Return the part of a topic''s URL in which two spellings of one address agree.';
REVOKE EXECUTE ON FUNCTION hookwire.loose_url(text) FROM PUBLIC;
