-- Requests to services. The rules are functions of the schema, which any language may call; these statements call them.

-- name: make
-- Store a request made by HTTP: service, body, content type, caller, client, number, expiry.
SELECT translate(r.id::text, '-', '') AS id, r.repeated, r.claim
FROM hookwire.make_request($1, $2, $3, $4, $5, $6, $7, NULL, NULL) AS r;

-- name: make_for
-- Store a request as `make` does, leased to the worker $8 for $9 seconds if no other request waits.
SELECT translate(r.id::text, '-', '') AS id, r.repeated, r.claim, r.lease_until, r.created_at
FROM hookwire.make_request($1, $2, $3, $4, $5, $6, $7, $8, $9) AS r;

-- name: take_back
-- Return a request to the queue that its worker never got.
UPDATE hookwire.requests r SET state = 'waiting', claim = NULL, worker = NULL, attempts = r.attempts - 1, deadline_at = r.expires_at
WHERE r.id = $1::text::uuid AND r.claim = $2 AND r.state IN ('waiting', 'leased');

-- name: lease
SELECT translate(l.id::text, '-', '') AS id, l.claim, l.attempts, l.lease_until, l.created_at,
       hookwire.frames_type(l.content_type, l.frame_bytes) AS content_type, hookwire.frames_body(l.body, l.frame_bytes) AS body
FROM hookwire.lease_requests($1, $2, $3, $4, $5, coalesce($6, hookwire.answer_bytes_max())) AS l;

-- name: reply
SELECT a.outcome, a.is_owed, a.is_plain FROM hookwire.answer_request($1::text::uuid, $2, $3, $4) AS a;

-- name: lease_for_callbacks
-- Claim requests for callbacks. $1: subscriptions that take no more for now. Claim for other subscriptions whose
-- service has requests, in changing order.
SELECT s.id AS subscription_id, s.version, s.service, translate(l.id::text, '-', '') AS id, l.claim, l.attempts,
       hookwire.frames_type(l.content_type, l.frame_bytes) AS content_type, hookwire.frames_body(l.body, l.frame_bytes) AS body
FROM (SELECT x.id, x.version, x.service, x.public_id, coalesce(x.timeout_seconds, $3) AS seconds FROM hookwire.subscriptions x
      WHERE x.protocol = 'service' AND x.state = 'active' AND x.id <> ALL ($1::bigint[])
        AND (SELECT r.id FROM hookwire.requests r WHERE r.service = x.service AND r.state = 'waiting' AND r.deadline_at > clock_timestamp()
             ORDER BY r.number LIMIT 1) IS NOT NULL
      ORDER BY random() LIMIT $5) AS s,
     LATERAL hookwire.lease_requests(s.service, $2, s.seconds + $4, s.public_id, 0) AS l;

-- name: release
-- Retry after the delay. With a reason, fail after the last attempt.
SELECT hookwire.release_request($1::text::uuid, $2, $3, $4);

-- name: get
-- A request made by HTTP is visible to its caller only. The principal NULL means no authentication.
SELECT translate(r.id::text, '-', '') AS id, r.service, r.state, r.via, r.caller, r.attempts, r.worker, r.created_at, r.expires_at, r.answered_at,
       r.last_error, hookwire.frames_type(r.reply_content_type, r.reply_frame_bytes) AS content_type,
       hookwire.frames_body(r.reply, r.reply_frame_bytes) AS reply
FROM hookwire.requests r
WHERE r.id = $1::text::uuid AND ($2::text IS NULL OR r.via <> 'http' OR r.caller IS NULL OR r.caller = $2);

-- name: service_of
SELECT r.service FROM hookwire.requests r WHERE r.id = $1::text::uuid;

-- name: close
SELECT hookwire.forget_requests(ARRAY(SELECT r.id FROM hookwire.requests r WHERE r.id = $1::text::uuid
                                      AND ($2::text IS NULL OR r.via <> 'http' OR r.caller IS NULL OR r.caller = $2)), $3);

-- name: notify
-- Each of these texts is a notification. Whoever misses one polls, so nobody waits for a disk or a standby.
SELECT pg_notify('hookwire_services', t) FROM (SELECT set_config('synchronous_commit', 'off', true)) AS s, unnest($1::text[]) AS t;

-- name: list
-- Newest first, without contents.
SELECT translate(r.id::text, '-', '') AS id, r.number, r.service, r.state, r.via, r.caller, r.attempts, r.worker, r.created_at, r.expires_at,
       r.answered_at, r.last_error
FROM hookwire.requests r
WHERE r.number < $1 AND ($2::text IS NULL OR r.service = $2) AND ($3::text IS NULL OR r.state = $3)
ORDER BY r.number DESC LIMIT $4;

-- name: waiting_among
-- Return, for workers that wait, how many requests each service has, at most as many as workers wait.
SELECT w.service, (SELECT count(*) FROM (SELECT FROM hookwire.requests r WHERE r.service = w.service AND r.state = 'waiting'
                                         LIMIT w.waiting) AS s) AS available
