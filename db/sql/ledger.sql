-- Ledger: counts of accepted events and of records that have left, added up in batches and compared.

-- name: horizon
-- Return the highest id ever drawn, and the time.
SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END AS id, clock_timestamp() AS at FROM hookwire.event_id;

-- name: mark
-- $3 was drawn in a later statement than $1 was read. Once all transactions before $3 have ended, no id below $1 can
-- appear.
UPDATE hookwire.ledger_cursor SET mark_id = $1, mark_at = $2, mark_xid = $3::text::xid8
WHERE mark_id IS NULL;

-- name: fold_events
-- Count up to $1 ids below the mark, if no more can appear there. One process at a time. Return how many ids it passed.
WITH cursor AS MATERIALIZED (
    SELECT c.singleton, c.through_id, c.mark_id, c.mark_at, least(c.mark_id, c.through_id + $1) AS upto
    FROM hookwire.ledger_cursor c
    WHERE c.mark_id IS NOT NULL AND pg_snapshot_xmin(pg_current_snapshot()) >= c.mark_xid
    FOR UPDATE SKIP LOCKED
), event AS MATERIALIZED (
    SELECT date_trunc('hour', e.accepted_at, 'UTC') AS hour, e.tenant, e.topic, e.sinks, e.id & 3 AS bucket,
           count(*) AS count, sum(hookwire.ledger_hash(e.id)) AS sum, min(e.id) AS low, max(e.id) AS high,
           sum(CASE WHEN e.erased_at IS NOT NULL AND e.payload = '' AND e.headers = '{}'
                    THEN (SELECT x.content FROM hookwire.erased_events x WHERE x.event_id = e.id)
                    ELSE hookwire.content_hash(e.id, e.accepted_at, e.ordered, e.key, e.content_type, e.headers, e.payload) END) AS content
    FROM hookwire.events e
    WHERE e.id > (SELECT through_id FROM cursor) AND e.id <= (SELECT upto FROM cursor)
    GROUP BY 1, 2, 3, 4, 5
), folded AS (
    INSERT INTO hookwire.ledger AS l (sink, tenant, topic, hour, bucket, owed_count, owed_sum, owed_min, owed_max, owed_content,
                                      content_count)
    SELECT s.sink, e.tenant, e.topic, e.hour, e.bucket, sum(e.count), hookwire.ledger_sum(sum(e.sum)), min(e.low), max(e.high),
           hookwire.ledger_sum(sum(e.content)), sum(e.count)
    FROM event e CROSS JOIN LATERAL (SELECT '' UNION ALL SELECT unnest(e.sinks)) AS s(sink)
    GROUP BY s.sink, e.tenant, e.topic, e.hour, e.bucket
    ORDER BY e.hour, s.sink, e.tenant, e.topic, e.bucket
    ON CONFLICT (hour, sink, tenant, topic, bucket) DO UPDATE
    SET owed_count = l.owed_count + excluded.owed_count, owed_sum = hookwire.ledger_sum(l.owed_sum + excluded.owed_sum),
        owed_min = least(l.owed_min, excluded.owed_min), owed_max = greatest(l.owed_max, excluded.owed_max),
        owed_content = hookwire.ledger_sum(l.owed_content + excluded.owed_content),
        content_count = l.content_count + excluded.content_count
), moved AS (
    UPDATE hookwire.ledger_cursor c
    SET through_id = cursor.upto,
        through_at = CASE WHEN cursor.upto = cursor.mark_id THEN cursor.mark_at ELSE c.through_at END,
        mark_id = nullif(cursor.mark_id, cursor.upto)
    FROM cursor WHERE c.singleton = cursor.singleton
)
SELECT coalesce((SELECT upto - through_id FROM cursor), 0);

