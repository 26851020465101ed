-- Plans: how the statements of a session or transaction are planned and committed, and how long each may run.

-- name: for_values
-- Plan for the given values, not once for all: a filter that is NULL needs another index than one that is set.
SELECT set_config('plan_cache_mode', 'force_custom_plan', true);

-- name: keep_commits_durable
-- Set the session's own value, which a later change of the server's setting does not reach. `off` can lose data that
-- was already acknowledged.
SELECT set_config('synchronous_commit',
                  CASE WHEN current_setting('synchronous_commit') = 'off' THEN 'on' ELSE current_setting('synchronous_commit') END,
                  false);

-- name: for_seconds
-- Limit each later statement of this transaction.
SELECT set_config('statement_timeout', ceil($1::double precision * 1000)::integer::text, true);
