-- SQL functions as all migrations together make them. Written by `make schema`, never by hand.

CREATE OR REPLACE FUNCTION hookwire.accept(ids bigint[], claim bigint)
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
DECLARE
    accepted CONSTANT bigint[] := hookwire.accept_claim(ids, claim, NULL);
BEGIN
    IF cardinality(accepted) = cardinality(ids) THEN
        RETURN cardinality(accepted);
    END IF;
    RETURN hookwire.refuse_stale(ids, accepted, claim);
END
$function$;
COMMENT ON FUNCTION hookwire.accept(bigint[],bigint) IS
'Accept messages of one claim, all or nothing. HW001: the claim holds one of them no more.';
REVOKE EXECUTE ON FUNCTION hookwire.accept(bigint[],bigint) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.accept_claim(ids bigint[], claim bigint, in_queue text)
 RETURNS bigint[]
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
    accepted bigint[];
BEGIN
    WITH gone AS (
        DELETE FROM hookwire.messages m
        WHERE m.id = ANY (ids) AND m.claim = accept_claim.claim AND (in_queue IS NULL OR m.queue = in_queue) RETURNING m.*
    ), archived AS (
        INSERT INTO hookwire.message_archive (id, queue, created_at, claimed_at, accepted_at, deliveries, priority, receiver,
                                              type, key, content_type, headers, payload)
        SELECT g.id, g.queue, g.created_at, g.claimed_at, clock_timestamp(), g.deliveries, g.priority, g.receiver,
               g.type, g.key, g.content_type, g.headers, g.payload
        FROM gone g JOIN hookwire.queues q ON q.name = g.queue AND q.history
    )
    SELECT coalesce(array_agg(g.id), '{}') INTO accepted FROM gone g;
    RETURN accepted;
