-- Fan-out of deliveries: one statement finds the subscriptions of an event, creates the deliveries and deletes the outbox
-- row. delivery.claim.sql says why rows are updated by their place.

-- name: audience
-- Return the size of each topic's audience: active subscriptions and former audiences. Also return whether some
-- have filters, and the number of the tenant's patterns. The caller splits a fan-out by these costs. Each pattern is
-- compared with all topics before the next one, because PostgreSQL keeps only 32 compiled patterns.
WITH asked AS MATERIALIZED (
    SELECT d.tenant, d.topic FROM unnest($1::text[], $2::text[]) AS d(tenant, topic)
), pattern AS MATERIALIZED (
    SELECT s.tenant, s.topic_regex, count(*) AS subscriptions, bool_or(s.filter_path IS NOT NULL) AS is_filtered
    FROM (SELECT DISTINCT a.tenant FROM asked a) AS t
    CROSS JOIN LATERAL (
        SELECT x.tenant, x.topic_regex, x.filter_path FROM hookwire.subscriptions x
        WHERE x.tenant = t.tenant AND x.state = 'active' AND x.topic_regex IS NOT NULL
        UNION ALL
        SELECT f.tenant, f.topic_regex, f.filter_path FROM hookwire.former_audiences f
        WHERE f.tenant = t.tenant AND f.topic_regex IS NOT NULL
        OFFSET 0
    ) AS s
    GROUP BY s.tenant, s.topic_regex
), matched AS MATERIALIZED (
    SELECT t.tenant, t.topic, sum(p.subscriptions) AS subscriptions, bool_or(p.is_filtered) AS is_filtered
    FROM pattern p CROSS JOIN LATERAL (
        SELECT a.tenant, a.topic FROM asked a WHERE a.tenant = p.tenant AND a.topic ~ p.topic_regex OFFSET 0
    ) AS t
    GROUP BY t.tenant, t.topic
)
SELECT a.tenant, a.topic, (e.subscriptions + coalesce(m.subscriptions, 0))::bigint AS audience,
       e.is_filtered OR coalesce(m.is_filtered, false) AS is_filtered,
       (SELECT count(*) FROM pattern p WHERE p.tenant = a.tenant) AS patterns
FROM asked a
CROSS JOIN LATERAL (
    SELECT count(*) AS subscriptions, coalesce(bool_or(s.filter_path IS NOT NULL), false) AS is_filtered
    FROM (
        SELECT x.filter_path FROM hookwire.subscriptions x
        WHERE x.tenant = a.tenant AND x.topic = a.topic AND x.state = 'active' AND x.topic_regex IS NULL
        UNION ALL
        SELECT f.filter_path FROM hookwire.former_audiences f
        WHERE f.tenant = a.tenant AND f.topic = a.topic AND f.topic_regex IS NULL
    ) AS s
) AS e
LEFT JOIN matched m ON m.tenant = a.tenant AND m.topic = a.topic;

-- name: sizes
-- Return the payload sizes of events that filters have to parse.
SELECT e.id, octet_length(e.payload) AS bytes
FROM unnest($1::bigint[]) AS a(id)
CROSS JOIN LATERAL (
    SELECT x.id, x.payload FROM hookwire.events x WHERE x.id BETWEEN a.id AND a.id ORDER BY x.id LIMIT 1
) AS e;

-- name: many_values
-- Return the events with so many values that a filter of 64 conditions may be too expensive.
SELECT e.id
FROM unnest($1::bigint[]) AS a(id)
CROSS JOIN LATERAL (
    SELECT x.id, x.payload FROM hookwire.events x WHERE x.id BETWEEN a.id AND a.id ORDER BY x.id LIMIT 1
) AS e
WHERE hookwire.value_count(e.payload) > 7812;

