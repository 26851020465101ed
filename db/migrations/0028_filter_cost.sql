-- The cost of a filter is known before it runs: the values of the event times the conditions of the filter.

CREATE FUNCTION hookwire.value_count(payload bytea) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN octet_length(payload) <= 7812 THEN octet_length(payload)
            ELSE (SELECT octet_length(t.text) - octet_length(replace(t.text, ',', '')) + 1
                  FROM (SELECT encode(payload, 'escape') AS text) AS t) END;
COMMENT ON FUNCTION hookwire.value_count(bytea) IS
'Return a bound of the number of values in a JSON text: its commas, or in a small one its bytes. Nothing is parsed.';

CREATE FUNCTION hookwire.condition_count(filter_path jsonpath) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (SELECT length(t.text) - length(replace(t.text, '$', ''))
        FROM (SELECT regexp_replace(filter_path::text, '"([^"\\]|\\.)*"', '', 'g') AS text) AS t);
COMMENT ON FUNCTION hookwire.condition_count(jsonpath) IS
'Return the number of conditions of a filter: each one begins a path with $. A negated condition begins two.';

CREATE FUNCTION hookwire.is_affordable(value_count integer, filter_path jsonpath) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN value_count <= 7812 OR value_count::bigint * hookwire.condition_count(filter_path) <= 1000000;
COMMENT ON FUNCTION hookwire.is_affordable(integer,jsonpath) IS
'Return whether a filter may judge an event: each condition may read each value, at most 1,000,000 in all (0.1 s).';

CREATE FUNCTION hookwire.event_passes(
    topic text, key text, accepted_at timestamptz, content_type text, headers jsonb, payload bytea, filter_path jsonpath
) RETURNS boolean
LANGUAGE sql STABLE
RETURN CASE WHEN filter_path IS NULL THEN true
            WHEN hookwire.is_affordable(hookwire.value_count(payload), filter_path) THEN hookwire.passes(
                hookwire.filter_document(topic, key, accepted_at, content_type, headers, payload), filter_path)
            ELSE false END;
COMMENT ON FUNCTION hookwire.event_passes(text,text,timestamptz,text,jsonb,bytea,jsonpath) IS
'Return whether a subscription gets an event by its filter: always without one, never by a filter that is too expensive.';

REVOKE EXECUTE ON FUNCTION hookwire.value_count(bytea) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION hookwire.condition_count(jsonpath) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION hookwire.is_affordable(integer,jsonpath) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION hookwire.event_passes(text,text,timestamptz,text,jsonb,bytea,jsonpath) FROM PUBLIC;
