-- Kafka sources: how far each partition is taken, and what was refused.

-- name: take
-- Store records and move the offset of their partition.
SELECT taken, next_offset, event_ids, accepted_at, ordered, held
FROM hookwire.take_records($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $23,
                           assumed => $20, lanes => $21, holding => $22);

-- name: begin
-- Note where partitions begin that were never read. The offsets of the others stay.
WITH source AS (INSERT INTO hookwire.sources (name) VALUES ($1) ON CONFLICT DO NOTHING)
INSERT INTO hookwire.source_offsets (source, partition, next_offset)
SELECT $1, p.number, p.first FROM unnest($2::integer[], $3::bigint[]) AS p(number, first)
ON CONFLICT DO NOTHING;

-- name: partitions
-- Return the partitions that were read.
SELECT o.partition FROM hookwire.source_offsets o WHERE o.source = $1 ORDER BY o.partition;

-- name: offset
SELECT o.next_offset, o.last_offset, o.last_digest FROM hookwire.source_offsets o WHERE o.source = $1 AND o.partition = $2;

-- name: report
-- Note what the reader of partitions sees: their ends, its rate, and why it does not go on.
UPDATE hookwire.source_offsets o
SET end_offset = coalesce(p.end_offset, o.end_offset), rate = p.rate, trouble = p.trouble, reader = $2
FROM unnest($3::integer[], $4::bigint[], $5::double precision[], $6::text[]) AS p(number, end_offset, rate, trouble)
WHERE o.source = $1 AND o.partition = p.number
  AND (o.end_offset, o.rate, o.trouble, o.reader)
      IS DISTINCT FROM (coalesce(p.end_offset, o.end_offset), p.rate, p.trouble, $2);

-- name: purge_refusals
-- Delete up to $2 refused records that are older than $1 days; return how many.
WITH gone AS (
    DELETE FROM hookwire.source_refusals r WHERE r.id = ANY (ARRAY(
        SELECT x.id FROM hookwire.source_refusals x
        WHERE x.refused_at < now() - make_interval(days => $1::integer) ORDER BY x.refused_at LIMIT $2))
    RETURNING r.id
)
SELECT count(*) FROM gone;

-- name: loops
-- Find topics whose own sinks name kafka, and whose Kafka topic is like one of $1. $2 is the prefix of Kafka topics.
SELECT t.name AS topic, coalesce(t.kafka_topic, $2::text || t.name) AS source FROM hookwire.topics t
WHERE t.tenant = 'default' AND 'kafka' = ANY (t.sinks) AND coalesce(t.kafka_topic, $2::text || t.name) LIKE ANY ($1::text[])
ORDER BY t.name LIMIT 20;

-- name: is_paused
SELECT s.is_paused FROM hookwire.sources s WHERE s.name = $1;

-- name: names
-- Return the sources that were read, whose names are like $1.
SELECT s.name FROM hookwire.sources s WHERE s.name LIKE $1::text ORDER BY s.name LIMIT 10000;

-- name: first_topics
-- Return the topics that the first look of a pattern has found; no row if no process has looked yet.
SELECT p.first_topics FROM hookwire.source_patterns p WHERE p.pattern = $1;

-- name: first_look
-- Note that the first look of a pattern has found the topics $2. Return what the first look of any process has found.
INSERT INTO hookwire.source_patterns AS p (pattern, first_topics) VALUES ($1, $2)
ON CONFLICT (pattern) DO UPDATE SET pattern = p.pattern RETURNING p.first_topics;

-- name: forget_first
-- Forget that the topics $2 were there at the first look of a pattern, because they are gone.
UPDATE hookwire.source_patterns p
SET first_topics = ARRAY(SELECT f.topic FROM unnest(p.first_topics) AS f(topic) WHERE f.topic <> ALL ($2::text[]))
WHERE p.pattern = $1 AND p.first_topics && $2::text[];

-- name: pass_over
-- Note which topics a pattern passes over, and how many.
UPDATE hookwire.source_patterns p
SET passed_over = $2::text::jsonb, passed_over_count = $3, changed_at = clock_timestamp()
WHERE p.pattern = $1 AND (p.passed_over, p.passed_over_count) IS DISTINCT FROM ($2::text::jsonb, $3);

