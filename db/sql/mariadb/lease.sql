-- The lease of an outbox in MariaDB or MySQL (relay/goharvest/maria_election.py). The time is the server's.

-- name: ensure
INSERT INTO hookwire_terms (sink) VALUES (%(sink)s) ON DUPLICATE KEY UPDATE sink = hookwire_terms.sink;

-- name: take
-- Only a lease that has run out. The new term comes back as the statement's LAST_INSERT_ID: set and read in one.
UPDATE hookwire_terms
SET term = LAST_INSERT_ID(term + 1), owner = %(owner)s,
    lease_until = UTC_TIMESTAMP(6) + INTERVAL %(lease_seconds)s SECOND
WHERE sink = %(sink)s AND lease_until <= UTC_TIMESTAMP(6);

-- name: renew
-- Not one that was left meanwhile.
UPDATE hookwire_terms SET lease_until = UTC_TIMESTAMP(6) + INTERVAL %(lease_seconds)s SECOND
WHERE sink = %(sink)s AND term = %(term)s AND owner IS NOT NULL;

-- name: release
UPDATE hookwire_terms SET lease_until = '1970-01-01', owner = NULL WHERE sink = %(sink)s AND term = %(term)s;
