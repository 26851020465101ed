-- Topics: created by their first publish or by a request; their settings.

-- name: use
-- Return whether the topic has a row, and note that it is in use today. A row that somebody has locked is not noted.
WITH noted AS (
    UPDATE hookwire.topics SET used_on = current_date WHERE ctid = (
        SELECT x.ctid FROM hookwire.topics x WHERE x.tenant = 'default' AND x.name = $1 AND x.used_on < current_date FOR UPDATE SKIP LOCKED)
)
SELECT EXISTS (SELECT FROM hookwire.topics x WHERE x.tenant = 'default' AND x.name = $1);

-- name: ensure
-- Create the row of a topic at its first use by the key $2, outside every publishing transaction.
INSERT INTO hookwire.topics (tenant, name, made_by, used_on) VALUES ('default', $1, $2, current_date) ON CONFLICT DO NOTHING;

-- name: room
-- Return how many more topics the key $1 may make by using them, and the limit that decides. Empty: without a key.
SELECT least(l.of_key, l.of_all) AS room, l.of_key < l.of_all AS is_of_key,
       CASE WHEN l.of_key < l.of_all THEN l.names_per_key_max ELSE l.names_max END AS most
FROM (SELECT i.names_per_key_max, i.names_max,
             CASE WHEN $1 <> '' THEN i.names_per_key_max - (SELECT count(*) FROM (
                 SELECT FROM hookwire.topics x WHERE x.made_by = $1 LIMIT i.names_per_key_max) AS own) END AS of_key,
             i.names_max - (SELECT count(*) FROM (
                 SELECT FROM hookwire.topics x WHERE x.made_by IS NOT NULL LIMIT i.names_max) AS own) AS of_all
      FROM hookwire.installation i) AS l;

-- name: ensure_inner
-- Ensure a topic of the hub's own whose events go to webhooks alone and are kept for a day.
INSERT INTO hookwire.topics (tenant, name, sinks, ordered, retention_days) VALUES ($1, $2, '{webhooks}', false, 1)
ON CONFLICT DO NOTHING;

-- name: moved_to
SELECT moved_to FROM hookwire.topics WHERE tenant = $1 AND name = $2;

-- name: get
SELECT name, sinks, ordered, kafka_topic, amqp_exchange, amqp_routing_key, on_refused, validator_url, moved_to, retention_days,
       CASE WHEN 'jobs' = ANY (sinks) THEN job END AS job, version, created_at, updated_at
FROM hookwire.topics WHERE tenant = $1 AND name = $2;

-- name: list
-- max(id) alone uses the index of topics. With other columns the planner walks the primary key backwards, past every
-- later event of other topics (700 ms for ten topics and 360,000 events). $4 is how the name begins, $5 an expression for it.
SELECT t.name, t.sinks, t.ordered, t.created_at, last.id AS last_id, e.accepted_at AS last_accepted_at
FROM (SELECT * FROM hookwire.topics x WHERE x.tenant = $1 AND x.name > $2 AND ($4::text IS NULL OR starts_with(x.name, $4))
        AND ($5::text IS NULL OR x.name ~ $5) ORDER BY x.name LIMIT $3) AS t
LEFT JOIN LATERAL (SELECT max(y.id) AS id FROM hookwire.events y WHERE y.tenant = t.tenant AND y.topic = t.name) AS last ON true
LEFT JOIN hookwire.events e ON e.id = last.id
ORDER BY t.name;

-- name: put
-- Change nothing when $12 names a version that is not the present one. The rule of jobs stays for waiting events.
INSERT INTO hookwire.topics AS t (tenant, name, sinks, ordered, kafka_topic, amqp_exchange, amqp_routing_key, on_refused,
                                 validator_url, moved_to, retention_days, job)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $13::text::jsonb)
ON CONFLICT (tenant, name) DO UPDATE SET sinks = excluded.sinks, ordered = excluded.ordered,
    kafka_topic = excluded.kafka_topic, amqp_exchange = excluded.amqp_exchange,
    amqp_routing_key = excluded.amqp_routing_key, on_refused = excluded.on_refused,
    validator_url = excluded.validator_url, moved_to = excluded.moved_to, retention_days = excluded.retention_days,
    job = coalesce(excluded.job, t.job), version = t.version + 1, updated_at = now(), made_by = NULL, used_on = NULL
WHERE t.version = coalesce($12, t.version)
RETURNING name, sinks, ordered, kafka_topic, amqp_exchange, amqp_routing_key, on_refused, validator_url, moved_to, retention_days,
          CASE WHEN 'jobs' = ANY (sinks) THEN job END AS job, version, created_at, updated_at;

-- name: set_sinks
-- NULL leaves the sinks as they are.
UPDATE hookwire.topics SET sinks = $3, version = version + 1, updated_at = now(), made_by = NULL, used_on = NULL
WHERE tenant = $1 AND name = $2 AND $3::text[] IS NOT NULL AND sinks IS DISTINCT FROM $3;

-- name: forget_unused
-- Delete up to $2 topics that their use made, and that had no event and no subscriber for $1 days. None is deleted while
-- a broker is owed an event as old.
WITH old AS MATERIALIZED (
    SELECT coalesce(max(w.last_id), 0) AS through_id FROM hookwire.id_watermarks w WHERE w.day < current_date - $1::integer
), gone AS (
    DELETE FROM hookwire.topics WHERE ctid = ANY (ARRAY(
        SELECT t.ctid FROM old, hookwire.topics t
        WHERE (SELECT i.topics_auto_create FROM hookwire.installation i) AND t.made_by IS NOT NULL
          AND t.used_on < current_date - $1::integer
          AND NOT EXISTS (SELECT FROM hookwire.subscriptions s
                          WHERE s.tenant = t.tenant AND s.topic = t.name AND s.state = 'active' AND s.topic_regex IS NULL)
          AND coalesce((SELECT max(e.id) FROM hookwire.events e WHERE e.tenant = t.tenant AND e.topic = t.name), 0) <= old.through_id
          AND NOT EXISTS (SELECT FROM hookwire.sinks k CROSS JOIN generate_series(0, 63) AS g(shard) CROSS JOIN LATERAL (
                              SELECT x.id FROM hookwire.outbox x WHERE x.sink = k.name AND x.shard = g.shard ORDER BY x.id LIMIT 1) AS o
                          WHERE o.id <= old.through_id)
          AND NOT EXISTS (SELECT FROM hookwire.sinks k JOIN hookwire.held h ON h.sink = k.name AND h.id <= old.through_id)
        LIMIT $2 FOR UPDATE OF t SKIP LOCKED)) RETURNING 1
)
SELECT count(*) FROM gone;
