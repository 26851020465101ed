-- Sequences: each is compared with the greatest number that the database holds, and set forward where it is behind.

-- name: is_settable
-- Return whether this session may set sequences forward. A database may not have the schema, or
-- an older one, and a worker's role may have less rights.
SELECT coalesce(bool_or(has_schema_privilege(n.oid, 'USAGE') AND has_function_privilege(p.oid, 'EXECUTE')), false)
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE p.proname = 'set_numbers_forward' AND n.nspname = 'hookwire';

-- name: set_forward
-- Set sequences forward that are behind, or all of them where numbers were drawn last at another server than $1. Return
-- those that were set, with the reason.
SELECT sequence, last, used, next, reason FROM hookwire.set_numbers_forward($1);

-- name: behind
-- Return the sequences that are behind, and the statement that sets them forward.
SELECT sequence, last, used, 'SELECT * FROM hookwire.set_numbers_forward()' AS cured_by FROM hookwire.numbers() WHERE last < used ORDER BY sequence;
