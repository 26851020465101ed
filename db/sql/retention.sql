-- Retention: delete events whose time is over, with their attempts, unless something still needs them (RR-05, WH-P08).
--
-- Needed are events that a broker or a subscription is still owed, and those of kept dead letters. Also needed are the
-- latest event of each topic, and events that the ledger has not counted yet. A topic may keep its events longer. The
-- last id of a day dates all ids before it.

-- name: topics
-- Return topics that keep their events for a limited time of their own.
SELECT name, retention_days FROM hookwire.topics WHERE tenant = 'default' AND retention_days > 0 ORDER BY name;

-- name: bounds
-- Events up to through_id are old enough. Delete the rows of those up to delete_id. Where a whole partition is soon old
-- enough, leave it to be dropped in one piece.
SELECT b.through_id,
       CASE WHEN 7 * b.ids_per_day < $2::bigint THEN b.through_id ELSE (b.through_id / $2) * $2 - 1 END AS delete_id
FROM (SELECT least(coalesce((SELECT max(w.last_id) FROM hookwire.id_watermarks w WHERE w.day < current_date - $1::integer), 0),
                   c.through_id) AS through_id, -- least() ignores a NULL: "nothing is old yet" must not become "everything is"
             hookwire.ids_per_day() AS ids_per_day
      FROM hookwire.ledger_cursor c) AS b;

-- name: purge_events
-- Read up to $3 events after $1, up to $2, of topic $4 or (NULL) of all, and delete those that nothing needs. Return
-- the last event that was read. There are two branches, of which one is empty, because each has an index of its own.
WITH old AS MATERIALIZED (
    (SELECT e.id, e.tenant, e.topic FROM hookwire.events e
     WHERE $4::text IS NULL AND e.id > $1 AND e.id <= $2 ORDER BY e.id LIMIT $3)
    UNION ALL
    (SELECT e.id, e.tenant, e.topic FROM hookwire.events e
     WHERE e.tenant = 'default' AND e.topic = $4::text AND e.id > $1 AND e.id <= $2 ORDER BY e.id LIMIT $3)
), kept AS MATERIALIZED (
    -- No watermark is old enough. With coalesce, no event of the topic is old enough, instead of every event.
    SELECT t.tenant, t.name, CASE t.retention_days WHEN 0 THEN 0 ELSE coalesce(
               (SELECT max(w.last_id) FROM hookwire.id_watermarks w WHERE w.day < current_date - t.retention_days), 0) END AS through_id
    FROM hookwire.topics t WHERE t.retention_days IS NOT NULL
), span AS MATERIALIZED (
    SELECT min(id) AS low, max(id) AS high FROM old
), owed AS MATERIALIZED (
    SELECT o.id FROM span CROSS JOIN hookwire.sinks s CROSS JOIN generate_series(0, 63) AS g(shard) CROSS JOIN LATERAL (
        SELECT x.id FROM hookwire.outbox x WHERE x.sink = s.name AND x.shard = g.shard AND x.id BETWEEN span.low AND span.high) AS o
    UNION ALL
    SELECT h.id FROM span CROSS JOIN hookwire.sinks s JOIN hookwire.held h ON h.sink = s.name AND h.id BETWEEN span.low AND span.high
    UNION ALL
    SELECT r.id FROM span, hookwire.ledger_entries n CROSS JOIN LATERAL unnest(n.ids) AS r(id) WHERE r.id BETWEEN span.low AND span.high
), gone AS (
    DELETE FROM hookwire.events e USING old o
    WHERE e.id = o.id
      AND NOT EXISTS (SELECT FROM owed w WHERE w.id = o.id)
      AND NOT EXISTS (SELECT FROM hookwire.deliveries d WHERE d.event_id = o.id)
      AND NOT EXISTS (SELECT FROM hookwire.dead_letters l WHERE l.event_id = o.id)
      AND NOT EXISTS (SELECT FROM hookwire.relay_dead_letters l WHERE l.event_id = o.id)
      AND NOT EXISTS (SELECT FROM hookwire.fanout_cursors c WHERE c.event_id = o.id)
      AND EXISTS (SELECT FROM hookwire.events n WHERE n.tenant = o.tenant AND n.topic = o.topic AND n.id > o.id)
      AND NOT EXISTS (SELECT FROM kept k WHERE k.tenant = o.tenant AND k.name = o.topic AND o.id > k.through_id)
    RETURNING e.id
), unlogged AS (
    DELETE FROM hookwire.attempts a USING gone g WHERE a.event_id = g.id
)
SELECT (SELECT high FROM span) AS last_id, (SELECT count(*) FROM old) AS examined, (SELECT count(*) FROM gone) AS purged;