-- name: fan_out
-- Delete outbox rows and create the deliveries of the deleted rows, so that each event is fanned out exactly once.
-- If an event was begun in slices and its audience now fits into one statement, it continues behind its cursor. Only the
-- head of a lane is due. A delivery behind an earlier event of its lane gets due_at = infinity.
--
-- The audience is that of the time of acceptance. Subscriptions that have ended or changed since then stand in
-- former_audiences. A delivery of a disabled subscription waits. A delivery of an ended subscription becomes a
-- dead letter, or is dropped for WebSub.
WITH term_held AS MATERIALIZED (
    SELECT FROM hookwire.relay_terms WHERE sink = 'webhooks' AND grp = $1 AND term = $2 FOR KEY SHARE
), gone AS MATERIALIZED (
    DELETE FROM hookwire.outbox
    WHERE ctid = ANY (ARRAY(
        SELECT found.place FROM unnest($3::smallint[], $4::bigint[]) AS a(shard, id)
        CROSS JOIN LATERAL (
            SELECT o.ctid AS place FROM hookwire.outbox o
            WHERE o.sink = 'webhooks' AND o.shard = a.shard AND o.id = a.id LIMIT 1
        ) AS found)) AND EXISTS (SELECT FROM term_held)
    RETURNING id
), event AS MATERIALIZED (
    SELECT e.id, e.tenant, e.topic, e.key, e.accepted_at
    FROM gone CROSS JOIN LATERAL (
        SELECT x.* FROM hookwire.events x WHERE x.id BETWEEN gone.id AND gone.id ORDER BY x.id LIMIT 1
    ) AS e
), topic AS MATERIALIZED (
    SELECT tenant, topic, min(id) AS first_id FROM event GROUP BY tenant, topic
), matched AS MATERIALIZED (
    -- Compare each distinct pattern with each distinct topic once, as in audience.
    SELECT t.tenant, t.topic, t.first_id, p.topic_regex
    FROM (SELECT DISTINCT x.tenant, x.topic_regex
          FROM (SELECT tenant, min(first_id) AS first_id FROM topic GROUP BY tenant) AS of
          CROSS JOIN LATERAL (
              SELECT y.tenant, y.topic_regex FROM hookwire.subscriptions y
              WHERE y.tenant = of.tenant AND y.state = 'active' AND y.topic_regex IS NOT NULL
              UNION ALL
              SELECT f.tenant, f.topic_regex FROM hookwire.former_audiences f
              WHERE f.tenant = of.tenant AND f.topic_regex IS NOT NULL AND f.until_id >= of.first_id
              OFFSET 0
          ) AS x) AS p
    CROSS JOIN LATERAL (
        SELECT o.tenant, o.topic, o.first_id FROM topic o WHERE o.tenant = p.tenant AND o.topic ~ p.topic_regex OFFSET 0
    ) AS t
), former AS MATERIALIZED (
    SELECT t.tenant, t.topic, f.subscription_id, f.filter_path, f.lease_until, f.until_id
    FROM topic t CROSS JOIN LATERAL (
        SELECT y.subscription_id, y.filter_path, y.lease_until, y.until_id FROM hookwire.former_audiences y
        WHERE y.tenant = t.tenant AND y.topic = t.topic AND y.topic_regex IS NULL AND y.until_id >= t.first_id
        OFFSET 0
    ) AS f
    UNION ALL
    SELECT m.tenant, m.topic, f.subscription_id, f.filter_path, f.lease_until, f.until_id
    FROM matched m CROSS JOIN LATERAL (
        SELECT y.subscription_id, y.filter_path, y.lease_until, y.until_id FROM hookwire.former_audiences y
        WHERE y.tenant = m.tenant AND y.topic_regex = m.topic_regex AND y.topic_regex IS NOT NULL AND y.until_id >= m.first_id
        OFFSET 0
    ) AS f
), audience AS MATERIALIZED (
    SELECT t.tenant, t.topic, s.id, s.ordered, s.protocol, s.filter_path, s.lease_until, NULL::bigint AS until_id
    FROM topic t CROSS JOIN LATERAL (
        SELECT x.id, x.ordered, x.protocol, x.filter_path, x.lease_until FROM hookwire.subscriptions x
        WHERE x.tenant = t.tenant AND x.topic = t.topic AND x.state = 'active' AND x.topic_regex IS NULL
        OFFSET 0
    ) AS s
    UNION ALL
    SELECT m.tenant, m.topic, s.id, s.ordered, s.protocol, s.filter_path, s.lease_until, NULL
    FROM matched m CROSS JOIN LATERAL (
        SELECT x.id, x.ordered, x.protocol, x.filter_path, x.lease_until FROM hookwire.subscriptions x
        WHERE x.tenant = m.tenant AND x.topic_regex = m.topic_regex AND x.state = 'active' AND x.topic_regex IS NOT NULL
        OFFSET 0
    ) AS s
    UNION ALL
    SELECT f.tenant, f.topic, s.id, s.ordered, s.protocol, f.filter_path, f.lease_until, f.until_id
    FROM former f CROSS JOIN LATERAL (
        SELECT x.id, x.ordered, x.protocol FROM hookwire.subscriptions x
        WHERE x.id = f.subscription_id AND (x.protocol <> 'websub' OR x.state IN ('active', 'disabled'))
        OFFSET 0
    ) AS s
), filtered AS MATERIALIZED (
    -- Parse contents once, and only for events whose audience has a filter.
    SELECT e.id, hookwire.filter_document(x.topic, x.key, x.accepted_at, x.content_type, x.headers, x.payload) AS document
    FROM event e CROSS JOIN LATERAL (
        SELECT y.* FROM hookwire.events y WHERE y.id BETWEEN e.id AND e.id ORDER BY y.id LIMIT 1
    ) AS x
    WHERE EXISTS (SELECT FROM audience a WHERE a.tenant = e.tenant AND a.topic = e.topic AND a.filter_path IS NOT NULL)
), owed AS MATERIALIZED (
    SELECT e.id AS event_id, a.id AS subscription_id, e.tenant, a.protocol, CASE WHEN a.ordered THEN e.key END AS lane,
           dense_rank() OVER (PARTITION BY a.id, e.key ORDER BY e.id) AS place
    FROM event e JOIN audience a ON a.tenant = e.tenant AND a.topic = e.topic
    WHERE (a.until_id IS NULL OR e.id <= a.until_id) AND (a.lease_until IS NULL OR a.lease_until > e.accepted_at)
      AND NOT EXISTS (SELECT FROM hookwire.fanout_cursors c WHERE c.event_id = e.id
                      AND (a.id <= c.last_subscription_id OR a.id > c.upper_subscription_id))
      AND (a.filter_path IS NULL
           OR (SELECT hookwire.passes(f.document, a.filter_path) FROM filtered f WHERE f.id = e.id))
), made AS (
    INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant, lane)
    SELECT o.event_id, o.subscription_id,
           CASE WHEN o.lane IS NOT NULL AND (o.place > 1 OR EXISTS (
                     SELECT FROM hookwire.deliveries x
                     WHERE x.subscription_id = o.subscription_id AND x.lane = o.lane AND x.event_id < o.event_id))
                THEN 'infinity' ELSE now() END,
           now(), o.tenant, o.lane
    FROM owed o
    ORDER BY o.event_id
    ON CONFLICT DO NOTHING
    RETURNING subscription_id
), finished AS (
    DELETE FROM hookwire.fanout_cursors c USING gone WHERE c.event_id = gone.id
), noted AS (
    INSERT INTO hookwire.ledger_entries (sink, outcome, ids)
    SELECT 'webhooks', 'sent', array_agg(id) FROM gone HAVING count(*) > 0
), woken AS (
    -- WebSub sends new content at once, so the head of the lane is due regardless of its backoff. This
    -- happens at most every 5 s and does not count in the retry schedule. Locked rows are being claimed or woken already.
    UPDATE hookwire.deliveries d
    SET due_at = now(), woken_at = now(), planned_at = d.due_at, free_attempts = d.free_attempts + 1
    FROM (SELECT x.ctid AS place
          FROM (SELECT DISTINCT subscription_id, lane FROM owed WHERE protocol = 'websub' AND lane IS NOT NULL) AS w
          CROSS JOIN LATERAL (
              SELECT h.ctid AS place FROM hookwire.deliveries h
              WHERE h.subscription_id = w.subscription_id AND h.lane = w.lane ORDER BY h.event_id LIMIT 1
          ) AS head
          JOIN hookwire.deliveries x ON x.ctid = head.place
          WHERE x.fence IS NULL AND isfinite(x.due_at) AND x.due_at - interval '5 seconds' > now()
            AND (x.woken_at IS NULL OR x.woken_at < now() - interval '5 seconds')
          FOR UPDATE OF x SKIP LOCKED) AS asleep
    WHERE d.ctid = asleep.place
)
SELECT (SELECT count(*) FROM gone) AS events,
       (SELECT count(*) FROM made) AS deliveries,
       (SELECT coalesce(array_agg(DISTINCT m.subscription_id), '{}') FROM made m) AS subscriptions,
       EXISTS (SELECT FROM term_held) AS leads;

