-- Holds: one key or one topic of one sink waits, everything else goes on. All deciding writes are fenced.

-- name: place
-- Move records $7/$8, and with them their hold, from the outbox to the side table. An empty key holds the topic.
WITH term_held AS MATERIALIZED (
    SELECT FROM hookwire.relay_terms WHERE sink = $1 AND grp = $2 AND term = $3 FOR KEY SHARE
), placed AS (
    INSERT INTO hookwire.holds AS h (sink, grp, tenant, topic, key, reason, detail, attempts, probe_at)
    SELECT DISTINCT ON (d.tenant, d.topic, d.key) $1, $2, d.tenant, d.topic, d.key, d.reason, d.detail, 1,
           clock_timestamp() + make_interval(secs => $11::double precision)
    FROM unnest($4::text[], $5::text[], $6::text[], $9::text[], $10::text[]) AS d(tenant, topic, key, reason, detail)
    WHERE EXISTS (SELECT FROM term_held)
    ORDER BY d.tenant, d.topic, d.key
    ON CONFLICT (sink, grp, tenant, topic, key) DO NOTHING
), moved AS (
    DELETE FROM hookwire.outbox
    WHERE ctid = ANY (ARRAY(
        SELECT found.place FROM unnest($7::smallint[], $8::bigint[]) AS a(shard, id)
        CROSS JOIN LATERAL (
            SELECT o.ctid AS place FROM hookwire.outbox o
            WHERE o.sink = $1 AND o.shard = a.shard AND o.id = a.id LIMIT 1
        ) AS found)) AND EXISTS (SELECT FROM term_held)
    RETURNING id, shard, layout
)
INSERT INTO hookwire.held (sink, grp, tenant, topic, key, id, shard, layout)
SELECT $1, $2, d.tenant, d.topic, d.key, m.id, m.shard, m.layout
FROM unnest($4::text[], $5::text[], $6::text[], $8::bigint[]) AS d(tenant, topic, key, id) JOIN moved m ON m.id = d.id
RETURNING id;

-- name: open
SELECT tenant, topic, key FROM hookwire.holds WHERE sink = $1 AND grp = $2;

-- name: due
-- Return the topics with due holds, and whether the topic itself is held; first the one whose hold is due for longest.
-- Nothing is probed while the sink is paused.
SELECT h.tenant, h.topic, bool_or(h.key = '') AS is_whole
FROM hookwire.holds h WHERE h.sink = $1 AND h.grp = $2 AND h.probe_at <= clock_timestamp()
  AND NOT EXISTS (SELECT FROM hookwire.sinks p WHERE p.name = $1 AND p.paused_at IS NOT NULL)
GROUP BY h.tenant, h.topic ORDER BY min(h.probe_at) LIMIT $3;

-- name: postpone
-- Postpone the next probe of these keys; the pause doubles with each attempt, up to $9 seconds. Where some records were
-- taken, the attempts begin anew, with $11 seconds.
UPDATE hookwire.holds h SET attempts = CASE WHEN $11::double precision > 0 THEN 1 ELSE h.attempts + 1 END,
       reason = d.reason, detail = d.detail,
       probe_at = clock_timestamp() + make_interval(secs => CASE WHEN $11::double precision > 0 THEN $11::double precision
           ELSE least($8::double precision * 2.0 ^ least(h.attempts, $10::integer), $9::double precision) END)
FROM unnest($5::text[], $6::text[], $7::text[]) AS d(key, reason, detail)
WHERE h.sink = $1 AND h.grp = $2 AND h.tenant = $3 AND h.topic = $4 AND h.key = d.key;

-- name: heads
-- Return the oldest record of each due hold of a topic's keys, those that were tried least first. A hold without records
-- has no id. End with the record that crosses $7 bytes of payload. No hold while the sink is paused, as in due.
SELECT hold, id, shard, tenant, topic, key, content_type, headers, payload, accepted_at, ordered,
       true AS topic_known, kafka_topic, amqp_exchange, amqp_routing_key, amqp_exchange_type, amqp_vhost