-- name: fold_entries
-- Count up to $1 of the oldest entries after $2. Return how many there were, and the last one's number. Entries without
-- an event are counted under the hour 'epoch'. A start at the beginning would read every counted entry that a snapshot
-- keeps.
WITH taken AS MATERIALIZED (
    DELETE FROM hookwire.ledger_entries
    WHERE ctid = ANY (ARRAY(
        SELECT x.ctid FROM hookwire.ledger_entries x WHERE x.id > $2 ORDER BY x.id LIMIT $1 FOR UPDATE SKIP LOCKED))
    RETURNING id, sink, outcome, ids
), record AS MATERIALIZED (
    SELECT t.sink, t.outcome, r.id, hookwire.ledger_hash(r.id) AS hash, CASE t.outcome WHEN 'revived' THEN -1 ELSE 1 END AS sign
    FROM taken t CROSS JOIN LATERAL unnest(t.ids) AS r(id)
), folded AS (
    INSERT INTO hookwire.ledger AS l
        (sink, tenant, topic, hour, bucket, sent_count, dead_count, settled_sum, settled_min, settled_max)
    SELECT r.sink, coalesce(e.tenant, '') AS tenant, coalesce(e.topic, '') AS topic,
           coalesce(date_trunc('hour', e.accepted_at, 'UTC'), 'epoch') AS hour, r.id & 3 AS bucket,
           count(*) FILTER (WHERE r.outcome = 'sent'), coalesce(sum(r.sign) FILTER (WHERE r.outcome <> 'sent'), 0),
           hookwire.ledger_sum(sum(r.hash::numeric * r.sign)), min(r.id), max(r.id)
    FROM record r LEFT JOIN LATERAL (
        SELECT x.tenant, x.topic, x.accepted_at FROM hookwire.events x
        WHERE x.id BETWEEN r.id AND r.id ORDER BY x.id LIMIT 1 -- a range in order: see outbox.sql
    ) AS e ON true
    GROUP BY 1, 2, 3, 4, 5
    ORDER BY 4, 1, 2, 3, 5
    ON CONFLICT (hour, sink, tenant, topic, bucket) DO UPDATE
    SET sent_count = l.sent_count + excluded.sent_count, dead_count = l.dead_count + excluded.dead_count,
        settled_sum = hookwire.ledger_sum(l.settled_sum + excluded.settled_sum),
        settled_min = least(l.settled_min, excluded.settled_min), settled_max = greatest(l.settled_max, excluded.settled_max)
)
SELECT count(*) AS entries, max(id) AS last FROM taken;

-- name: purge
-- Delete hours that are no longer kept.
DELETE FROM hookwire.ledger
WHERE (hour, sink, tenant, topic, bucket) IN (
    SELECT hour, sink, tenant, topic, bucket FROM hookwire.ledger
    WHERE hour < now() - hookwire.ledger_kept() AND hour > 'epoch' ORDER BY hour LIMIT 5000);

-- name: summary
-- Return the closed hours that can be judged: since the ledger was begun, and as long as it keeps them.
SELECT c.since_at, c.through_at, now() - c.through_at > interval '2 hours' AS is_behind,
       count(*) FILTER (WHERE l.sink <> '') AS cells,
       coalesce(sum(l.owed_count) FILTER (WHERE l.sink = ''), 0)::bigint AS accepted,
       coalesce(sum(l.owed_count) FILTER (WHERE l.sink <> ''), 0)::bigint AS owed,
       coalesce(sum(l.sent_count), 0)::bigint AS sent, coalesce(sum(l.dead_count), 0)::bigint AS dead
FROM hookwire.ledger_cursor c
LEFT JOIN hookwire.ledger l ON l.hour >= hookwire.ledger_from(c.since_at) AND l.hour <= c.through_at - interval '65 minutes'
GROUP BY c.since_at, c.through_at;

