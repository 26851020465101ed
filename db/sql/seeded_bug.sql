-- Not of the product: how a test build takes a promise away inside the database. Only app/chaos/seeded_bugs.py calls these.

-- name: forget_keys
-- Every publish locks some stripe, none the key's.
CREATE OR REPLACE FUNCTION hookwire.stripe_of(digest bytea) RETURNS integer
LANGUAGE sql VOLATILE STRICT PARALLEL SAFE
RETURN (random() * 1023)::integer;
