-- Lake: the audit and the report of the pipeline.

-- name: cells
-- Return the records that Kafka is owed in closed hours from $2 until $3, by Kafka topic under the present routing. $1
-- is the prefix.
SELECT coalesce(t.kafka_topic, $1 || l.topic) AS topic, l.hour, l.bucket::bigint AS bucket, sum(l.owed_count)::bigint AS owed,
       hookwire.ledger_sum(sum(l.owed_sum)) AS owed_sum, min(l.owed_min) AS owed_low, max(l.owed_max) AS owed_high,
       CASE WHEN sum(l.content_count) = sum(l.owed_count) THEN hookwire.ledger_sum(sum(l.owed_content)) END AS owed_content
FROM hookwire.ledger_cursor c
JOIN hookwire.ledger l ON l.hour > date_trunc('hour', c.since_at, 'UTC') AND l.hour <= c.through_at - interval '65 minutes'
LEFT JOIN hookwire.topics t ON t.tenant = l.tenant AND t.name = l.topic
WHERE l.sink = 'kafka' AND l.owed_count > 0 AND l.hour >= $2 AND l.hour < $3
GROUP BY 1, 2, 3 ORDER BY 2, 1, 3;

-- name: span
-- Return the hours that can be judged. An audit gives them to each statement, so that midnight does not change them.
SELECT hookwire.ledger_from(c.since_at) AS since,
       date_trunc('hour', c.through_at - interval '65 minutes', 'UTC') + interval '1 hour' AS until
FROM hookwire.ledger_cursor c;

-- name: accepted
-- Return up to $7 events of one cell above the id $5, up to $6, with the reason why each may not be in Kafka. An erased
-- event has the digest of its former contents.
SELECT e.id, lpad(to_hex(CASE WHEN e.erased_at IS NOT NULL AND e.payload = '' AND e.headers = '{}'
                               THEN (SELECT x.content FROM hookwire.erased_events x WHERE x.event_id = e.id)
                               ELSE hookwire.content_hash(e.id, e.accepted_at, e.ordered, e.key, e.content_type, e.headers, e.payload) END), 16, '0') AS digest,
       CASE WHEN EXISTS (SELECT FROM hookwire.outbox o, generate_series(0, 63) AS g(shard)
                         WHERE o.sink = 'kafka' AND o.shard = g.shard AND o.id = e.id) THEN 'waiting'
            WHEN EXISTS (SELECT FROM hookwire.held h WHERE h.sink = 'kafka' AND h.id = e.id) THEN 'waiting'
            WHEN EXISTS (SELECT FROM hookwire.relay_dead_letters d
                         WHERE d.sink = 'kafka' AND d.event_id = e.id) THEN 'dead'
            ELSE 'sent' END AS state
FROM hookwire.events e LEFT JOIN hookwire.topics t ON t.tenant = e.tenant AND t.name = e.topic
WHERE e.id > $5 AND e.id <= $6 AND e.id & 3 = $4 AND e.accepted_at >= $3 AND e.accepted_at < $3::timestamptz + interval '1 hour'
  AND 'kafka' = ANY (e.sinks) AND coalesce(t.kafka_topic, $1 || e.topic) = $2
ORDER BY e.id LIMIT $7;

