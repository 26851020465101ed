-- Holds: one key or one topic of one sink waits, everything else goes on (RO-08). All deciding writes are fenced.

-- name: place
-- Records $7/$8 (and with them their hold) leave the outbox for the side table. '' as key holds the topic.
WITH reign AS MATERIALIZED (
    SELECT FROM hookwire.relay_terms WHERE sink = $1 AND grp = $2 AND term = $3 FOR KEY SHARE
), placed AS (
    INSERT INTO hookwire.holds AS h (sink, tenant, topic, key, reason, detail, attempts, probe_at)
    SELECT DISTINCT ON (d.tenant, d.topic, d.key) $1, d.tenant, d.topic, d.key, d.reason, d.detail, 1,
           clock_timestamp() + make_interval(secs => $11::double precision)
    FROM unnest($4::text[], $5::text[], $6::text[], $9::text[], $10::text[]) AS d(tenant, topic, key, reason, detail)
    WHERE EXISTS (SELECT FROM reign)
    ORDER BY d.tenant, d.topic, d.key
    ON CONFLICT (sink, tenant, topic, key) DO NOTHING
), moved AS (
    DELETE FROM hookwire.outbox o USING unnest($7::smallint[], $8::bigint[]) AS a(shard, id)
    WHERE o.sink = $1 AND o.shard = a.shard AND o.id = a.id AND EXISTS (SELECT FROM reign)
    RETURNING o.id, o.shard, o.layout
)
INSERT INTO hookwire.held (sink, tenant, topic, key, id, shard, layout)
SELECT $1, d.tenant, d.topic, d.key, m.id, m.shard, m.layout
FROM unnest($4::text[], $5::text[], $6::text[], $8::bigint[]) AS d(tenant, topic, key, id) JOIN moved m ON m.id = d.id
RETURNING id;

-- name: open
SELECT tenant, topic, key, probe_at <= clock_timestamp() AS due, attempts FROM hookwire.holds WHERE sink = $1;

-- name: postpone
UPDATE hookwire.holds SET attempts = attempts + 1, detail = $5,
       probe_at = clock_timestamp() + make_interval(secs => $6::double precision)
WHERE sink = $1 AND tenant = $2 AND topic = $3 AND key = $4;

-- name: claim
-- Ends with the record that crosses $8 bytes of payload. A record whose event was deleted comes without a topic.
SELECT id, shard, tenant, topic, key, content_type, headers, payload, accepted_at, ordered,
       true AS topic_known, kafka_topic, amqp_exchange, amqp_routing_key
FROM (
    SELECT h.id, h.shard, e.tenant, e.topic, e.key, e.content_type, e.headers, e.payload, e.accepted_at, e.ordered,
           t.kafka_topic, t.amqp_exchange, t.amqp_routing_key,
           coalesce(sum(octet_length(e.payload)) OVER (ORDER BY h.id ROWS UNBOUNDED PRECEDING) - octet_length(e.payload), 0) AS before
    FROM (
        SELECT x.id, x.shard FROM hookwire.held x
        WHERE x.sink = $1 AND x.tenant = $2 AND x.topic = $3 AND x.key = $4
          AND EXISTS (SELECT FROM hookwire.relay_terms r WHERE r.sink = $1 AND r.grp = $5 AND r.term = $6)
        ORDER BY x.id LIMIT $7
    ) AS h
    LEFT JOIN hookwire.events e ON e.id = h.id
    LEFT JOIN hookwire.topics t ON t.tenant = e.tenant AND t.name = e.topic
) AS batch
WHERE before < $8
ORDER BY id;

-- name: lift
-- Only when nothing it held is left.
WITH reign AS MATERIALIZED (
    SELECT FROM hookwire.relay_terms WHERE sink = $1 AND grp = $5 AND term = $6 FOR KEY SHARE
)
DELETE FROM hookwire.holds h
WHERE h.sink = $1 AND h.tenant = $2 AND h.topic = $3 AND h.key = $4 AND EXISTS (SELECT FROM reign)
  AND NOT EXISTS (SELECT FROM hookwire.held x WHERE x.sink = $1 AND x.tenant = $2 AND x.topic = $3 AND x.key = $4)
RETURNING 1;

-- name: list
SELECT sink, tenant, topic, key, reason, detail, attempts, since, probe_at,
       (SELECT count(*) FROM (SELECT FROM hookwire.held x WHERE x.sink = h.sink AND x.tenant = h.tenant
                              AND x.topic = h.topic AND x.key = h.key LIMIT 10000) AS few) AS records
FROM hookwire.holds h ORDER BY since, sink, topic, key LIMIT $1;

-- name: rekey
-- A record held with its topic turns out to be poison itself: all its key's records move under a hold of their own,
-- so that none of them is drained with the topic and passes it.
WITH reign AS MATERIALIZED (
    SELECT FROM hookwire.relay_terms WHERE sink = $1 AND grp = $2 AND term = $3 FOR KEY SHARE
), placed AS (
    INSERT INTO hookwire.holds (sink, tenant, topic, key, reason, detail, attempts, probe_at)
    SELECT $1, $4, $5, $6, $7, $8, 1, clock_timestamp() + make_interval(secs => $9::double precision)
    WHERE EXISTS (SELECT FROM reign)
    ON CONFLICT DO NOTHING
)
UPDATE hookwire.held h SET key = $6
FROM hookwire.events e
WHERE h.sink = $1 AND h.tenant = $4 AND h.topic = $5 AND h.key = '' AND e.id = h.id
  AND coalesce(e.key, chr(31) || e.id) = $6 AND EXISTS (SELECT FROM reign);

-- name: purge
WITH purged AS (
    DELETE FROM hookwire.held h USING unnest($2::bigint[]) AS a(id) WHERE h.sink = $1 AND h.id = a.id
    RETURNING h.id
)
INSERT INTO hookwire.ledger_entries (sink, outcome, ids) SELECT $1, 'sent', array_agg(id) FROM purged HAVING count(*) > 0;
