-- Lake: what the database knows that the pipeline asks for: its audit (PL-A02..A06) and its report.

-- name: cells
-- What Kafka is owed in closed hours from $2 until $3, for each Kafka topic as topics are routed now; $1 is the prefix.
SELECT coalesce(t.kafka_topic, $1 || l.topic) AS topic, l.hour, l.bucket::bigint AS bucket, sum(l.owed_count)::bigint AS owed,
       hookwire.ledger_sum(sum(l.owed_sum)) AS owed_sum, min(l.owed_min) AS owed_low, max(l.owed_max) AS owed_high
FROM hookwire.ledger_cursor c
JOIN hookwire.ledger l ON l.hour > date_trunc('hour', c.since_at, 'UTC') AND l.hour <= c.through_at - interval '65 minutes'
LEFT JOIN hookwire.topics t ON t.tenant = l.tenant AND t.name = l.topic
WHERE l.sink = 'kafka' AND l.owed_count > 0 AND l.hour >= $2 AND l.hour < $3
GROUP BY 1, 2, 3 ORDER BY 2, 1, 3;

-- name: span
-- The hours that can be judged.
SELECT date_trunc('hour', c.since_at, 'UTC') + interval '1 hour' AS since,
       date_trunc('hour', c.through_at - interval '65 minutes', 'UTC') + interval '1 hour' AS until
FROM hookwire.ledger_cursor c;

-- name: accepted
-- Up to $7 events of one cell above the id $5, up to $6, and what explains that one is not in Kafka.
SELECT e.id, e.key, encode(sha256(e.payload), 'hex') AS digest,
       CASE WHEN EXISTS (SELECT FROM hookwire.outbox o, generate_series(0, 63) AS g(shard)
                         WHERE o.sink = 'kafka' AND o.shard = g.shard AND o.id = e.id) THEN 'waiting'
            WHEN EXISTS (SELECT FROM hookwire.held h
                         WHERE h.sink = 'kafka' AND h.tenant = e.tenant AND h.topic = e.topic AND h.id = e.id) THEN 'waiting'
            WHEN EXISTS (SELECT FROM hookwire.relay_dead_letters d
                         WHERE d.sink = 'kafka' AND d.event_id = e.id) THEN 'dead'
            ELSE 'sent' END AS state
FROM hookwire.events e LEFT JOIN hookwire.topics t ON t.tenant = e.tenant AND t.name = e.topic
WHERE e.id > $5 AND e.id <= $6 AND e.id & 3 = $4 AND e.accepted_at >= $3 AND e.accepted_at < $3::timestamptz + interval '1 hour'
  AND 'kafka' = ANY (e.sinks) AND coalesce(t.kafka_topic, $1 || e.topic) = $2
ORDER BY e.id LIMIT $7;

-- name: attempts
-- Attempts at webhooks by the hour in which they began, with percentiles of how long they took.
SELECT date_trunc('hour', a.started_at, 'UTC') AS hour, count(*) AS attempts, count(*) FILTER (WHERE a.decision = 'delivered') AS good,
       count(*) FILTER (WHERE a.number > 1) AS retries, count(*) FILTER (WHERE a.decision = 'dead') AS dead,
       percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY a.total_seconds) AS seconds
FROM hookwire.attempts a WHERE a.started_at >= $1 AND a.started_at < $2
GROUP BY 1 ORDER BY 1;
