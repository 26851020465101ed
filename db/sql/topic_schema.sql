-- Schemas of topics: JSON Schemas by version, of which the lake makes columns.

-- name: put
-- Store the next version $3. Store nothing if there is no topic $2, or if $4 names a version that is not the newest. Of two
-- requests at the same moment one stores nothing. A topic with a schema is never forgotten.
WITH newest AS (
    SELECT coalesce(max(s.version), 0) AS version FROM hookwire.topic_schemas s WHERE s.tenant = $1 AND s.topic = $2
), own AS (
    UPDATE hookwire.topics t SET made_by = NULL, used_on = NULL
    FROM newest n WHERE t.tenant = $1 AND t.name = $2 AND n.version = coalesce($4::integer, n.version)
    RETURNING n.version
)
INSERT INTO hookwire.topic_schemas (tenant, topic, version, schema)
SELECT $1, $2, o.version + 1, $3 FROM own o
ON CONFLICT DO NOTHING
RETURNING topic, version, schema, made_at;

-- name: get
-- Return the version $3 of a topic's schema, by default the newest one.
SELECT s.topic, s.version, s.schema, s.made_at FROM hookwire.topic_schemas s
WHERE s.tenant = $1 AND s.topic = $2
  AND s.version = coalesce($3::integer, (
      SELECT max(x.version) FROM hookwire.topic_schemas x WHERE x.tenant = $1 AND x.topic = $2));

-- name: list
-- Return versions below $3, the newest first.
SELECT s.version, s.made_at FROM hookwire.topic_schemas s
WHERE s.tenant = $1 AND s.topic = $2 AND s.version < $3 ORDER BY s.version DESC LIMIT $4;

-- name: newest
-- Return the newest schema of the topic $2, or of all topics if $2 is NULL, with its Kafka topic. $1 is the prefix of Kafka's
-- topics. `others`: so many other topics with the sink `kafka` share the Kafka topic.
WITH named AS MATERIALIZED (
    SELECT t.name, coalesce(t.kafka_topic, $1 || t.name) AS kafka_topic,
           coalesce('kafka' = ANY (t.sinks), true) AS goes_to_kafka
    FROM hookwire.topics t WHERE t.tenant = 'default'
)
SELECT n.name AS topic, n.kafka_topic, s.version, s.schema,
       (SELECT count(*) FROM named o WHERE o.kafka_topic = n.kafka_topic AND o.name <> n.name AND o.goes_to_kafka) AS others
FROM named n
CROSS JOIN LATERAL (
    SELECT x.version, x.schema FROM hookwire.topic_schemas x WHERE x.tenant = 'default' AND x.topic = n.name
    ORDER BY x.version DESC LIMIT 1) AS s
WHERE $2::text IS NULL OR n.name = $2
ORDER BY n.name;
