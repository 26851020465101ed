-- Not part of the product: seeded bugs that a test build puts into the database. Only app/chaos/seeded_bugs.py calls
-- these.

-- name: forget_keys
-- Every publish locks a stripe, but not the key's.
CREATE OR REPLACE FUNCTION hookwire.stripe_of(digest bytea) RETURNS integer
LANGUAGE sql VOLATILE STRICT PARALLEL SAFE
RETURN (random() * 1023)::integer;

-- name: move_regardless
-- The offset of a partition moves by all records of a batch, also where a busy key has kept some from being stored.
DO $bug$
DECLARE
    sound CONSTANT text := pg_get_functiondef('hookwire.take_records'::regproc);
    broken CONSTANT text := replace(sound, 'next_offset := CASE WHEN taken = total THEN', 'next_offset := CASE WHEN true THEN');
BEGIN
    IF broken = sound THEN
        RAISE EXCEPTION 'hookwire.take_records has changed, and the seeded bug does not fit it any more';
    END IF;
    EXECUTE broken;
END
$bug$;
