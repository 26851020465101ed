-- The relay processes and the leases they hold: relay.election.lease.

-- name: enter
WITH forgotten AS (
    DELETE FROM hookwire.relay_members WHERE until < clock_timestamp() - interval '1 hour'
)
INSERT INTO hookwire.relay_members (name, sinks, until)
VALUES ($1, $2, clock_timestamp() + make_interval(secs => $3::double precision)) RETURNING id;

-- name: try_session_lock
SELECT pg_try_advisory_lock(1215262572, $1::integer);

-- name: notify
SELECT pg_notify('hookwire_relay', '');

-- name: set_candidacy
-- Set the sinks for which a process wants leases. With none, the process is about to leave, and others take its leases.
UPDATE hookwire.relay_members SET sinks = $2 WHERE id = $1;

-- name: leave
DELETE FROM hookwire.relay_members WHERE id = $1;

-- name: heartbeat
-- Sign on, renew, then list the members and the leases. A lease is vacant if it has no owner, has expired, or its
-- holder's session lock is free. Our own leases are returned too; the caller filters them.
-- $7: whether a renewal is due. is_present: whether our own session lock is held.
WITH present AS MATERIALIZED (
    SELECT l.objid::bigint AS id FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.classid = 1215262572::oid AND l.objsubid = 2 AND l.granted
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
), signed AS (
    UPDATE hookwire.relay_members SET until = clock_timestamp() + make_interval(secs => $2::double precision)
    WHERE id = $1 AND $7::boolean
), renewed AS (
    UPDATE hookwire.relay_terms t SET lease_until = clock_timestamp() + make_interval(secs => $2::double precision)
    FROM unnest($3::text[], $4::smallint[], $5::bigint[]) AS h(sink, grp, term)
    WHERE t.sink = h.sink AND t.grp = h.grp AND t.term = h.term AND $7::boolean
), alive AS MATERIALIZED (
    SELECT m.id, m.sinks FROM hookwire.relay_members m
    WHERE m.id = $1 OR (m.until > clock_timestamp() AND m.id IN (SELECT p.id FROM present p))
)
SELECT t.sink, t.grp, t.term, t.is_open, t.member AS holder,
       t.owner IS NULL OR t.member = $1 OR t.lease_until < clock_timestamp()
           OR (t.member IS NOT NULL AND t.member NOT IN (SELECT a.id FROM alive a)) AS vacant,
       ARRAY(SELECT a.id FROM alive a WHERE t.sink = ANY (a.sinks) ORDER BY a.id) AS members,
       $1 IN (SELECT p.id FROM present p) AS is_present
FROM hookwire.relay_terms t
WHERE t.sink = ANY ($6::text[])
ORDER BY t.sink, t.grp;