-- name: recount
-- Compare the ledger's counts of closed hours from $1 until $2 with the stored events. Return up to $3 cells that
-- differ, for topics that keep their events for that long. If a single event makes the difference, the checksums name
-- it. An erased event counts with the hash of its former contents, as long as it is empty. $4 is the prefix of Kafka's topics.
WITH cell AS MATERIALIZED (
    SELECT l.tenant, l.topic, l.hour, l.bucket, l.owed_count, l.owed_sum, l.owed_min, l.owed_max,
           CASE WHEN l.content_count = l.owed_count THEN l.owed_content END AS owed_content
    FROM hookwire.ledger_cursor c
    JOIN hookwire.ledger l ON l.hour > date_trunc('hour', c.since_at, 'UTC') AND l.hour <= c.through_at - interval '65 minutes'
    WHERE l.sink = '' AND l.owed_count > 0 AND l.hour >= $1 AND l.hour < $2
), present AS MATERIALIZED (
    SELECT e.tenant, e.topic, date_trunc('hour', e.accepted_at, 'UTC') AS hour, (e.id & 3)::smallint AS bucket, count(*) AS count,
           hookwire.ledger_sum(sum(hookwire.ledger_hash(e.id))) AS sum,
           hookwire.ledger_sum(sum(CASE WHEN e.erased_at IS NOT NULL AND e.payload = '' AND e.headers = '{}'
                                        THEN (SELECT x.content FROM hookwire.erased_events x WHERE x.event_id = e.id)
                                        ELSE hookwire.content_hash(e.id, e.accepted_at, e.ordered, e.key, e.content_type, e.headers, e.payload) END)) AS content
    FROM hookwire.events e
    WHERE e.id >= (SELECT min(owed_min) FROM cell) AND e.accepted_at >= $1 AND e.accepted_at < $2
    GROUP BY 1, 2, 3, 4
), side AS (
    SELECT tenant, topic, hour, bucket, coalesce(c.owed_count, 0) - coalesce(p.count, 0) AS missing, c.owed_min, c.owed_max,
           hookwire.ledger_sum(coalesce(c.owed_sum, 0) - coalesce(p.sum, 0)) AS difference, c.owed_content <> p.content AS is_rewritten
    FROM cell c FULL JOIN present p USING (tenant, topic, hour, bucket)
), differing AS (
    SELECT s.*, t.kafka_topic FROM side s LEFT JOIN hookwire.topics t ON t.tenant = s.tenant AND t.name = s.topic
    WHERE (s.missing <> 0 OR s.difference <> 0 OR s.is_rewritten)
      AND (coalesce(t.retention_days, 0) = 0 OR s.hour > now() - make_interval(days => t.retention_days))
    ORDER BY s.hour, s.topic, s.bucket LIMIT $3
)
SELECT d.tenant, d.topic, d.hour, d.bucket::bigint AS bucket, coalesce(d.kafka_topic, $4 || d.topic) AS kafka_topic,
       CASE WHEN d.missing > 0 THEN 'deleted' WHEN d.missing < 0 THEN 'inserted'
                             WHEN d.difference = 0 THEN 'rewritten' ELSE 'exchanged' END AS fault,
       greatest(1, abs(d.missing)) AS count,
       CASE d.missing
           WHEN 1 THEN (SELECT g.id FROM generate_series(d.owed_min, least(d.owed_max, d.owed_min + 4000000)) AS g(id)
                        WHERE g.id & 3 = d.bucket AND hookwire.ledger_sum(hookwire.ledger_hash(g.id)) = d.difference LIMIT 1)
           WHEN -1 THEN (SELECT e.id FROM hookwire.events e
                         WHERE e.tenant = d.tenant AND e.topic = d.topic AND e.id >= (SELECT min(owed_min) FROM cell)
                           AND e.accepted_at >= d.hour AND e.accepted_at < d.hour + interval '1 hour' AND e.id & 3 = d.bucket
                           AND hookwire.ledger_sum(-hookwire.ledger_hash(e.id)::numeric) = d.difference LIMIT 1) END AS id
FROM differing d;

-- name: cell_events
-- Return up to $6 events of the tenant $1 and the topic $2, the hour $3 and the bucket $4, above the id $5: their contents'
-- hash, and whether they are owed to Kafka and do not wait. An erased event has the hash of its former contents.
SELECT e.id, lpad(to_hex(CASE WHEN e.erased_at IS NOT NULL AND e.payload = '' AND e.headers = '{}'
                               THEN (SELECT x.content FROM hookwire.erased_events x WHERE x.event_id = e.id)
                               ELSE hookwire.content_hash(e.id, e.accepted_at, e.ordered, e.key, e.content_type, e.headers, e.payload) END), 16, '0') AS digest,
       'kafka' = ANY (e.sinks)
       AND NOT EXISTS (SELECT FROM hookwire.outbox o, generate_series(0, 63) AS g(shard)
                       WHERE o.sink = 'kafka' AND o.shard = g.shard AND o.id = e.id)
       AND NOT EXISTS (SELECT FROM hookwire.held h WHERE h.sink = 'kafka' AND h.id = e.id)
       AND NOT EXISTS (SELECT FROM hookwire.relay_dead_letters d WHERE d.sink = 'kafka' AND d.event_id = e.id) AS is_sent
FROM hookwire.events e
WHERE e.tenant = $1 AND e.topic = $2 AND e.accepted_at >= $3 AND e.accepted_at < $3::timestamptz + interval '1 hour'
  AND e.id & 3 = $4 AND e.id > $5
ORDER BY e.id LIMIT $6;

-- name: missing_events
-- Return those of the ids $1 of which there is no event.
SELECT i.id FROM unnest($1::bigint[]) AS i(id)
LEFT JOIN LATERAL (SELECT x.id FROM hookwire.events x WHERE x.id BETWEEN i.id AND i.id ORDER BY x.id LIMIT 1) AS e ON true
WHERE e.id IS NULL ORDER BY i.id;