-- name: fan_out_slice
-- Fan one event out to up to $5 of its subscriptions; the last slice deletes the outbox row. The first slice fixes the
-- highest subscription. Lanes are treated as in fan_out. A subscription whose filter is too expensive for the event gets
-- a dead letter. $6: each subscription with a filter gets one, because the filter took too long.
WITH term_held AS MATERIALIZED (
    SELECT FROM hookwire.relay_terms WHERE sink = 'webhooks' AND grp = $1 AND term = $2 FOR KEY SHARE
), event AS MATERIALIZED (
    SELECT e.id, e.tenant, e.topic, e.key, e.accepted_at FROM hookwire.events e
    WHERE e.id = $4 AND EXISTS (SELECT FROM term_held)
      AND EXISTS (SELECT FROM hookwire.outbox o WHERE o.sink = 'webhooks' AND o.shard = $3 AND o.id = $4)
), span AS MATERIALIZED (
    SELECT coalesce(max(c.last_subscription_id), 0) AS low,
           coalesce(max(c.upper_subscription_id), (SELECT max(id) FROM hookwire.subscriptions), 0) AS high
    FROM hookwire.fanout_cursors c WHERE c.event_id = $4
), filtered AS MATERIALIZED (
    SELECT hookwire.filter_document(x.topic, x.key, x.accepted_at, x.content_type, x.headers, x.payload) AS document,
           hookwire.value_count(x.payload) AS value_count
    FROM event e JOIN hookwire.events x ON x.id = e.id
), wanted AS MATERIALIZED (
    SELECT x.id, x.protocol, w.is_plain, w.filter_paths, e.id AS event_id, e.tenant, CASE WHEN x.ordered THEN e.key END AS lane
    FROM event e, span, hookwire.subscriptions x
    CROSS JOIN LATERAL (
        -- The present subscription, and its former states since the event was accepted. One matching state is
        -- enough.
        SELECT bool_or(v.filter_path IS NULL) AS is_plain, array_agg(v.filter_path) AS filter_paths
        FROM (SELECT x.topic, x.topic_regex, x.filter_path, x.lease_until WHERE x.state = 'active'
              UNION ALL
              SELECT f.topic, f.topic_regex, f.filter_path, f.lease_until FROM hookwire.former_audiences f
              WHERE f.subscription_id = x.id AND f.until_id >= e.id
                AND (x.protocol <> 'websub' OR x.state IN ('active', 'disabled'))) AS v
        WHERE (v.lease_until IS NULL OR v.lease_until > e.accepted_at)
          AND CASE WHEN v.topic_regex IS NULL THEN v.topic = e.topic ELSE e.topic ~ v.topic_regex END
        HAVING count(*) > 0
    ) AS w
    WHERE x.tenant = e.tenant AND x.id > span.low AND x.id <= span.high
    ORDER BY x.id LIMIT $5
), judged AS MATERIALIZED (
    SELECT w.id, w.protocol, w.event_id, w.tenant, w.lane, w.is_plain OR f.passes AS passes, f.refused
    FROM wanted w CROSS JOIN LATERAL (
        SELECT coalesce(bool_or(CASE WHEN a.affordable THEN hookwire.passes(d.document, p.filter_path) END), false) AS passes,
               CASE WHEN $6::boolean THEN 'the filter takes too long to judge this event'
                    ELSE max('the filter has ' || hookwire.condition_count(p.filter_path) || ' conditions and the event '
                             || d.value_count || ' values; their product may be 1000000')
                         FILTER (WHERE NOT a.affordable) END AS refused
        FROM filtered d CROSS JOIN unnest(w.filter_paths) AS p(filter_path)
        CROSS JOIN LATERAL (
            SELECT NOT $6::boolean AND hookwire.is_affordable(d.value_count, p.filter_path) AS affordable OFFSET 0
        ) AS a
        WHERE NOT w.is_plain
    ) AS f
), slice AS MATERIALIZED (
    SELECT j.id, j.protocol, j.event_id, j.tenant, j.lane FROM judged j WHERE j.passes
), given_up AS (
    INSERT INTO hookwire.dead_letters (event_id, subscription_id, tenant, kind, attempts, detail)
    SELECT j.event_id, j.id, j.tenant, 'internal', 0, j.refused
    FROM judged j WHERE NOT j.passes AND j.refused IS NOT NULL
    ON CONFLICT DO NOTHING
), made AS (
    INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant, lane)
    SELECT s.event_id, s.id,
           CASE WHEN s.lane IS NOT NULL AND EXISTS (
                     SELECT FROM hookwire.deliveries x
                     WHERE x.subscription_id = s.id AND x.lane = s.lane AND x.event_id < s.event_id)
                THEN 'infinity' ELSE now() END,
           now(), s.tenant, s.lane
    FROM slice s
    ON CONFLICT DO NOTHING
    RETURNING subscription_id
), full_slice AS MATERIALIZED (
    SELECT count(*) >= $5 AS more, max(id) AS last FROM wanted
), onward AS (
    INSERT INTO hookwire.fanout_cursors AS c (event_id, tenant, last_subscription_id, upper_subscription_id)
    SELECT e.id, e.tenant, f.last, span.high FROM event e, full_slice f, span WHERE f.more
    ON CONFLICT (event_id) DO UPDATE SET last_subscription_id = excluded.last_subscription_id
), purged AS (
    DELETE FROM hookwire.outbox o USING event e, full_slice f
    WHERE NOT f.more AND o.sink = 'webhooks' AND o.shard = $3 AND o.id = $4
    RETURNING o.id
), noted AS (
    INSERT INTO hookwire.ledger_entries (sink, outcome, ids)
    SELECT 'webhooks', 'sent', array_agg(id) FROM purged HAVING count(*) > 0
), finished AS (
    DELETE FROM hookwire.fanout_cursors c USING event e, full_slice f WHERE NOT f.more AND c.event_id = $4
), woken AS (
    UPDATE hookwire.deliveries d
    SET due_at = now(), woken_at = now(), planned_at = d.due_at, free_attempts = d.free_attempts + 1
    FROM (SELECT x.ctid AS place
          FROM (SELECT id AS subscription_id, lane FROM slice WHERE protocol = 'websub' AND lane IS NOT NULL) AS w
          CROSS JOIN LATERAL (
              SELECT h.ctid AS place FROM hookwire.deliveries h
              WHERE h.subscription_id = w.subscription_id AND h.lane = w.lane ORDER BY h.event_id LIMIT 1
          ) AS head
          JOIN hookwire.deliveries x ON x.ctid = head.place
          WHERE x.fence IS NULL AND isfinite(x.due_at) AND x.due_at - interval '5 seconds' > now()
            AND (x.woken_at IS NULL OR x.woken_at < now() - interval '5 seconds')
          FOR UPDATE OF x SKIP LOCKED) AS asleep
    WHERE d.ctid = asleep.place
)
SELECT (SELECT more FROM full_slice) AS more, (SELECT count(*) FROM made) AS deliveries,
       (SELECT coalesce(array_agg(m.subscription_id), '{}') FROM made m) AS subscriptions,
       EXISTS (SELECT FROM term_held) AS leads;

-- name: forget_former_audiences
-- Delete former audiences whose events are all fanned out. A transaction that was open at the change may still commit one
-- that it numbered before. So the first look notes an id above all of these, and a later look waits until they have ended.
-- An id from the future is that of another cluster, before a restore.
WITH noted AS (
    UPDATE hookwire.former_audiences SET changed_xid = pg_current_xact_id() WHERE changed_xid IS NULL
)
DELETE FROM hookwire.former_audiences
WHERE (changed_xid < pg_snapshot_xmin(pg_current_snapshot()) OR changed_xid >= pg_snapshot_xmax(pg_current_snapshot()))
  AND until_id < coalesce((
    SELECT min(first.id) FROM generate_series(0, 63) AS s(shard)
    CROSS JOIN LATERAL (
        SELECT o.id FROM hookwire.outbox o WHERE o.sink = 'webhooks' AND o.shard = s.shard::smallint ORDER BY o.id LIMIT 1
    ) AS first), 9223372036854775807);
