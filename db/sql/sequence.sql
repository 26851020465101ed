-- Sequences: each is compared with the greatest number that the database holds, and set forward where it is behind.

-- name: is_settable
-- Return whether this session may set sequences forward. A database may have no schema yet, or an older one.
SELECT coalesce(has_function_privilege(to_regprocedure('hookwire.set_numbers_forward(text,bigint)'), 'EXECUTE'), false);

-- name: set_forward
-- Set forward what is behind, and everything where the server is not $1, where numbers were drawn last. Return what was
-- set, and why.
SELECT sequence, last, used, next, reason FROM hookwire.set_numbers_forward($1);

-- name: behind
-- Return the sequences that are behind.
SELECT sequence, last, used FROM hookwire.numbers() WHERE last < used ORDER BY sequence;
