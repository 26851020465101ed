-- Not part of the product: seeded bugs that a test build puts into the database. Only app/chaos/seeded_bugs.py calls
-- these.

-- name: forget_keys
-- Every publish locks a stripe, but not the key's.
CREATE OR REPLACE FUNCTION hookwire.stripe_of(digest bytea) RETURNS integer
LANGUAGE sql VOLATILE STRICT PARALLEL SAFE
RETURN (random() * 1023)::integer;
