-- Layouts: the number of partition groups of each sink, and the order scope (RR-11). relay.layout changes them.

-- name: lock
-- Allow one change at a time. The lock ends with the session.
SELECT pg_try_advisory_lock(1215262571, -5);

-- name: current
SELECT l.number, l.groups::text AS groups, l.order_scope FROM hookwire.installation i JOIN hookwire.layouts l ON l.number = i.layout;

-- name: sinks
-- Return the sinks that have leases or get events.
SELECT s.name FROM hookwire.sinks s
WHERE s.configured OR EXISTS (SELECT FROM hookwire.relay_terms t WHERE t.sink = s.name) ORDER BY s.name;

-- name: waiting
-- Count per sink, up to $1, the records in the outbox and those behind holds.
SELECT s.name AS sink, (SELECT count(*) FROM (SELECT FROM hookwire.outbox o WHERE o.sink = s.name LIMIT $1) AS few) AS owed,
       (SELECT count(*) FROM (SELECT FROM hookwire.held h WHERE h.sink = s.name LIMIT $1) AS few) AS held
FROM hookwire.sinks s ORDER BY s.name;

-- name: leases
SELECT t.sink, t.grp, t.term, t.is_open, t.layout,
       CASE WHEN t.lease_until > clock_timestamp() THEN t.owner END AS owner
FROM hookwire.relay_terms t ORDER BY t.sink, t.grp;

-- name: set_leases_open
-- Close or open the leases of these sinks. The holder of a closed lease finishes the records in flight and releases it.
WITH turned AS (
    UPDATE hookwire.relay_terms SET is_open = $2 WHERE sink = ANY ($1::text[]) AND is_open <> $2 RETURNING 1
)
SELECT count(*), pg_notify('hookwire_relay', '') FROM turned;

-- name: occupied
-- Return closed leases that are still held. A silent holder counts until a little after the end of its lease.
SELECT DISTINCT t.owner FROM hookwire.relay_terms t
WHERE t.sink = ANY ($1::text[]) AND t.owner IS NOT NULL AND t.lease_until > clock_timestamp() - interval '3 seconds'
ORDER BY t.owner;

-- name: raise
-- Raise the terms of free leases. The database refuses their former holders from now on.
UPDATE hookwire.relay_terms t SET term = t.term + 1, owner = NULL, member = NULL, lease_until = '-infinity'
WHERE t.sink = ANY ($1::text[]) AND NOT t.is_open
RETURNING t.sink, t.grp, t.term, t.layout, t.batch_no, hookwire.groups_of(t.layout, t.sink) AS groups;

-- name: stop_publishing
-- Wait for every transaction that publishes, and make others wait until the change is committed.
LOCK TABLE hookwire.installation IN ACCESS EXCLUSIVE MODE;

-- name: order_by_key
CREATE OR REPLACE FUNCTION hookwire.lane_digest(topic text, key text) RETURNS bytea
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN hookwire.key_digest('', key);

-- name: order_by_topic_key
CREATE OR REPLACE FUNCTION hookwire.lane_digest(topic text, key text) RETURNS bytea
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN hookwire.key_digest(topic, key);

-- name: hash_owed
UPDATE hookwire.outbox o SET shard = hookwire.shard_of(hookwire.lane_digest(e.topic, e.key))
FROM hookwire.events e
WHERE e.id = o.id AND e.key IS NOT NULL AND e.ordered
  AND o.shard <> hookwire.shard_of(hookwire.lane_digest(e.topic, e.key));

-- name: holds
-- Count the keys and topics that wait.
SELECT count(*) FROM hookwire.holds;

-- name: add
WITH made AS (
    INSERT INTO hookwire.layouts (number, groups, order_scope, hash_version)
    SELECT i.layout + 1, $1::text::jsonb, $2, 1 FROM hookwire.installation i
    RETURNING number
)
UPDATE hookwire.installation i SET layout = made.number FROM made RETURNING i.layout;

-- name: move_held
UPDATE hookwire.held h SET grp = h.shard % hookwire.groups_of($2, h.sink) WHERE h.sink = ANY ($1::text[]);

-- name: spread_holds
-- Each group that has waiting records of a held topic holds the topic. A key is held by its own group.
INSERT INTO hookwire.holds (sink, grp, tenant, topic, key, reason, detail, attempts, since, probe_at)
SELECT DISTINCT ON (w.sink, w.grp, w.tenant, w.topic, w.key)
       w.sink, w.grp, w.tenant, w.topic, w.key, o.reason, o.detail, o.attempts, o.since, o.probe_at
FROM (SELECT DISTINCT h.sink, h.grp, h.tenant, h.topic, h.key FROM hookwire.held h WHERE h.sink = ANY ($1::text[])) AS w
JOIN hookwire.holds o USING (sink, tenant, topic, key)
ORDER BY w.sink, w.grp, w.tenant, w.topic, w.key, o.since
ON CONFLICT DO NOTHING;

-- name: drop_holds
DELETE FROM hookwire.holds o
WHERE o.sink = ANY ($1::text[])
  AND (SELECT h.id FROM hookwire.held h WHERE h.sink = o.sink AND h.grp = o.grp AND h.tenant = o.tenant
       AND h.topic = o.topic AND h.key = o.key LIMIT 1) IS NULL;

-- name: ensure_leases
-- Create the leases of layout $2, open, with terms above all earlier ones.
WITH gone AS (
    DELETE FROM hookwire.relay_terms t WHERE t.sink = ANY ($1::text[]) AND t.grp >= hookwire.groups_of($2, t.sink)
), forgotten AS (
    DELETE FROM hookwire.relay_batch_numbers n WHERE n.sink = ANY ($1::text[]) AND n.layout < $2
), highest AS MATERIALIZED (
    SELECT s.name, coalesce((SELECT max(t.term) FROM hookwire.relay_terms t WHERE t.sink = s.name), 0) AS term
    FROM unnest($1::text[]) AS s(name)
)
INSERT INTO hookwire.relay_terms AS t (sink, grp, layout, term)
SELECT h.name, g.grp, $2, h.term + 1
FROM highest h CROSS JOIN LATERAL generate_series(0, hookwire.groups_of($2, h.name) - 1) AS g(grp)
ON CONFLICT (sink, grp) DO UPDATE
SET layout = excluded.layout, term = excluded.term, batch_no = 0, owner = NULL, member = NULL, lease_until = '-infinity',
    is_open = true;

-- name: audit
INSERT INTO hookwire.audit (tenant, actor, action, subject, reason, records) VALUES ('default', $1, 'layout.change', $2, $3, 0);