-- name: patterns
-- Return the patterns that a process reads, with the topics that they pass over.
SELECT p.pattern, p.passed_over::text AS passed_over, p.passed_over_count
FROM (SELECT DISTINCT s.name FROM hookwire.process_states s WHERE s.kind = 'source' AND s.until > clock_timestamp()) AS r
CROSS JOIN LATERAL (SELECT x.* FROM hookwire.source_patterns x WHERE x.pattern = r.name LIMIT 1) AS p
ORDER BY p.pattern LIMIT $1;

-- name: list
-- Return each partition of the sources, and the number of refused records of its source, counted up to 10,000.
WITH named AS MATERIALIZED (
    SELECT s.name, s.is_paused,
           (SELECT count(*) FROM (SELECT FROM hookwire.source_refusals r WHERE r.source = s.name LIMIT 10000) AS few) AS refused
    FROM hookwire.sources s ORDER BY s.name LIMIT $1
)
SELECT n.name AS source, n.is_paused, o.partition, o.next_offset, o.end_offset, o.taken, o.last_record_at, o.reader, o.trouble,
       o.rate, extract(epoch FROM clock_timestamp() - o.last_record_at)::double precision AS age_seconds, n.refused
FROM named n LEFT JOIN hookwire.source_offsets o ON o.source = n.name
ORDER BY n.name, o.partition LIMIT $1;

-- name: pause
-- Pause or resume a source; return whether it exists.
WITH changed AS (
    UPDATE hookwire.sources SET is_paused = $2, changed_at = clock_timestamp() WHERE name = $1 RETURNING name
), audited AS (
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason)
    SELECT 'default', $3, CASE WHEN $2 THEN 'source.pause' ELSE 'source.resume' END, c.name, $4 FROM changed c
)
SELECT count(*) FROM changed;

-- name: moves
-- Return where a reset would move each partition, or the partition $2: to the offset $3, or, if that is NULL, to the end.
SELECT o.partition, o.next_offset, coalesce($3::bigint, o.end_offset, o.next_offset) AS to_offset
FROM hookwire.source_offsets o WHERE o.source = $1 AND o.partition = coalesce($2::integer, o.partition)
ORDER BY o.partition;

-- name: reset
-- Make the moves. Their readers notice it at the next record, because the offset is no longer theirs.
WITH moved AS (
    UPDATE hookwire.source_offsets o
    SET next_offset = coalesce($3::bigint, o.end_offset, o.next_offset), last_offset = NULL, last_digest = NULL,
        trouble = NULL, changed_at = clock_timestamp()
    WHERE o.source = $1 AND o.partition = coalesce($2::integer, o.partition)
    RETURNING o.partition, o.next_offset
)
INSERT INTO hookwire.audit (tenant, actor, action, subject, reason)
SELECT 'default', $4, 'source.reset', format('%s/%s to %s', $1::text, m.partition, m.next_offset), $5 FROM moved m;

-- name: refusals
-- Return refused records after $2, oldest first, without their values, and with the first 1,024 bytes of their keys.
SELECT r.id, r.kind, r.source, r.partition, r.record_offset, r.reason, r.detail, substr(r.key, 1, 1024) AS key, r.bytes, r.record_at,
       r.refused_at, r.held_keys IS NOT NULL AS holds
FROM hookwire.source_refusals r WHERE r.source = $1 AND r.id > $2 ORDER BY r.id LIMIT $3;

-- name: all_refusals
-- Return the same of all sources.
SELECT r.id, r.kind, r.source, r.partition, r.record_offset, r.reason, r.detail, substr(r.key, 1, 1024) AS key, r.bytes, r.record_at,
       r.refused_at, r.held_keys IS NOT NULL AS holds
FROM hookwire.source_refusals r WHERE r.id > $1 ORDER BY r.id LIMIT $2;

-- name: shown_refusal
-- Return a refused record with the first $2 bytes of its value, and the first 1,024 bytes of its key.
SELECT r.id, r.kind, r.source, r.partition, r.record_offset, r.reason, r.detail, substr(r.key, 1, 1024) AS key, r.bytes, r.record_at,
       r.refused_at, r.held_keys IS NOT NULL AS holds, substr(r.value, 1, $2) AS value
