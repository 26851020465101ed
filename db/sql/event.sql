-- Events: publish them, read them, and return their state.

-- name: publish_batch
SELECT item, outcome, event_id, accepted_at, ordered, in_flight
FROM hookwire.publish_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, publishers => $11);

-- name: set_lock_timeout
SELECT set_config('lock_timeout', $1, true);

-- name: installation
SELECT incarnation, layout, topics_auto_create, sql_notify, payload_bytes_max FROM hookwire.installation;

-- name: configure
UPDATE hookwire.installation SET topics_auto_create = $1, sql_notify = $2, payload_bytes_max = $3, queues_auto_create = $4,
    kinds_auto_create = $5, services_auto_create = $6, names_per_key_max = $7, names_max = $8
WHERE (topics_auto_create, sql_notify, payload_bytes_max, queues_auto_create, kinds_auto_create, services_auto_create, names_per_key_max,
       names_max) IS DISTINCT FROM ($1, $2, $3, $4, $5, $6, $7, $8);

-- name: configure_sinks
-- Switch a sink off only when no process leads it: another process may have it configured.
-- Return the sinks that stay on for that reason. Where AMQP is relayed, create the topic of task notifications now.
-- Otherwise a foreign transaction would have to write its row.
WITH notifying AS (
    INSERT INTO hookwire.topics (tenant, name, sinks, ordered, amqp_exchange, amqp_routing_key, retention_days)
    SELECT 'default', 'hookwire.tasks', '{amqp}', false, 'amq.default', 'task_queue', 1
    WHERE 'amqp' = ANY ($1::text[]) ON CONFLICT DO NOTHING
), wanted AS MATERIALIZED (
    SELECT s.name, s.configured, s.name = ANY ($1::text[]) AS mine,
           EXISTS (SELECT FROM hookwire.relay_terms r WHERE r.sink = s.name AND r.lease_until > clock_timestamp()) AS led
    FROM hookwire.sinks s
), changed AS (
    UPDATE hookwire.sinks s SET configured = w.mine, updated_at = now()
    FROM wanted w WHERE w.name = s.name AND w.configured <> w.mine AND (w.mine OR NOT w.led)
)
SELECT name FROM wanted WHERE configured AND NOT mine AND led;

-- name: ensure_partitions
SELECT hookwire.ensure_partitions();

-- name: notify
SELECT pg_notify('hookwire_outbox', '');

-- name: get
-- Headers of more than 64 KiB are left out: they were stored before hookwire.publish had a limit.
SELECT e.id, e.accepted_at, e.ordered, e.topic, e.key, e.content_type,
       CASE WHEN w.is_large THEN '{}'::jsonb ELSE e.headers END AS headers, w.is_large AS headers_left_out, e.sinks, e.payload,
       e.erased_at, e.published_by
FROM hookwire.events e CROSS JOIN LATERAL (SELECT octet_length(e.headers::text) > 65536 AS is_large) AS w
WHERE e.tenant = $1 AND e.id = $2;

-- name: pair
-- Return the topic of an event, and the pattern by which a subscription chose it; each is NULL if it does not exist.
SELECT (SELECT e.topic FROM hookwire.events e WHERE e.tenant = $1 AND e.id = $2) AS topic,
       (SELECT s.topic FROM hookwire.subscriptions s WHERE s.tenant = $1 AND s.id = $3) AS pattern;

-- name: latest
SELECT id, accepted_at, ordered, topic, key, content_type, headers, sinks, payload, erased_at
FROM hookwire.events WHERE id = (SELECT max(e.id) FROM hookwire.events e WHERE e.tenant = $1 AND e.topic = $2);

-- name: sink_states
-- Return one row for each sink that the event was routed to: still in the outbox, held, or sent.
SELECT s.sink,
       CASE WHEN EXISTS (SELECT FROM generate_series(0, 63) AS g(shard) CROSS JOIN LATERAL (
                             SELECT FROM hookwire.outbox o WHERE o.sink = s.sink AND o.shard = g.shard AND o.id = e.id LIMIT 1
                         ) AS owed) THEN 'pending'
            WHEN w.id IS NOT NULL THEN 'held'
            ELSE 'sent' END AS state,
       coalesce(k.configured, false) AS configured, k.paused_at,
       w.detail AS reason, w.probe_at