END
$function$;
COMMENT ON FUNCTION hookwire.accept_claim(bigint[],bigint,text) IS
'Accept those of these messages that the claim still holds; return their ids. Rows are locked in the order of ids: the
plans of the callers use no bitmap.';
REVOKE EXECUTE ON FUNCTION hookwire.accept_claim(bigint[],bigint,text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.accept_copies(queue text, name text, claim bigint, ids bigint[])
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
BEGIN
    UPDATE hookwire.consumers c SET xid = l.xid, id = l.id, claim = NULL, lease_until = NULL
    FROM (SELECT x.xid, x.id FROM hookwire.message_log x, hookwire.consumers o
          WHERE o.queue = accept_copies.queue AND o.name = accept_copies.name AND o.claim = accept_copies.claim
            AND x.queue = accept_copies.queue AND x.id = ANY (ids) AND (x.xid, x.id) > (o.xid, o.id)
            AND x.xid < pg_snapshot_xmin(pg_current_snapshot())
          ORDER BY x.xid DESC, x.id DESC LIMIT 1) AS l
    WHERE c.queue = accept_copies.queue AND c.name = accept_copies.name AND c.claim = accept_copies.claim;
    RETURN FOUND;
END
$function$;
COMMENT ON FUNCTION hookwire.accept_copies(text,text,bigint,bigint[]) IS
'Accept everything up to and including the last of these messages: the position moves there and the lease ends. False:
the claim is stale.';
REVOKE EXECUTE ON FUNCTION hookwire.accept_copies(text,text,bigint,bigint[]) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.accept_held(ids bigint[], claims bigint[], queue text DEFAULT NULL::text)
 RETURNS SETOF bigint
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
DECLARE
    held record;
BEGIN
    FOR held IN SELECT r.claim, array_agg(r.id ORDER BY r.id) AS ids FROM unnest(ids, claims) AS r(id, claim) GROUP BY r.claim ORDER BY r.claim LOOP
        RETURN QUERY SELECT unnest(hookwire.accept_claim(held.ids, held.claim, accept_held.queue));
    END LOOP;
END
$function$;
COMMENT ON FUNCTION hookwire.accept_held(bigint[],bigint[],text) IS
'Accept each of these messages that its claim still holds: it leaves the table. It goes into the archive if its queue
keeps history. Claim by claim, so that the DELETE itself finds the held messages: a lock before it would write each
row once more.';
REVOKE EXECUTE ON FUNCTION hookwire.accept_held(bigint[],bigint[],text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.adopt_transaction_ids()
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
DECLARE
    next_xid CONSTANT xid8 := pg_snapshot_xmax(pg_current_snapshot());
BEGIN
    IF NOT EXISTS (SELECT FROM hookwire.consumers c WHERE c.xid > next_xid)
       AND NOT EXISTS (SELECT FROM hookwire.queues q WHERE q.copies AND next_xid < (
                           SELECT l.xid FROM hookwire.message_log l WHERE l.queue = q.name ORDER BY l.xid DESC, l.id DESC LIMIT 1))
       AND NOT EXISTS (SELECT FROM hookwire.ledger_cursor c WHERE c.mark_xid > next_xid) THEN
        RETURN false;
    END IF;
    LOCK TABLE hookwire.consumers, hookwire.message_log IN SHARE ROW EXCLUSIVE MODE;
    UPDATE hookwire.ledger_cursor c SET mark_id = NULL, mark_at = NULL, mark_xid = NULL WHERE c.mark_xid > next_xid;
    CREATE TEMP TABLE adopted ON COMMIT DROP AS
    SELECT p.queue, p.xid, p.id, row_number() OVER (PARTITION BY p.queue ORDER BY p.xid, p.id) AS number
    FROM (SELECT DISTINCT c.queue, c.xid, c.id FROM hookwire.consumers c) AS p;
    UPDATE hookwire.message_log l SET xid = (
        SELECT count(*)::text::xid8 FROM adopted a WHERE a.queue = l.queue AND (a.xid, a.id) < (l.xid, l.id));
    UPDATE hookwire.consumers c SET xid = (a.number - 1)::text::xid8, id = 9223372036854775807, claim = NULL, lease_until = NULL
    FROM adopted a WHERE a.queue = c.queue AND a.xid = c.xid AND a.id = c.id;
    DROP TABLE adopted;
    RETURN true;
END
$function$;
COMMENT ON FUNCTION hookwire.adopt_transaction_ids() IS
'Give low transaction ids to positions of consumers that are ahead of this server. A dump that is restored elsewhere
brings transaction ids of another server. Until this server has counted up to them, consumers of copies would read
nothing. They would pass over messages that are submitted meanwhile, and the ledger would wait.

The positions keep their order. Messages between two positions get the id of the later one. Return whether anything
was changed: nothing is where all ids are of the past.';
REVOKE EXECUTE ON FUNCTION hookwire.adopt_transaction_ids() FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.browse(queue text, count integer DEFAULT 1, after_id bigint DEFAULT 0)
 RETURNS TABLE(id bigint, created_at timestamp with time zone, content_type text, headers jsonb, payload bytea, type text, key text, priority smallint, deliveries integer)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
    SELECT m.id, m.created_at, m.content_type, m.headers, m.payload, m.type, m.key, m.priority, m.deliveries
    FROM hookwire.messages m
    WHERE m.queue = browse.queue AND m.claim IS NULL AND m.due_at IS NULL AND m.id > after_id
    ORDER BY m.id LIMIT least(browse.count, 10000)
$function$;
COMMENT ON FUNCTION hookwire.browse(text,integer,bigint) IS
'Return available messages without a claim, oldest first.';
REVOKE EXECUTE ON FUNCTION hookwire.browse(text,integer,bigint) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.check_filter(filter jsonb)
 RETURNS void
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
BEGIN
    IF jsonb_typeof(filter) <> 'object' OR octet_length(filter::text) > 16384
       OR filter - ARRAY['type', 'key', 'headers', 'priority_min', 'age_seconds_min'] <> '{}'
       OR coalesce(jsonb_typeof(filter->'type'), 'string') <> 'string'
       OR coalesce(jsonb_typeof(filter->'key'), 'string') <> 'string'
       OR coalesce(jsonb_typeof(filter->'headers'), 'object') <> 'object'
       OR coalesce(jsonb_typeof(filter->'priority_min'), 'number') <> 'number'
       OR coalesce(jsonb_typeof(filter->'age_seconds_min'), 'number') <> 'number' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'a filter is a JSON object of type, key (texts), headers (object), priority_min, age_seconds_min (numbers)';
    END IF;
END
$function$;
COMMENT ON FUNCTION hookwire.check_filter(jsonb) IS
'Refuse a filter of a receiver that is not of this form: {"type", "key", "headers": {...}, "priority_min",
"age_seconds_min"}.';
REVOKE EXECUTE ON FUNCTION hookwire.check_filter(jsonb) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.check_messages(payloads bytea[], content_types text[], headers jsonb[], types text[], keys text[])
 RETURNS void
 LANGUAGE plpgsql
 STABLE
AS $function$
DECLARE
    bytes_max CONSTANT bigint := (SELECT i.payload_bytes_max FROM hookwire.installation i);
    wrong text;
BEGIN
    IF EXISTS (SELECT FROM unnest(payloads) AS p WHERE octet_length(p) > bytes_max) THEN
        RAISE EXCEPTION USING ERRCODE = 'HW003', MESSAGE = format('a payload is larger than %s bytes', bytes_max),
            HINT = 'Store large content elsewhere and submit a link, or raise HOOKWIRE_EVENT_BYTES_MAX.';
    END IF;
    SELECT CASE
               WHEN d.payload IS NULL THEN 'a payload is missing'
               WHEN d.content_type ~ '[\x01-\x1f\x7f]' OR octet_length(d.content_type) > 255 THEN 'content_type is one line of at most 255 bytes'
               WHEN d.type IS NOT NULL AND NOT hookwire.is_queue_name(d.type) THEN 'type is 1-200 of A-Z a-z 0-9 . _ - in dot-separated words'
               WHEN d.key = '' OR octet_length(d.key) > 1024 OR d.key ~ '[\x01-\x1f\x7f]' THEN 'key is 1-1024 bytes without control characters'
               WHEN jsonb_typeof(d.headers) <> 'object' OR octet_length(d.headers::text) > 16384
                 OR (SELECT count(*) > 64 OR bool_or(jsonb_typeof(h.value) <> 'string' OR h.key !~ '^[a-z0-9_.-]{1,200}$'
                                                     OR (h.value #>> '{}') ~ '[\x01-\x1f\x7f]')
                     FROM jsonb_each(CASE WHEN jsonb_typeof(d.headers) = 'object' THEN d.headers ELSE '{}' END) AS h)
                   THEN 'headers is a JSON object of at most 64 lower-case names and one-line texts, at most 16 KiB'
           END
    INTO wrong
    FROM unnest(payloads, content_types, headers, types, keys) AS d(payload, content_type, headers, type, key)
    WHERE d.payload IS NULL
       OR d.content_type IS NOT NULL AND (d.content_type ~ '[\x01-\x1f\x7f]' OR octet_length(d.content_type) > 255)
       OR d.type IS NOT NULL AND NOT hookwire.is_queue_name(d.type)
       OR d.key IS NOT NULL AND (d.key = '' OR octet_length(d.key) > 1024 OR d.key ~ '[\x01-\x1f\x7f]')
       OR d.headers <> '{}' AND (
           jsonb_typeof(d.headers) <> 'object' OR octet_length(d.headers::text) > 16384
           OR (SELECT count(*) > 64 OR bool_or(jsonb_typeof(h.value) <> 'string' OR h.key !~ '^[a-z0-9_.-]{1,200}$'
                                               OR (h.value #>> '{}') ~ '[\x01-\x1f\x7f]')
               FROM jsonb_each(CASE WHEN jsonb_typeof(d.headers) = 'object' THEN d.headers ELSE '{}' END) AS h))
    LIMIT 1;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'hookwire.submit: ' || wrong;
    END IF;
END
$function$;
COMMENT ON FUNCTION hookwire.check_messages(bytea[],text[],jsonb[],text[],text[]) IS
'Refuse messages that HTTP and workers could not carry: contents, types, headers, keys.';
REVOKE EXECUTE ON FUNCTION hookwire.check_messages(bytea[],text[],jsonb[],text[],text[]) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.check_queue_name(name text)
 RETURNS void
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
BEGIN
    IF NOT hookwire.is_queue_name(name) THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('invalid queue %L: 1-200 of A-Z a-z 0-9 . _ - in dot-separated words', left(name, 80));
    END IF;
END
$function$;
COMMENT ON FUNCTION hookwire.check_queue_name(text) IS
'Refuse a name that no queue can have.';
REVOKE EXECUTE ON FUNCTION hookwire.check_queue_name(text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.extend(ids bigint[], claim bigint, lease_seconds double precision DEFAULT 30)
 RETURNS integer
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
RETURN hookwire.refuse_stale(ids, ARRAY(SELECT hookwire.extend_held(ids, array_fill(claim, ARRAY[cardinality(ids)]), NULL::text, lease_seconds) AS extend_held), claim);
COMMENT ON FUNCTION hookwire.extend(bigint[],bigint,double precision) IS
'Extend the leases of messages of one claim, all or nothing. HW001: the claim holds one of them no more.';
REVOKE EXECUTE ON FUNCTION hookwire.extend(bigint[],bigint,double precision) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.extend_held(ids bigint[], claims bigint[], queue text DEFAULT NULL::text, lease_seconds double precision DEFAULT 30)
 RETURNS SETOF bigint
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
DECLARE
    held CONSTANT bigint[] := hookwire.held_messages(ids, claims, extend_held.queue);
BEGIN
    IF lease_seconds NOT BETWEEN 0.05 AND 43200 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'hookwire.extend: lease_seconds is 0.05 to 43200';
    END IF;
    RETURN QUERY UPDATE hookwire.messages m SET lease_until = clock_timestamp() + make_interval(secs => extend_held.lease_seconds)
                 WHERE m.id = ANY (held) RETURNING m.id;
END
$function$;
COMMENT ON FUNCTION hookwire.extend_held(bigint[],bigint[],text,double precision) IS
'Extend the leases of those messages that their claims still hold. Return their ids.';
REVOKE EXECUTE ON FUNCTION hookwire.extend_held(bigint[],bigint[],text,double precision) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.graduate(queue text)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
    in_queue CONSTANT text := graduate.queue;
    place text;
BEGIN
    PERFORM hookwire.check_queue_name(in_queue);
    INSERT INTO hookwire.queues (name) VALUES (in_queue) ON CONFLICT DO NOTHING;
    SELECT 'messages_' || q.id INTO place FROM hookwire.queues q WHERE q.name = in_queue FOR UPDATE;
    IF to_regclass(format('hookwire.%I', place)) IS NULL THEN
        EXECUTE format('CREATE TABLE hookwire.%I (LIKE hookwire.messages INCLUDING ALL, CHECK (queue = %L))
                        WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000)', place, in_queue);
        EXECUTE format('ALTER TABLE hookwire.%I INHERIT hookwire.messages', place);
    END IF;
    UPDATE hookwire.queues q SET graduated = true WHERE q.name = in_queue;
    RETURN 'hookwire.' || place;
END
$function$;
COMMENT ON FUNCTION hookwire.graduate(text) IS
'Give a queue a table of its own, messages_<number>, a child of hookwire.messages. Every statement still sees both, in
the order of ids, so nothing is lost, doubled or re-ordered meanwhile. Its owner adds columns that link to domain
rows, such as: order_id bigint GENERATED ALWAYS AS ((headers->>''order-id'')::bigint) STORED REFERENCES shop.orders.';
REVOKE EXECUTE ON FUNCTION hookwire.graduate(text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.graduate_batch(queue text, most integer)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
    moved bigint;
BEGIN
    EXECUTE format(
        'WITH picked AS MATERIALIZED (
             SELECT m.id FROM ONLY hookwire.messages m WHERE m.queue = $1 AND m.claim IS NULL AND m.due_at IS NULL
             ORDER BY m.id LIMIT $2 FOR UPDATE SKIP LOCKED
         ), gone AS (
             DELETE FROM ONLY hookwire.messages m WHERE m.id = ANY (ARRAY(SELECT p.id FROM picked p)) RETURNING m.*
         )
         INSERT INTO hookwire.%I (id, queue, claim, due_at, lease_until, claimed_at, created_at, deliveries, priority, receiver,
                                  type, key, content_type, headers, payload, last_reason)
         SELECT id, queue, claim, due_at, lease_until, claimed_at, created_at, deliveries, priority, receiver,
                type, key, content_type, headers, payload, last_reason FROM gone',
        (SELECT 'messages_' || q.id FROM hookwire.queues q WHERE q.name = graduate_batch.queue AND q.graduated))
    USING graduate_batch.queue, most;
    GET DIAGNOSTICS moved = ROW_COUNT;
    RETURN moved;
END
$function$;
COMMENT ON FUNCTION hookwire.graduate_batch(text,integer) IS
'Move one batch of the messages that are still in the general table. Return how many moved. Claimed messages stay until
they are settled.';
REVOKE EXECUTE ON FUNCTION hookwire.graduate_batch(text,integer) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.held_messages(ids bigint[], claims bigint[], in_queue text)
 RETURNS bigint[]
 LANGUAGE plpgsql
AS $function$
BEGIN
    RETURN (SELECT coalesce(array_agg(d.id ORDER BY d.id), '{}')
    FROM (SELECT r.id, r.claim FROM unnest(ids, claims) AS r(id, claim) ORDER BY r.claim, r.id) AS r
    CROSS JOIN LATERAL (
        SELECT m.id FROM hookwire.messages m
        WHERE m.id BETWEEN r.id AND r.id AND m.claim = r.claim AND (in_queue IS NULL OR m.queue = in_queue)
        ORDER BY m.id LIMIT 1 FOR UPDATE OF m
    ) AS d);
END
$function$;
COMMENT ON FUNCTION hookwire.held_messages(bigint[],bigint[],text) IS
'Lock those of these (id, claim) pairs that the claim still holds, by claim and id. In plpgsql, which keeps the plan: a
function in SQL is planned at each call.';
REVOKE EXECUTE ON FUNCTION hookwire.held_messages(bigint[],bigint[],text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.is_queue_name(name text)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN COALESCE(((octet_length(name) <= 200) AND (name ~ '^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$'::text)), false);
COMMENT ON FUNCTION hookwire.is_queue_name(text) IS
'Return whether a queue, or a name in a queue, can have this name.';
REVOKE EXECUTE ON FUNCTION hookwire.is_queue_name(text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.message_count(queue text)
 RETURNS bigint
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
RETURN (SELECT count(*) AS count FROM hookwire.messages m WHERE ((m.queue = message_count.queue) AND (m.claim IS NULL) AND (m.due_at IS NULL)));
COMMENT ON FUNCTION hookwire.message_count(text) IS
'Return how many messages of a queue are available.';

CREATE OR REPLACE FUNCTION hookwire.pick_filtered(in_queue text, most integer, filter jsonb, after_id bigint)
 RETURNS bigint[]
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
    window_rows CONSTANT integer := 1000;
    found bigint[];
BEGIN
    IF filter ? 'type' THEN
        found := ARRAY(SELECT m.id FROM hookwire.messages m
                       WHERE m.queue = in_queue AND m.type = filter->>'type' AND m.type IS NOT NULL
                         AND m.claim IS NULL AND m.due_at IS NULL AND m.id > after_id
                       ORDER BY m.id LIMIT window_rows);
    ELSIF filter ? 'key' THEN
        found := ARRAY(SELECT m.id FROM hookwire.messages m
                       WHERE m.queue = in_queue AND m.key = filter->>'key' AND m.key IS NOT NULL
                         AND m.claim IS NULL AND m.due_at IS NULL AND m.id > after_id
                       ORDER BY m.id LIMIT window_rows);
    ELSE
        found := ARRAY(SELECT m.id FROM hookwire.messages m
                       WHERE m.queue = in_queue AND m.claim IS NULL AND m.due_at IS NULL AND m.id > after_id
                       ORDER BY m.id LIMIT window_rows);
    END IF;
    RETURN ARRAY(
        SELECT m.id FROM hookwire.messages m
        WHERE m.id = ANY (found) AND num_nulls(m.claim, m.due_at) = 2 -- two IS NULL would allow a partial index
          AND (filter->>'key' IS NULL OR m.key = filter->>'key')
          AND m.headers @> coalesce(filter->'headers', '{}')
          AND m.priority >= coalesce((filter->>'priority_min')::numeric, -32768)
          AND m.created_at <= clock_timestamp() - make_interval(secs => coalesce((filter->>'age_seconds_min')::double precision, 0))
        ORDER BY m.id LIMIT most FOR UPDATE SKIP LOCKED);
END
$function$;
COMMENT ON FUNCTION hookwire.pick_filtered(text,integer,jsonb,bigint) IS
'Find messages by type or key through an index. The rest of the filter is judged on the first 1,000 that this leaves.';
REVOKE EXECUTE ON FUNCTION hookwire.pick_filtered(text,integer,jsonb,bigint) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.queue_settings(name text)
 RETURNS hookwire.queues
 LANGUAGE plpgsql
 STABLE
AS $function$
DECLARE
    found hookwire.queues;
BEGIN
    PERFORM hookwire.check_queue_name(name);
    SELECT * INTO found FROM hookwire.queues q WHERE q.name = queue_settings.name;
    IF found.id IS NULL THEN
        IF starts_with(name, 'tmp.') THEN
            RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('the temporary queue %L does not exist, or has ended', name);
        ELSIF NOT (SELECT i.queues_auto_create FROM hookwire.installation i) THEN
            RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('unknown queue %L', name),
                HINT = 'Make it with PUT /queues/{queue}, or set HOOKWIRE_QUEUES_AUTO_CREATE.';
        END IF;
        found.name := name; found.moves := true; found.copies := false; found.history := false;
        found.lease_seconds := 30; found.deliveries_max := 5; found.retention_days := 14;
        found.paused := false; found.graduated := false;
    ELSIF found.expires_at <= clock_timestamp() THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('the temporary queue %L does not exist, or has ended', name);
    END IF;
    RETURN found;
END
$function$;
COMMENT ON FUNCTION hookwire.queue_settings(text) IS
'Return the settings of a queue. A queue without a row has the defaults, unless queues need a row (42704).';
REVOKE EXECUTE ON FUNCTION hookwire.queue_settings(text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.reap_messages(most integer)
 RETURNS TABLE(returned bigint, dead bigint, promoted bigint)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
    moment CONSTANT timestamptz := clock_timestamp(); -- an index has no condition on a function that changes
    expired CONSTANT bigint[] := ARRAY(
        SELECT m.id FROM hookwire.messages m WHERE m.claim IS NOT NULL AND m.lease_until <= moment
        ORDER BY m.lease_until LIMIT most FOR UPDATE SKIP LOCKED);
    due CONSTANT bigint[] := ARRAY(
        SELECT m.id FROM hookwire.messages m WHERE m.due_at <= moment
        ORDER BY m.due_at LIMIT most FOR UPDATE SKIP LOCKED);
BEGIN
    RETURN QUERY
    WITH worn AS MATERIALIZED (
        SELECT m.id FROM hookwire.messages m
        WHERE m.id = ANY (expired)
          AND m.deliveries >= coalesce((SELECT q.deliveries_max FROM hookwire.queues q WHERE q.name = m.queue), 5)
    ), buried AS (
        DELETE FROM hookwire.messages m WHERE m.id = ANY (ARRAY(SELECT w.id FROM worn w)) RETURNING m.*
    ), letters AS (
        INSERT INTO hookwire.dead_messages (id, queue, created_at, died_at, deliveries, reason, priority, receiver, type, key,
                                            content_type, headers, payload)
        SELECT b.id, b.queue, b.created_at, clock_timestamp(), b.deliveries,
               format('received %s times and never settled', b.deliveries), b.priority,
               b.receiver, b.type, b.key, b.content_type, b.headers, b.payload
        FROM buried b
    ), freed AS (
        UPDATE hookwire.messages m SET claim = NULL, lease_until = NULL, claimed_at = NULL, last_reason = 'lease expired'
        WHERE m.id = ANY (ARRAY(SELECT e FROM unnest(expired) AS e EXCEPT SELECT w.id FROM worn w)) RETURNING m.id
    ), woken AS (
        UPDATE hookwire.messages m SET due_at = NULL WHERE m.id = ANY (due) RETURNING m.id
    )
    SELECT (SELECT count(*) FROM freed), (SELECT count(*) FROM buried), (SELECT count(*) FROM woken);
END
$function$;
COMMENT ON FUNCTION hookwire.reap_messages(integer) IS
'End one bounded batch of leases that are over, oldest first, and of delays. A message that was delivered as often as
its queue allows becomes a dead letter.';
REVOKE EXECUTE ON FUNCTION hookwire.reap_messages(integer) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.receive(queue text, count integer DEFAULT 1, lease_seconds double precision DEFAULT NULL::double precision, filter jsonb DEFAULT NULL::jsonb, receiver text DEFAULT NULL::text, after_id bigint DEFAULT 0)
 RETURNS TABLE(id bigint, claim bigint, deliveries integer, lease_until timestamp with time zone, created_at timestamp with time zone, content_type text, headers jsonb, payload bytea, type text, key text, priority smallint)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
BEGIN
    RETURN QUERY SELECT * FROM hookwire.take_messages(receive.queue, receive.count, receive.lease_seconds, receive.filter, receive.receiver, receive.after_id);
END
$function$;
COMMENT ON FUNCTION hookwire.receive(text,integer,double precision,jsonb,text,bigint) IS
'Claim up to `count` available messages in the order of their ids, under one fresh fence. The index is read from
`after_id` on. A receiver that remembers it does not walk over messages that others have taken, while an old snapshot
keeps their dead entries. It must ask from 0 again and again, because lower ids may still be committed or returned.';
REVOKE EXECUTE ON FUNCTION hookwire.receive(text,integer,double precision,jsonb,text,bigint) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.receive_copies(queue text, name text, count integer DEFAULT 1, lease_seconds double precision DEFAULT 30, filter jsonb DEFAULT NULL::jsonb)
 RETURNS TABLE(id bigint, claim bigint, deliveries integer, lease_until timestamp with time zone, created_at timestamp with time zone, content_type text, headers jsonb, payload bytea, type text, key text, priority smallint)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
BEGIN
    RETURN QUERY SELECT * FROM hookwire.take_copies(receive_copies.queue, receive_copies.name, receive_copies.count, receive_copies.lease_seconds, receive_copies.filter);
END
$function$;
COMMENT ON FUNCTION hookwire.receive_copies(text,text,integer,double precision,jsonb) IS
'Return the next messages of a durable consumer, under a lease of the whole batch. While one reader holds it, another
gets nothing. Only messages below the oldest running transaction are read.';
REVOKE EXECUTE ON FUNCTION hookwire.receive_copies(text,text,integer,double precision,jsonb) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.refuse_stale(wanted bigint[], settled bigint[], claim bigint)
 RETURNS integer
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
DECLARE
    stale CONSTANT bigint[] := ARRAY(SELECT unnest(wanted) EXCEPT SELECT unnest(settled) ORDER BY 1);
BEGIN
    IF stale <> '{}' THEN
        RAISE EXCEPTION USING ERRCODE = 'HW001',
            MESSAGE = format('the claim %s does not hold %s any more; nothing was changed', claim, left(stale::text, 200)),
            HINT = 'Its lease ended, or it was settled before. Receive again.';
    END IF;
    RETURN cardinality(settled);
END
$function$;
COMMENT ON FUNCTION hookwire.refuse_stale(bigint[],bigint[],bigint) IS
'Raise HW001 if one of the wanted messages is not settled. Return how many are.';
REVOKE EXECUTE ON FUNCTION hookwire.refuse_stale(bigint[],bigint[],bigint) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.register_consumer(queue text, name text, since timestamp with time zone DEFAULT 'infinity'::timestamp with time zone)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
DECLARE
    in_queue CONSTANT text := register_consumer.queue;
    in_name CONSTANT text := register_consumer.name;
    from_now CONSTANT boolean := register_consumer.since = 'infinity';
BEGIN
    IF NOT (isfinite(register_consumer.since) IS NOT TRUE OR hookwire.is_bounded_time(register_consumer.since)) THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'since is in the years 1 to 9999, or infinity, or -infinity';
    END IF;
    PERFORM hookwire.queue_settings(in_queue), hookwire.check_queue_name(in_name);
    PERFORM pg_advisory_xact_lock(1215262572, hashtext(in_queue));
    INSERT INTO hookwire.queues (name, copies) VALUES (in_queue, true)
    ON CONFLICT (name) DO UPDATE SET copies = true WHERE NOT hookwire.queues.copies;
    INSERT INTO hookwire.consumers (queue, name, xid, id, after_id, since)
    SELECT in_queue, in_name, CASE WHEN from_now THEN pg_snapshot_xmin(pg_current_snapshot()) ELSE '0'::xid8 END, 0,
           CASE WHEN from_now THEN CASE WHEN s.is_called THEN s.last_value ELSE 0 END ELSE 0 END,
           CASE WHEN from_now THEN '-infinity' ELSE register_consumer.since END
    FROM hookwire.message_id AS s
    ON CONFLICT DO NOTHING;
    RETURN FOUND;
END
$function$;
COMMENT ON FUNCTION hookwire.register_consumer(text,text,timestamp with time zone) IS
'Register a durable consumer; false: the name is taken. It reads messages that commit from now on and, from `since` on,
those that the log still has. The exclusive lock waits for open submissions to this queue: an id that is drawn after
it belongs to a message that commits later. No transaction below the snapshot''s xmin submits again.';
REVOKE EXECUTE ON FUNCTION hookwire.register_consumer(text,text,timestamp with time zone) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.reject(ids bigint[], claim bigint, delay_seconds double precision DEFAULT 0, reason text DEFAULT NULL::text, dead boolean DEFAULT false, counts boolean DEFAULT true)
 RETURNS integer
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
RETURN hookwire.refuse_stale(ids, ARRAY(SELECT hookwire.reject_held(ids, array_fill(claim, ARRAY[cardinality(ids)]), NULL::text, delay_seconds, reason, dead, counts) AS reject_held), claim);
COMMENT ON FUNCTION hookwire.reject(bigint[],bigint,double precision,text,boolean,boolean) IS
'Give back messages of one claim, all or nothing. HW001: the claim holds one of them no more.';
REVOKE EXECUTE ON FUNCTION hookwire.reject(bigint[],bigint,double precision,text,boolean,boolean) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.reject_held(ids bigint[], claims bigint[], queue text DEFAULT NULL::text, delay_seconds double precision DEFAULT 0, reason text DEFAULT NULL::text, dead boolean DEFAULT false, counts boolean DEFAULT true)
 RETURNS SETOF bigint
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
DECLARE
    in_queue CONSTANT text := reject_held.queue;
    in_reason CONSTANT text := left(reject_held.reason, 500);
    is_released CONSTANT boolean := NOT (counts OR dead);
    is_counted CONSTANT boolean := is_released AND in_reason IS DISTINCT FROM 'stop';
    held bigint[];
BEGIN
    IF delay_seconds NOT BETWEEN 0 AND 315360000 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'hookwire.reject: delay_seconds is 0 to 315360000';
    END IF;
    held := hookwire.held_messages(ids, claims, in_queue);
    RETURN QUERY
    WITH worn AS MATERIALIZED (
        SELECT m.id FROM hookwire.messages m LEFT JOIN hookwire.queues q ON q.name = m.queue
        WHERE m.id = ANY (held) AND (dead OR ((counts OR (is_counted AND m.releases >= hookwire.releases_max())) AND m.deliveries >= coalesce(q.deliveries_max, 5)))
    ), buried AS (
        DELETE FROM hookwire.messages m WHERE m.id = ANY (ARRAY(SELECT w.id FROM worn w)) RETURNING m.*
    ), letters AS (
        INSERT INTO hookwire.dead_messages (id, queue, created_at, died_at, deliveries, reason, priority, receiver, type, key,
                                            content_type, headers, payload)
        SELECT b.id, b.queue, b.created_at, clock_timestamp(), b.deliveries, coalesce(in_reason, CASE WHEN counts OR dead THEN 'rejected' ELSE hookwire.release_limit_text() END), b.priority,
               b.receiver, b.type, b.key, b.content_type, b.headers, b.payload
        FROM buried b
    ), returned AS (
        UPDATE hookwire.messages m
        SET claim = NULL, lease_until = NULL, claimed_at = NULL,
            last_reason = CASE WHEN is_counted AND m.releases >= hookwire.releases_max() THEN hookwire.release_limit_text() ELSE in_reason END,
            deliveries = m.deliveries - CASE WHEN is_counted AND m.releases >= hookwire.releases_max() THEN 0 ELSE is_released::integer END,
            releases = CASE WHEN NOT is_released OR (is_counted AND m.releases >= hookwire.releases_max()) THEN 0
                            ELSE m.releases + is_counted::integer END,
            due_at = CASE WHEN delay_seconds > 0 THEN clock_timestamp() + make_interval(secs => delay_seconds) END
        WHERE m.id = ANY (ARRAY(SELECT h FROM unnest(held) AS h EXCEPT SELECT w.id FROM worn w))
        RETURNING m.id
    )
    SELECT b.id FROM buried b UNION ALL SELECT r.id FROM returned r;
END
$function$;
COMMENT ON FUNCTION hookwire.reject_held(bigint[],bigint[],text,double precision,text,boolean,boolean) IS
'Give back each of these messages that its claim still holds: to its old place, or after a delay. It becomes a dead
letter where `dead` says so, or once it was delivered as often as its queue allows. `counts` false: the delivery does
not count.';
REVOKE EXECUTE ON FUNCTION hookwire.reject_held(bigint[],bigint[],text,double precision,text,boolean,boolean) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.release_copies(queue text, name text, claim bigint)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
BEGIN
    UPDATE hookwire.consumers c SET claim = NULL, lease_until = NULL
    WHERE c.queue = release_copies.queue AND c.name = release_copies.name AND c.claim = release_copies.claim;
    RETURN FOUND;
END
$function$;
COMMENT ON FUNCTION hookwire.release_copies(text,text,bigint) IS
'Give the batch back: the lease ends, and the same messages come again.';
REVOKE EXECUTE ON FUNCTION hookwire.release_copies(text,text,bigint) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.submit(queue text, payload bytea, content_type text DEFAULT NULL::text, headers jsonb DEFAULT '{}'::jsonb, type text DEFAULT NULL::text, key text DEFAULT NULL::text, priority integer DEFAULT 0, delay_seconds double precision DEFAULT 0)
 RETURNS bigint
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
RETURN (SELECT hookwire.submit_batch(queue, ARRAY[payload], ARRAY[content_type], ARRAY[headers], ARRAY[type], ARRAY[key], ARRAY[priority], ARRAY[delay_seconds]) AS submit_batch);
COMMENT ON FUNCTION hookwire.submit(text,bytea,text,jsonb,text,text,integer,double precision) IS
'Submit one message in the caller''s transaction. Return its id.';

CREATE OR REPLACE FUNCTION hookwire.submit(queue text, payload jsonb, content_type text DEFAULT 'application/json'::text, headers jsonb DEFAULT '{}'::jsonb, type text DEFAULT NULL::text, key text DEFAULT NULL::text, priority integer DEFAULT 0, delay_seconds double precision DEFAULT 0)
 RETURNS bigint
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
RETURN hookwire.submit(queue, convert_to((payload)::text, 'UTF8'::name), content_type, headers, type, key, priority, delay_seconds);
COMMENT ON FUNCTION hookwire.submit(text,jsonb,text,jsonb,text,text,integer,double precision) IS
'Submit one JSON value, as `submit` of bytes does.';

CREATE OR REPLACE FUNCTION hookwire.submit(queue text, payload text, content_type text DEFAULT 'text/plain; charset=utf-8'::text, headers jsonb DEFAULT '{}'::jsonb, type text DEFAULT NULL::text, key text DEFAULT NULL::text, priority integer DEFAULT 0, delay_seconds double precision DEFAULT 0)
 RETURNS bigint
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
RETURN hookwire.submit(queue, convert_to(payload, 'UTF8'::name), content_type, headers, type, key, priority, delay_seconds);
COMMENT ON FUNCTION hookwire.submit(text,text,text,jsonb,text,text,integer,double precision) IS
'Submit one text, as `submit` of bytes does.';

CREATE OR REPLACE FUNCTION hookwire.submit_batch(queue text, payloads bytea[], content_types text[] DEFAULT NULL::text[], headers jsonb[] DEFAULT NULL::jsonb[], types text[] DEFAULT NULL::text[], keys text[] DEFAULT NULL::text[], priorities integer[] DEFAULT NULL::integer[], delays_seconds double precision[] DEFAULT NULL::double precision[])
 RETURNS SETOF bigint
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
DECLARE
    in_queue CONSTANT text := submit_batch.queue;
    moment CONSTANT timestamptz := clock_timestamp();
    settings hookwire.queues;
    ids bigint[];
BEGIN
    PERFORM pg_advisory_xact_lock_shared(1215262572, hashtext(in_queue));
    settings := hookwire.queue_settings(in_queue);
    PERFORM hookwire.check_messages(payloads, content_types, headers, types, keys);
    IF EXISTS (SELECT FROM unnest(priorities) AS p WHERE p NOT BETWEEN -32768 AND 32767)
       OR EXISTS (SELECT FROM unnest(delays_seconds) AS s WHERE s NOT BETWEEN 0 AND 315360000) THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'hookwire.submit: a priority is -32768 to 32767, a delay 0 to 315360000 seconds';
    END IF;
    SELECT array_agg(nextval('hookwire.message_id')) INTO ids FROM generate_series(1, cardinality(payloads));
    IF settings.copies THEN
        INSERT INTO hookwire.message_log (queue, xid, id, created_at, priority, type, key, content_type, headers, payload)
        SELECT in_queue, pg_current_xact_id(), d.id, moment, coalesce(d.priority, 0), d.type, d.key, d.content_type,
               coalesce(d.headers, '{}'), d.payload
        FROM unnest(ids, payloads, content_types, headers, types, keys, priorities)
             AS d(id, payload, content_type, headers, type, key, priority);
    END IF;
    IF settings.moves AND NOT settings.graduated THEN
        INSERT INTO hookwire.messages (id, queue, due_at, created_at, priority, type, key, content_type, headers, payload)
        SELECT d.id, in_queue, CASE WHEN d.delay > 0 THEN moment + make_interval(secs => d.delay) END, moment,
               coalesce(d.priority, 0), d.type, d.key, d.content_type, coalesce(d.headers, '{}'), d.payload
        FROM unnest(ids, payloads, content_types, headers, types, keys, priorities, delays_seconds)
             AS d(id, payload, content_type, headers, type, key, priority, delay);
    ELSIF settings.moves THEN
        EXECUTE format(
            'INSERT INTO hookwire.%I (id, queue, due_at, created_at, priority, type, key, content_type, headers, payload)
             SELECT d.id, $9, CASE WHEN d.delay > 0 THEN $10 + make_interval(secs => d.delay) END, $10,
                    coalesce(d.priority, 0), d.type, d.key, d.content_type, coalesce(d.headers, ''{}''), d.payload
             FROM unnest($1, $2, $3, $4, $5, $6, $7, $8)
                  AS d(id, payload, content_type, headers, type, key, priority, delay)', 'messages_' || settings.id)
        USING ids, payloads, content_types, headers, types, keys, priorities, delays_seconds, in_queue, moment;
    END IF;
    IF (SELECT i.sql_notify FROM hookwire.installation i) THEN
        PERFORM pg_notify('hookwire_jobs', in_queue);
    END IF;
    RETURN QUERY SELECT unnest(ids);
END
$function$;
COMMENT ON FUNCTION hookwire.submit_batch(text,bytea[],text[],jsonb[],text[],text[],integer[],double precision[]) IS
'Submit messages in the caller''s transaction. Return their ids in the order of the payloads. NULL for an array stands
for its default in each place. The shared lock lets `register_consumer` wait for open submissions.';

CREATE OR REPLACE FUNCTION hookwire.submit_row()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
    IF NEW.payload IS NOT NULL AND NEW.payload_bytes IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'hookwire.message_queue: give payload (text) or payload_bytes, not both';
    END IF;
    IF NEW.payload IS NOT NULL THEN
        NEW.content_type := coalesce(NEW.content_type, 'text/plain; charset=utf-8');
        NEW.payload_bytes := convert_to(NEW.payload, 'UTF8');
    END IF;
    NEW.id := hookwire.submit(NEW.queue, coalesce(NEW.payload_bytes, ''::bytea), NEW.content_type, coalesce(NEW.headers, '{}'),
                              NEW.type, NEW.key, coalesce(NEW.priority, 0), coalesce(NEW.delay_seconds, 0));
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION hookwire.submit_row() IS
'Submit a row that is inserted into the view `hookwire.message_queue`. It runs as the role that inserts.';
REVOKE EXECUTE ON FUNCTION hookwire.submit_row() FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.take_copies(queue text, name text, count integer, lease_seconds double precision, filter jsonb, bytes_max bigint DEFAULT hookwire.answer_bytes_max())
 RETURNS TABLE(id bigint, claim bigint, deliveries integer, lease_until timestamp with time zone, created_at timestamp with time zone, content_type text, headers jsonb, payload bytea, type text, key text, priority smallint)
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
DECLARE
    in_queue CONSTANT text := take_copies.queue;
    in_name CONSTANT text := take_copies.name;
    most CONSTANT integer := take_copies.count;
    until CONSTANT timestamptz := clock_timestamp() + make_interval(secs => greatest(0, least(coalesce(lease_seconds, 30), 43200)));
    consumer hookwire.consumers;
    seen record;
BEGIN
    IF hookwire.queue_settings(in_queue) IS NULL OR most NOT BETWEEN 1 AND 10000 OR lease_seconds NOT BETWEEN 0.05 AND 43200 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'hookwire.receive_copies: count is 1 to 10000, lease_seconds 0.05 to 43200';
    END IF;
    IF filter IS NOT NULL THEN
        PERFORM hookwire.check_filter(filter);
        IF filter ? 'age_seconds_min' THEN
            RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
                MESSAGE = 'a consumer of copies reads in order and goes past what its filter leaves: no age_seconds_min';
        END IF;
    END IF;
    UPDATE hookwire.consumers c SET claim = nextval('hookwire.lease_fence'), lease_until = until
    WHERE c.queue = in_queue AND c.name = in_name AND (c.claim IS NULL OR c.lease_until <= clock_timestamp())
    RETURNING c.* INTO consumer;
    IF consumer.name IS NULL THEN
        IF NOT EXISTS (SELECT FROM hookwire.consumers c WHERE c.queue = in_queue AND c.name = in_name) THEN
            RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('the queue %L has no consumer %L', in_queue, in_name);
        END IF;
        RETURN;
    END IF;
    RETURN QUERY
    WITH batch AS MATERIALIZED (
        SELECT l.* FROM hookwire.message_log l
        WHERE l.queue = in_queue AND (l.xid, l.id) > (consumer.xid, consumer.id)
          AND l.xid < pg_snapshot_xmin(pg_current_snapshot())
          AND l.id > consumer.after_id AND l.created_at >= consumer.since
        ORDER BY l.xid, l.id LIMIT most
    ), passed AS (
        SELECT b.*, sum(w.size) OVER (ORDER BY b.xid, b.id ROWS UNBOUNDED PRECEDING) - w.size AS before
        FROM batch b CROSS JOIN LATERAL (SELECT octet_length(b.payload) + octet_length(b.headers::text) AS size) AS w
        WHERE filter IS NULL
           OR ((filter->>'type' IS NULL OR b.type = filter->>'type') AND (filter->>'key' IS NULL OR b.key = filter->>'key')
               AND b.headers @> coalesce(filter->'headers', '{}')
               AND b.priority >= coalesce((filter->>'priority_min')::numeric, -32768))
    )
    SELECT p.id, consumer.claim, 1, until, p.created_at, p.content_type, p.headers, p.payload, p.type, p.key, p.priority
    FROM passed p WHERE p.before < bytes_max ORDER BY p.xid, p.id;
    IF NOT FOUND THEN
        -- Nothing of the batch passes the filter: go on behind it, and let go.
        SELECT b.xid, b.id INTO seen
        FROM (SELECT l.xid, l.id FROM hookwire.message_log l
              WHERE l.queue = in_queue AND (l.xid, l.id) > (consumer.xid, consumer.id)
                AND l.xid < pg_snapshot_xmin(pg_current_snapshot())
                AND l.id > consumer.after_id AND l.created_at >= consumer.since
              ORDER BY l.xid, l.id LIMIT most) AS b
        WHERE filter IS NOT NULL ORDER BY b.xid DESC, b.id DESC LIMIT 1;
        UPDATE hookwire.consumers c
        SET claim = NULL, lease_until = NULL, xid = coalesce(seen.xid, c.xid), id = coalesce(seen.id, c.id)
        WHERE c.queue = in_queue AND c.name = in_name AND c.claim = consumer.claim;
    END IF;
END
$function$;
COMMENT ON FUNCTION hookwire.take_copies(text,text,integer,double precision,jsonb,bigint) IS
'Return messages as `receive_copies` does, up to so many bytes.';
REVOKE EXECUTE ON FUNCTION hookwire.take_copies(text,text,integer,double precision,jsonb,bigint) FROM PUBLIC;

CREATE OR REPLACE FUNCTION hookwire.take_messages(queue text, count integer, lease_seconds double precision, filter jsonb, receiver text, after_id bigint, bytes_max bigint DEFAULT hookwire.answer_bytes_max())
 RETURNS TABLE(id bigint, claim bigint, deliveries integer, lease_until timestamp with time zone, created_at timestamp with time zone, content_type text, headers jsonb, payload bytea, type text, key text, priority smallint)
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
DECLARE
    in_queue CONSTANT text := take_messages.queue;
    in_receiver CONSTANT text := left(take_messages.receiver, 200);
    most CONSTANT integer := take_messages.count;
    settings hookwire.queues;
    until timestamptz;
    picked bigint[];
BEGIN
    settings := hookwire.queue_settings(in_queue);
    IF most NOT BETWEEN 1 AND 10000 OR take_messages.lease_seconds NOT BETWEEN 0.05 AND 43200 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'hookwire.receive: count is 1 to 10000, lease_seconds 0.05 to 43200';
    END IF;
    IF settings.expires_at < clock_timestamp() + make_interval(secs => settings.lifetime_seconds * 0.9) THEN
        UPDATE hookwire.queues q SET expires_at = clock_timestamp() + make_interval(secs => q.lifetime_seconds) WHERE q.id = settings.id;
    END IF;
    IF settings.paused THEN
        RETURN;
    END IF;
    IF filter IS NULL THEN
        picked := ARRAY(
            SELECT s.id FROM (
                SELECT w.id, sum(w.size) OVER (ORDER BY w.id ROWS UNBOUNDED PRECEDING) - w.size AS before
                FROM (
                    SELECT m.id, octet_length(m.payload) + octet_length(m.headers::text) AS size FROM hookwire.messages m
                    WHERE m.queue = in_queue AND m.claim IS NULL AND m.due_at IS NULL AND m.id > after_id
                    ORDER BY m.id LIMIT most FOR UPDATE SKIP LOCKED
                ) AS w
            ) AS s WHERE s.before < bytes_max);
    ELSE
        PERFORM hookwire.check_filter(filter);
        picked := hookwire.pick_filtered(in_queue, most, filter, after_id);
        picked := ARRAY(
            SELECT s.id FROM (
                SELECT m.id, sum(w.size) OVER (ORDER BY m.id ROWS UNBOUNDED PRECEDING) - w.size AS before
                FROM hookwire.messages m CROSS JOIN LATERAL (
                    SELECT octet_length(m.payload) + octet_length(m.headers::text) AS size) AS w
                WHERE m.id = ANY (picked)
            ) AS s WHERE s.before < bytes_max);
    END IF;
    IF picked = '{}' THEN
        RETURN;
    END IF;
    until := clock_timestamp() + make_interval(secs => coalesce(take_messages.lease_seconds, settings.lease_seconds));
    RETURN QUERY
    WITH fence AS MATERIALIZED (
        SELECT nextval('hookwire.lease_fence') AS value
    ), taken AS (
        UPDATE hookwire.messages m
        SET claim = (SELECT f.value FROM fence f), lease_until = until, claimed_at = clock_timestamp(),
            deliveries = m.deliveries + 1, receiver = in_receiver
        WHERE m.id = ANY (picked)
        RETURNING m.id, m.claim, m.deliveries, m.lease_until, m.created_at, m.content_type, m.headers, m.payload,
                  m.type, m.key, m.priority
    )
    SELECT * FROM taken t ORDER BY t.id;
END
$function$;
COMMENT ON FUNCTION hookwire.take_messages(text,integer,double precision,jsonb,text,bigint,bigint) IS
'Claim messages as `receive` does, up to so many bytes.';
REVOKE EXECUTE ON FUNCTION hookwire.take_messages(text,integer,double precision,jsonb,text,bigint,bigint) FROM PUBLIC;
