-- Kafka sources: how far each partition is taken, and what was refused.

-- name: take
-- Store records and move the offset of their partition.
SELECT taken, next_offset, event_ids, accepted_at, ordered
FROM hookwire.take_records($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20);

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
-- Note what the reader of partitions sees: their ends, and why it does not go on.
UPDATE hookwire.source_offsets o SET end_offset = coalesce(p.end_offset, o.end_offset), trouble = p.trouble, reader = $2
FROM unnest($3::integer[], $4::bigint[], $5::text[]) AS p(number, end_offset, trouble)
WHERE o.source = $1 AND o.partition = p.number
  AND (o.end_offset, o.trouble, o.reader) IS DISTINCT FROM (coalesce(p.end_offset, o.end_offset), p.trouble, $2);

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
-- Find topics whose own sinks name kafka, and whose Kafka topic is one of $1. $2 is the prefix of Kafka topics.
SELECT t.name AS topic, coalesce(t.kafka_topic, $2::text || t.name) AS source FROM hookwire.topics t
WHERE t.tenant = 'default' AND 'kafka' = ANY (t.sinks) AND coalesce(t.kafka_topic, $2::text || t.name) = ANY ($1::text[])
ORDER BY t.name LIMIT 20;
