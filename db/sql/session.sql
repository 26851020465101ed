-- Sessions: the settings that each connection begins with, and the identity of the server behind it.

-- name: begin
-- Set the settings $1 to the values $2, so that no default of the server, the database or the role counts. A setting
-- that this server does not know is left out. `synchronous_commit` gets the session's own value, which a later change
-- of the server's setting does not reach. `off` can lose data that was already acknowledged.
SELECT count(set_config(s.name, s.value, false)) AS settings,
       set_config('synchronous_commit',
                  CASE WHEN current_setting('synchronous_commit') = 'off' THEN 'on' ELSE current_setting('synchronous_commit') END,
                  false) AS synchronous_commit,
       pg_is_in_recovery() AS is_standby, current_setting('default_transaction_read_only') = 'on' AS is_read_only
FROM unnest($1::text[], $2::text[]) AS s(name, value)
WHERE current_setting(s.name, true) IS NOT NULL;

-- name: identity
-- Return which cluster the server belongs to, and its timeline, which rises at each promotion.
SELECT (SELECT c.system_identifier FROM pg_control_system() c) AS system,
       ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint AS timeline;
