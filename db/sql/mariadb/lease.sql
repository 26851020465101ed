-- The lease of an outbox in MariaDB or MySQL (relay/goharvest/maria_election.py). The time is the server's.

-- name: ensure
INSERT INTO hookwire_terms (sink) VALUES (%(sink)s) ON DUPLICATE KEY UPDATE sink = hookwire_terms.sink;

-- name: take
-- Take a lease that has run out. LAST_INSERT_ID sets the new term and returns it in one statement.
UPDATE hookwire_terms
SET term = LAST_INSERT_ID(term + 1), owner = %(owner)s,
    lease_until = UTC_TIMESTAMP(6) + INTERVAL %(lease_seconds)s SECOND
WHERE sink = %(sink)s AND lease_until <= UTC_TIMESTAMP(6);

-- name: renew
-- Renew the lease unless it was released meanwhile.
UPDATE hookwire_terms SET lease_until = UTC_TIMESTAMP(6) + INTERVAL %(lease_seconds)s SECOND
WHERE sink = %(sink)s AND term = %(term)s AND owner IS NOT NULL;

-- name: release
UPDATE hookwire_terms SET lease_until = '1970-01-01', owner = NULL WHERE sink = %(sink)s AND term = %(term)s;
