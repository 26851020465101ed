-- Services: their settings, their workers and their waiting requests.

-- name: ensure
-- Create the row of a service at its first use, outside any foreign transaction.
INSERT INTO hookwire.services (name) SELECT $1 WHERE hookwire.is_queue_name($1) AND (SELECT i.services_auto_create FROM hookwire.installation i)
ON CONFLICT DO NOTHING;

-- name: announce
-- Record that these services have workers at a broker for so many seconds.
INSERT INTO hookwire.services AS s (name, workers_until)
SELECT u.name, clock_timestamp() + make_interval(secs => $2::double precision) FROM unnest($1::text[]) AS u(name)
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
INSERT INTO hookwire.services (name) SELECT n.service FROM names n WHERE hookwire.is_queue_name(n.service)
ON CONFLICT DO NOTHING;

-- name: put
INSERT INTO hookwire.services AS s (name, lease_seconds, tries_max, idempotent, expiry_seconds, retention_seconds, concurrency_max, without_workers)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (name) DO UPDATE SET lease_seconds = excluded.lease_seconds, tries_max = excluded.tries_max, idempotent = excluded.idempotent,
    expiry_seconds = excluded.expiry_seconds, retention_seconds = excluded.retention_seconds, concurrency_max = excluded.concurrency_max,
    without_workers = excluded.without_workers
RETURNING s.*;

-- name: get
SELECT s.* FROM hookwire.services s WHERE s.name = $1;

-- name: list
SELECT s.* FROM hookwire.services s WHERE s.name > $1 ORDER BY s.name LIMIT $2;

-- name: disable
WITH changed AS (
    UPDATE hookwire.services s SET disabled = $2
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