-- name: uncounted
-- Return up to $3 cells of closed hours from $1 until $2 whose events are there and whose row of the ledger is not. $4 is the
-- prefix of Kafka's topics.
WITH closed AS (
    SELECT date_trunc('hour', c.since_at, 'UTC') AS after, c.through_at - interval '65 minutes' AS upto, c.through_id FROM hookwire.ledger_cursor c
), present AS MATERIALIZED (
    SELECT s.sink, e.tenant, e.topic, date_trunc('hour', e.accepted_at, 'UTC') AS hour, (e.id & 3)::smallint AS bucket, count(*) AS count,
           min(e.id) AS low, max(e.id) AS high
    FROM closed c
    JOIN hookwire.events e ON e.accepted_at >= $1 AND e.accepted_at < $2 AND e.id <= c.through_id
         AND e.id >= (SELECT min(l.owed_min) FROM hookwire.ledger l WHERE l.hour >= $1)
    CROSS JOIN LATERAL unnest(e.sinks) AS s(sink)
    WHERE date_trunc('hour', e.accepted_at, 'UTC') > c.after AND date_trunc('hour', e.accepted_at, 'UTC') <= c.upto
    GROUP BY 1, 2, 3, 4, 5
)
SELECT p.sink, p.topic, p.hour, p.bucket::bigint AS bucket, p.count, p.low, p.high, coalesce(t.kafka_topic, $4 || p.topic) AS kafka_topic
FROM present p LEFT JOIN hookwire.topics t ON t.tenant = p.tenant AND t.name = p.topic
WHERE NOT EXISTS (SELECT FROM hookwire.ledger l WHERE l.hour = p.hour AND l.sink = p.sink AND l.tenant = p.tenant
                  AND l.topic = p.topic AND l.bucket = p.bucket)
  AND EXISTS (SELECT FROM hookwire.ledger l WHERE l.hour = p.hour AND l.sink = '' AND l.tenant = p.tenant
              AND l.topic = p.topic AND l.bucket = p.bucket)
ORDER BY p.hour, p.topic, p.sink, p.bucket LIMIT $3;

-- name: contradictory
-- Find attempts at events of the hour $1, ids $2 to $3, whose status does not mean what the attempt says it meant. Return up
-- to $4 ids of each topic and subscription.
SELECT e.topic, coalesce(s.public_id, a.subscription_id::text) AS subscription, count(*) AS count,
       (array_agg(DISTINCT e.id ORDER BY e.id))[1:$4] AS ids
FROM hookwire.events e
JOIN hookwire.attempts a ON a.event_id = e.id AND a.status IS NOT NULL
     AND a.outcome IN ('delivered', 'redirect', 'gone', 'throttled', 'client_error', 'server_error')
     AND (a.outcome <> CASE WHEN a.status BETWEEN 200 AND 299 THEN 'delivered' WHEN a.status BETWEEN 300 AND 399 THEN 'redirect'
                            WHEN a.status = 410 THEN 'gone' WHEN a.status IN (429, 502, 504) THEN 'throttled'
                            WHEN a.status < 500 THEN 'client_error' ELSE 'server_error' END
          OR (a.decision = 'delivered' AND a.outcome <> 'delivered'))
LEFT JOIN hookwire.subscriptions s ON s.id = a.subscription_id
WHERE e.id BETWEEN $2 AND $3 AND e.accepted_at >= $1 AND e.accepted_at < $1::timestamptz + interval '1 hour'
GROUP BY 1, 2 ORDER BY 1, 2;

-- name: endpoints
-- Return what people call the subscriptions with the ids $1: their name, the host of the callback, and the topic.
SELECT s.public_id, s.name, nullif(lower(substring(s.callback, '^[^:/?#]+://(?:[^/?#]*@)?(\[[^]]*\]|[^/?#:]*)')), '') AS host, s.topic
FROM unnest($1::text[]) AS w(id) CROSS JOIN LATERAL (
    SELECT x.public_id, x.name, x.callback, x.topic FROM hookwire.subscriptions x WHERE x.public_id = w.id LIMIT 1) AS s;

-- name: attempt_days
-- Count the attempts that began on each day (UTC) from $1 until $2.
SELECT (a.started_at AT TIME ZONE 'UTC')::date AS day, count(*) AS attempts
FROM hookwire.attempts a WHERE a.started_at >= $1 AND a.started_at < $2 AND a.decision NOT IN ('dropped', 'probe')
GROUP BY 1 ORDER BY 1;

