-- SQL functions as all migrations together make them. Written by `make schema`, never by hand.

CREATE OR REPLACE FUNCTION hookwire.answer_of(id text)
 RETURNS TABLE(state text, content_type text, body bytea)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
    SELECT r.state, hookwire.frames_type(r.reply_content_type, r.reply_frame_bytes), hookwire.frames_body(r.reply, r.reply_frame_bytes)
    FROM hookwire.requests r WHERE r.id = hookwire.request_id(answer_of.id)
$function$;
COMMENT ON FUNCTION hookwire.answer_of(text) IS
'Return the state of a request, with its reply once it is answered. An unknown, closed or forgotten request has no row.';

CREATE OR REPLACE FUNCTION hookwire.answer_request(id uuid, claim bigint, body bytea, content_type text, OUT outcome text, OUT is_owed boolean, OUT is_plain boolean)
 RETURNS record
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
DECLARE
    in_body CONSTANT bytea := answer_request.body;
    in_type CONSTANT text := answer_request.content_type;
    moment CONSTANT timestamptz := clock_timestamp();
    of_service text;
BEGIN
    IF hookwire.is_plain_type(in_type) THEN
        UPDATE hookwire.requests r
        SET state = 'answered', answered_at = moment, reply = in_body, reply_content_type = in_type, reply_frame_bytes = NULL,
            last_error = NULL, deadline_at = moment + make_interval(secs => s.retention_seconds)
        FROM hookwire.services s, hookwire.installation i
        WHERE r.id = answer_request.id AND r.claim = answer_request.claim AND r.state IN ('waiting', 'delayed', 'leased')
          AND s.name = r.service AND octet_length(in_body) <= i.payload_bytes_max
        RETURNING r.service INTO of_service;
    END IF;
    is_plain := of_service IS NOT NULL;
    IF NOT is_plain THEN
        outcome := hookwire.reply_by(answer_request.id, answer_request.claim, in_body, in_type);
        is_owed := outcome = 'stored';
        RETURN;
    END IF;
    outcome := 'stored';
    -- An event that no subscription wants is settled at once. These terms allow no delivery.
    SELECT p.is_owed INTO is_owed FROM hookwire.publish_batch(
        'default', '{1}', ARRAY['hookwire.service.' || of_service || '.reply'], '{NULL}', ARRAY[in_type],
        ARRAY['{"request-id": "' || translate(answer_request.id::text, '-', '') || '"}'], ARRAY[in_body], '{NULL}', '{NULL}', false,
        ROW(0, hookwire.origin(), 0, 0, 0, 32)::hookwire.direct_terms) AS p;
    IF is_owed AND (SELECT i.sql_notify FROM hookwire.installation i) THEN
        PERFORM pg_notify('hookwire_outbox', '');
    END IF;
