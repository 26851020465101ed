-- Limit the depth and the digits of JSON in jobs, as for requests over HTTP, so that workers in all languages can read
-- it.
CREATE FUNCTION hookwire.is_readable_json(value jsonb, levels_max integer DEFAULT 64) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF jsonb_path_exists(value, format('$.**{%s}', levels_max + 1)::jsonpath) THEN
        RETURN false;
    END IF;
    -- Only a text with so many digits in a row can hold such a number, so most texts need no search.
    RETURN value IS NULL OR value::text !~ '[0-9]{250}'
        OR NOT jsonb_path_exists(value, '$.** ? (@.type() == "number" && (@ >= 1e1000 || @ <= -1e1000))');
END
$$;

COMMENT ON FUNCTION hookwire.is_readable_json(jsonb, integer) IS 'Whether JSON has at most so many levels, and numbers of at most 1,000 digits.';

CREATE OR REPLACE FUNCTION hookwire.check_job_draft(draft jsonb) RETURNS void
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    wrong text;
BEGIN
    wrong := CASE
        WHEN jsonb_typeof(draft) <> 'object' THEN 'a job is a JSON object'
        WHEN draft - ARRAY['kind', 'args', 'uniq', 'uniq_seconds', 'on_conflict', 'key', 'queue', 'priority', 'due_at', 'delay_seconds',
                           'due_local', 'due_zone', 'attempts_max', 'run_seconds', 'deadline_seconds', 'callbacks', 'assignee'] <> '{}'
            THEN format('unknown members in the job %s', left(draft::text, 200))
        WHEN NOT hookwire.is_queue_name(draft->>'kind')
            THEN format('invalid kind %L: 1-200 of A-Z a-z 0-9 . _ - in dot-separated words', left(draft->>'kind', 80))
        WHEN draft->>'queue' IS NOT NULL AND NOT hookwire.is_queue_name(draft->>'queue')
            THEN format('invalid queue %L: 1-200 of A-Z a-z 0-9 . _ - in dot-separated words', left(draft->>'queue', 80))
        WHEN draft->>'uniq' = '' OR octet_length(draft->>'uniq') > 1024 OR octet_length(draft->>'key') > 1024
            THEN 'uniq is 1-1024 bytes, key at most 1024'
        WHEN draft->>'assignee' IS NOT NULL AND NOT hookwire.is_person(draft->>'assignee') THEN 'assignee is 1-200 printable bytes'
        WHEN (draft->>'priority')::numeric NOT BETWEEN -1000 AND 1000 THEN 'priority is -1000 to 1000'
        WHEN (draft->>'delay_seconds')::double precision NOT BETWEEN 0 AND 315360000 THEN 'delay_seconds is 0 to 315360000'
        WHEN (draft->>'attempts_max')::numeric NOT BETWEEN 1 AND 1000000 THEN 'attempts_max is 1 to 1000000'
        WHEN (draft->>'run_seconds')::double precision NOT BETWEEN 0.05 AND 2592000 THEN 'run_seconds is 0.05 to 2592000'
        WHEN (draft->>'deadline_seconds')::double precision NOT BETWEEN 0.05 AND 315360000 THEN 'deadline_seconds is 0.05 to 315360000'
        WHEN (draft->>'uniq_seconds')::double precision NOT BETWEEN 0 AND 315360000 THEN 'uniq_seconds is 0 to 315360000'
        WHEN draft->>'on_conflict' NOT IN ('merge', 'replace', 'skip', 'error') THEN 'on_conflict is merge, replace, skip or error'
        WHEN num_nonnulls(draft->>'due_local', draft->>'due_zone') = 1 THEN 'due_local and due_zone are given together'
        WHEN nullif(draft->'callbacks', 'null') IS NOT NULL AND (
            jsonb_typeof(draft->'callbacks') <> 'object'
            OR (draft->'callbacks') - ARRAY['on_status', 'on_complete', 'on_retry', 'on_fail'] <> '{}'
            OR EXISTS (SELECT FROM jsonb_each_text(draft->'callbacks') c WHERE NOT hookwire.is_queue_name(c.value)))
            THEN 'callbacks is an object of on_status, on_complete, on_retry, on_fail; each names a kind'
        WHEN NOT hookwire.is_readable_json(draft->'args')
            THEN 'args are nested deeper than 64, or hold a number of more than 1,000 digits'
    END;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'hookwire.enqueue: ' || wrong;
    END IF;
    IF octet_length((draft->'args')::text) > 1048576 THEN
        RAISE EXCEPTION USING ERRCODE = 'HW003', MESSAGE = 'hookwire.enqueue: args are larger than 1 MiB',
            HINT = 'Store large content elsewhere and enqueue a link.';
    END IF;
    IF NOT (SELECT i.kinds_auto_create FROM hookwire.installation i)
       AND NOT EXISTS (SELECT FROM hookwire.job_kinds k WHERE k.kind = draft->>'kind') THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('unknown kind %L', draft->>'kind'),
            HINT = 'Make it with PUT /jobs/kinds/{kind}, or set HOOKWIRE_KINDS_AUTO_CREATE.';
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION hookwire.check_job_result(result jsonb) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    AS $$
BEGIN
    IF octet_length(result::text) > 1048576 THEN
        RAISE EXCEPTION USING ERRCODE = 'HW003', MESSAGE = 'the result is larger than 1 MiB',
            HINT = 'Store large content elsewhere and return a link.';
    END IF;
    IF NOT hookwire.is_readable_json(result) THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'the result is nested deeper than 64, or holds a number of more than 1,000 digits';
    END IF;
