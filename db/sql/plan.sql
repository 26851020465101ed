-- Plans: how the statements of a session or transaction are planned and committed, and how long each of them may run.

-- name: for_values
-- For the values they are given, not once for all: whether a filter is named or NULL decides which index finds the rows.
SELECT set_config('plan_cache_mode', 'force_custom_plan', true);

-- name: keep_commits_durable
-- The session's own value, which a later change of the server's setting does not reach; `off` loses what was answered.
SELECT set_config('synchronous_commit',
                  CASE WHEN current_setting('synchronous_commit') = 'off' THEN 'on' ELSE current_setting('synchronous_commit') END,
                  false);

-- name: for_seconds
-- Each statement of this transaction that begins from now on.
SELECT set_config('statement_timeout', ceil($1::double precision * 1000)::integer::text, true);