END
$function$;
COMMENT ON FUNCTION hookwire.answer_request(uuid,bigint,bytea,text) IS
'Store one reply of HTTP, as `reply_by` does. `is_owed`: a relay has to send its event. `is_plain`: the reply was stored
as it came, by this call. The hub wakes others after COMMIT.';
REVOKE EXECUTE ON FUNCTION hookwire.answer_request(uuid,bigint,bytea,text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.check_contents(bodies bytea[], content_types text[])
 RETURNS void
 LANGUAGE plpgsql
 STABLE
AS $function$
DECLARE
    bytes_max CONSTANT bigint := (SELECT i.payload_bytes_max FROM hookwire.installation i);
BEGIN
    IF EXISTS (SELECT FROM unnest(bodies) AS b WHERE octet_length(b) > bytes_max) THEN
        RAISE EXCEPTION USING ERRCODE = 'HW003', MESSAGE = format('a body is larger than %s bytes', bytes_max),
            HINT = 'Store large content elsewhere and send a link, or raise HOOKWIRE_EVENT_BYTES_MAX.';
    ELSIF EXISTS (SELECT FROM unnest(bodies) AS b WHERE b IS NULL) THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'a body is missing';
    ELSIF EXISTS (SELECT FROM unnest(content_types) AS t WHERE t ~ '[\x01-\x1f\x7f]' OR octet_length(t) > 255) THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'content_type is one line of at most 255 bytes';
    END IF;
END
$function$;
COMMENT ON FUNCTION hookwire.check_contents(bytea[],text[]) IS
'Refuse contents that HTTP could not carry.';
REVOKE EXECUTE ON FUNCTION hookwire.check_contents(bytea[],text[]) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.check_service_name(name text)
 RETURNS void
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
BEGIN
    IF NOT hookwire.is_queue_name(name) THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('invalid service %L: 1-200 of A-Z a-z 0-9 . _ - in dot-separated words', left(name, 80));
    ELSIF name ~ '^(mmi|titanic|hub)\.' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('the service %L is the broker''s own: mmi., titanic. and hub. are reserved', left(name, 80));
    END IF;
END
$function$;
COMMENT ON FUNCTION hookwire.check_service_name(text) IS
'Refuse names that HTTP, SQL and events may not use. The broker of ZeroMQ answers the reserved names itself.';
REVOKE EXECUTE ON FUNCTION hookwire.check_service_name(text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.check_services_open(services text[])
 RETURNS void
 LANGUAGE plpgsql
 STABLE
AS $function$
DECLARE
    wrong text;
BEGIN
    SELECT w INTO wrong FROM unnest(services) AS w
    WHERE NOT (SELECT i.services_auto_create FROM hookwire.installation i)
      AND (SELECT s.name FROM hookwire.services s WHERE s.name = w) IS NULL LIMIT 1;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('unknown service %L', left(wrong, 80)),
            HINT = 'Make it with PUT /services/{name}, or set HOOKWIRE_SERVICES_AUTO_CREATE.';
    END IF;
    SELECT s.name INTO wrong FROM hookwire.services s WHERE s.name = ANY (services) AND s.disabled LIMIT 1;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'HW002', MESSAGE = format('the service %L is disabled', wrong);
    END IF;
    SELECT s.name INTO wrong FROM hookwire.services s
    WHERE s.name = ANY (services) AND s.without_workers = 'refuse' AND NOT hookwire.has_workers(s.name) LIMIT 1;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'HW002', MESSAGE = format('the service %L has no worker', wrong);
    END IF;
END
$function$;
COMMENT ON FUNCTION hookwire.check_services_open(text[]) IS
'Raise if one of these services takes no request now: 42704 unknown, HW002 disabled or without a worker.';
REVOKE EXECUTE ON FUNCTION hookwire.check_services_open(text[]) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.claim_requests(service text, count integer DEFAULT 1, lease_seconds double precision DEFAULT NULL::double precision, worker text DEFAULT NULL::text)
 RETURNS TABLE(id text, claim bigint, attempts integer, lease_until timestamp with time zone, created_at timestamp with time zone, content_type text, body bytea)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM hookwire.check_service_name(claim_requests.service);
    IF claim_requests.count NOT BETWEEN 1 AND 10000 OR claim_requests.lease_seconds NOT BETWEEN 0.05 AND 43200 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'hookwire.claim_requests: count is 1 to 10000, lease_seconds 0.05 to 43200';
    END IF;
    RETURN QUERY
    SELECT translate(l.id::text, '-', ''), l.claim, l.attempts, l.lease_until, l.created_at,
           hookwire.frames_type(l.content_type, l.frame_bytes), hookwire.frames_body(l.body, l.frame_bytes)
    FROM hookwire.lease_requests(claim_requests.service, claim_requests.count, claim_requests.lease_seconds,
                                 coalesce(claim_requests.worker, session_user), 60) AS l;
END
$function$;
COMMENT ON FUNCTION hookwire.claim_requests(text,integer,double precision,text) IS
'Lease requests as `lease_requests` does, for workers in SQL.';
REVOKE EXECUTE ON FUNCTION hookwire.claim_requests(text,integer,double precision,text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.close_request(id text)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
    SELECT hookwire.forget_requests(ARRAY[hookwire.request_id(close_request.id)], session_user)
$function$;
COMMENT ON FUNCTION hookwire.close_request(text) IS
'Close a request: it is executed no more, and its reply is gone. An unknown request counts as closed.';

CREATE OR REPLACE FUNCTION hookwire.extend_requests(ids uuid[], claims bigint[], lease_seconds double precision)
 RETURNS TABLE(id uuid, claim bigint)
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
BEGIN
    IF lease_seconds NOT BETWEEN 0.05 AND 43200 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'lease_seconds is 0.05 to 43200';
    END IF;
    PERFORM FROM hookwire.requests r WHERE r.id = ANY (ids) ORDER BY r.id FOR UPDATE;
    FOR n IN 1 .. cardinality(ids) LOOP
        RETURN QUERY
        UPDATE hookwire.requests r SET state = 'leased', deadline_at = clock_timestamp() + make_interval(secs => lease_seconds)
        WHERE r.id = ids[n] AND r.claim = claims[n] AND r.state IN ('waiting', 'leased')
        RETURNING r.id, r.claim;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION hookwire.extend_requests(uuid[],bigint[],double precision) IS
'Extend the leases of those requests that their claims still hold, from now on.';
REVOKE EXECUTE ON FUNCTION hookwire.extend_requests(uuid[],bigint[],double precision) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.forget_requests(ids uuid[], actor text)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
DECLARE
    forgotten integer;
BEGIN
    WITH gone AS (
        DELETE FROM hookwire.requests r WHERE r.id = ANY (ids) RETURNING r.*
    )
    INSERT INTO hookwire.request_archive (id, service, state, via, caller, worker, attempts, created_at, answered_at, closed_by, body_bytes, reply_bytes)
    SELECT g.id, g.service, g.state, g.via, g.caller, g.worker, g.attempts, g.created_at, g.answered_at, left(actor, 200),
           octet_length(g.body), octet_length(g.reply)
    FROM gone g;
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    IF forgotten > 0 AND (SELECT i.sql_notify FROM hookwire.installation i) THEN
        PERFORM pg_notify('hookwire_services', '');
    END IF;
    RETURN forgotten;
END
$function$;
COMMENT ON FUNCTION hookwire.forget_requests(uuid[],text) IS
'Forget requests and their replies. The archive keeps a row of each. Return how many there were.';
REVOKE EXECUTE ON FUNCTION hookwire.forget_requests(uuid[],text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.frames_body(body bytea, frame_bytes integer[])
 RETURNS bytea
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
BEGIN
    IF frame_bytes IS NULL THEN
        RETURN body;
    END IF;
    RETURN (
        SELECT convert_to(jsonb_build_object('frames', jsonb_agg(translate(encode(substring(body FROM f.after + 1 FOR f.size), 'base64'), E'\n', '') ORDER BY f.n))::text, 'UTF8')
        FROM (SELECT u.n, u.size, (sum(u.size) OVER (ORDER BY u.n) - u.size)::integer AS after
              FROM unnest(frame_bytes) WITH ORDINALITY AS u(size, n)) AS f);
END
$function$;
COMMENT ON FUNCTION hookwire.frames_body(bytea,integer[]) IS
'Return several frames as one body, as HTTP and SQL see them: {"frames": ["<base64>", ...]}. In plpgsql, which keeps
its plan: a function in SQL is planned at each call, and most bodies are one frame.';
REVOKE EXECUTE ON FUNCTION hookwire.frames_body(bytea,integer[]) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.frames_type(content_type text, frame_bytes integer[])
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN CASE WHEN (frame_bytes IS NULL) THEN content_type ELSE 'application/vnd.hookwire.frames+json'::text END;
COMMENT ON FUNCTION hookwire.frames_type(text,integer[]) IS
'Return the content type of a body, which several frames replace by one of their own.';
REVOKE EXECUTE ON FUNCTION hookwire.frames_type(text,integer[]) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.has_workers(of_service text)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN ((EXISTS (SELECT FROM hookwire.services s WHERE ((s.name = has_workers.of_service) AND (s.workers_until > clock_timestamp())))) OR (EXISTS (SELECT FROM hookwire.requests r WHERE ((r.service = has_workers.of_service) AND (r.state = 'leased'::text)))) OR (EXISTS (SELECT FROM hookwire.subscriptions x WHERE ((x.service = has_workers.of_service) AND (x.protocol = 'service'::text) AND (x.state = 'active'::text)))));
COMMENT ON FUNCTION hookwire.has_workers(text) IS
'Return whether a worker is present: it has asked recently, holds a request, or is a callback.';
REVOKE EXECUTE ON FUNCTION hookwire.has_workers(text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.is_plain_type(content_type text)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN ((content_type IS NULL) OR ((octet_length(content_type) <= 255) AND (content_type !~ '[\x01-\x1f\x7f]'::text) AND (content_type !~* '^\s*application/vnd\.hookwire\.frames\+json'::text)));
COMMENT ON FUNCTION hookwire.is_plain_type(text) IS
'Return whether a body of this content type can be stored as it is: one frame, of a type that HTTP can carry.';
REVOKE EXECUTE ON FUNCTION hookwire.is_plain_type(text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.lease_requests(service text, most integer, lease_seconds double precision, worker text, presence_seconds double precision, bytes_max bigint DEFAULT hookwire.answer_bytes_max())
 RETURNS TABLE(id uuid, claim bigint, attempts integer, lease_until timestamp with time zone, created_at timestamp with time zone, caller text, content_type text, frame_bytes integer[], body bytea)
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
DECLARE
    in_service CONSTANT text := lease_requests.service;
    in_worker CONSTANT text := left(lease_requests.worker, 200);
    settings CONSTANT hookwire.services := hookwire.service_settings(in_service);
    room integer := lease_requests.most;
    picked uuid[];
    until timestamptz;
BEGIN
    IF presence_seconds > 0 AND settings.id IS NOT NULL
       AND coalesce(settings.workers_until, '-infinity') < clock_timestamp() + make_interval(secs => presence_seconds / 2) THEN
        UPDATE hookwire.services s SET workers_until = clock_timestamp() + make_interval(secs => presence_seconds)
        WHERE s.id = (SELECT x.id FROM hookwire.services x WHERE x.id = settings.id FOR UPDATE SKIP LOCKED);
    END IF;
    IF settings.concurrency_max IS NOT NULL THEN
        PERFORM FROM hookwire.services s WHERE s.id = settings.id FOR UPDATE;
        room := least(room, settings.concurrency_max - (SELECT count(*) FROM hookwire.requests r WHERE r.service = in_service AND r.state = 'leased'));
    END IF;
    picked := ARRAY(
        SELECT s.id FROM (
            SELECT w.id, w.number, sum(w.size) OVER (ORDER BY w.number ROWS UNBOUNDED PRECEDING) - w.size AS before
            FROM (
                SELECT r.id, r.number, octet_length(r.body) AS size FROM hookwire.requests r
                WHERE r.service = in_service AND r.state = 'waiting' AND r.deadline_at > clock_timestamp()
                ORDER BY r.number LIMIT greatest(room, 0) FOR UPDATE SKIP LOCKED
            ) AS w
        ) AS s WHERE s.before < bytes_max);
    IF picked = '{}' THEN
        RETURN;
    END IF;
    until := clock_timestamp() + make_interval(secs => coalesce(lease_requests.lease_seconds, settings.lease_seconds));
    RETURN QUERY
    WITH taken AS (
        UPDATE hookwire.requests r
        SET state = 'leased', claim = nextval('hookwire.lease_fence'), deadline_at = until, attempts = r.attempts + 1, worker = in_worker
        WHERE r.id = ANY (picked)
        RETURNING r.*
    )
    SELECT t.id, t.claim, t.attempts, t.deadline_at, t.created_at, t.caller, t.content_type, t.frame_bytes, t.body
    FROM taken t ORDER BY t.number;
END
$function$;
COMMENT ON FUNCTION hookwire.lease_requests(text,integer,double precision,text,double precision,bigint) IS
'Lease up to `most` waiting requests of a service, the oldest first, each under a fence of its own. Frames stay as they
are. The worker counts as present for `presence_seconds`.';
REVOKE EXECUTE ON FUNCTION hookwire.lease_requests(text,integer,double precision,text,double precision,bigint) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.make_request(service text, body bytea, content_type text, caller text, client text, number text, expiry_seconds double precision, worker text, lease_seconds double precision, OUT id uuid, OUT repeated boolean, OUT claim bigint, OUT lease_until timestamp with time zone, OUT created_at timestamp with time zone)
 RETURNS record
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
DECLARE
    in_service CONSTANT text := make_request.service;
    in_body CONSTANT bytea := make_request.body;
    in_worker CONSTANT text := left(make_request.worker, 200);
    in_lease CONSTANT double precision := make_request.lease_seconds;
    in_expiry CONSTANT double precision := make_request.expiry_seconds;
    moment CONSTANT timestamptz := clock_timestamp();
    is_usual CONSTANT boolean :=    -- nothing to parse, to compare or to refuse
        number IS NULL AND client IS NULL AND hookwire.is_plain_type(content_type) AND in_service !~ '^(mmi|titanic|hub)\.'
        AND coalesce(in_expiry BETWEEN 0.05 AND 31536000, true);
BEGIN
    IF is_usual THEN
        INSERT INTO hookwire.requests AS r
            (id, number, service, state, deadline_at, expires_at, created_at, claim, attempts, worker, via, caller, content_type, body)
        SELECT gen_random_uuid(), nextval('hookwire.request_number'), s.name,
               CASE WHEN h.is_leased THEN 'leased' ELSE 'waiting' END,
               CASE WHEN h.is_leased THEN moment + make_interval(secs => coalesce(in_lease, s.lease_seconds)) ELSE e.at END,
               e.at, moment, CASE WHEN h.is_leased THEN nextval('hookwire.lease_fence') END, h.is_leased::integer,
               CASE WHEN h.is_leased THEN in_worker END, 'http', make_request.caller, make_request.content_type, in_body
        FROM hookwire.services s CROSS JOIN hookwire.installation i
        CROSS JOIN LATERAL (SELECT moment + make_interval(secs => coalesce(in_expiry, s.expiry_seconds)) AS at) AS e
        CROSS JOIN LATERAL (
            -- A request that waits goes first. If the answer to this statement is lost, the worker never gets the request.
            -- So it is leased only where the end of a lease neither ends the request nor comes late.
            SELECT in_worker IS NOT NULL AND s.concurrency_max IS NULL AND s.idempotent AND s.tries_max > 1
                   AND coalesce(in_lease, s.lease_seconds) <= 60 AND NOT EXISTS (
                SELECT FROM hookwire.requests w WHERE w.service = s.name AND w.state = 'waiting') AS is_leased
        ) AS h
        WHERE s.name = in_service AND NOT s.disabled AND s.without_workers = 'queue' AND octet_length(in_body) <= i.payload_bytes_max
        RETURNING r.id, false, r.claim, r.deadline_at, r.created_at INTO id, repeated, claim, lease_until, created_at;
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    SELECT r.id, r.repeated INTO id, repeated
    FROM hookwire.request_by(in_service, in_body, content_type, 'http', caller, client, number, in_expiry) AS r;
END
$function$;
COMMENT ON FUNCTION hookwire.make_request(text,bytea,text,text,text,text,double precision,text,double precision) IS
'Store one request of HTTP, as `request_by` does. If a worker is named and no other request waits, the request is leased
to it already: then it has a claim. The hub wakes others after COMMIT.';
REVOKE EXECUTE ON FUNCTION hookwire.make_request(text,bytea,text,text,text,text,double precision,text,double precision) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.parse_frames(INOUT content_type text, INOUT body bytea, OUT frame_bytes integer[])
 RETURNS record
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
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
$function$;
COMMENT ON FUNCTION hookwire.parse_frames(text,bytea) IS
'Read frames from a body of the content type of `frames_body`; every other body is one frame. A single frame has no
`frame_bytes`. Frames that are nested too deep for the server are invalid.';
REVOKE EXECUTE ON FUNCTION hookwire.parse_frames(text,bytea) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.reap_requests(most integer)
 RETURNS TABLE(returned bigint, expired bigint, failed bigint, forgotten bigint)
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
DECLARE
    moment CONSTANT timestamptz := clock_timestamp();
    due CONSTANT uuid[] := ARRAY(
        SELECT r.id FROM hookwire.requests r WHERE r.deadline_at <= moment ORDER BY r.deadline_at LIMIT most FOR UPDATE SKIP LOCKED);
    over CONSTANT uuid[] := ARRAY(
        SELECT r.id FROM hookwire.requests r WHERE r.id = ANY (due) AND r.state IN ('answered', 'expired', 'failed'));
BEGIN
    IF due = '{}' THEN
        RETURN QUERY SELECT 0::bigint, 0::bigint, 0::bigint, 0::bigint;
        RETURN;
    END IF;
    RETURN QUERY
    WITH judged AS MATERIALIZED (
        SELECT r.id, CASE WHEN r.state = 'leased' AND (NOT p.idempotent OR r.attempts >= p.tries_max AND r.via <> 'zeromq') THEN 'failed'
                          WHEN r.expires_at <= moment THEN 'expired' ELSE 'waiting' END AS state,
               moment + make_interval(secs => p.retention_seconds) AS kept_until, r.state = 'leased' AS was_leased
        FROM hookwire.requests r, LATERAL hookwire.service_settings(r.service) AS p
        WHERE r.id = ANY (due) AND r.state IN ('waiting', 'delayed', 'leased')
    ), changed AS (
        UPDATE hookwire.requests r
        SET state = j.state, deadline_at = CASE WHEN j.state = 'waiting' THEN r.expires_at ELSE j.kept_until END,
            last_error = CASE WHEN j.was_leased THEN format('the lease of %s was over', coalesce(r.worker, 'a worker')) ELSE r.last_error END
        FROM judged j WHERE r.id = j.id RETURNING j.state
    )
    SELECT count(*) FILTER (WHERE c.state = 'waiting'), count(*) FILTER (WHERE c.state = 'expired'),
           count(*) FILTER (WHERE c.state = 'failed'), cardinality(over)::bigint
    FROM changed c;
    IF over <> '{}' THEN
        PERFORM hookwire.forget_requests(over, 'retention');
    END IF;
END
$function$;
COMMENT ON FUNCTION hookwire.reap_requests(integer) IS
'Make one bounded pass over requests whose deadline has come, the longest due first.';
REVOKE EXECUTE ON FUNCTION hookwire.reap_requests(integer) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.release_request(id uuid, claim bigint, delay_seconds double precision, why text DEFAULT NULL::text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
DECLARE
    moment CONSTANT timestamptz := clock_timestamp();
    found hookwire.requests;
    settings hookwire.services;
    is_spent boolean;
    pause double precision;
BEGIN
    IF delay_seconds NOT BETWEEN 0 AND 31536000 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'delay_seconds is 0 to 31536000';
    END IF;
    SELECT r.* INTO found FROM hookwire.requests r
    WHERE r.id = release_request.id AND r.claim = release_request.claim AND r.state IN ('waiting', 'delayed', 'leased') FOR UPDATE;
    IF found.id IS NULL THEN
        RETURN 'stale';
    END IF;
    settings := hookwire.service_settings(found.service);
    is_spent := why IS NOT NULL AND found.attempts >= settings.tries_max;
    pause := CASE WHEN is_spent THEN greatest(delay_seconds, 60) ELSE delay_seconds END;
    found.state := CASE WHEN is_spent AND found.via <> 'zeromq' THEN 'failed' WHEN pause > 0 THEN 'delayed' ELSE 'waiting' END;
    UPDATE hookwire.requests r
    SET state = found.state, claim = NULL, last_error = left(why, 500),
        deadline_at = CASE found.state WHEN 'failed' THEN moment + make_interval(secs => settings.retention_seconds)
                                       WHEN 'delayed' THEN moment + make_interval(secs => pause) ELSE r.expires_at END
    WHERE r.id = found.id;
    RETURN found.state;
END
$function$;
COMMENT ON FUNCTION hookwire.release_request(uuid,bigint,double precision,text) IS
'Give a request back for another try after the delay. With a reason the try has failed, and the last try ends the
request. A request of Titanic is tried once a minute from there on.';
REVOKE EXECUTE ON FUNCTION hookwire.release_request(uuid,bigint,double precision,text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.reply(id text, claim bigint, body bytea, content_type text DEFAULT NULL::text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
BEGIN
    IF coalesce(hookwire.reply_by(hookwire.request_id(reply.id), reply.claim, reply.body, reply.content_type), '') <> 'stored' THEN
        RAISE EXCEPTION USING ERRCODE = 'HW001', MESSAGE = format('the claim %s does not hold the request %s', reply.claim, left(reply.id, 80)),
            HINT = 'Another worker holds or answered it, or it was closed. Claim again.';
    END IF;
END
$function$;
COMMENT ON FUNCTION hookwire.reply(text,bigint,bytea,text) IS
'Answer a request in the worker''s transaction, so that its effect and the reply are one. HW001: another worker holds
or answered the request, or it is closed.';
REVOKE EXECUTE ON FUNCTION hookwire.reply(text,bigint,bytea,text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.reply(id text, claim bigint, body jsonb, content_type text DEFAULT 'application/json'::text)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
RETURN hookwire.reply(id, claim, convert_to((body)::text, 'UTF8'::name), content_type);
COMMENT ON FUNCTION hookwire.reply(text,bigint,jsonb,text) IS
'Answer with a JSON value, as `reply` with bytes does.';
REVOKE EXECUTE ON FUNCTION hookwire.reply(text,bigint,jsonb,text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.reply(id text, claim bigint, body text, content_type text DEFAULT 'text/plain; charset=utf-8'::text)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
RETURN hookwire.reply(id, claim, convert_to(body, 'UTF8'::name), content_type);
COMMENT ON FUNCTION hookwire.reply(text,bigint,text,text) IS
'Answer with a text, as `reply` with bytes does.';
REVOKE EXECUTE ON FUNCTION hookwire.reply(text,bigint,text,text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.reply_by(id uuid, claim bigint, body bytea, content_type text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;
COMMENT ON FUNCTION hookwire.reply_by(uuid,bigint,bytea,text) IS
'Store one reply, as HTTP and SQL write it.';
REVOKE EXECUTE ON FUNCTION hookwire.reply_by(uuid,bigint,bytea,text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.request(service text, body bytea, content_type text DEFAULT NULL::text, client text DEFAULT NULL::text, number text DEFAULT NULL::text, expiry_seconds double precision DEFAULT NULL::double precision)
 RETURNS text
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
RETURN (SELECT translate((r.id)::text, '-'::text, ''::text) AS translate FROM hookwire.request_by(request.service, request.body, request.content_type, 'sql'::text, NULL::text, request.client, request.number, request.expiry_seconds) r(id, repeated));
COMMENT ON FUNCTION hookwire.request(text,bytea,text,text,text,double precision) IS
'Ask a service in the caller''s transaction: sent when it commits, never when it rolls back. Return the id, 32
hexadecimal digits. 22023 bad argument, 42704 unknown service, HW002 disabled or without a worker, HW003 too large,
23505 the number was used for another request.';

CREATE OR REPLACE FUNCTION hookwire.request(service text, body jsonb, content_type text DEFAULT 'application/json'::text, client text DEFAULT NULL::text, number text DEFAULT NULL::text, expiry_seconds double precision DEFAULT NULL::double precision)
 RETURNS text
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
RETURN hookwire.request(service, convert_to((body)::text, 'UTF8'::name), content_type, client, number, expiry_seconds);
COMMENT ON FUNCTION hookwire.request(text,jsonb,text,text,text,double precision) IS
'Ask with a JSON value, as `request` with bytes does.';

CREATE OR REPLACE FUNCTION hookwire.request(service text, body text, content_type text DEFAULT 'text/plain; charset=utf-8'::text, client text DEFAULT NULL::text, number text DEFAULT NULL::text, expiry_seconds double precision DEFAULT NULL::double precision)
 RETURNS text
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
RETURN hookwire.request(service, convert_to(body, 'UTF8'::name), content_type, client, number, expiry_seconds);
COMMENT ON FUNCTION hookwire.request(text,text,text,text,text,double precision) IS
'Ask with a text, as `request` with bytes does.';

CREATE OR REPLACE FUNCTION hookwire.request_by(service text, body bytea, content_type text, via text, caller text, client text, number text, expiry_seconds double precision)
 RETURNS TABLE(id uuid, repeated boolean)
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
DECLARE
    parsed record;
BEGIN
    IF expiry_seconds NOT BETWEEN 0.05 AND 31536000 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'expiry_seconds is 0.05 to 31536000';
    END IF;
    PERFORM hookwire.check_service_name(request_by.service), hookwire.check_contents(ARRAY[request_by.body], ARRAY[request_by.content_type]);
    parsed := hookwire.parse_frames(request_by.content_type, request_by.body);
    RETURN QUERY
    SELECT s.id, s.repeated
    FROM hookwire.store_requests(
        ARRAY[request_by.service], ARRAY[parsed.body], request_by.via, ARRAY[parsed.content_type], ARRAY[parsed.frame_bytes::text],
        ARRAY[request_by.caller], ARRAY[request_by.client], ARRAY[request_by.number], ARRAY[request_by.expiry_seconds]) AS s;
END
$function$;
COMMENT ON FUNCTION hookwire.request_by(text,bytea,text,text,text,text,text,double precision) IS
'Store one request, as HTTP and SQL make it.';
REVOKE EXECUTE ON FUNCTION hookwire.request_by(text,bytea,text,text,text,text,text,double precision) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.request_id(id text)
 RETURNS uuid
 LANGUAGE sql
 IMMUTABLE
RETURN CASE WHEN (id ~ '^[0-9A-Fa-f]{32}$'::text) THEN (id)::uuid ELSE NULL::uuid END;
COMMENT ON FUNCTION hookwire.request_id(text) IS
'Read an id as callers write it, in upper or lower case; NULL for any other text.';
REVOKE EXECUTE ON FUNCTION hookwire.request_id(text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.service_settings(name text)
 RETURNS hookwire.services
 LANGUAGE plpgsql
 STABLE
AS $function$
DECLARE
    found hookwire.services;
BEGIN
    SELECT * INTO found FROM hookwire.services s WHERE s.name = service_settings.name;
    IF found.id IS NULL THEN
        found.name := name; found.lease_seconds := 30; found.tries_max := 5; found.idempotent := true;
        found.expiry_seconds := 86400; found.retention_seconds := 604800; found.without_workers := 'queue';
        found.disabled := false;
    END IF;
    RETURN found;
END
$function$;
COMMENT ON FUNCTION hookwire.service_settings(text) IS
'Return the settings of a service. A service without a row has the defaults.';
REVOKE EXECUTE ON FUNCTION hookwire.service_settings(text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.settle_requests(ids uuid[], claims bigint[], bodies bytea[], content_types text[] DEFAULT NULL::text[], frame_bytes text[] DEFAULT NULL::text[])
 RETURNS TABLE(item integer, outcome text)
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
DECLARE
    house hookwire.installation;
    moment CONSTANT timestamptz := clock_timestamp();
    answered hookwire.requests;
    told_topics text[] := '{}';
    told_types text[] := '{}';
    told_headers text[] := '{}';
    told_bodies bytea[] := '{}';
    told_body bytea;
    size integer[];
BEGIN
    SELECT * INTO house FROM hookwire.installation;
    PERFORM hookwire.check_contents(bodies, content_types);
    PERFORM FROM hookwire.requests r WHERE r.id = ANY (ids) ORDER BY r.id FOR UPDATE;
    FOR n IN 1 .. cardinality(ids) LOOP
        UPDATE hookwire.requests r
        SET state = 'answered', answered_at = moment, reply = bodies[n], reply_content_type = content_types[n],
            reply_frame_bytes = (settle_requests.frame_bytes)[n]::integer[], last_error = NULL,
            deadline_at = moment + make_interval(secs => (hookwire.service_settings(r.service)).retention_seconds)
        WHERE r.id = ids[n] AND r.claim = claims[n] AND r.state IN ('waiting', 'delayed', 'leased')
        RETURNING r.* INTO answered;
        item := n;
        outcome := 'stored';
        IF FOUND THEN
            told_body := hookwire.frames_body(answered.reply, answered.reply_frame_bytes);
            IF hookwire.is_queue_name(answered.service) AND octet_length(told_body) <= house.payload_bytes_max THEN
                told_topics := told_topics || ('hookwire.service.' || answered.service || '.reply');
                told_types := told_types || hookwire.frames_type(answered.reply_content_type, answered.reply_frame_bytes);
                told_headers := told_headers || jsonb_build_object('request-id', translate(answered.id::text, '-', ''))::text;
                told_bodies := told_bodies || told_body;
            END IF;
        ELSE
            SELECT CASE WHEN r.state IN ('expired', 'failed') THEN 'unknown'
                        WHEN r.state = 'answered' AND r.claim = claims[n] THEN 'stored' ELSE 'stale' END
            INTO outcome FROM hookwire.requests r WHERE r.id = ids[n];
            outcome := coalesce(outcome, 'unknown');
        END IF;
        RETURN NEXT;
    END LOOP;
    IF told_topics <> '{}' THEN
        size := ARRAY[cardinality(told_topics)];
        PERFORM hookwire.publish_batch(
            'default', array_fill(1, size), told_topics, array_fill(NULL::text, size), told_types, told_headers, told_bodies,
            array_fill(NULL::text, size), array_fill(NULL::bytea, size), true);
    END IF;
    IF house.sql_notify THEN
        PERFORM pg_notify('hookwire_services', ''), pg_notify('hookwire_outbox', '');
    END IF;
END
$function$;
COMMENT ON FUNCTION hookwire.settle_requests(uuid[],bigint[],bytea[],text[],text[]) IS
'Store each reply that its claim still holds, and publish its event in the same statement. The first reply wins:
  stored     by this claim, also for a repetition
  stale      another claim holds or answered the request
  unknown    the request is closed or over

It goes item by item, so that each row is found by its key, regardless of the planner''s view of the arrays.';
REVOKE EXECUTE ON FUNCTION hookwire.settle_requests(uuid[],bigint[],bytea[],text[],text[]) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.store_requests(services text[], bodies bytea[], via text, content_types text[] DEFAULT NULL::text[], frame_bytes text[] DEFAULT NULL::text[], callers text[] DEFAULT NULL::text[], clients text[] DEFAULT NULL::text[], numbers text[] DEFAULT NULL::text[], expiries_seconds double precision[] DEFAULT NULL::double precision[])
 RETURNS TABLE(item integer, id uuid, repeated boolean)
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
DECLARE
    in_services CONSTANT text[] := store_requests.services;
    in_via CONSTANT text := store_requests.via;
    moment CONSTANT timestamptz := clock_timestamp();
    made uuid[];
    digests bytea[];
    kept uuid[];
BEGIN
    PERFORM hookwire.check_contents(bodies, content_types);
    PERFORM hookwire.check_services_open(in_services);
    IF EXISTS (SELECT FROM unnest(expiries_seconds) AS s WHERE s <> 'Infinity' AND s NOT BETWEEN 0.05 AND 31536000) THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'expiry_seconds is 0.05 to 31536000';
    END IF;
    made := ARRAY(SELECT gen_random_uuid() FROM generate_series(1, cardinality(bodies)));
    kept := made;
    IF array_remove(clients || numbers, NULL) <> '{}' THEN
        IF EXISTS (SELECT FROM unnest(clients, numbers) AS k(client, number)
                   WHERE (k.client IS NULL) <> (k.number IS NULL) OR k.client ~ '[\x01-\x1f\x7f]' OR k.number ~ '[\x01-\x1f\x7f]'
                      OR octet_length(k.client) NOT BETWEEN 1 AND 255 OR octet_length(k.number) NOT BETWEEN 1 AND 255) THEN
            RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
                MESSAGE = 'client and number are given together, each one line of 1 to 255 bytes';
        END IF;
        digests := ARRAY(
            SELECT sha256(convert_to(d.service || E'\n' || coalesce(d.content_type, '') || E'\n' || coalesce(d.frame_bytes, '') || E'\n', 'UTF8') || d.body)
            FROM unnest(in_services, content_types, frame_bytes, bodies) WITH ORDINALITY AS d(service, content_type, frame_bytes, body, n)
            ORDER BY d.n);
        INSERT INTO hookwire.request_keys AS k (client, number, digest, request_id, expires_at)
        SELECT DISTINCT ON (d.client, d.number) d.client, d.number, d.digest, d.id,
               moment + make_interval(secs => greatest(86400, (p).expiry_seconds + (p).retention_seconds))
        FROM unnest(clients, numbers, digests, made, in_services) WITH ORDINALITY AS d(client, number, digest, id, service, n),
             LATERAL hookwire.service_settings(d.service) AS p
        WHERE d.number IS NOT NULL ORDER BY d.client, d.number, d.n
        ON CONFLICT (client, number) DO UPDATE SET digest = excluded.digest, request_id = excluded.request_id, expires_at = excluded.expires_at
        WHERE k.expires_at <= clock_timestamp();
        SELECT array_agg(coalesce((SELECT k.request_id FROM hookwire.request_keys k WHERE k.client = d.client AND k.number = d.number), d.id) ORDER BY d.n)
        INTO kept FROM unnest(clients, numbers, made) WITH ORDINALITY AS d(client, number, id, n);
        IF EXISTS (SELECT FROM unnest(clients, numbers, digests) AS d(client, number, digest)
                   WHERE (SELECT k.digest FROM hookwire.request_keys k WHERE k.client = d.client AND k.number = d.number) <> d.digest) THEN
            RAISE EXCEPTION USING ERRCODE = 'unique_violation',
                MESSAGE = 'this client has used this number before, for a request with other contents';
        END IF;
    END IF;
    INSERT INTO hookwire.requests (id, number, service, state, deadline_at, expires_at, created_at, via, caller, content_type, frame_bytes, body)
    SELECT d.id, nextval('hookwire.request_number'), d.service, 'waiting', d.until, d.until, moment, in_via, d.caller,
           d.content_type, d.frame_bytes::integer[], d.body
    FROM (SELECT u.*, CASE WHEN u.expiry = 'Infinity' THEN 'infinity' ELSE moment + make_interval(secs =>
                     coalesce(u.expiry, (SELECT (p).expiry_seconds FROM hookwire.service_settings(u.service) AS p))) END AS until
          FROM unnest(made, kept, in_services, callers, content_types, frame_bytes, bodies, expiries_seconds)
               WITH ORDINALITY AS u(id, kept, service, caller, content_type, frame_bytes, body, expiry, n)
          WHERE u.id = u.kept ORDER BY u.n) AS d;
    IF (SELECT i.sql_notify FROM hookwire.installation i) THEN
        PERFORM pg_notify('hookwire_services', '');
    END IF;
    RETURN QUERY SELECT u.n::integer, u.kept, u.kept <> u.id FROM unnest(made, kept) WITH ORDINALITY AS u(id, kept, n) ORDER BY u.n;
END
$function$;
COMMENT ON FUNCTION hookwire.store_requests(text[],bytea[],text,text[],text[],text[],text[],text[],double precision[]) IS
'Store requests in the caller''s transaction. Return their ids in the order of the bodies. `repeated`: there is a
request of this client and number, and nothing was stored. 23505: it had other contents. NULL for an array stands for
its default in each place. An expiry NULL is that of the service, ''Infinity'' never.';
REVOKE EXECUTE ON FUNCTION hookwire.store_requests(text[],bytea[],text,text[],text[],text[],text[],text[],double precision[]) FROM PUBLIC;