END
$$;

-- Return JSON content beyond these limits as text. The content is one level deeper in the arguments.
CREATE OR REPLACE FUNCTION hookwire.event_job_content(payload bytea) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
    data CONSTANT jsonb := hookwire.json_of(payload);
BEGIN
    IF data IS NOT NULL AND hookwire.is_readable_json(data, 63) THEN
        RETURN jsonb_build_object('data', data);
    END IF;
    RETURN jsonb_build_object('payload', convert_from(payload, 'UTF8'));
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
    RETURN jsonb_build_object('payload_base64', translate(encode(payload, 'base64'), E'\n', ''));
END
$$;

-- Refuse frames that are nested too deep for the server, like other invalid frames.
CREATE OR REPLACE FUNCTION hookwire.parse_frames(INOUT content_type text, INOUT body bytea, OUT frame_bytes integer[]) RETURNS record
    LANGUAGE plpgsql IMMUTABLE
    AS $$
DECLARE
    document jsonb;
BEGIN
    IF lower(btrim(split_part(coalesce(content_type, ''), ';', 1))) <> 'application/vnd.hookwire.frames+json' THEN
        RETURN;
    END IF;
    BEGIN
        document := convert_from(body, 'UTF8')::jsonb;
        IF jsonb_typeof(document->'frames') <> 'array' OR document - 'frames' <> '{}' OR jsonb_array_length(document->'frames') NOT BETWEEN 1 AND 32
           OR EXISTS (SELECT FROM jsonb_array_elements(document->'frames') AS f WHERE jsonb_typeof(f) <> 'string') THEN
            RAISE data_exception;
        END IF;
        SELECT string_agg(d.frame, ''::bytea ORDER BY d.n), array_agg(octet_length(d.frame) ORDER BY d.n) INTO STRICT body, frame_bytes
        FROM (SELECT decode(f.value, 'base64') AS frame, f.n FROM jsonb_array_elements_text(document->'frames') WITH ORDINALITY AS f(value, n)) AS d;
    EXCEPTION WHEN data_exception OR statement_too_complex THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'application/vnd.hookwire.frames+json is {"frames": ["<base64>", ...]} with 1 to 32 frames';
    END;
    content_type := NULL;
    IF cardinality(frame_bytes) = 1 THEN
        frame_bytes := NULL;
    END IF;
END
$$;