FROM (
    SELECT h.hold, h.id, h.shard, e.tenant, e.topic, e.key, e.content_type, e.headers, e.payload, e.accepted_at, e.ordered,
           t.kafka_topic, t.amqp_exchange, t.amqp_routing_key, t.amqp_exchange_type, t.amqp_vhost,
           coalesce(sum(octet_length(e.payload)) OVER (ORDER BY h.id ROWS UNBOUNDED PRECEDING) - octet_length(e.payload), 0) AS before
    FROM (
        SELECT o.key AS hold, x.id, x.shard
        FROM (SELECT y.key FROM hookwire.holds y
              WHERE y.sink = $1 AND y.grp = $4 AND y.tenant = $2 AND y.topic = $3 AND y.key > '' AND y.probe_at <= clock_timestamp()
                AND EXISTS (SELECT FROM hookwire.relay_terms r WHERE r.sink = $1 AND r.grp = $4 AND r.term = $5)
                AND NOT EXISTS (SELECT FROM hookwire.sinks p WHERE p.name = $1 AND p.paused_at IS NOT NULL)
              ORDER BY y.attempts, y.probe_at LIMIT $6) AS o
        LEFT JOIN LATERAL (
            SELECT z.id, z.shard FROM hookwire.held z
            WHERE z.sink = $1 AND z.grp = $4 AND z.tenant = $2 AND z.topic = $3 AND z.key BETWEEN o.key AND o.key
            ORDER BY z.key, z.id LIMIT 1
        ) AS x ON true
    ) AS h
    LEFT JOIN LATERAL (
        SELECT x.tenant, x.topic, x.key, x.content_type, x.headers, x.payload, x.accepted_at, x.ordered
        FROM hookwire.events x WHERE x.id BETWEEN h.id AND h.id ORDER BY x.id LIMIT 1
    ) AS e ON true
    LEFT JOIN hookwire.topics t ON t.tenant = e.tenant AND t.name = e.topic
) AS batch
WHERE before < $7
ORDER BY id;

-- name: claim
-- End with the record that crosses $8 bytes of payload. A record whose event was deleted has no topic. Only the primary
-- key gives this range in this order, as in purge. Nothing is claimed for a paused sink, so a hold that is being drained
-- stops with the batch in hand.
SELECT id, shard, tenant, topic, key, content_type, headers, payload, accepted_at, ordered,
       true AS topic_known, kafka_topic, amqp_exchange, amqp_routing_key, amqp_exchange_type, amqp_vhost
FROM (
    SELECT h.id, h.shard, e.tenant, e.topic, e.key, e.content_type, e.headers, e.payload, e.accepted_at, e.ordered,
           t.kafka_topic, t.amqp_exchange, t.amqp_routing_key, t.amqp_exchange_type, t.amqp_vhost,
           coalesce(sum(octet_length(e.payload)) OVER (ORDER BY h.id ROWS UNBOUNDED PRECEDING) - octet_length(e.payload), 0) AS before
    FROM (
        SELECT x.id, x.shard FROM hookwire.held x
        WHERE x.sink = $1 AND x.grp = $5 AND x.tenant = $2 AND x.topic = $3 AND x.key BETWEEN $4 AND $4
          AND EXISTS (SELECT FROM hookwire.relay_terms r WHERE r.sink = $1 AND r.grp = $5 AND r.term = $6)
          AND NOT EXISTS (SELECT FROM hookwire.sinks p WHERE p.name = $1 AND p.paused_at IS NOT NULL)
        ORDER BY x.key, x.id LIMIT $7
    ) AS h
    LEFT JOIN LATERAL (
        SELECT x.tenant, x.topic, x.key, x.content_type, x.headers, x.payload, x.accepted_at, x.ordered
        FROM hookwire.events x WHERE x.id BETWEEN h.id AND h.id ORDER BY x.id LIMIT 1
    ) AS e ON true
    LEFT JOIN LATERAL (
        SELECT x.kafka_topic, x.amqp_exchange, x.amqp_routing_key, x.amqp_exchange_type, x.amqp_vhost
        FROM hookwire.topics x WHERE x.tenant = e.tenant AND x.name = e.topic LIMIT 1
    ) AS t ON true
) AS batch
WHERE before < $8
ORDER BY id;

