-- Filters on content (WH-A05): a subscription's filter, and the predicate it was translated to.
ALTER TABLE hookwire.subscriptions ADD COLUMN filter jsonb, ADD COLUMN filter_path jsonpath;

-- What a payload says, if it is JSON; never an error (RR-10).
CREATE FUNCTION hookwire.json_of(payload bytea) RETURNS jsonb
LANGUAGE plpgsql STABLE STRICT AS $$
BEGIN
    RETURN convert_from(payload, 'UTF8')::jsonb;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END
$$;

-- What filters look at.
CREATE FUNCTION hookwire.filter_document(
    topic text, key text, accepted_at timestamptz, content_type text, headers jsonb, payload bytea
) RETURNS jsonb
LANGUAGE sql STABLE
RETURN jsonb_build_object(
    'topic', topic, 'key', key, 'time', to_char(accepted_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    'content_type', content_type, 'headers', headers, 'data', hookwire.json_of(payload));

-- Whether an event passes a filter; never an error, never unknown.
CREATE FUNCTION hookwire.passes(document jsonb, filter_path jsonpath) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN coalesce(jsonb_path_match(document, filter_path, '{}', true), false);
