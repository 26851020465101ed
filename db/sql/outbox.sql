-- The records that a sink is still owed. Reads check the term without a lock. Claims start at the low-water
-- mark of each shard, with one LATERAL per shard.
--
-- A statement that deletes records of a batch from a large table looks each record up by its whole key. This applies
-- here and in manifest.sql, hold.sql and delivery.*.sql. The lookup is a LATERAL with LIMIT 1, which no planner can turn
-- into a join, and the delete is by ctid. A join that was planned for an empty table would read the whole backlog for
-- each batch, until its plan is dropped (tests/db/test_stale_plans.py).
--
-- A ctid belongs to the row version of this statement's snapshot, and no other row can have it before the statement
-- ends. If another session deletes the row meanwhile, it is not returned here, and the ledger counts returned rows
-- only. If another session moves it (layout.hash_owed, hold.rekey, layout.move_held), it has another ctid and stays. It
-- is still owed, and the leader claims it again. Some releases of PostgreSQL do not check the ctid again: they
-- delete and return the new version. It is the same record.

-- name: claim
-- End with the record that crosses $9 bytes of payload, so that a batch fits into memory. A record whose event was
-- deleted has no topic: it must be returned, or it would block all later records for ever. Nothing is claimed for a
-- paused sink; what was claimed before goes on.
SELECT id, shard, tenant, topic, key, content_type, headers, payload, accepted_at, ordered,
       topic_known, kafka_topic, amqp_exchange, amqp_routing_key, amqp_exchange_type, amqp_vhost
FROM (
    SELECT c.id, c.shard, e.tenant, e.topic, e.key, e.content_type, e.headers, e.payload, e.accepted_at, e.ordered,
           t.name IS NOT NULL AS topic_known, t.kafka_topic, t.amqp_exchange, t.amqp_routing_key, t.amqp_exchange_type,
           t.amqp_vhost,
           coalesce(sum(octet_length(e.payload)) OVER (ORDER BY c.id ROWS UNBOUNDED PRECEDING) - octet_length(e.payload), 0) AS before
    FROM (
        SELECT o.id, o.shard
        FROM unnest($2::smallint[], $3::bigint[]) AS s(shard, low)
        CROSS JOIN LATERAL (
            SELECT o.id, o.shard FROM hookwire.outbox o
            WHERE o.sink = $1 AND o.shard = s.shard AND o.id >= s.low AND o.id NOT IN (SELECT unnest($4::bigint[]))
            ORDER BY o.id LIMIT $5
        ) AS o
        WHERE EXISTS (SELECT FROM hookwire.relay_terms r WHERE r.sink = $1 AND r.grp = $6 AND r.term = $7)
          AND (SELECT hookwire.assert_origin($10, (SELECT max(m.low) - 1 FROM unnest($3::bigint[]) AS m(low))))
          AND NOT EXISTS (SELECT FROM hookwire.sinks p WHERE p.name = $1 AND p.paused_at IS NOT NULL)
        ORDER BY o.id LIMIT $8
    ) AS c
    LEFT JOIN LATERAL (
        SELECT x.tenant, x.topic, x.key, x.content_type, x.headers, x.payload, x.accepted_at, x.ordered
        FROM hookwire.events x WHERE x.id BETWEEN c.id AND c.id ORDER BY x.id LIMIT 1
    ) AS e ON true
    LEFT JOIN LATERAL (
        SELECT x.name, x.kafka_topic, x.amqp_exchange, x.amqp_routing_key, x.amqp_exchange_type, x.amqp_vhost
        FROM hookwire.topics x WHERE x.tenant = e.tenant AND x.name = e.topic LIMIT 1
    ) AS t ON true
) AS batch
WHERE before < $9
ORDER BY id;

-- name: claim_heads
SELECT c.id, c.shard, e.tenant, e.topic, e.key, t.name IS NOT NULL AS topic_known
FROM (
    SELECT o.id, o.shard
    FROM unnest($2::smallint[], $3::bigint[]) AS s(shard, low)
    CROSS JOIN LATERAL (
        SELECT o.id, o.shard FROM hookwire.outbox o
        WHERE o.sink = $1 AND o.shard = s.shard AND o.id >= s.low AND o.id NOT IN (SELECT unnest($4::bigint[]))
        ORDER BY o.id LIMIT $5
    ) AS o
    WHERE EXISTS (SELECT FROM hookwire.relay_terms r WHERE r.sink = $1 AND r.grp = $6 AND r.term = $7)
      AND (SELECT hookwire.assert_origin($9, (SELECT max(m.low) - 1 FROM unnest($3::bigint[]) AS m(low))))
      AND NOT EXISTS (SELECT FROM hookwire.sinks p WHERE p.name = $1 AND p.paused_at IS NOT NULL)
    ORDER BY o.id LIMIT $8
) AS c
LEFT JOIN LATERAL (
    SELECT x.tenant, x.topic, x.key FROM hookwire.events x WHERE x.id BETWEEN c.id AND c.id ORDER BY x.id LIMIT 1
) AS e ON true
LEFT JOIN LATERAL (
    SELECT x.name FROM hookwire.topics x WHERE x.tenant = e.tenant AND x.name = e.topic LIMIT 1
) AS t ON true
ORDER BY c.id;