-- name: lift
-- Lift those of these holds that hold no more records; return their keys.
WITH term_held AS MATERIALIZED (
    SELECT FROM hookwire.relay_terms WHERE sink = $1 AND grp = $5 AND term = $6 FOR KEY SHARE
)
DELETE FROM hookwire.holds h
WHERE h.sink = $1 AND h.grp = $5 AND h.tenant = $2 AND h.topic = $3 AND h.key = ANY ($4::text[]) AND EXISTS (SELECT FROM term_held)
  AND (SELECT x.id FROM hookwire.held x WHERE x.sink = $1 AND x.grp = $5 AND x.tenant = $2 AND x.topic = $3
         AND x.key BETWEEN h.key AND h.key ORDER BY x.key, x.id LIMIT 1) IS NULL -- as in claim
RETURNING h.key;

-- name: list
SELECT sink, grp, tenant, topic, key, reason, detail, attempts, since, probe_at,
       (SELECT count(*) FROM (SELECT FROM hookwire.held x WHERE x.sink = h.sink AND x.grp = h.grp AND x.tenant = h.tenant
                              AND x.topic = h.topic AND x.key = h.key LIMIT 10000) AS few) AS records
FROM hookwire.holds h ORDER BY h.id LIMIT $1;

-- name: rekey
-- Records held with their topic turn out to be poison themselves. Move all records of their keys under holds of their
-- own, so that none of them is drained with the topic and passes them. A record without a key is its own key: $10 are
-- the ids of those, which need no search. A range of keys in order leaves the planner only the primary key. By statistics
-- of an empty table it may choose the index of (sink, id), and read all records of the sink.
WITH term_held AS MATERIALIZED (
    SELECT FROM hookwire.relay_terms WHERE sink = $1 AND grp = $2 AND term = $3 FOR KEY SHARE
), placed AS (
    INSERT INTO hookwire.holds (sink, grp, tenant, topic, key, reason, detail, attempts, probe_at)
    SELECT $1, $2, $4, $5, d.key, d.reason, d.detail, 1, clock_timestamp() + make_interval(secs => $9::double precision)
    FROM unnest($6::text[], $7::text[], $8::text[]) AS d(key, reason, detail) WHERE EXISTS (SELECT FROM term_held)
    ON CONFLICT DO NOTHING
), chosen AS MATERIALIZED (
    SELECT found.place FROM unnest($10::bigint[]) AS a(id)
    CROSS JOIN LATERAL (
        SELECT h.ctid AS place FROM hookwire.held h
        WHERE h.sink = $1 AND h.id BETWEEN a.id AND a.id ORDER BY h.id LIMIT 1 -- as in purge
    ) AS found
    UNION ALL
    SELECT found.place FROM (
        SELECT h.ctid AS place, h.id FROM hookwire.held h
        WHERE cardinality($10::bigint[]) < cardinality($6::text[])
          AND h.sink = $1 AND h.grp = $2 AND h.tenant = $4 AND h.topic = $5 AND h.key <= '' ORDER BY h.key, h.id OFFSET 0
    ) AS found JOIN hookwire.events e ON e.id = found.id
    WHERE e.key = ANY ($6::text[])
)
UPDATE hookwire.held h SET key = CASE WHEN h.id = ANY ($10::bigint[]) THEN chr(31) || h.id
    ELSE (SELECT e.key FROM hookwire.events e WHERE e.id BETWEEN h.id AND h.id ORDER BY e.id LIMIT 1) END
WHERE h.ctid = ANY (ARRAY(SELECT c.place FROM chosen c)) AND EXISTS (SELECT FROM term_held);

