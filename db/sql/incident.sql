-- Incidents: causes of failures, with their states and their counts.

-- name: note
-- Return the incident of each fingerprint, and make those that are new: at most $7 of their own for a subscription.
SELECT place, incident_id, is_other FROM hookwire.note_incidents($1, $2, $3, $4, $5, $6, $7);

-- name: watch
-- Change the states that change by themselves, and tell operators. $1: also look for those of which nothing is left.
SELECT hookwire.watch_incidents($1);

-- name: group_old
-- Give up to $1 dead letters without an incident one of the kind before, by class and status. They died before
-- incidents were known.
WITH letter AS MATERIALIZED (
    SELECT l.event_id, l.subscription_id, l.tenant, l.last_outcome, l.last_status, l.died_at,
           concat_ws(' ', 'before', l.last_outcome, l.last_status) AS fingerprint
    FROM hookwire.dead_letters l
    WHERE l.incident_id IS NULL AND l.last_outcome IS NOT NULL AND l.kind NOT IN ('gone', 'erased')
    ORDER BY l.event_id, l.subscription_id LIMIT $1
    FOR UPDATE SKIP LOCKED
), made AS (
    INSERT INTO hookwire.incidents AS i (tenant, kind, subscription_id, sink, fingerprint, outcome, status, is_told, first_at, last_at)
    SELECT l.tenant, 'before', l.subscription_id, 'webhooks', l.fingerprint, l.last_outcome, l.last_status, true, min(l.died_at), max(l.died_at)
    FROM letter l GROUP BY l.tenant, l.subscription_id, l.fingerprint, l.last_outcome, l.last_status
    ORDER BY l.subscription_id, l.fingerprint
    ON CONFLICT (subscription_id, fingerprint) WHERE subscription_id IS NOT NULL DO UPDATE
    SET first_at = least(i.first_at, excluded.first_at), last_at = greatest(i.last_at, excluded.last_at)
    RETURNING i.id, i.subscription_id, i.fingerprint
), grouped AS (
    UPDATE hookwire.dead_letters d SET incident_id = m.id
    FROM letter l JOIN made m USING (subscription_id, fingerprint)
    WHERE d.event_id = l.event_id AND d.subscription_id = l.subscription_id
    RETURNING 1
)
SELECT count(*) FROM grouped;

-- name: page
-- Return incidents below the number $6, newest first: of the subscription $2, in the states $3, of the kind $4, active
-- ones if $5. Counts go up to 100,000.
SELECT i.*, s.public_id, s.topic, s.callback, s.service, s.kind AS job_kind, n.failures AS unfolded, n.last_at AS unfolded_at,
       n.lately, n.before, w.waiting, l.dead
FROM (
    SELECT x.* FROM hookwire.incidents x
    WHERE x.tenant = $1 AND ($2::bigint IS NULL OR x.subscription_id = $2) AND x.state = ANY ($3::text[])
      AND ($4::text IS NULL OR x.kind = $4) AND (NOT $5::boolean OR x.is_active) AND x.id < $6
    ORDER BY x.id DESC LIMIT $7
) AS i
LEFT JOIN LATERAL (
    SELECT y.public_id, y.topic, y.callback, y.service, y.kind FROM hookwire.subscriptions y WHERE y.id = i.subscription_id LIMIT 1
) AS s ON true
CROSS JOIN LATERAL (
    SELECT coalesce(sum(f.failures), 0)::bigint AS failures, max(f.last_at) AS last_at,
           coalesce(sum(f.failures) FILTER (WHERE f.minute > now() - interval '5 minutes'), 0)::bigint AS lately,
           coalesce(sum(f.failures) FILTER (WHERE f.minute <= now() - interval '5 minutes' AND f.minute > now() - interval '65 minutes'), 0)::bigint AS before
    FROM hookwire.incident_failures f WHERE f.incident_id = i.id
) AS n
CROSS JOIN LATERAL (
    SELECT CASE WHEN i.kind = 'held' THEN (
               SELECT count(*) FROM (
                   SELECT FROM hookwire.holds h JOIN hookwire.held r USING (sink, grp, tenant, topic, key)
                   WHERE h.tenant = i.tenant AND h.sink = i.sink AND h.reason = i.outcome LIMIT 100001) AS few)
           ELSE (SELECT count(*) FROM (SELECT FROM hookwire.deliveries d WHERE d.incident_id = i.id LIMIT 100001) AS few) END AS waiting
) AS w
CROSS JOIN LATERAL (
    SELECT count(*) AS dead FROM (SELECT FROM hookwire.dead_letters d WHERE d.incident_id = i.id LIMIT 100001) AS few
) AS l
ORDER BY i.id DESC;

