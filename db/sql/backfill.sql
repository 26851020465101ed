-- Backfills: a process reads events of a lake and sends them to one subscription. It holds its run under a lease. Every
-- write names the fence of its take, so a process that was stopped and wakes up writes nothing.

-- name: topics
-- Return the topics $3, or all topics of the subscription $1 if $3 is NULL. Return the Kafka topic of each, and whether the
-- subscription has it. $4 are the Kafka topics of the lake: a pattern also chooses topics that the hub has forgotten. `others`:
-- so many topics share the Kafka topic. `may_be`: a topic that may have shared it before. $2 is the
-- prefix of Kafka's topics.
WITH known AS MATERIALIZED (
    SELECT t.name, coalesce(t.kafka_topic, $2 || t.name) AS kafka_topic FROM hookwire.topics t
    WHERE t.tenant = (SELECT s.tenant FROM hookwire.subscriptions s WHERE s.id = $1)
), forgotten AS (
    SELECT substr(l.kafka_topic, length($2) + 1) AS name, l.kafka_topic FROM unnest($4::text[]) AS l(kafka_topic)
    WHERE starts_with(l.kafka_topic, $2) AND NOT EXISTS (SELECT FROM known k WHERE k.kafka_topic = l.kafka_topic)
      AND NOT EXISTS (SELECT FROM known k WHERE $2 || k.name = l.kafka_topic)
), named AS (
    SELECT DISTINCT x.name FROM unnest($3::text[]) AS x(name)
    UNION
    SELECT s.topic FROM hookwire.subscriptions s WHERE s.id = $1 AND $3::text[] IS NULL AND s.topic_regex IS NULL
    UNION
    SELECT k.name FROM (SELECT x.name FROM known x UNION SELECT f.name FROM forgotten f) AS k
    JOIN hookwire.subscriptions s ON s.id = $1 AND k.name ~ s.topic_regex WHERE $3::text[] IS NULL
), chosen AS (
    SELECT n.name, coalesce(k.kafka_topic, $2 || n.name) AS kafka_topic FROM named n LEFT JOIN known k ON k.name = n.name
)
SELECT c.name, c.kafka_topic, CASE WHEN s.topic_regex IS NULL THEN c.name = s.topic ELSE c.name ~ s.topic_regex END AS is_chosen,
       count(k.name) AS others,
       CASE WHEN c.kafka_topic <> $2 || c.name AND starts_with(c.kafka_topic, $2)
            THEN substr(c.kafka_topic, length($2) + 1) END AS may_be
FROM chosen c JOIN hookwire.subscriptions s ON s.id = $1
LEFT JOIN known k ON k.kafka_topic = c.kafka_topic AND k.name <> c.name
GROUP BY c.name, c.kafka_topic, s.topic, s.topic_regex ORDER BY c.name;

-- name: unknown_topics
-- Return those of the Kafka topics $2 that are no topic of the hub. It may have forgotten one whose name follows the prefix
-- $1 of Kafka's topics.
SELECT l.kafka_topic FROM unnest($2::text[]) AS l(kafka_topic)
WHERE NOT EXISTS (SELECT FROM hookwire.topics t WHERE coalesce(t.kafka_topic, $1 || t.name) = l.kafka_topic)
  AND (NOT starts_with(l.kafka_topic, $1)
       OR EXISTS (SELECT FROM hookwire.topics t WHERE t.name = substr(l.kafka_topic, length($1) + 1)))
ORDER BY 1;

-- name: last_id
-- Return the last id that the hub has given to an event.
SELECT e.last_value FROM hookwire.event_id e;

-- name: create
-- Begin a run of the process $15, whose lease ends after $16 seconds. Its due time is far away, so no worker of the hub takes
-- it. It is no infinity, from which PostgreSQL 15 subtracts nothing.
WITH made AS (
    INSERT INTO hookwire.replays (tenant, source, act, subscription_id, topic, event_ids, since_at, until_at, rate_per_second, actor,
        reason, due_at, lower_event_id, last_event_id, upper_event_id)
    VALUES ($1, 'lake', 'send', $2, CASE WHEN cardinality($3::text[]) = 1 THEN ($3::text[])[1] END, $4::bigint[], $5, $6, $7, $8, $9,
            '9999-01-01 00:00:00Z', $10::bigint - 1, $10::bigint - 1, $11)
    RETURNING id
), held AS (
    INSERT INTO hookwire.backfills (replay_id, lake, topics, kafka_topics, events, before_live, skips, attempts_max, holder, lease_until,
        erased_at_start)
    SELECT m.id, $12, $3::text[], $19::text[], $13, $14, $17, $18, $15, now() + make_interval(secs => $16::double precision), $20
    FROM made m
), audited AS (
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason, records)
    SELECT $1, $8, 'replay.create', 'replay ' || m.id, $9, 0 FROM made m
)
SELECT m.id FROM made m;