FROM hookwire.events e
CROSS JOIN LATERAL unnest(e.sinks) AS s(sink)
LEFT JOIN hookwire.sinks k ON k.name = s.sink
LEFT JOIN LATERAL (
    -- Where keys are in order across topics, the event may wait behind another topic's hold.
    SELECT h.id, o.detail, o.probe_at
    FROM (SELECT x.* FROM hookwire.held x WHERE x.sink = s.sink AND x.id BETWEEN e.id AND e.id ORDER BY x.id LIMIT 1) AS h
    LEFT JOIN LATERAL (
        SELECT y.detail, y.probe_at FROM hookwire.holds y
        WHERE y.sink = h.sink AND y.grp = h.grp AND y.tenant = h.tenant AND y.topic = h.topic AND y.key = h.key LIMIT 1
    ) AS o ON true
) AS w ON true
WHERE e.tenant = $1 AND e.id = $2
ORDER BY s.sink;

-- name: purge_idempotency_keys
DELETE FROM hookwire.idempotency_keys
WHERE ctid = ANY (ARRAY(
    SELECT k.ctid FROM hookwire.idempotency_keys k
    WHERE k.accepted_at < now() - make_interval(secs => $1::double precision) AND right(k.key, 3) <> E'\x1fin'
    ORDER BY k.accepted_at LIMIT 5000));

-- name: purge_delivery_ids
-- Delete the delivery ids of inbound sources, each after the time of its source, but not before $1 seconds. The sources
-- are found in the index, because one that is removed has ids, too.
WITH RECURSIVE door(name) AS (
    (SELECT split_part(k.key, ':', 1) FROM hookwire.idempotency_keys k WHERE right(k.key, 3) = E'\x1fin'
     ORDER BY split_part(k.key, ':', 1) LIMIT 1)
    UNION ALL
    SELECT (SELECT split_part(k.key, ':', 1) FROM hookwire.idempotency_keys k
            WHERE right(k.key, 3) = E'\x1fin' AND split_part(k.key, ':', 1) > d.name
            ORDER BY split_part(k.key, ':', 1) LIMIT 1)
    FROM door d WHERE d.name IS NOT NULL
)
DELETE FROM hookwire.idempotency_keys
WHERE ctid = ANY (ARRAY(
    SELECT o.ctid FROM door d CROSS JOIN LATERAL (
        SELECT k.ctid FROM hookwire.idempotency_keys k
        WHERE right(k.key, 3) = E'\x1fin' AND split_part(k.key, ':', 1) = d.name
          AND k.accepted_at < now() - make_interval(secs => greatest($1::double precision, (
              SELECT s.remember_seconds FROM hookwire.inbound_sources s WHERE s.name = d.name)))
        ORDER BY k.accepted_at LIMIT 5000) AS o
    LIMIT 5000));

-- name: pump
-- Publish the load of `hookwire pump`, in its order. The headers are seq and run.
SELECT hookwire.publish($1, convert_to(coalesce(r.value, ''), 'UTF8'), key => r.key,
                        headers => jsonb_build_object('seq', r.seq::text, 'run', $5::text))
FROM unnest($2::text[], $3::text[], $4::bigint[]) WITH ORDINALITY AS r(key, value, seq, n) ORDER BY r.n;

-- name: pump_owed
-- Return the numbers of a run of `hookwire pump` that the topic's Kafka topic has yet to get, and those that were given up.
SELECT (e.headers ->> 'seq')::bigint AS number, o.is_given_up
FROM (SELECT id, false AS is_given_up FROM hookwire.outbox WHERE sink = 'kafka'
      UNION SELECT id, false FROM hookwire.held WHERE sink = 'kafka'
      UNION SELECT event_id, true FROM hookwire.relay_dead_letters WHERE sink = 'kafka') o
JOIN hookwire.events e ON e.id = o.id
WHERE e.topic = $1 AND e.headers ->> 'run' = $2;

