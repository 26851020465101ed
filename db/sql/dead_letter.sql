-- Dead letters: deliveries and records that were given up. They are kept with their reason until they are retried or
-- purged. There are two kinds: of webhooks (event and subscription) and of brokers (event and sink).

-- name: page
-- Newest event first. A broker's dead letters come after the subscriptions' of the same event. Each branch has its own
-- limit. Deliveries that ended with their subscription or their contents ask for no action: only their kind names them.
SELECT * FROM (
    (SELECT 0::bigint AS subscription, r.event_id, r.sink, NULL::text AS subscription_id, NULL::text AS callback, r.topic, r.key,
            'refused' AS kind, 0 AS attempts, NULL::smallint AS last_status, r.reason AS last_outcome, r.detail, r.died_at,
            NULL::bigint AS incident_id
     FROM hookwire.relay_dead_letters r
     WHERE r.tenant = $1 AND ($2::text IS NULL OR r.sink = $2) AND $3::bigint IS NULL AND $10::bigint IS NULL
       AND ($4::text IS NULL OR $4 = 'refused') AND (r.event_id, 0::bigint, r.sink) < ($5, $6, $7)
       AND r.event_id >= $9
     ORDER BY r.event_id DESC, r.sink DESC LIMIT $8)
    UNION ALL
    (SELECT d.subscription_id, d.event_id, 'webhooks', s.public_id, s.callback, e.topic, e.key,
            d.kind, d.attempts, d.last_status, d.last_outcome, d.detail, d.died_at, d.incident_id
     FROM hookwire.dead_letters d
     JOIN hookwire.subscriptions s ON s.id = d.subscription_id
     LEFT JOIN hookwire.events e ON e.id = d.event_id
     WHERE d.tenant = $1 AND ($2::text IS NULL OR $2 = 'webhooks') AND ($3::bigint IS NULL OR d.subscription_id = $3)
       AND CASE WHEN $4::text IS NULL THEN d.kind NOT IN ('gone', 'erased') ELSE d.kind = $4 END
       AND (d.event_id, d.subscription_id, 'webhooks') < ($5, $6, $7)
       AND d.event_id >= $9 AND ($10::bigint IS NULL OR d.incident_id = $10)
     ORDER BY d.event_id DESC, d.subscription_id DESC LIMIT $8)
) AS every
ORDER BY event_id DESC, subscription DESC, sink DESC
LIMIT $8;

-- name: get_record
SELECT r.event_id, r.sink, NULL AS subscription_id, NULL AS callback, r.topic, r.key, 'refused' AS kind, 0 AS attempts, NULL::smallint AS last_status,
       r.reason AS last_outcome, r.detail, r.died_at, NULL::bigint AS incident_id
FROM hookwire.relay_dead_letters r WHERE r.tenant = $1 AND r.event_id = $2 AND r.sink = $3;

-- name: get_delivery
SELECT d.subscription_id AS subscription, d.event_id, 'webhooks' AS sink, s.public_id AS subscription_id, s.callback, e.topic, e.key, d.kind, d.attempts,
       d.last_status, d.last_outcome, d.detail, d.died_at, d.incident_id
FROM hookwire.dead_letters d
JOIN hookwire.subscriptions s ON s.id = d.subscription_id
LEFT JOIN hookwire.events e ON e.id = d.event_id
WHERE d.tenant = $1 AND d.event_id = $2 AND d.subscription_id = $3;