-- name: take
-- Take a run that nobody holds, for the process $3 and $4 seconds. No row: it has ended, or another process holds it.
WITH taken AS (
    UPDATE hookwire.backfills b
    SET fence = b.fence + 1, holder = $3, lease_until = now() + make_interval(secs => $4::double precision), why = NULL
    WHERE b.replay_id = $2 AND (b.lease_until IS NULL OR b.lease_until < now())
      AND EXISTS (SELECT FROM hookwire.replays r WHERE r.tenant = $1 AND r.id = b.replay_id AND r.state IN ('running', 'paused'))
    RETURNING b.replay_id, b.fence
), resumed AS (
    UPDATE hookwire.replays r SET state = 'running', updated_at = now() FROM taken t
    WHERE r.id = t.replay_id AND r.state IN ('running', 'paused')
), audited AS (
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason, records)
    SELECT $1, $5, 'replay.resume', 'replay ' || t.replay_id, NULL, 0 FROM taken t
)
SELECT t.fence FROM taken t;

-- name: renew
-- Hold the run $1 for $3 seconds more. While live deliveries have to wait, pause them for as long. No row: it was taken.
WITH renewed AS (
    UPDATE hookwire.backfills b SET lease_until = now() + make_interval(secs => $3::double precision)
    WHERE b.replay_id = $1 AND b.fence = $2 RETURNING b.replay_id, b.before_live
), waiting AS (
    UPDATE hookwire.subscriptions s SET paused_until = greatest(s.paused_until, now() + make_interval(secs => $3::double precision))
    FROM renewed n JOIN hookwire.replays r ON r.id = n.replay_id
    WHERE n.before_live AND r.state = 'running' AND s.id = r.subscription_id
)
SELECT n.replay_id FROM renewed n;

-- name: look
-- Return the state of the run $1 and of its subscription. No row: another process than that of the fence $2 holds it. A pause
-- of the subscription that ends with the lease is the run's own, which makes live deliveries wait.
SELECT r.state, r.rate_per_second, s.rate_per_second AS subscription_rate, s.state AS subscription_state, s.state_reason, s.version,
       s.filter_path IS NOT NULL AS has_filter,
       CASE WHEN b.before_live AND s.paused_until <= b.lease_until THEN NULL
            ELSE extract(epoch FROM s.paused_until - now())::double precision END AS paused_seconds,
       coalesce(s.lease_until <= now(), false) AS is_expired,
       (SELECT min(t.name) FROM unnest(b.topics) AS t(name)
        WHERE NOT CASE WHEN s.topic_regex IS NULL THEN t.name = s.topic ELSE t.name ~ s.topic_regex END) AS left_topic
FROM hookwire.backfills b
JOIN hookwire.replays r ON r.id = b.replay_id
LEFT JOIN hookwire.subscriptions s ON s.id = r.subscription_id
WHERE b.replay_id = $1 AND b.fence = $2;

-- name: erased
-- Return those of the events $1 that were erased, from the hub or from the lake.
SELECT x.event_id FROM unnest($1::bigint[]) AS i(id)
CROSS JOIN LATERAL (SELECT y.event_id FROM hookwire.erased_events y WHERE y.event_id = i.id LIMIT 1) AS x;

-- name: passed
-- Return those of these events that the filter of the subscription $1 passes.
SELECT i.id
FROM unnest($2::bigint[], $3::text[], $4::text[], $5::timestamptz[], $6::text[], $7::text[], $8::bytea[])
    AS i(id, topic, key, accepted_at, content_type, headers, payload)
JOIN hookwire.subscriptions s ON s.id = $1
WHERE hookwire.event_passes(i.topic, i.key, i.accepted_at, i.content_type, i.headers::jsonb, i.payload, s.filter_path);

-- name: fail
-- Note a failed attempt of the run $1: the event $3, its outcome and status.
INSERT INTO hookwire.backfill_failures AS f (replay_id, event_id, attempts, outcome, status)
SELECT b.replay_id, $3, 1, $4, $5 FROM hookwire.backfills b WHERE b.replay_id = $1 AND b.fence = $2
ON CONFLICT (replay_id, event_id) DO UPDATE
SET attempts = f.attempts + 1, failed_at = now(), outcome = excluded.outcome, status = excluded.status;

