-- Terms. Every deciding write takes FOR KEY SHARE on the term row with its own term. Renewals do not touch the key and
-- so do not wait for it (RR-08). The trigger note_batch_no writes the last batch number into the row of a new term.

-- name: keep_layout
-- Keep the layout until the end of this transaction. Wait for a change in progress.
SELECT FROM hookwire.installation FOR SHARE;

-- name: ensure
-- Create one lease for each group of the sinks in the present layout.
INSERT INTO hookwire.relay_terms (sink, grp, layout)
SELECT s.name, g.grp, i.layout
FROM hookwire.installation i
CROSS JOIN unnest($1::text[]) AS s(name)
CROSS JOIN LATERAL generate_series(0, hookwire.groups_of(i.layout, s.name) - 1) AS g(grp)
ON CONFLICT DO NOTHING;

-- name: raise
-- Raise the term, even if another process holds the lease. A closed lease is not taken.
UPDATE hookwire.relay_terms t
SET term = t.term + 1, owner = $3, member = NULL,
    lease_until = clock_timestamp() + make_interval(secs => $4::double precision)
WHERE t.sink = $1 AND t.grp = $2 AND t.is_open
RETURNING t.term, t.layout, t.batch_no, hookwire.groups_of(t.layout, t.sink) AS groups,
       hookwire.scope_of(t.layout) AS order_scope;

-- name: take
-- Take the lease only if its term is still that of the holder that is gone. Never wait: a former leader
-- may hold the row in an open transaction.
WITH lease AS MATERIALIZED (
    SELECT t.sink, t.grp FROM hookwire.relay_terms t
    WHERE t.sink = $1 AND t.grp = $2 AND t.is_open AND t.term = $5 FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE hookwire.relay_terms t
    SET term = t.term + 1, owner = $3, member = $6,
        lease_until = clock_timestamp() + make_interval(secs => $4::double precision)
    FROM lease WHERE t.sink = lease.sink AND t.grp = lease.grp
    RETURNING t.term, t.layout, t.batch_no, hookwire.groups_of(t.layout, t.sink) AS groups,
       hookwire.scope_of(t.layout) AS order_scope
)
SELECT * FROM taken;

-- name: release
-- Notify processes that wait for a lease (RO-06).
WITH released AS (
    UPDATE hookwire.relay_terms SET lease_until = '-infinity', owner = NULL, member = NULL
    WHERE sink = $1 AND grp = $2 AND term = $3 RETURNING 1
)
SELECT pg_notify('hookwire_relay', '') FROM released;

-- name: current
SELECT t.term, t.layout, greatest(t.batch_no, hookwire.last_batch_no(t.sink, t.layout, t.grp)) AS batch_no,
       hookwire.groups_of(t.layout, t.sink) AS groups, hookwire.scope_of(t.layout) AS order_scope
FROM hookwire.relay_terms t WHERE t.sink = $1 AND t.grp = $2;

-- name: terminate_blockers
-- A stopped leader's session may hold its KEY SHARE for ever; its successor ends that session (RR-08).
SELECT count(pg_terminate_backend(l.pid))
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.relation = 'hookwire.relay_terms'::regclass AND l.granted AND l.pid <> pg_backend_pid()
  AND a.application_name LIKE 'hookwire%' AND a.xact_start < clock_timestamp() - interval '1 second';

-- name: check
-- Return the leases of a sink in the present layout, for an election that asks rarely. Extend the held leases ($2, $3)
-- by $4 seconds, so that a layout change and the leader's display see them.
WITH held AS (
    UPDATE hookwire.relay_terms t SET lease_until = clock_timestamp() + make_interval(secs => $4::double precision)
    FROM unnest($2::smallint[], $3::bigint[]) AS h(grp, term)
    WHERE t.sink = $1 AND t.grp = h.grp AND t.term = h.term AND t.owner IS NOT NULL
)
SELECT t.grp, t.term, t.is_open FROM hookwire.relay_terms t WHERE t.sink = $1;
