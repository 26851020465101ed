-- Checks: the server settings that the promise "nothing lost" needs.

-- name: server
-- Read the settings of this session, so that those of its role and its database count too. reset_val is the value that
-- other programs under this role have: our sessions set their own.
SELECT current_setting('server_version_num')::integer AS version_number, current_setting('server_version') AS version,
       current_user AS role, clock_timestamp() AS at,
       (SELECT s.reset_val FROM pg_settings s WHERE s.name = 'synchronous_commit') AS synchronous_commit,
       current_setting('synchronous_standby_names') AS synchronous_standby_names,
       current_setting('fsync') AS fsync, current_setting('full_page_writes') AS full_page_writes,
       current_setting('data_sync_retry') AS data_sync_retry, current_setting('autovacuum') AS autovacuum,
       current_setting('statement_timeout') AS statement_timeout, current_setting('lock_timeout') AS lock_timeout,
       current_setting('idle_in_transaction_session_timeout') AS idle_in_transaction_session_timeout,
       current_setting('session_replication_role') AS session_replication_role,
       current_setting('plpgsql.variable_conflict', true) AS variable_conflict,
       to_regclass('hookwire.installation') IS NOT NULL AS is_made,
       to_regprocedure('hookwire.numbers()') IS NOT NULL AS has_numbers,
       current_setting('max_locks_per_transaction')::bigint
       * (current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint) AS lock_slots;