-- name: note
-- Store what became of a batch of the run $1, or of a part of it, and move the cursor to $3. No row: the run was taken.
WITH mine AS MATERIALIZED (
    SELECT b.replay_id FROM hookwire.backfills b WHERE b.replay_id = $1 AND b.fence = $2 FOR SHARE
), noted AS (
    INSERT INTO hookwire.backfill_batches (replay_id, above_id, part, sent, erased, unwanted, refused)
    SELECT m.replay_id, r.last_event_id,
           (SELECT count(*) FROM hookwire.backfill_batches x WHERE x.replay_id = m.replay_id AND x.above_id = r.last_event_id),
           $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[]
    FROM mine m JOIN hookwire.replays r ON r.id = m.replay_id
)
UPDATE hookwire.replays r
SET last_event_id = greatest(r.last_event_id, $3), updated_at = now(), replayed = r.replayed + cardinality($4::bigint[]),
    erased = r.erased + cardinality($5::bigint[]),
    examined = r.examined + cardinality($4::bigint[]) + cardinality($5::bigint[]) + cardinality($6::bigint[]) + cardinality($7::bigint[])
FROM mine m WHERE r.id = m.replay_id
RETURNING r.state;

-- name: ended_parts
-- Return the events of the run $1 above its cursor that it is done with.
SELECT u.id FROM hookwire.replays r
CROSS JOIN LATERAL (
    SELECT x.* FROM hookwire.backfill_batches x WHERE x.replay_id = r.id AND x.above_id = r.last_event_id
) AS b
CROSS JOIN LATERAL unnest(b.sent || b.erased || b.unwanted || b.refused) AS u(id)
WHERE r.id = $1;

-- name: leave
-- Give the run $1 back in the state $3, for the reason $4. A run that somebody paused or cancelled stays so, and nothing else
-- is noted as the reason of a pause. Live deliveries that had to wait go on; a pause for another reason stays.
WITH freed AS (
    UPDATE hookwire.subscriptions s SET paused_until = NULL
    FROM hookwire.backfills b JOIN hookwire.replays r ON r.id = b.replay_id
    WHERE b.replay_id = $1 AND b.fence = $2 AND b.before_live AND s.id = r.subscription_id AND s.paused_until = b.lease_until
), left_alone AS (
    UPDATE hookwire.backfills b SET lease_until = NULL, why = CASE WHEN r.state <> 'paused' THEN $4 END
    FROM hookwire.replays r WHERE r.id = b.replay_id AND b.replay_id = $1 AND b.fence = $2 RETURNING b.replay_id
)
UPDATE hookwire.replays r SET state = CASE WHEN r.state = 'running' THEN $3 ELSE r.state END, updated_at = now()
FROM left_alone l WHERE r.id = l.replay_id
RETURNING r.state;

-- name: list
-- Return the run $2, or the newest $3 runs.
SELECT r.id, r.state, s.public_id AS subscription_id, b.lake, b.topics, b.kafka_topics, r.since_at, r.until_at, r.event_ids, b.events,
       b.erased_at_start, r.examined, r.replayed, r.erased,
       (SELECT coalesce(sum(cardinality(x.unwanted)), 0)::bigint FROM hookwire.backfill_batches x WHERE x.replay_id = r.id) AS unwanted,
       (SELECT coalesce(sum(cardinality(x.refused)), 0)::bigint FROM hookwire.backfill_batches x WHERE x.replay_id = r.id) AS refused,
       b.before_live, b.skips, b.attempts_max, r.rate_per_second, r.subscription_id AS subscription_number, r.lower_event_id,
       r.last_event_id, r.upper_event_id, b.holder, coalesce(b.lease_until > now(), false) AS is_held, b.why, r.actor, r.reason,
       r.created_at, r.updated_at
FROM hookwire.backfills b JOIN hookwire.replays r ON r.id = b.replay_id
LEFT JOIN hookwire.subscriptions s ON s.id = r.subscription_id
WHERE r.tenant = $1 AND ($2::bigint IS NULL OR r.id = $2)
ORDER BY r.id DESC LIMIT $3;

-- name: batches
-- Return the next $4 parts of batches of the run $1, after the part $3 of the batch $2.
SELECT b.above_id, b.part, b.sent, b.erased, b.unwanted, b.refused FROM hookwire.backfill_batches b
WHERE b.replay_id = $1 AND (b.above_id, b.part) > ($2, $3) ORDER BY b.above_id, b.part LIMIT $4;
