-- Plans: how the statements of a transaction are planned, and how long each may run.

-- name: for_values
-- Plan for the given values, not once for all: a filter that is NULL needs another index than one that is set.
SELECT set_config('plan_cache_mode', 'force_custom_plan', true);

-- name: for_seconds
-- Limit each later statement of this transaction.
SELECT set_config('statement_timeout', ceil($1::double precision * 1000)::integer::text, true);