-- name: weak_publishers
-- Find roles whose sessions here commit without waiting for the disk. A publisher with such a role can lose events.
SELECT coalesce(r.rolname, 'every role') AS role
FROM pg_db_role_setting s LEFT JOIN pg_roles r ON r.oid = s.setrole
WHERE s.setdatabase IN (0, (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
  AND EXISTS (SELECT FROM unnest(s.setconfig) AS c(setting) WHERE c.setting IN ('synchronous_commit=off', 'synchronous_commit=0'))
ORDER BY role;

-- name: foreign_locks
-- Find sessions of other roles that hold our advisory locks without a publisher's young transaction. Their role
-- may not use the schema, no transaction is open, or it has been open for more than $1 seconds. The lock numbers are
-- those of publish_batch, migrations, members, queues, tasks and changed subscriptions. Only pg_read_all_stats shows the
-- state and age of other roles' sessions.
SELECT a.pid, a.usename::text AS role, coalesce(nullif(a.application_name, ''), 'no application name') AS application,
       count(*) AS locks, quote_ident(current_database()) AS database
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2
  AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
  AND l.classid IN (1215262571::oid, 1215262572::oid, 1215262573::oid, 1215262575::oid) AND a.usename <> current_user
  AND (NOT has_schema_privilege(a.usesysid, 'hookwire', 'USAGE') OR a.state = 'idle'
       OR a.xact_start < clock_timestamp() - make_interval(secs => $1::double precision))
GROUP BY a.pid, a.usename, a.application_name ORDER BY count(*) DESC, a.pid LIMIT 5;

-- name: unlogged
SELECT c.relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'hookwire' AND c.relkind IN ('r', 'S') AND c.relpersistence <> 'p' ORDER BY name;

-- name: cached_sequences
-- A larger cache gives each connection stale low numbers.
SELECT sequencename AS name, cache_size FROM pg_sequences
WHERE schemaname = 'hookwire' AND sequencename IN ('event_id', 'delivery_fence') AND cache_size > 1 ORDER BY name;

-- name: partitions
-- Return how many ids fit into the partitions that exist, how many ids a recent day used, and the statement that makes
-- partitions.
SELECT hookwire.ids_left() AS ids_left, hookwire.ids_per_day() AS ids_per_day,
       'SELECT hookwire.ensure_partitions()' AS made_by;

-- name: collations
-- Find our indexes whose order is that of a library with another version now, and the statement that notes the new
-- version afterwards. `C` and `POSIX` have no version.
SELECT x.indexrelid::regclass::text AS index, v.noted, v.now, v.refresh
FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (
    SELECT d.datcollversion AS noted, pg_database_collation_actual_version(d.oid) AS now,
           format('ALTER DATABASE %I REFRESH COLLATION VERSION', d.datname) AS refresh
    FROM pg_database d
    WHERE d.datname = current_database() AND 'pg_catalog."default"'::regcollation::oid = ANY (x.indcollation::oid[])
    UNION ALL
    SELECT l.collversion, pg_collation_actual_version(l.oid), format('ALTER COLLATION %s REFRESH VERSION', l.oid::regcollation)
    FROM pg_collation l WHERE l.oid = ANY (x.indcollation::oid[]) AND l.collprovider <> 'd'
) AS v
WHERE n.nspname = 'hookwire' AND c.relkind = 'i' AND v.noted <> v.now
ORDER BY index;

-- name: neglected_tables
-- Find queue tables whose autovacuum settings differ from those of the migrations: a constant threshold.
SELECT c.relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'hookwire' AND c.relname IN ('outbox', 'deliveries')
  AND (NOT coalesce(c.reloptions, '{}') @> '{autovacuum_vacuum_scale_factor=0}'
       OR coalesce(c.reloptions, '{}') && '{autovacuum_enabled=false,autovacuum_enabled=off}')
ORDER BY name;

-- name: invalid_indexes
-- Find indexes that an interrupted CREATE INDEX CONCURRENTLY or REINDEX CONCURRENTLY left behind. Each change writes to
-- them, and no statement uses them. Indexes that are being built now are left out. A running REINDEX reports at most
-- one of its new indexes, and may report the table's TOAST instead.
SELECT c.relname AS name, c.relname ~ '_cc(new|old)[0-9]*$' AS is_leftover
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'hookwire' AND c.relkind = 'i' AND NOT i.indisvalid
  AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index p
                  WHERE p.datname = current_database()
                    AND (p.index_relid = i.indexrelid OR p.command = 'REINDEX CONCURRENTLY'))
ORDER BY name;

-- name: old_snapshots
-- Find everything that has kept dead rows for more than $1 seconds, with the statement that ends it. These are
-- transactions (even without a snapshot, once they have written), prepared transactions and abandoned replication
-- slots, whose age is unknown. A slot with only a catalog_xmin keeps rows of the catalogs, and none of our tables. Each
-- kind has its own limit, so that all kinds are shown.
(SELECT 'process ' || a.pid || coalesce(' (' || nullif(a.application_name, '') || ')', '') AS holder,
        extract(epoch FROM clock_timestamp() - a.xact_start)::double precision AS seconds,
        format('SELECT pg_terminate_backend(%s)', a.pid) AS ended_by, false AS is_slot
 FROM pg_stat_activity a
 WHERE a.datname = current_database() AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
   AND a.backend_type = 'client backend' AND a.pid <> pg_backend_pid()
   AND a.xact_start < clock_timestamp() - make_interval(secs => $1::double precision)
 ORDER BY a.xact_start LIMIT 5)
UNION ALL
(SELECT 'prepared transaction ' || p.gid, extract(epoch FROM clock_timestamp() - p.prepared)::double precision,
        format('ROLLBACK PREPARED %L', p.gid), false
 FROM pg_prepared_xacts p
 WHERE p.database = current_database() AND p.prepared < clock_timestamp() - make_interval(secs => $1::double precision)
 ORDER BY p.prepared LIMIT 5)
UNION ALL
(SELECT 'replication slot ' || r.slot_name, NULL::double precision,
        format('SELECT pg_drop_replication_slot(%L)', r.slot_name), true
 FROM pg_replication_slots r
 WHERE NOT r.active AND r.xmin IS NOT NULL AND (r.database IS NULL OR r.database = current_database())
 ORDER BY age(r.xmin) DESC, r.slot_name LIMIT 5)
ORDER BY seconds DESC NULLS LAST, holder;

-- name: writable
-- Return whether the server can write now, for readiness.
SELECT hookwire.check_writable();

-- name: backend
-- Return the server process that answers.
SELECT pg_backend_pid();

-- name: begin
BEGIN;

-- name: rollback
ROLLBACK;

-- name: source_loop
-- Find publishers to the exchange $1 that a source reads, among the topics that the source publishes to: $2, or any. $3 is
-- the exchange for topics that name none.
SELECT w.name FROM (
    SELECT format('the topic %s', coalesce($2, 'of any routing key')) AS name
    WHERE $1::text = $3::text
      AND NOT EXISTS (SELECT FROM hookwire.topics t WHERE t.tenant = 'default' AND t.name = $2::text
                      AND (t.amqp_exchange <> $3 OR 'amqp' <> ALL (t.sinks)))
    UNION ALL
    SELECT format('the topic %s', t.name) FROM hookwire.topics t
    WHERE t.tenant = 'default' AND t.amqp_exchange = $1 AND t.name = coalesce($2, t.name)
      AND t.name NOT LIKE 'hookwire.%' AND coalesce('amqp' = ANY (t.sinks), true)
) AS w WHERE $1 <> '' LIMIT 1;

-- name: twins
-- Return five kinds and descriptions that several live tasks of before the upgrade share, with five ids of each. Look at
-- $1 tasks at most.
SELECT t.kind, left(t.description, 60) AS description, (array_agg(t.id ORDER BY t.id))[1:5] AS ids
FROM (SELECT kind, description, id FROM hookwire.task_rows WHERE is_unique IS NULL AND finish_time IS NULL LIMIT $1) AS t
GROUP BY t.kind, t.description HAVING count(*) > 1 ORDER BY t.kind, t.description LIMIT 5;