-- name: id_range
-- Return the range of ids of the events of a time range; NULL where there is no bound. Ids rise with time, except for
-- transactions that were open for long: $4 seconds of room cover those. This is a binary search over ids, and each step
-- reads one entry of the primary key. `|| ''` keeps the planner from an index of the tenant, which it would sort.
WITH RECURSIVE span AS (
    SELECT coalesce((SELECT e.id FROM hookwire.events e WHERE e.tenant || '' = $1 ORDER BY e.id LIMIT 1), 0) AS low,
           coalesce((SELECT e.id FROM hookwire.events e WHERE e.tenant || '' = $1 ORDER BY e.id DESC LIMIT 1), 0) + 1 AS high
), step AS (
    SELECT b.name, b.moment, s.low, s.high, 0 AS n
    FROM span s, (VALUES ('low', $2::timestamptz - make_interval(secs => $4)), ('high', $3::timestamptz + make_interval(secs => $4))) AS b(name, moment)
    WHERE b.moment IS NOT NULL
    UNION ALL
    SELECT s.name, s.moment, CASE WHEN f.accepted_at < s.moment THEN f.id + 1 ELSE s.low END,
           CASE WHEN f.accepted_at < s.moment THEN s.high ELSE m.middle END, s.n + 1
    FROM step s
    CROSS JOIN LATERAL (SELECT s.low + (s.high - s.low) / 2 AS middle) AS m
    LEFT JOIN LATERAL (
        SELECT e.id, e.accepted_at FROM hookwire.events e WHERE e.id >= m.middle ORDER BY e.id LIMIT 1
    ) AS f ON true
    WHERE s.low < s.high AND s.n < 64
)
SELECT (SELECT s.low FROM step s WHERE s.name = 'low' ORDER BY s.n DESC LIMIT 1) AS low,
       (SELECT s.low FROM step s WHERE s.name = 'high' ORDER BY s.n DESC LIMIT 1) AS high;

-- name: of_topic
-- Return up to $5 ids of events of a topic, newest first, from $3 up to and including $4.
SELECT e.id FROM hookwire.events e
WHERE e.tenant = $1 AND e.topic = $2 AND e.id >= $3 AND e.id <= $4 ORDER BY e.id DESC LIMIT $5;

-- name: search
-- Search up to $9 events, newest first, by time of acceptance and by outcome, and return up to $10. Return at least one
-- row, with the number of events read and the last of them. $11 is an expression for topics. Rows that wait for a sink are looked up per shard.
WITH examined AS MATERIALIZED (
    SELECT x.id, x.topic, x.key, x.content_type, x.accepted_at, x.ordered, x.sinks, octet_length(x.payload) AS bytes,
           x.erased_at
    FROM hookwire.events x
    WHERE x.tenant = $1 AND ($2::text IS NULL OR x.topic = $2) AND ($3::text IS NULL OR x.key = $3) AND x.id >= $4 AND x.id < $5
    ORDER BY x.id DESC LIMIT $9
), wanted AS (
    SELECT e.* FROM examined e
    WHERE ($6::timestamptz IS NULL OR e.accepted_at >= $6) AND ($7::timestamptz IS NULL OR e.accepted_at < $7)
      AND ($11::text IS NULL OR e.topic ~ $11)
), judged AS (
    SELECT w.id, w.topic, w.key, w.content_type, w.accepted_at, w.ordered, w.bytes, w.erased_at,
           CASE WHEN EXISTS (SELECT FROM hookwire.dead_letters l WHERE l.event_id = w.id AND l.kind NOT IN ('gone', 'erased'))
                  OR EXISTS (SELECT FROM hookwire.relay_dead_letters l WHERE l.event_id = w.id) THEN 'dead'
                WHEN EXISTS (SELECT FROM hookwire.deliveries d WHERE d.event_id = w.id)
                  OR EXISTS (SELECT FROM unnest(w.sinks) AS s(sink) JOIN hookwire.held h ON h.sink = s.sink AND h.id = w.id)
                  OR EXISTS (SELECT FROM unnest(w.sinks) AS s(sink), generate_series(0, 63) AS g(shard)
                             CROSS JOIN LATERAL (SELECT FROM hookwire.outbox o
                                                 WHERE o.sink = s.sink AND o.shard = g.shard AND o.id = w.id LIMIT 1) AS owed)
                THEN 'waiting' ELSE 'delivered' END AS outcome
    FROM wanted w
)
SELECT s.examined, s.last_id, j.*
FROM (SELECT count(*) AS examined, min(id) AS last_id FROM examined) AS s
LEFT JOIN LATERAL (
    SELECT * FROM judged WHERE $8::text IS NULL OR outcome = $8 ORDER BY id DESC LIMIT $10
) AS j ON true
ORDER BY j.id DESC;
