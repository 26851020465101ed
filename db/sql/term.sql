-- Reigns. Every write that decides something takes FOR KEY SHARE on the term row with the term it believes in;
-- renewals and batch numbers do not touch the key and so do not wait for it (RR-08).

-- name: ensure
INSERT INTO hookwire.relay_terms (sink, grp) VALUES ($1, $2) ON CONFLICT DO NOTHING;

-- name: try_session_lock
SELECT pg_try_advisory_lock(1215262572, ascii($1::text) * 65536 + $2::integer);

-- name: raise
-- $5: the predecessor's session is known to be gone; otherwise only an expired lease may be taken.
UPDATE hookwire.relay_terms
SET term = term + 1, owner = $3, lease_until = clock_timestamp() + make_interval(secs => $4::double precision)
WHERE sink = $1 AND grp = $2 AND ($5::boolean OR lease_until < clock_timestamp())
RETURNING term, layout, batch_no;

-- name: renew
UPDATE hookwire.relay_terms
SET lease_until = clock_timestamp() + make_interval(secs => $4::double precision)
WHERE sink = $1 AND grp = $2 AND term = $3;

-- name: release
UPDATE hookwire.relay_terms SET lease_until = '-infinity', owner = NULL WHERE sink = $1 AND grp = $2 AND term = $3;

-- name: current
SELECT term, layout, batch_no FROM hookwire.relay_terms WHERE sink = $1 AND grp = $2;

-- name: terminate_blockers
-- A stopped leader's backend may hold its KEY SHARE for ever; its successor ends it (RR-08).
SELECT count(pg_terminate_backend(l.pid))
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.relation = 'hookwire.relay_terms'::regclass AND l.granted AND l.pid <> pg_backend_pid()
  AND a.application_name LIKE 'hookwire%' AND a.xact_start < clock_timestamp() - interval '1 second';
