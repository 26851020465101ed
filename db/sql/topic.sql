-- Topics: created by their first publish, or by hand; their settings.

-- name: ensure
INSERT INTO hookwire.topics (tenant, name) SELECT $1, unnest($2::text[]) ON CONFLICT DO NOTHING;

-- name: known
SELECT name FROM hookwire.topics WHERE tenant = $1 AND name = ANY ($2::text[]);

-- name: get
SELECT name, sinks, ordered, kafka_topic, amqp_exchange, amqp_routing_key, created_at, updated_at
FROM hookwire.topics WHERE tenant = $1 AND name = $2;

-- name: list
SELECT t.name, t.sinks, t.ordered, t.created_at, last.id AS last_id, last.accepted_at AS last_accepted_at
FROM hookwire.topics t
LEFT JOIN LATERAL (SELECT e.id, e.accepted_at FROM hookwire.events e
                   WHERE e.tenant = t.tenant AND e.topic = t.name ORDER BY e.id DESC LIMIT 1) AS last ON true
WHERE t.tenant = $1 AND t.name > $2
ORDER BY t.name LIMIT $3;

-- name: put
INSERT INTO hookwire.topics AS t (tenant, name, sinks, ordered, kafka_topic, amqp_exchange, amqp_routing_key)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (tenant, name) DO UPDATE SET sinks = excluded.sinks, ordered = excluded.ordered,
    kafka_topic = excluded.kafka_topic, amqp_exchange = excluded.amqp_exchange,
    amqp_routing_key = excluded.amqp_routing_key, updated_at = now()
RETURNING name, sinks, ordered, kafka_topic, amqp_exchange, amqp_routing_key, created_at, updated_at;