-- name: get
-- Return the incident $2 without counts.
SELECT i.*, s.public_id, s.topic, s.callback, s.service, s.kind AS job_kind
FROM hookwire.incidents i LEFT JOIN hookwire.subscriptions s ON s.id = i.subscription_id
WHERE i.tenant = $1 AND i.id = $2;

-- name: minutes
-- Return the failures of the last 65 minutes.
SELECT f.minute AS at, f.failures FROM hookwire.incident_failures f
WHERE f.incident_id = $1 AND f.minute > now() - interval '65 minutes' ORDER BY f.minute;

-- name: set_state
-- Give the incident $2 the state $3. The notice is published in the same statement. No row: it has this state already.
WITH turned AS (
    UPDATE hookwire.incidents i SET state = $3, changed_at = now(), actor = $4, reason = $5, is_told = true
    WHERE i.tenant = $1 AND i.id = $2 AND i.state <> $3
    RETURNING i.*
), audited AS (
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason)
    SELECT $1, $4, 'incident.' || $6, 'inc_' || t.id, $5 FROM turned t
)
SELECT t.id, hookwire.tell_operators(array_remove(ARRAY[
           hookwire.incident_notice('incident.' || $3, ROW(t.*)::hookwire.incidents) || jsonb_build_object('actor', $4::text)], NULL)) AS told
FROM turned t;

-- name: letter
-- Return the oldest dead letter of the incident $2 whose event has its contents, or the one of event $3 and
-- subscription $4.
SELECT d.event_id, d.subscription_id, s.version, s.protocol, s.callback
FROM hookwire.dead_letters d
JOIN hookwire.subscriptions s ON s.id = d.subscription_id
JOIN hookwire.events e ON e.id = d.event_id AND e.erased_at IS NULL
WHERE d.tenant = $1 AND d.incident_id = $2
  AND ($3::bigint IS NULL OR (d.event_id = $3 AND d.subscription_id = $4::bigint))
ORDER BY d.event_id, d.subscription_id LIMIT 1;

-- name: audit_probe
INSERT INTO hookwire.audit (tenant, actor, action, subject, reason) VALUES ($1, $2, 'incident.probe', $3, $4);

-- name: record_probe
-- Store the attempt of a probe. $4: it was delivered as it is, and the dead letter is gone with it. Nothing of the answer
-- is stored where the event was erased meanwhile. The event is locked, so that no erasure begins before the commit.
WITH event AS MATERIALIZED (
    SELECT x.id, x.erased_at FROM hookwire.events x WHERE x.id BETWEEN $2 AND $2 ORDER BY x.id LIMIT 1 FOR SHARE OF x
), kept AS MATERIALIZED (
    SELECT EXISTS (SELECT FROM event e WHERE e.erased_at IS NULL) AS is_kept
), ended AS (
    DELETE FROM hookwire.dead_letters d
    WHERE d.tenant = $1 AND d.event_id = $2 AND d.subscription_id = $3 AND $4::boolean
), logged AS (
    INSERT INTO hookwire.attempts (event_id, subscription_id, number, tenant, started_at, outcome, status, connect_seconds,
        first_byte_seconds, total_seconds, decision, trigger, worker, address, detail, response_headers, response_body)
    SELECT $2, $3,
           1 + greatest(
               coalesce((SELECT max(a.number) FROM hookwire.attempts a WHERE a.event_id = $2 AND a.subscription_id = $3), 0),
               coalesce((SELECT l.attempts FROM hookwire.dead_letters l WHERE l.event_id = $2 AND l.subscription_id = $3), 0)),
           $1, $6, $7, $8, $9, $10, $11, CASE WHEN $4::boolean THEN 'delivered' ELSE 'probe' END, $5, $16, $12,
           CASE WHEN k.is_kept THEN $13 END, CASE WHEN k.is_kept THEN $14::text::jsonb END, CASE WHEN k.is_kept THEN $15::bytea END
    FROM kept k
    ON CONFLICT DO NOTHING
    RETURNING subscription_id, total_seconds, decision
)
INSERT INTO hookwire.attempt_entries (subscription_ids, seconds, ages)
SELECT ARRAY[l.subscription_id], ARRAY[coalesce(nullif(l.total_seconds, 0), -1)], ARRAY[CASE l.decision WHEN 'delivered' THEN -1 END]::real[] FROM logged l;

