-- Services: their settings, their workers and their waiting requests.

-- name: use
-- Return whether the service has a row, and note that it is in use today. A row that somebody has locked is not noted.
WITH noted AS (
    UPDATE hookwire.services SET used_on = current_date WHERE ctid = (
        SELECT x.ctid FROM hookwire.services x WHERE x.name = $1 AND x.used_on < current_date FOR UPDATE SKIP LOCKED)
)
SELECT EXISTS (SELECT FROM hookwire.services x WHERE x.name = $1);

-- name: ensure
-- Create the row of a service at its first use by the key $2, outside any foreign transaction.
INSERT INTO hookwire.services (name, made_by, used_on)
SELECT $1, $2, current_date WHERE hookwire.is_queue_name($1) AND (SELECT i.services_auto_create FROM hookwire.installation i)
ON CONFLICT DO NOTHING;

-- name: room
-- Return how many more services the key $1 may make by using them, and the limit that decides. Empty: without a key.
SELECT least(l.of_key, l.of_all) AS room, l.of_key < l.of_all AS is_of_key,
       CASE WHEN l.of_key < l.of_all THEN l.names_per_key_max ELSE l.names_max END AS most
FROM (SELECT i.names_per_key_max, i.names_max,
             CASE WHEN $1 <> '' THEN i.names_per_key_max - (SELECT count(*) FROM (
                 SELECT FROM hookwire.services x WHERE x.made_by = $1 LIMIT i.names_per_key_max) AS own) END AS of_key,
             i.names_max - (SELECT count(*) FROM (
                 SELECT FROM hookwire.services x WHERE x.made_by IS NOT NULL LIMIT i.names_max) AS own) AS of_all
      FROM hookwire.installation i) AS l;

-- name: announce
-- Record that these services have workers at a broker for so many seconds.
INSERT INTO hookwire.services AS s (name, workers_until, made_by, used_on)
SELECT u.name, clock_timestamp() + make_interval(secs => $2::double precision), '', current_date FROM unnest($1::text[]) AS u(name)
WHERE hookwire.is_queue_name(u.name)
  AND ((SELECT i.services_auto_create FROM hookwire.installation i) OR (SELECT x.name FROM hookwire.services x WHERE x.name = u.name) IS NOT NULL)
ORDER BY u.name
ON CONFLICT (name) DO UPDATE SET workers_until = greatest(s.workers_until, excluded.workers_until);

-- name: adopt
-- Create rows for services that foreign transactions used first. This is a loose scan of the index, name by name.
WITH RECURSIVE names AS (
    (SELECT r.service FROM hookwire.requests r WHERE r.state = 'waiting' ORDER BY r.service LIMIT 1)
    UNION ALL
    SELECT (SELECT r.service FROM hookwire.requests r WHERE r.state = 'waiting' AND r.service > n.service ORDER BY r.service LIMIT 1)
    FROM names n WHERE n.service IS NOT NULL
)
INSERT INTO hookwire.services (name, made_by, used_on)
SELECT n.service, '', current_date FROM names n WHERE hookwire.is_queue_name(n.service)
ON CONFLICT DO NOTHING;

-- name: put
INSERT INTO hookwire.services AS s (name, lease_seconds, tries_max, idempotent, expiry_seconds, retention_seconds, concurrency_max, without_workers)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (name) DO UPDATE SET lease_seconds = excluded.lease_seconds, tries_max = excluded.tries_max, idempotent = excluded.idempotent,
    expiry_seconds = excluded.expiry_seconds, retention_seconds = excluded.retention_seconds, concurrency_max = excluded.concurrency_max,
    without_workers = excluded.without_workers, made_by = NULL, used_on = NULL
RETURNING s.*;

-- name: get
SELECT s.* FROM hookwire.services s WHERE s.name = $1;

-- name: list
SELECT s.* FROM hookwire.services s WHERE s.name > $1 ORDER BY s.name LIMIT $2;

-- name: disable
WITH changed AS (
    UPDATE hookwire.services s SET disabled = $2, made_by = NULL, used_on = NULL
    FROM (SELECT o.name, o.disabled FROM hookwire.services o WHERE o.name = $1 FOR UPDATE) AS old
    WHERE s.name = old.name RETURNING s.name, old.disabled <> $2 AS has_effect
), noted AS (
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason)
    SELECT 'default', $3, CASE WHEN $2 THEN 'service.disable' ELSE 'service.enable' END, name, $4 FROM changed
)
SELECT name, has_effect FROM changed;

-- name: counts
-- Count the requests of these services, each by the index of the counted rows. The oldest request is the one that has
-- waited longest.
SELECT w.service,
       (SELECT count(*) FROM hookwire.requests r WHERE r.service = w.service AND r.state = 'waiting') AS waiting,
       (SELECT count(*) FROM hookwire.requests r WHERE r.service = w.service AND r.state = 'leased') AS leased,
       (SELECT r.created_at FROM hookwire.requests r WHERE r.service = w.service AND r.state = 'waiting' ORDER BY r.number LIMIT 1) AS oldest_at,
       (SELECT count(*) FROM hookwire.subscriptions x WHERE x.service = w.service AND x.protocol = 'service' AND x.state = 'active') AS callbacks,
       hookwire.has_workers(w.service) AS has_workers
FROM unnest($1::text[]) AS w(service);

-- name: forget_unused
-- Delete up to $2 services that their use made, and that had no call and no worker for $1 days. Requests need no row of
-- their service: without one it has the settings that this row has.
WITH gone AS (
    DELETE FROM hookwire.services WHERE ctid = ANY (ARRAY(
        SELECT v.ctid FROM hookwire.services v
        WHERE (SELECT i.services_auto_create FROM hookwire.installation i) AND v.made_by IS NOT NULL AND v.used_on < current_date - $1::integer
          AND coalesce(v.workers_until, '-infinity') < current_date - $1::integer
          AND NOT EXISTS (SELECT FROM hookwire.requests r WHERE r.service = v.name AND r.state = 'waiting')
        LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING 1
)
SELECT count(*) FROM gone;