-- name: purge_dead_letters
-- Read up to $3 dead letters of events after $1, up to $2, and delete those that died more than $4 days ago. The last
-- event may have more of them than were read. So the next walk begins with that event as long as some are deleted.
WITH old AS MATERIALIZED (
    SELECT l.event_id, l.subscription_id, l.died_at FROM hookwire.dead_letters l
    WHERE l.event_id > $1 AND l.event_id <= $2 ORDER BY l.event_id LIMIT $3
), gone AS (
    DELETE FROM hookwire.dead_letters l USING old o
    WHERE l.event_id = o.event_id AND l.subscription_id = o.subscription_id AND o.died_at < now() - make_interval(days => $4::integer)
    RETURNING l.event_id
)
SELECT l.event_id - EXISTS (SELECT FROM gone g WHERE g.event_id = l.event_id)::integer AS last_id,
       (SELECT count(*) FROM old) AS examined, (SELECT count(*) FROM gone) AS purged
FROM (SELECT max(o.event_id) AS event_id FROM old o) AS l;

-- name: purge_relay_dead_letters
-- As purge_dead_letters, for brokers.
WITH old AS MATERIALIZED (
    SELECT l.event_id, l.sink, l.died_at FROM hookwire.relay_dead_letters l
    WHERE l.event_id > $1 AND l.event_id <= $2 ORDER BY l.event_id LIMIT $3
), gone AS (
    DELETE FROM hookwire.relay_dead_letters l USING old o
    WHERE l.event_id = o.event_id AND l.sink = o.sink AND o.died_at < now() - make_interval(days => $4::integer)
    RETURNING l.event_id
)
SELECT l.event_id - EXISTS (SELECT FROM gone g WHERE g.event_id = l.event_id)::integer AS last_id,
       (SELECT count(*) FROM old) AS examined, (SELECT count(*) FROM gone) AS purged
FROM (SELECT max(o.event_id) AS event_id FROM old o) AS l;

-- name: partitions
-- Return partitions that lie wholly up to $1, lowest first. Return whether a detach was interrupted, and whether
-- nothing needs any event of it.
SELECT p.parent, p.name, p.pending, p.high,
       p.pending OR NOT (
           EXISTS (SELECT FROM hookwire.deliveries d WHERE d.event_id >= p.low AND d.event_id < p.high)
        OR EXISTS (SELECT FROM hookwire.dead_letters l WHERE l.event_id >= p.low AND l.event_id < p.high)
        OR EXISTS (SELECT FROM hookwire.relay_dead_letters l WHERE l.event_id >= p.low AND l.event_id < p.high)
        OR EXISTS (SELECT FROM hookwire.fanout_cursors c WHERE c.event_id >= p.low AND c.event_id < p.high)
        OR EXISTS (SELECT FROM hookwire.sinks s CROSS JOIN generate_series(0, 63) AS g(shard) CROSS JOIN LATERAL (
                       SELECT FROM hookwire.outbox x
                       WHERE x.sink = s.name AND x.shard = g.shard AND x.id >= p.low AND x.id < p.high LIMIT 1) AS o)
        OR EXISTS (SELECT FROM hookwire.sinks s JOIN hookwire.held h ON h.sink = s.name AND h.id >= p.low AND h.id < p.high)
        OR EXISTS (SELECT FROM hookwire.ledger_entries n CROSS JOIN LATERAL unnest(n.ids) AS r(id)
                   WHERE r.id >= p.low AND r.id < p.high)
        OR EXISTS (SELECT FROM hookwire.topics t
                   WHERE NOT EXISTS (SELECT FROM hookwire.events e WHERE e.tenant = t.tenant AND e.topic = t.name AND e.id >= p.high)
                     AND EXISTS (SELECT FROM hookwire.events e WHERE e.tenant = t.tenant AND e.topic = t.name
                                 AND e.id >= p.low AND e.id < p.high))
        OR EXISTS (SELECT FROM hookwire.topics t
                   WHERE t.retention_days IS NOT NULL
                     AND EXISTS (SELECT FROM hookwire.events e WHERE e.tenant = t.tenant AND e.topic = t.name
                                 AND e.id >= p.low AND e.id < p.high
                                 AND e.id > CASE t.retention_days WHEN 0 THEN 0 ELSE coalesce(
                                     (SELECT max(w.last_id) FROM hookwire.id_watermarks w
                                      WHERE w.day < current_date - t.retention_days), 0) END))
       ) AS is_free
FROM (SELECT i.inhparent::regclass::text AS parent, c.oid::regclass::text AS name, i.inhdetachpending AS pending,
             substring(pg_get_expr(c.relpartbound, c.oid) FROM 'FROM \(''(\d+)''\)')::bigint AS low,
             substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''(\d+)''\)')::bigint AS high
      FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
      WHERE i.inhparent IN ('hookwire.events'::regclass, 'hookwire.attempts'::regclass)) AS p
WHERE p.high <= $1 + 1
ORDER BY p.low, p.parent;

-- name: orphans
-- Return partitions that were detached and not dropped yet.
SELECT c.oid::regclass::text AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'hookwire' AND c.relkind = 'r' AND c.relname ~ '^(events|attempts)_[0-9]{8}$' AND NOT c.relispartition;