FROM unnest($1::text[], $2::integer[]) AS w(service, waiting);

-- name: over_among
-- Return, for callers that wait, which of these requests have ended.
SELECT w.id FROM unnest($1::text[]) AS w(id)
WHERE (SELECT r.state IN ('waiting', 'delayed', 'leased') FROM hookwire.requests r WHERE r.id = w.id::uuid) IS NOT TRUE;

-- name: reap
SELECT r.returned, r.expired, r.failed, r.forgotten FROM hookwire.reap_requests($1) AS r;

-- name: purge_keys
DELETE FROM hookwire.request_keys WHERE ctid = ANY (ARRAY(
    SELECT k.ctid FROM hookwire.request_keys k WHERE k.expires_at < now() ORDER BY k.expires_at LIMIT $1));

-- name: purge_archive
DELETE FROM hookwire.request_archive WHERE ctid = ANY (ARRAY(
    SELECT a.ctid FROM hookwire.request_archive a WHERE a.closed_at < now() - make_interval(days => $2) ORDER BY a.closed_at LIMIT $1));

-- name: store
-- Store requests made by ZeroMQ: services, bodies, lengths of frames, users. They wait until the retention ends.
SELECT translate(s.id::text, '-', '') AS id
FROM hookwire.store_requests($1::text[], $2::bytea[], 'zeromq', array_fill(NULL::text, ARRAY[cardinality($1::text[])]), $3::text[], $4::text[], NULL, NULL,
                             array_fill('Infinity'::double precision, ARRAY[cardinality($1::text[])])) AS s ORDER BY s.item;

-- name: lease_each
-- Claim so many requests of each of these services for a broker. Leases that are over end first.
SELECT translate(l.id::text, '-', '') AS id, l.claim, l.attempts, w.service, coalesce(l.caller, '') AS caller, l.frame_bytes, l.body
FROM (SELECT u.service, u.most FROM unnest($1::text[], $2::integer[]) AS u(service, most), hookwire.reap_requests(1000) AS r
      WHERE r.returned >= 0 OFFSET 0) AS w,
     LATERAL hookwire.lease_requests(w.service, w.most, $3, $4, $5) AS l;

-- name: extend
SELECT translate(r.id::text, '-', '') AS id, r.claim
FROM hookwire.extend_requests($1::text[]::uuid[], $2::bigint[], $3) AS r;

-- name: settle
SELECT s.outcome FROM hookwire.settle_requests(
    $1::text[]::uuid[], $2::bigint[], $3::bytea[], array_fill(NULL::text, ARRAY[cardinality($1::text[])]), $4::text[]) AS s ORDER BY s.item;

-- name: fetch_frames
SELECT r.state, r.reply, r.reply_frame_bytes FROM hookwire.requests r WHERE r.id = $1::text::uuid;

-- name: forget
SELECT hookwire.forget_requests(ARRAY[$1::text::uuid], $2);

-- name: forget_old
-- Delete requests of ZeroMQ that are older than this and not leased. Requests of HTTP and SQL have the retention of
-- their service.
SELECT hookwire.forget_requests(ARRAY(
    SELECT r.id FROM hookwire.requests r
    WHERE r.via = 'zeromq' AND (r.state <> 'leased' OR r.deadline_at <= clock_timestamp()) AND r.created_at < now() - make_interval(secs => $1::double precision)
    ORDER BY r.number LIMIT $2 FOR UPDATE SKIP LOCKED), 'retention');

-- name: waiting_services
-- Include services whose leases and pauses are over: a claim ends these, and the broker may be the only process.
WITH RECURSIVE names AS (
    (SELECT r.service FROM hookwire.requests r WHERE r.state = 'waiting' ORDER BY r.service LIMIT 1)
    UNION ALL
    SELECT (SELECT r.service FROM hookwire.requests r WHERE r.state = 'waiting' AND r.service > n.service ORDER BY r.service LIMIT 1)
    FROM names n WHERE n.service IS NOT NULL
)
SELECT n.service FROM names n WHERE n.service IS NOT NULL
UNION
SELECT o.service FROM (SELECT r.service FROM hookwire.requests r WHERE r.deadline_at <= now() AND r.state IN ('leased', 'delayed')
                       ORDER BY r.deadline_at LIMIT 1000) AS o;

-- name: last_number
SELECT CASE WHEN d.is_called THEN d.last_value ELSE 0 END FROM hookwire.request_number AS d;

-- name: count
SELECT count(*) FILTER (WHERE r.state IN ('waiting', 'delayed', 'leased')) AS pending, count(*) FILTER (WHERE r.state = 'leased' AND r.deadline_at > clock_timestamp()) AS leased,
       count(*) FILTER (WHERE r.state = 'answered') AS answered
FROM hookwire.requests r;

-- name: publish
-- Publish for the service hub.publish, under the rules of every transaction that publishes.
SELECT hookwire.publish($1, $2::bytea, key => $3, content_type => $4);