-- name: purge
-- A range in order, so that only the index of (sink, id) fits. The primary key begins with the sink as well, and a
-- planner with statistics of an empty table may choose it.
WITH purged AS (
    DELETE FROM hookwire.held
    WHERE ctid = ANY (ARRAY(
        SELECT found.place FROM unnest($2::bigint[]) AS a(id)
        CROSS JOIN LATERAL (
            SELECT h.ctid AS place FROM hookwire.held h
            WHERE h.sink = $1 AND h.id BETWEEN a.id AND a.id ORDER BY h.id LIMIT 1
        ) AS found))
    RETURNING id
)
INSERT INTO hookwire.ledger_entries (sink, outcome, ids) SELECT $1, 'sent', array_agg(id) FROM purged HAVING count(*) > 0;

-- name: policies
-- Return the policies for refused records of these topics; NULL: the sink's setting decides.
SELECT t.tenant, t.name, t.on_refused FROM unnest($1::text[], $2::text[]) AS d(tenant, name)
JOIN hookwire.topics t ON t.tenant = d.tenant AND t.name = d.name;

-- name: dead_letter
-- Apply the policy skip: the refused records become dead letters, in the outbox or behind a hold, and their keys go on.
WITH term_held AS MATERIALIZED (
    SELECT FROM hookwire.relay_terms WHERE sink = $1 AND grp = $2 AND term = $3 FOR KEY SHARE
), refused AS MATERIALIZED (
    SELECT * FROM unnest($4::smallint[], $5::bigint[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[])
        AS d(shard, id, tenant, topic, key, reason, detail)
), gone AS (
    DELETE FROM hookwire.outbox
    WHERE ctid = ANY (ARRAY(
        SELECT found.place FROM refused a
        CROSS JOIN LATERAL (
            SELECT o.ctid AS place FROM hookwire.outbox o
            WHERE o.sink = $1 AND o.shard = a.shard AND o.id = a.id LIMIT 1
        ) AS found)) AND EXISTS (SELECT FROM term_held)
    RETURNING id, shard, layout
), gone_held AS (
    DELETE FROM hookwire.held
    WHERE ctid = ANY (ARRAY(
        SELECT found.place FROM refused a
        CROSS JOIN LATERAL (
            SELECT h.ctid AS place FROM hookwire.held h
            WHERE h.sink = $1 AND h.id BETWEEN a.id AND a.id ORDER BY h.id LIMIT 1 -- as in purge
        ) AS found)) AND EXISTS (SELECT FROM term_held)
    RETURNING id, shard, layout
), record AS MATERIALIZED (
    SELECT * FROM gone UNION ALL SELECT * FROM gone_held
), noted AS (
    INSERT INTO hookwire.ledger_entries (sink, outcome, ids) SELECT $1, 'dead', array_agg(id) FROM record HAVING count(*) > 0
)
INSERT INTO hookwire.relay_dead_letters (sink, event_id, tenant, topic, key, shard, layout, reason, detail)
SELECT $1, r.id, d.tenant, d.topic, d.key, r.shard, r.layout, d.reason, d.detail FROM record r JOIN refused d ON d.id = r.id
ON CONFLICT DO NOTHING
RETURNING event_id;

-- name: page
-- Return a tenant's holds by number. $2 and $3 choose a sink and a topic.
SELECT h.id, h.sink, h.topic, h.key, h.reason, h.detail, h.attempts, h.since, h.probe_at,
       (SELECT count(*) FROM (SELECT FROM hookwire.held x WHERE x.sink = h.sink AND x.grp = h.grp AND x.tenant = h.tenant
                              AND x.topic = h.topic AND x.key = h.key LIMIT 10000) AS few) AS records
FROM hookwire.holds h
WHERE h.tenant = $1 AND ($2::text IS NULL OR h.sink = $2) AND ($3::text IS NULL OR h.topic = $3) AND h.id > $4
ORDER BY h.id LIMIT $5;

-- name: get
SELECT h.id, h.sink, h.topic, h.key, h.reason, h.detail, h.attempts, h.since, h.probe_at,
       (SELECT count(*) FROM (SELECT FROM hookwire.held x WHERE x.sink = h.sink AND x.grp = h.grp AND x.tenant = h.tenant
                              AND x.topic = h.topic AND x.key = h.key LIMIT 10000) AS few) AS records,
       ARRAY(SELECT x.id FROM hookwire.held x WHERE x.sink = h.sink AND x.grp = h.grp AND x.tenant = h.tenant
             AND x.topic = h.topic AND x.key = h.key ORDER BY x.id LIMIT 20) AS oldest
FROM hookwire.holds h WHERE h.tenant = $1 AND h.id = $2;

-- name: retry
-- Called by a person: the leader probes at once, oldest record first.
WITH probed AS (
    UPDATE hookwire.holds h SET probe_at = clock_timestamp() WHERE h.tenant = $1 AND h.id = $2
    RETURNING h.sink, h.topic, h.key
)
INSERT INTO hookwire.audit (tenant, actor, action, subject, reason, records)
SELECT $1, $3, 'hold.retry', p.sink || ' ' || p.topic || coalesce(' ' || nullif(ltrim(p.key, chr(31)), ''), ''), $4, 0 FROM probed p
RETURNING id;

-- name: skip
-- Called by a person: turn the $5 oldest waiting records into dead letters; the leader goes on with the next at once. A
-- record that is being sent at this moment may still arrive. It is then chosen, but not given up. Of a held key, only
-- the oldest record was refused, and it is given up by the first statement of a purge ($7 true). Records behind it get
-- another reason. A topic's reason applies to all its records.
WITH hold AS MATERIALIZED (
    SELECT h.id, h.sink, h.grp, h.tenant, h.topic, h.key, h.reason, h.detail FROM hookwire.holds h
    WHERE h.tenant = $1 AND h.id = $2
), chosen AS MATERIALIZED (
    SELECT x.place, x.id FROM hold h CROSS JOIN LATERAL (
        SELECT y.ctid AS place, y.id FROM hookwire.held y
        WHERE y.sink = h.sink AND y.grp = h.grp AND y.tenant = h.tenant AND y.topic = h.topic
          AND y.key BETWEEN h.key AND h.key -- as in claim
        ORDER BY y.key, y.id LIMIT $5
    ) AS x
), gone AS (
    DELETE FROM hookwire.held WHERE ctid = ANY (ARRAY(SELECT c.place FROM chosen c)) RETURNING id, shard, layout
), buried AS (
    INSERT INTO hookwire.relay_dead_letters (sink, event_id, tenant, topic, key, shard, layout, reason, detail, on_purpose)
    SELECT h.sink, g.id, h.tenant, coalesce((SELECT e.topic FROM hookwire.events e WHERE e.id = g.id), h.topic),
           (SELECT e.key FROM hookwire.events e WHERE e.id = g.id), g.shard, g.layout,
           CASE WHEN g.was_refused THEN h.reason ELSE 'purged_with_key' END,
           CASE WHEN g.was_refused THEN h.detail ELSE 'waited behind a record that was refused: ' || h.reason END, true
    FROM hold h
    CROSS JOIN LATERAL (
        SELECT *, h.key = '' OR ($7 AND id = (SELECT min(c.id) FROM chosen c)) AS was_refused FROM gone) AS g
    ON CONFLICT DO NOTHING
), noted AS (
    INSERT INTO hookwire.ledger_entries (sink, outcome, ids)
    SELECT h.sink, 'dead', array_agg(g.id) FROM gone g, hold h GROUP BY h.sink
), probed AS (
    UPDATE hookwire.holds h SET probe_at = clock_timestamp() FROM hold WHERE h.id = hold.id
), audited AS (
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason, records)
    SELECT $1, $3, $6, h.sink || ' ' || h.topic || coalesce(' ' || nullif(ltrim(h.key, chr(31)), ''), ''), $4,
           (SELECT count(*) FROM gone)
    FROM hold h
)
SELECT (SELECT count(*) FROM hold) AS holds, (SELECT count(*) FROM chosen) AS chosen, (SELECT count(*) FROM gone) AS records;