-- name: attempt_page
-- Return up to $6 attempts that began from $1 until $2, after event $3, subscription $4 and attempt $5.
SELECT a.tenant, a.event_id, a.subscription_id, a.number, e.topic, e.accepted_at, coalesce(s.public_id, a.subscription_id::text) AS subscription,
       s.protocol, a.trigger,
       a.started_at, a.connect_seconds, a.first_byte_seconds, a.total_seconds AS seconds, a.status, a.outcome, a.decision
FROM hookwire.attempts a
LEFT JOIN LATERAL (SELECT x.topic, x.accepted_at FROM hookwire.events x WHERE x.id = a.event_id LIMIT 1) AS e ON true
LEFT JOIN hookwire.subscriptions s ON s.id = a.subscription_id
WHERE a.started_at >= $1 AND a.started_at < $2 AND a.decision NOT IN ('dropped', 'probe') AND (a.event_id, a.subscription_id, a.number) > ($3, $4, $5)
ORDER BY a.event_id, a.subscription_id, a.number LIMIT $6;

-- name: webhook_hours
-- Return the closed hours from $1 until $2 that have events for webhooks, with the range of their ids.
SELECT l.hour, min(l.owed_min) AS low, max(l.owed_max) AS high
FROM hookwire.ledger_cursor c
JOIN hookwire.ledger l ON l.hour > date_trunc('hour', c.since_at, 'UTC') AND l.hour <= c.through_at - interval '65 minutes'
WHERE l.sink = 'webhooks' AND l.owed_count > 0 AND l.hour >= $1 AND l.hour < $2
GROUP BY l.hour ORDER BY l.hour;

-- name: unaccounted
-- Find events of the hour $1, ids $2 to $3, that were fanned out and have no trace for a subscription. A trace is an
-- ended delivery, an open delivery or a dead letter. Return up to $4 ids for each subscription. Subscriptions that
-- changed since are not judged: their former filter is unknown. A filter cannot judge an erased event. RabbitHub's are not judged either: messages of a
-- binding move into its queue and on to a consumer. A queue may also be emptied, which leaves no trace.
WITH event AS MATERIALIZED (
    SELECT e.id, e.tenant, e.topic, e.accepted_at FROM hookwire.events e
    WHERE e.id BETWEEN $2 AND $3 AND e.accepted_at >= $1 AND e.accepted_at < $1::timestamptz + interval '1 hour'
      AND 'webhooks' = ANY (e.sinks)
      AND NOT EXISTS (SELECT FROM hookwire.held h WHERE h.sink = 'webhooks' AND h.id = e.id)
      AND NOT EXISTS (SELECT FROM hookwire.outbox o, generate_series(0, 63) AS g(shard)
                      WHERE o.sink = 'webhooks' AND o.shard = g.shard AND o.id = e.id)
), owed AS MATERIALIZED (
    SELECT e.id, e.topic, s.id AS subscription_id, s.public_id
    FROM event e
    JOIN hookwire.subscriptions s ON s.tenant = e.tenant AND s.state = 'active' AND s.updated_at < e.accepted_at
         AND s.protocol <> 'rabbithub'
         AND NOT EXISTS (SELECT FROM hookwire.rabbithub_resources q WHERE q.source = s.id)
         AND NOT EXISTS (SELECT FROM hookwire.rabbithub_subscriptions b WHERE b.subscription_id = s.id)
         AND (s.lease_until IS NULL OR s.lease_until > now())
         AND CASE WHEN s.topic_regex IS NULL THEN s.topic = e.topic ELSE e.topic ~ s.topic_regex END
    WHERE s.filter_path IS NULL
       OR (SELECT x.erased_at IS NULL AND hookwire.event_passes(
               x.topic, x.key, x.accepted_at, x.content_type, x.headers, x.payload, s.filter_path)
           FROM hookwire.events x WHERE x.id = e.id)
)
SELECT o.topic, o.public_id AS subscription, count(*) AS count, (array_agg(o.id ORDER BY o.id))[1:$4] AS ids
FROM owed o
WHERE NOT EXISTS (SELECT FROM hookwire.attempts a WHERE a.event_id = o.id AND a.subscription_id = o.subscription_id
                  AND a.decision IN ('delivered', 'dead', 'dropped'))
  AND NOT EXISTS (SELECT FROM hookwire.deliveries d WHERE d.event_id = o.id AND d.subscription_id = o.subscription_id)
  AND NOT EXISTS (SELECT FROM hookwire.dead_letters l WHERE l.event_id = o.id AND l.subscription_id = o.subscription_id)
