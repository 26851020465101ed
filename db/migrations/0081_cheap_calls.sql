-- A call takes short statements. One makes the request, already leased to a worker that waits. One stores the reply.
-- They called eight functions before, and wrote the request twice.

CREATE FUNCTION hookwire.is_plain_type(content_type text)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN content_type IS NULL OR octet_length(content_type) <= 255 AND content_type !~ '[\x01-\x1f\x7f]'
       AND content_type !~* '^\s*application/vnd\.hookwire\.frames\+json';
COMMENT ON FUNCTION hookwire.is_plain_type(text) IS
'Return whether a body of this content type can be stored as it is: one frame, of a type that HTTP can carry.';
REVOKE EXECUTE ON FUNCTION hookwire.is_plain_type(text) FROM PUBLIC;

CREATE FUNCTION hookwire.make_request(
    service text, body bytea, content_type text, caller text, client text, number text, expiry_seconds double precision,
    worker text, lease_seconds double precision,
    OUT id uuid, OUT repeated boolean, OUT claim bigint, OUT lease_until timestamptz, OUT created_at timestamptz)
 LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'pg_temp'
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

CREATE FUNCTION hookwire.answer_request(
    id uuid, claim bigint, body bytea, content_type text, OUT outcome text, OUT is_owed boolean, OUT is_plain boolean)
 LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'pg_temp'
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