-- name: purge
-- Delete acknowledged records and add their ledger entries. No term is needed, because an acknowledged record is not
-- owed any more.
WITH purged AS (
    DELETE FROM hookwire.outbox
    WHERE ctid = ANY (ARRAY(
        SELECT found.place FROM unnest($2::smallint[], $3::bigint[]) AS a(shard, id)
        CROSS JOIN LATERAL (
            SELECT o.ctid AS place FROM hookwire.outbox o
            WHERE o.sink = $1 AND o.shard = a.shard AND o.id = a.id LIMIT 1
        ) AS found)) AND (SELECT hookwire.assert_origin($4, 0))
    RETURNING id
)
INSERT INTO hookwire.ledger_entries (sink, outcome, ids) SELECT $1, 'sent', array_agg(id) FROM purged HAVING count(*) > 0;

-- name: ensure_topics
-- Create rows for topics that plain SQL used first, outside every publishing transaction.
INSERT INTO hookwire.topics (tenant, name, made_by, used_on)
SELECT DISTINCT d.tenant, d.name, '', current_date FROM unnest($1::text[], $2::text[]) AS d(tenant, name)
ON CONFLICT DO NOTHING;

-- name: mark_horizon
-- Return the highest id ever drawn; a fresh sequence has none.
SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM hookwire.event_id;

-- name: draw_xid
-- The id is on disk when the statement returns, with every id drawn before it. So no crash takes the sequence back
-- below a recorded horizon. On a server with asynchronous commit, this transaction commits synchronously.
SELECT pg_current_xact_id()::text
FROM setval('hookwire.horizon', 1),
     set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'local'), true);

-- name: origin
-- Return the origin of the ids that are read from now on.
SELECT hookwire.origin();

-- name: low_water
-- Once every transaction older than ours has ended, only ids that this snapshot sees can still appear below the mark.
-- So start at the shard's lowest record, or else after the mark.
SELECT s.shard, coalesce(
           (SELECT o.id FROM hookwire.outbox o
            WHERE o.sink = $1 AND o.shard = s.shard AND o.id >= s.low AND o.id <= $5 ORDER BY o.id LIMIT 1),
           $5 + 1) AS low
FROM unnest($2::smallint[], $3::bigint[]) AS s(shard, low)
WHERE pg_snapshot_xmin(pg_current_snapshot()) >= $4::text::xid8
  AND (SELECT hookwire.assert_origin($6, (SELECT max(m.low) - 1 FROM unnest($3::bigint[]) AS m(low))));

-- name: oldest
-- Return per sink how many records wait (counted up to a bound), and since when the oldest waits. Look at a sink
-- without records only once: a second read would pass every dead row that a snapshot keeps. Counts are in the order of an
-- index, or a bitmap of all records would be made first.
SELECT s.name AS sink, s.configured, w.records AS backlog,
       (SELECT count(*) FROM (SELECT FROM hookwire.held h WHERE h.sink = s.name ORDER BY h.sink, h.id LIMIT $1) AS few) AS held,
       CASE WHEN w.records > 0 THEN (
            SELECT e.accepted_at FROM hookwire.events e WHERE e.id = (
                SELECT min(first.id) FROM generate_series(0, 63) AS g(shard)
                CROSS JOIN LATERAL (SELECT o.id FROM hookwire.outbox o
                                    WHERE o.sink = s.name AND o.shard = g.shard ORDER BY o.id LIMIT 1) AS first)) END AS oldest_at,
       r.term, r.owner, r.led, s.paused_at, s.paused_by, s.pause_reason
FROM hookwire.sinks s
CROSS JOIN LATERAL (
    SELECT count(*) AS records FROM (SELECT FROM hookwire.outbox o WHERE o.sink = s.name ORDER BY o.sink, o.shard, o.id LIMIT $1) AS few
) AS w
CROSS JOIN LATERAL (
    -- The latest term of its groups, and all leaders.
    SELECT max(t.term) AS term, string_agg(DISTINCT t.owner, ', ' ORDER BY t.owner) AS owner,
           bool_or(t.lease_until > clock_timestamp()) AS led
    FROM hookwire.relay_terms t WHERE t.sink = s.name
) AS r
ORDER BY s.name;