GROUP BY o.topic, o.public_id ORDER BY o.topic, o.public_id;

-- name: late
-- Find events of the hour $1, ids $2 to $3, that reached a webhook more than $5 seconds after their acceptance. Leave
-- out replays and receivers that fetch at their own pace: pull subscriptions and consumers of RabbitHub's queues.
-- Return up to $4 ids of each topic and subscription.
SELECT e.topic, coalesce(s.public_id, a.subscription_id::text) AS subscription, count(*) AS count,
       (array_agg(e.id ORDER BY e.id))[1:$4] AS ids
FROM hookwire.events e
JOIN hookwire.attempts a ON a.event_id = e.id AND a.decision = 'delivered' AND a.trigger IN ('first', 'retry')
     AND a.started_at + make_interval(secs => a.total_seconds) > e.accepted_at + make_interval(secs => $5::double precision)
LEFT JOIN hookwire.subscriptions s ON s.id = a.subscription_id
WHERE e.id BETWEEN $2 AND $3 AND e.accepted_at >= $1 AND e.accepted_at < $1::timestamptz + interval '1 hour'
  AND s.protocol IS DISTINCT FROM 'pull'
  AND NOT EXISTS (SELECT FROM hookwire.rabbithub_subscriptions r JOIN hookwire.rabbithub_resources q ON q.id = r.resource_id
                  WHERE r.subscription_id = a.subscription_id AND q.kind = 'q')
GROUP BY 1, 2 ORDER BY 1, 2;

-- name: plant_subscription
-- Insert a webhook $1 of the topic $1, older than the hour $2. The audit's self-test rolls it back.
INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state, created_at, updated_at)
VALUES ($1, 'webhook', $1, 'https://selftest.invalid/', 'active', $2::timestamptz - interval '1 day', $2::timestamptz - interval '1 day')
RETURNING id;

-- name: plant_event
-- Insert an event of the topic $1 in the hour $2, as if it had been fanned out.
INSERT INTO hookwire.events (id, accepted_at, ordered, tenant, topic, headers, sinks, payload)
VALUES (nextval('hookwire.event_id'), $2, false, 'default', $1, '{}', '{webhooks}', '')
RETURNING id;

-- name: plant_delivery
-- Insert the delivery of the event $1 for the subscription $2.
INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant) VALUES ($1, $2, now(), now(), 'default');

-- name: proofs
-- Return the days of the lake $1 that an audit has proved.
SELECT p.day, p.topic, p.digest, p.records, p.unproved, p.unsealed, p.files FROM hookwire.lake_proofs p WHERE p.lake = $1;

-- name: prove
-- Store proved days of the lake $1: days $2, topics $3, digests $4, records $5, unproved cells $6. Records without a proved
-- seal are $7. The files $8 are lists in JSON. The order keeps two audits from waiting for each other.
INSERT INTO hookwire.lake_proofs (lake, day, topic, digest, records, unproved, unsealed, files)
SELECT $1, n.day, n.topic, n.digest, n.records, n.unproved, n.unsealed, ARRAY(SELECT jsonb_array_elements_text(n.files))
FROM unnest($2::date[], $3::text[], $4::text[], $5::bigint[], $6::integer[], $7::bigint[], $8::text[]::jsonb[])
    AS n(day, topic, digest, records, unproved, unsealed, files)
ORDER BY n.day, n.topic
ON CONFLICT (lake, day, topic) DO UPDATE
SET digest = excluded.digest, records = excluded.records, unproved = excluded.unproved, unsealed = excluded.unsealed,
    files = excluded.files, proved_at = now();

-- name: accept_proof
-- Let the files $4 of the day $2 and the topic $3 of the lake $1 count as proved, with $5 records.
UPDATE hookwire.lake_proofs SET files = $4::text[], records = $5, proved_at = now()
WHERE lake = $1 AND day = $2 AND topic = $3;

-- name: forget_proofs
-- Delete the proofs of the lake $1 of days $2 and topics $3, which retention has dropped. They are locked in order first, so
-- that no audit waits for another one that waits for it.
WITH gone AS MATERIALIZED (
    SELECT p.day, p.topic FROM hookwire.lake_proofs p JOIN unnest($2::date[], $3::text[]) AS n(day, topic) USING (day, topic)
    WHERE p.lake = $1 ORDER BY p.day, p.topic FOR UPDATE OF p
)
DELETE FROM hookwire.lake_proofs p USING gone g WHERE p.lake = $1 AND p.day = g.day AND p.topic = g.topic;