FROM hookwire.source_refusals r WHERE r.id = $1;

-- name: refusal
-- Return a refused record, and lock it until the end of the transaction.
SELECT r.kind, r.source, r.partition, r.record_offset, r.key, r.value, r.headers::text AS headers, r.record_at,
       r.held_keys
FROM hookwire.source_refusals r WHERE r.id = $1 FOR UPDATE;

-- name: keep_message
-- Keep a refused message of an AMQP queue; return whether there was room for it. The bounds are those of take_records.
WITH kept AS (
    SELECT count(*) AS number, coalesce(sum(k.bytes), 0) AS bytes
    FROM (SELECT x.bytes FROM hookwire.source_refusals x WHERE x.source = $1 ORDER BY x.id LIMIT 10000) AS k
), added AS (
    INSERT INTO hookwire.source_refusals (kind, source, reason, detail, key, value, headers, bytes)
    SELECT 'amqp', $1, $2, $3, $4, $5, $6::text::jsonb,
           coalesce(octet_length($4::bytea), 0) + octet_length($5::bytea) + octet_length($6::text)
    FROM kept k WHERE k.number < 10000 AND k.bytes < 268435456 RETURNING id
)
SELECT count(*) FROM added;

-- name: lock_partition_of
-- Lock the partition of a refused record until the end of the transaction, so that nothing is taken meanwhile.
SELECT o.partition FROM hookwire.source_offsets o JOIN hookwire.source_refusals r USING (source, partition)
WHERE r.id = $1 FOR UPDATE OF o;

-- name: lock_partition
-- Lock a partition in the same way.
SELECT o.partition FROM hookwire.source_offsets o WHERE o.source = $1 AND o.partition = $2 FOR UPDATE;

-- name: holder
-- Return the first refused record that holds a key of this one before it; NULL if it is the first.
SELECT min(e.id) FROM hookwire.source_refusals r JOIN hookwire.source_refusals e USING (source, partition)
WHERE r.id = $1 AND r.held_keys IS NOT NULL AND e.id < r.id AND e.held_keys && r.held_keys;

-- name: behind
-- Return the first records after $3 that wait for one of the keys.
SELECT r.id, r.kind, r.source, r.partition, r.record_offset, r.key, r.value, r.headers::text AS headers, r.record_at,
       r.held_keys
FROM hookwire.source_refusals r
WHERE r.source = $1 AND r.partition = $2 AND r.id > $3 AND r.held_keys && $4::text[] ORDER BY r.id LIMIT $5;

-- name: refuse_again
-- Note why a record that waited for its key cannot be an event itself.
UPDATE hookwire.source_refusals r SET reason = $2, detail = $3 WHERE r.id = $1;

-- name: release
-- Forget a record that has waited for its key and is published now.
DELETE FROM hookwire.source_refusals r WHERE r.id = $1;

-- name: settle_refusal
-- Delete a refused record; return whether it was there.
WITH gone AS (DELETE FROM hookwire.source_refusals r WHERE r.id = $1 RETURNING r.source, r.partition, r.record_offset),
audited AS (
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason)
    SELECT 'default', $2, $3, concat(g.source, '/' || g.partition, '@' || g.record_offset), $4 FROM gone g
)
SELECT count(*) FROM gone;

-- name: publish
-- Publish one event of what was refused, in the caller's transaction. The sink $6 is left out of the default route.
SELECT p.event_id FROM hookwire.publish_batch('default', '{1}', ARRAY[$1::text], ARRAY[$2::text], ARRAY[$3::text],
    ARRAY[$4::text], ARRAY[$5::bytea], '{}', '{}', true, left_out => $6) AS p;

-- name: backlog
-- Count the events that wait for their fan-out to webhooks, up to $1.
SELECT count(*) FROM generate_series(0, 63) AS g(shard) CROSS JOIN LATERAL (
    SELECT FROM hookwire.outbox o WHERE o.sink = 'webhooks' AND o.shard = g.shard LIMIT ($1::integer + 63) / 64) AS few;
