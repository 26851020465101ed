-- Plans: how the statements of a transaction are planned.

-- name: for_values
-- For the values they are given, not once for all: whether a filter is named or NULL decides which index finds the rows.
SELECT set_config('plan_cache_mode', 'force_custom_plan', true);
