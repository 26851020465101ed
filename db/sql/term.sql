-- Terms. Every write that decides something takes FOR KEY SHARE on the term row with the term it believes in;
-- renewals do not touch the key and so do not wait for it (RR-08). A new term has the last batch number on its row, by
-- the trigger note_batch_no (migration 36).

-- name: keep_layout
-- Until the end of this transaction no other layout is put in force; waits for one that is being put in force.
SELECT FROM hookwire.installation FOR SHARE;

-- name: ensure
-- One lease for each group of the sinks in the present layout.
INSERT INTO hookwire.relay_terms (sink, grp, layout)
SELECT s.name, g.grp, i.layout
FROM hookwire.installation i
CROSS JOIN unnest($1::text[]) AS s(name)
CROSS JOIN LATERAL generate_series(0, hookwire.groups_of(i.layout, s.name) - 1) AS g(grp)
ON CONFLICT DO NOTHING;

-- name: raise
-- Whoever rules. A closed lease is not taken.
UPDATE hookwire.relay_terms t
SET term = t.term + 1, owner = $3, member = NULL,
    lease_until = clock_timestamp() + make_interval(secs => $4::double precision)
WHERE t.sink = $1 AND t.grp = $2 AND t.is_open
RETURNING t.term, t.layout, t.batch_no, hookwire.groups_of(t.layout, t.sink) AS groups,
       hookwire.scope_of(t.layout) AS order_scope;

-- name: take
-- Only if it is still this term, of whoever was judged to be gone. Never waits: a former leader may hold
-- the row in an open transaction.
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
-- Whoever is waiting for a lease is told at once (RO-06).
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
-- A stopped leader's backend may hold its KEY SHARE for ever; its successor ends it (RR-08).
SELECT count(pg_terminate_backend(l.pid))
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.relation = 'hookwire.relay_terms'::regclass AND l.granted AND l.pid <> pg_backend_pid()
  AND a.application_name LIKE 'hookwire%' AND a.xact_start < clock_timestamp() - interval '1 second';

-- name: check
-- The leases of a sink in the present layout, as an election sees them that asks rarely. Those that it holds ($2, $3) say so
-- for $4 seconds more, to whoever changes the layout or looks who leads.
WITH held AS (
    UPDATE hookwire.relay_terms t SET lease_until = clock_timestamp() + make_interval(secs => $4::double precision)
    FROM unnest($2::smallint[], $3::bigint[]) AS h(grp, term)
    WHERE t.sink = $1 AND t.grp = h.grp AND t.term = h.term AND t.owner IS NOT NULL
)
SELECT t.grp, t.term, t.is_open FROM hookwire.relay_terms t WHERE t.sink = $1;