-- name: retry_record
-- Send the record again, behind a hold of its own whose probe is due. As an outbox row, its old id would lie below the
-- low-water mark.
WITH event AS MATERIALIZED (
    SELECT e.erased_at FROM hookwire.events e WHERE e.id = $2 FOR SHARE -- an erasure waits, or is seen
), taken AS (
    DELETE FROM hookwire.relay_dead_letters r WHERE r.tenant = $1 AND r.event_id = $2 AND r.sink = $3
      AND NOT EXISTS (SELECT FROM event WHERE erased_at IS NOT NULL)
    RETURNING r.*, (r.shard % (SELECT hookwire.groups_of(i.layout, r.sink) FROM hookwire.installation i))::smallint AS grp
), held AS (
    INSERT INTO hookwire.held (sink, grp, tenant, topic, key, id, shard, layout)
    SELECT t.sink, t.grp, t.tenant, t.topic, chr(31) || t.event_id, t.event_id, t.shard, t.layout FROM taken t
    ON CONFLICT DO NOTHING
), placed AS (
    INSERT INTO hookwire.holds AS h (sink, grp, tenant, topic, key, reason, detail, probe_at)
    SELECT t.sink, t.grp, t.tenant, t.topic, chr(31) || t.event_id, 'replay', t.detail, clock_timestamp() FROM taken t
    ON CONFLICT (sink, grp, tenant, topic, key) DO UPDATE SET probe_at = clock_timestamp()
), noted AS (
    INSERT INTO hookwire.ledger_entries (sink, outcome, ids) SELECT t.sink, 'revived', ARRAY[t.event_id] FROM taken t
)
INSERT INTO hookwire.audit (tenant, actor, action, subject, reason)
SELECT $1, $4, 'dead_letter.retry', 'dead_' || t.sink || '_' || t.event_id, $5 FROM taken t
RETURNING id;

-- name: purge_record
WITH taken AS (
    DELETE FROM hookwire.relay_dead_letters r WHERE r.tenant = $1 AND r.event_id = $2 AND r.sink = $3
    RETURNING r.*
)
INSERT INTO hookwire.audit (tenant, actor, action, subject, reason)
SELECT $1, $4, 'dead_letter.purge', 'dead_' || t.sink || '_' || t.event_id, $5 FROM taken t
RETURNING id;

-- name: purge_delivery
WITH taken AS (
    DELETE FROM hookwire.dead_letters d WHERE d.tenant = $1 AND d.event_id = $2 AND d.subscription_id = $3
    RETURNING d.*
)
INSERT INTO hookwire.audit (tenant, actor, action, subject, reason)
SELECT $1, $4, 'dead_letter.purge', 'dlv_' || t.event_id || '_' || t.subscription_id, $5 FROM taken t
RETURNING id;

-- name: retry_delivery
-- Replay one delivery. Its event must still exist with its contents, and its subscription must not have ended.
WITH dead AS MATERIALIZED (
    SELECT d.event_id, d.subscription_id, e.tenant, CASE WHEN s.ordered THEN e.key END AS lane, d.attempts
    FROM hookwire.dead_letters d
    JOIN hookwire.events e ON e.id = d.event_id AND e.erased_at IS NULL
    JOIN hookwire.subscriptions s ON s.id = d.subscription_id AND s.state IN ('active', 'disabled')
    WHERE d.tenant = $1 AND d.event_id = $2 AND d.subscription_id = $3
    FOR UPDATE OF d FOR SHARE OF e
), made AS (
    INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant, lane, attempts, free_attempts, replay_id)
    SELECT t.event_id, t.subscription_id, now(), now(), t.tenant, t.lane, p.number, p.number, 0
    FROM dead t CROSS JOIN LATERAL (
        SELECT greatest(t.attempts, coalesce(max(a.number), 0)) AS number FROM hookwire.attempts a
        WHERE a.event_id = t.event_id AND a.subscription_id = t.subscription_id) AS p
    ON CONFLICT DO NOTHING
), gone AS (
    DELETE FROM hookwire.dead_letters d USING dead t
    WHERE d.event_id = t.event_id AND d.subscription_id = t.subscription_id
)
INSERT INTO hookwire.audit (tenant, actor, action, subject, reason)
SELECT $1, $4, 'dead_letter.retry', 'dlv_' || t.event_id || '_' || t.subscription_id, $5 FROM dead t
RETURNING id;
