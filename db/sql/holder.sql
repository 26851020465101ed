-- Holders of locks: sessions of clients, server processes and prepared transactions. The locks of a prepared transaction
-- have no process. One of them is the lock of its transaction id; the others have the same virtual transaction.

-- name: of
-- Find who blocks the server process $1. A prepared transaction shows as process 0 and is found by the lock that
-- is waited for.
SELECT d.holder, d.ended_by FROM (
    SELECT CASE WHEN a.backend_type = 'client backend'
                THEN format('process %s (%s, role %s, %s)', a.pid, coalesce(nullif(a.application_name, ''), 'no application name'),
                            a.usename, coalesce(a.state, 'state unknown'))
                ELSE format('process %s (%s)', a.pid, a.backend_type) END AS holder,
           format('SELECT pg_terminate_backend(%s)', a.pid) AS ended_by, a.xact_start AS since
    FROM unnest(pg_blocking_pids($1)) AS b(pid) JOIN pg_stat_activity a ON a.pid = b.pid
    UNION ALL
    SELECT format('prepared transaction %s (role %s)', p.gid, p.owner), format('ROLLBACK PREPARED %L', p.gid), p.prepared
    FROM pg_prepared_xacts p
    WHERE p.database = current_database() AND 0 = ANY (pg_blocking_pids($1))
      AND EXISTS (
        SELECT FROM pg_locks w JOIN pg_locks h ON h.granted
            AND (h.locktype, h.database, h.relation, h.page, h.tuple, h.virtualxid, h.transactionid, h.classid, h.objid, h.objsubid)
                IS NOT DISTINCT FROM
                (w.locktype, w.database, w.relation, w.page, w.tuple, w.virtualxid, w.transactionid, w.classid, w.objid, w.objsubid)
        JOIN pg_locks x ON x.pid IS NULL AND x.virtualtransaction = h.virtualtransaction AND x.transactionid = p.transaction
        WHERE w.pid = $1 AND NOT w.granted AND h.pid IS NULL)
) AS d ORDER BY d.since NULLS LAST LIMIT 3;

-- name: all
-- Find up to three transactions, older than $1 seconds, that hold locks of our tables or advisory locks of ours, but
-- those that only read.
WITH ours AS MATERIALIZED (
    SELECT l.pid, l.virtualtransaction FROM pg_locks l
    WHERE l.granted AND l.mode <> 'AccessShareLock'
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
      AND (l.relation IN (SELECT c.oid FROM pg_class c WHERE c.relnamespace = 'hookwire'::regnamespace)
           OR (l.locktype = 'advisory' AND l.objsubid = 2 AND l.classid BETWEEN 1215262571::oid AND 1215262579::oid))
    GROUP BY l.pid, l.virtualtransaction
)
SELECT d.holder, d.ended_by, round(extract(epoch FROM clock_timestamp() - d.since), 1)::double precision AS seconds FROM (
    SELECT CASE WHEN a.backend_type = 'client backend'
                THEN format('process %s (%s, role %s, %s)', a.pid, coalesce(nullif(a.application_name, ''), 'no application name'),
                            a.usename, coalesce(a.state, 'state unknown'))
                ELSE format('process %s (%s)', a.pid, a.backend_type) END AS holder,
           format('SELECT pg_terminate_backend(%s)', a.pid) AS ended_by, coalesce(a.xact_start, a.state_change) AS since
    FROM (SELECT DISTINCT o.pid FROM ours o) AS o JOIN pg_stat_activity a ON a.pid = o.pid
    WHERE a.pid <> pg_backend_pid()
    UNION ALL
    SELECT format('prepared transaction %s (role %s)', p.gid, p.owner), format('ROLLBACK PREPARED %L', p.gid), p.prepared
    FROM pg_prepared_xacts p
    JOIN pg_locks x ON x.pid IS NULL AND x.transactionid = p.transaction
    JOIN ours o ON o.pid IS NULL AND o.virtualtransaction = x.virtualtransaction
) AS d WHERE d.since <= clock_timestamp() - make_interval(secs => $1::double precision) ORDER BY d.since LIMIT 3;