-- name: compare
-- Return up to $1 closed cells whose two sides differ, oldest first, with their explanation. The explanation is records
-- in the outbox or behind a hold, and entries that are not counted yet. With more than $2 of those, a sink and its
-- cells are not judged. Where exactly one event is missing, the checksums name it.
WITH cell AS MATERIALIZED (
    SELECT l.* FROM hookwire.ledger_cursor c
    JOIN hookwire.ledger l ON l.hour >= hookwire.ledger_from(c.since_at) AND l.hour <= c.through_at - interval '65 minutes'
    WHERE l.sink <> '' AND (l.owed_count, l.owed_sum, l.owed_min, l.owed_max)
        IS DISTINCT FROM (l.sent_count + l.dead_count, l.settled_sum, l.settled_min, l.settled_max)
    ORDER BY l.hour, l.sink, l.tenant, l.topic, l.bucket LIMIT $1
), span AS MATERIALIZED (
    SELECT sink, min(owed_min) AS low, max(owed_max) AS high FROM cell GROUP BY sink
), waiting AS MATERIALIZED (
    SELECT s.sink, w.id, w.settled, w.sign
    FROM span s CROSS JOIN LATERAL (
        (SELECT o.id, false AS settled, 1 AS sign FROM generate_series(0, 63) AS g(shard) CROSS JOIN LATERAL (
             SELECT x.id FROM hookwire.outbox x
             WHERE x.sink = s.sink AND x.shard = g.shard AND x.id BETWEEN s.low AND s.high) AS o
         LIMIT $2 + 1)
        UNION ALL
        (SELECT h.id, false, 1 FROM hookwire.held h WHERE h.sink = s.sink AND h.id BETWEEN s.low AND s.high LIMIT $2 + 1)
        UNION ALL
        SELECT r.id, true, CASE n.outcome WHEN 'revived' THEN -1 ELSE 1 END FROM hookwire.ledger_entries n CROSS JOIN LATERAL unnest(n.ids) AS r(id)
        WHERE n.sink = s.sink AND r.id BETWEEN s.low AND s.high
    ) AS w
), crowded AS MATERIALIZED (
    SELECT sink FROM waiting WHERE NOT settled GROUP BY sink HAVING count(*) > $2
), located AS MATERIALIZED (
    SELECT w.sink, e.tenant, e.topic, date_trunc('hour', e.accepted_at, 'UTC') AS hour, e.id & 3 AS bucket,
           count(*) FILTER (WHERE NOT w.settled) AS waiting, sum(w.sign) AS count,
           sum(hookwire.ledger_hash(e.id)::numeric * w.sign) AS sum
    FROM waiting w CROSS JOIN LATERAL (
        SELECT x.id, x.tenant, x.topic, x.accepted_at FROM hookwire.events x WHERE x.id = w.id LIMIT 1
    ) AS e
    WHERE w.sink NOT IN (SELECT sink FROM crowded)
    GROUP BY 1, 2, 3, 4, 5
), judged AS MATERIALIZED (
    SELECT c.*, coalesce(w.waiting, 0) AS waiting,
           c.owed_count - c.sent_count - c.dead_count - coalesce(w.count, 0) AS missing,
           hookwire.ledger_sum(c.owed_sum - c.settled_sum - coalesce(w.sum, 0)) AS difference,
           c.sink IN (SELECT sink FROM crowded) AS crowded
    FROM cell c LEFT JOIN located w USING (sink, tenant, topic, hour, bucket)
)
SELECT j.sink, j.tenant, j.topic, j.hour, j.bucket, j.owed_count AS owed, j.sent_count AS sent, j.dead_count AS dead, j.waiting,
       CASE WHEN j.crowded THEN 'unjudged' WHEN j.missing > 0 THEN 'lost' WHEN j.missing < 0 THEN 'extra'
            WHEN j.difference <> 0 THEN 'different' ELSE 'waiting' END AS verdict,
       j.missing,
       CASE WHEN j.missing = 1 AND NOT j.crowded THEN (
           SELECT e.id FROM hookwire.events e
           WHERE e.tenant = j.tenant AND e.topic = j.topic AND e.id BETWEEN j.owed_min AND j.owed_max AND e.id & 3 = j.bucket
             AND hookwire.ledger_sum(hookwire.ledger_hash(e.id)) = j.difference LIMIT 1) END AS missing_id
FROM judged j
ORDER BY j.hour, j.sink, j.tenant, j.topic, j.bucket;
