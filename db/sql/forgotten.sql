-- Forgotten events: what Kafka has and this database does not, after a failover or a restore.

-- name: topics
-- Return the topics with their names in Kafka, and for how long they keep events: NULL as the settings say, 0 for ever.
SELECT t.name, t.kafka_topic, t.retention_days FROM hookwire.topics t WHERE t.tenant = 'default' ORDER BY t.name;

-- name: kept_after
-- Return the id up to which events may have been deleted because they are older than $1 days.
SELECT coalesce(max(w.last_id), 0) AS id FROM hookwire.id_watermarks w WHERE w.day < current_date - $1::integer;

-- name: judge
-- Tell of each of the ids $1 whether the database has its event, and whether the event still waits for Kafka.
SELECT i.id, e.id IS NOT NULL AS is_known,
       EXISTS (SELECT FROM generate_series(0, 63) AS g(shard) CROSS JOIN LATERAL (
                   SELECT FROM hookwire.outbox o WHERE o.sink = 'kafka' AND o.shard = g.shard AND o.id = i.id LIMIT 1) AS owed)
       OR EXISTS (SELECT FROM (SELECT h.id FROM hookwire.held h WHERE h.sink = 'kafka' AND h.id BETWEEN i.id AND i.id
                               ORDER BY h.id LIMIT 1) AS held) AS waits
FROM unnest($1::bigint[]) AS i(id)
LEFT JOIN LATERAL (SELECT x.id FROM hookwire.events x WHERE x.id BETWEEN i.id AND i.id ORDER BY x.id LIMIT 1) AS e ON true;

-- name: waiting
-- Count the events of each topic that wait for Kafka.
SELECT e.topic, count(*) AS events
FROM (SELECT o.id FROM hookwire.outbox o WHERE o.sink = 'kafka' UNION SELECT h.id FROM hookwire.held h WHERE h.sink = 'kafka') AS w
CROSS JOIN LATERAL (SELECT x.topic FROM hookwire.events x WHERE x.id BETWEEN w.id AND w.id ORDER BY x.id LIMIT 1) AS e
GROUP BY e.topic ORDER BY e.topic;
