-- The standby fence: how far the write-ahead log is, here and at each standby. Positions are numbers of bytes.

-- name: look
-- The end of the log includes what was inserted and not flushed: a commit with `synchronous_commit = off` is visible
-- before its flush. Only physical standbys count. A program that receives the log is none, nor is a subscriber.
--
-- The server is one of its runs: its timeline, its start, and its last crash. Statistics begin anew after a crash, also
-- where PostgreSQL itself has restarted its processes. A reset by hand only looks like one.
SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn AS position,
       pg_current_wal_flush_lsn() - '0/0'::pg_lsn AS flushed_here,
       concat_ws(' ', left(pg_walfile_name(pg_current_wal_insert_lsn()), 8), extract(epoch FROM pg_postmaster_start_time()),
                 (SELECT extract(epoch FROM b.stats_reset) FROM pg_stat_bgwriter b)) AS server,
       current_setting('cluster_name') AS own_name, pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS sees_all,
       s.names, s.flushed,
       to_regproc('aurora_version') IS NOT NULL OR current_setting('rds.extensions', true) IS NOT NULL
       OR current_setting('cloudsql.iam_authentication', true) IS NOT NULL AS is_managed
FROM (
    SELECT coalesce(array_agg(r.application_name ORDER BY r.pid), '{}') AS names,
           coalesce(array_agg(r.flush_lsn - '0/0'::pg_lsn ORDER BY r.pid), '{}') AS flushed
    FROM pg_stat_replication r
    WHERE r.state = 'streaming' AND r.flush_lsn IS NOT NULL
      AND r.application_name NOT IN ('pg_receivewal', 'pg_basebackup')
      AND NOT EXISTS (SELECT FROM pg_replication_slots x WHERE x.active_pid = r.pid AND x.slot_type = 'logical')
) AS s;

-- name: flush
-- Commit an empty message, so that the server flushes its log up to here. No standby is waited for. Without it, what was
-- inserted and not committed would stay unflushed on a quiet server, and the fence would wait for it.
SELECT set_config('synchronous_commit', 'local', true), pg_logical_emit_message(true, 'hookwire', '');
