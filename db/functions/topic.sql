-- SQL functions as all migrations together make them. Written by `make schema`, never by hand.

CREATE OR REPLACE FUNCTION hookwire.is_quiet(upstream hookwire.upstreams)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN (((upstream).state = 'active'::text) AND (clock_timestamp() > (COALESCE((upstream).received_at, (upstream).created_at) + GREATEST(((2)::double precision * COALESCE((upstream).longest_gap, '12:00:00'::interval)), '01:00:00'::interval))));
COMMENT ON FUNCTION hookwire.is_quiet(hookwire.upstreams) IS
'Tell whether an active upstream has sent nothing for twice its longest gap, and for an hour or more.';
REVOKE EXECUTE ON FUNCTION hookwire.is_quiet(hookwire.upstreams) FROM PUBLIC;
