-- The installation: its name is a part of every event's id.

-- name: processes
-- Count the other sessions of the hub in this database, and the relays that are alive.
SELECT (SELECT count(*) FROM pg_stat_activity a
        WHERE a.datname = current_database() AND a.application_name = 'hookwire' AND a.pid <> pg_backend_pid()) AS sessions,
       (SELECT count(*) FROM hookwire.relay_members m WHERE m.until > clock_timestamp()) AS relays;

-- name: former
-- Return the names before, each with the last id that bears it.
SELECT f.through_id, f.incarnation FROM hookwire.former_incarnations f ORDER BY f.through_id;

-- name: reincarnate
-- Give the database the name $1, and skip $2 ids. The events that it has keep the name before. Return that name, and the
-- last id that is skipped.
WITH before AS MATERIALIZED (
    SELECT i.incarnation, (SELECT e.last_value FROM hookwire.event_id e) AS through_id FROM hookwire.installation i FOR UPDATE
), kept AS (
    INSERT INTO hookwire.former_incarnations (through_id, incarnation) SELECT b.through_id, b.incarnation FROM before b
), named AS (
    UPDATE hookwire.installation i SET incarnation = $1 FROM before b RETURNING b.incarnation, b.through_id
)
SELECT n.incarnation AS before, setval('hookwire.event_id', n.through_id + $2::bigint) AS last_id FROM named n;
