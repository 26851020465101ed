-- Deliveries: made by the fan-out, claimed with a lease and a fence, settled in batches.
--
-- A row that a statement has found it finds again by its place (ctid), and what is checked then is isfinite(due_at),
-- which no index can answer: statistics made while the table was almost empty make all indexes look alike, and one of
-- them leads over everything that waits behind the heads of lanes. For the same reason a delivery is looked up by a range
-- of one event, in order: only the primary key gives that. A place holds as outbox.sql says; nobody but its owner changes
-- a claimed row and leaves its fence, so one that has moved meanwhile has another fence, or none.

-- name: audience
-- How many active subscriptions each topic has, how many former audiences (FC-08), and whether some of them have filters, to
-- cut a fan-out by what it will cost; and among how many patterns its tenant's topics choose. A pattern is compiled once and
-- compared with all topics in a row: PostgreSQL keeps 32 of them compiled.
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
-- Of events that filters ask about: how much has to be parsed.
SELECT e.id, octet_length(e.payload) AS bytes
FROM unnest($1::bigint[]) AS a(id)
CROSS JOIN LATERAL (
    SELECT x.id, x.payload FROM hookwire.events x WHERE x.id BETWEEN a.id AND a.id ORDER BY x.id LIMIT 1
) AS e;

-- name: fan_out
-- The purge of the outbox rows feeds the deliveries: each event is fanned out exactly once (RR-10). An event that was
-- begun in slices, and whose audience fits into one statement by now, goes on behind its cursor. Only the head of a
-- lane is due: what has an earlier event before it, here or in the table, waits at infinity.
--
-- The audience is that of the event's acceptance: who was active then and is not any more, or wants something else now, is
-- in former_audiences (FC-08). What is made for a subscription that is disabled waits; for one that has ended it becomes a
-- dead letter, and WebSub's is dropped.
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
    -- Each distinct pattern, once for each distinct topic; as in audience.
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
    -- Contents that some filter asks about, parsed once; read only where a filter is.
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
    -- WebSub: new content is tried at once, whatever the back-off of what it waits behind (WS-61, DL-8), but not more
    -- often than every 5 s, and outside the retry schedule. What is locked is being claimed or woken just now.
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
-- One event, up to $5 of its subscriptions; the last slice purges. The upper end is fixed by the first slice. Lanes as in
-- fan_out. $6: whoever has a filter here gets a dead letter, because it could not be judged in time (FC-02).
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
    SELECT hookwire.filter_document(x.topic, x.key, x.accepted_at, x.content_type, x.headers, x.payload) AS document
    FROM event e JOIN hookwire.events x ON x.id = e.id
), wanted AS MATERIALIZED (
    SELECT x.id, x.protocol, w.is_plain, w.filter_paths, e.id AS event_id, e.tenant, CASE WHEN x.ordered THEN e.key END AS lane
    FROM event e, span, hookwire.subscriptions x
    CROSS JOIN LATERAL (
        -- What it wants, and what it wanted when the event was accepted (FC-08); one of them is enough.
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
), slice AS MATERIALIZED (
    SELECT w.id, w.protocol, w.event_id, w.tenant, w.lane FROM wanted w
    WHERE CASE WHEN w.is_plain THEN true WHEN $6::boolean THEN false
               ELSE EXISTS (SELECT FROM unnest(w.filter_paths) AS p(filter_path)
                            WHERE hookwire.passes((SELECT f.document FROM filtered f), p.filter_path)) END
), given_up AS (
    INSERT INTO hookwire.dead_letters (event_id, subscription_id, tenant, kind, attempts, detail)
    SELECT w.event_id, w.id, w.tenant, 'internal', 0, 'the filter takes too long to judge this event'
    FROM wanted w WHERE $6::boolean AND NOT w.is_plain
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
    WHERE NOT f.more AND o.sink = 'webhooks' AND o.shard = $3 AND o.id = e.id
    RETURNING o.id
), noted AS (
    INSERT INTO hookwire.ledger_entries (sink, outcome, ids)
    SELECT 'webhooks', 'sent', array_agg(id) FROM purged HAVING count(*) > 0
), finished AS (
    DELETE FROM hookwire.fanout_cursors c USING event e, full_slice f WHERE NOT f.more AND c.event_id = e.id
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

-- name: claim
-- Due deliveries of the named subscriptions, up to so many each. The attempt counts from here on (WH-R11); the
-- lease is the new due_at, so that a dead worker's claims come due by themselves. Of an ordered lane only the
-- lowest event is ever claimed (RR-10). What waits behind it is at infinity; of that only the latest are looked at,
-- because a fan-out that overlapped with the settlement of a head has just left one there. A lease is as long as the
-- subscription's own deadline, else $3, and $4 more: a lane whose worker was killed stands still for no longer than that.
-- is_held: claimed before, and nobody knows what came of it.
--
-- Who has a gate passes it, one claim at a time in the whole fleet: as many as it has tokens for, none while its breaker
-- is open, one as a probe after that (WH-I06, WH-I07). What a gate holds back is told in rows without an event, with the
-- seconds until it is worth asking again.
WITH fence AS MATERIALIZED (
    SELECT nextval('hookwire.delivery_fence') AS value
), wanted AS MATERIALIZED (
    SELECT s.id, s.version, s.rate_per_second, w.most AS asked, g.tokens, coalesce(g.trips, 0) AS trips, g.open_until,
           coalesce(s.timeout_seconds, $3::double precision) + $4::double precision AS lease_seconds,
           g.subscription_id IS NULL AND EXISTS (SELECT FROM hookwire.delivery_gates x WHERE x.subscription_id = s.id) AS is_locked,
           CASE WHEN g.open_until > now() THEN 0
                ELSE least(w.most, CASE WHEN g.trips > 0 THEN 1 END, floor(g.tokens)::integer) END AS most
    FROM unnest($1::bigint[], $2::integer[]) AS w(id, most)
    CROSS JOIN LATERAL (
        SELECT x.id, x.version, x.rate_per_second, x.rate_burst, x.timeout_seconds FROM hookwire.subscriptions x
        WHERE x.id = w.id AND x.state = 'active' AND x.protocol <> 'pull'
          AND (x.paused_until IS NULL OR x.paused_until <= now()) AND (x.lease_until IS NULL OR x.lease_until > now())
        LIMIT 1
    ) AS s
    LEFT JOIN LATERAL (
        SELECT x.subscription_id, x.trips, x.open_until,
               CASE WHEN s.rate_per_second IS NOT NULL
                    THEN greatest(least(coalesce(s.rate_burst, greatest(ceil(s.rate_per_second), 1)),
                                        x.tokens + extract(epoch FROM now() - x.refilled_at) * s.rate_per_second), 0) END AS tokens
        FROM hookwire.delivery_gates x WHERE x.subscription_id = s.id
        FOR UPDATE OF x SKIP LOCKED
    ) AS g ON true
), picked AS MATERIALIZED (
    SELECT d.place, d.is_held, w.id, w.version, w.lease_seconds, w.trips > 0 AS is_probe
    FROM wanted w
    CROSS JOIN LATERAL (
        SELECT * FROM (
            SELECT q.ctid AS place, q.fence IS NOT NULL AS is_held FROM hookwire.deliveries q
            WHERE q.subscription_id = w.id AND q.due_at <= now()
              AND (q.lane IS NULL OR NOT EXISTS (
                    SELECT FROM hookwire.deliveries x
                    WHERE x.subscription_id = q.subscription_id AND x.lane = q.lane AND x.event_id < q.event_id))
            ORDER BY q.due_at, q.event_id LIMIT w.most
            FOR UPDATE OF q SKIP LOCKED
        ) AS due
        UNION ALL
        SELECT * FROM (
            SELECT q.ctid AS place, false AS is_held
            FROM (SELECT b.ctid AS place FROM hookwire.deliveries b
                  WHERE b.subscription_id = w.id AND b.due_at >= 'infinity' ORDER BY b.due_at DESC, b.event_id DESC LIMIT 16) AS latest
            JOIN hookwire.deliveries q ON q.ctid = latest.place
            WHERE NOT isfinite(q.due_at) AND q.parked_at IS NULL AND q.event_id = (
                    SELECT x.event_id FROM hookwire.deliveries x
                    WHERE x.subscription_id = q.subscription_id AND x.lane = q.lane ORDER BY x.event_id LIMIT 1)
            FOR UPDATE OF q SKIP LOCKED
        ) AS overlooked
        LIMIT w.most
    ) AS d
    WHERE NOT w.is_locked
), passed AS MATERIALIZED (
    SELECT w.id, w.tokens, w.trips, w.lease_seconds, (SELECT count(*) FROM picked p WHERE p.id = w.id) AS count
    FROM wanted w WHERE w.tokens IS NOT NULL OR w.trips > 0
), gated AS (
    UPDATE hookwire.delivery_gates g
    SET tokens = coalesce(p.tokens - p.count, g.tokens), refilled_at = now(),
        open_until = CASE WHEN p.trips > 0 THEN now() + make_interval(secs => p.lease_seconds) END
    FROM passed p WHERE g.subscription_id = p.id AND p.count > 0
), claimed AS (
    UPDATE hookwire.deliveries d
    SET due_at = now() + make_interval(secs => p.lease_seconds), fence = fence.value, attempts = d.attempts + 1
    FROM picked p, fence
    WHERE d.ctid = p.place
    RETURNING d.event_id, d.subscription_id, d.fence, p.version, p.lease_seconds,
              greatest(d.attempts - d.free_attempts, 1) AS schedule_position, d.replay_id IS NOT NULL AS is_replay,
              d.lane IS NOT NULL AS is_in_lane, p.is_held, p.is_probe,
              extract(epoch FROM now() - d.created_at)::double precision AS age_seconds,
              extract(epoch FROM d.planned_at - now())::double precision AS planned_seconds
)
SELECT c.*, NULL::double precision AS wait_seconds FROM claimed c
UNION ALL
SELECT NULL, w.id, NULL, w.version, w.lease_seconds, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       CASE WHEN w.is_locked THEN 0.05
            WHEN w.open_until > now() THEN extract(epoch FROM w.open_until - now())::double precision
            ELSE (floor(w.tokens) + 1 - w.tokens) / w.rate_per_second END
FROM wanted w LEFT JOIN passed p ON p.id = w.id
WHERE w.is_locked OR w.open_until > now() OR (w.tokens IS NOT NULL AND w.trips = 0 AND w.most < w.asked AND p.count = w.most);

-- name: events
-- Payloads and headers of the lowest ids, up to the one that crosses $2 bytes; beyond it NULL (FS-03).
SELECT id, ordered, topic, key, content_type, CASE WHEN before < $2 THEN headers END AS headers,
       CASE WHEN before < $2 THEN payload END AS payload, accepted_at
FROM (SELECT e.*, sum(w.size) OVER (ORDER BY e.id ROWS UNBOUNDED PRECEDING) - w.size AS before
      FROM hookwire.events e CROSS JOIN LATERAL (
          SELECT octet_length(e.payload) + coalesce(octet_length(nullif(e.headers::text, '{}')), 0) AS size
      ) AS w
      WHERE e.id = ANY ($1::bigint[])) AS wanted;

-- name: due_subscriptions
-- One step per subscription that has open deliveries (a loose index scan): who is due and may be sent to.
WITH RECURSIVE walk AS (
    (SELECT subscription_id, due_at FROM hookwire.deliveries ORDER BY subscription_id, due_at LIMIT 1)
    UNION ALL
    SELECT n.subscription_id, n.due_at
    FROM walk w CROSS JOIN LATERAL (
        SELECT d.subscription_id, d.due_at FROM hookwire.deliveries d
        WHERE d.subscription_id > w.subscription_id ORDER BY d.subscription_id, d.due_at LIMIT 1
    ) AS n
)
SELECT w.subscription_id FROM walk w
WHERE w.due_at <= now()
  AND (SELECT s.state = 'active' AND s.protocol <> 'pull' AND coalesce(s.paused_until <= now(), true) AND coalesce(s.lease_until > now(), true)
       FROM hookwire.subscriptions s WHERE s.id = w.subscription_id)
  AND NOT EXISTS (SELECT FROM hookwire.delivery_gates g WHERE g.subscription_id = w.subscription_id AND g.open_until > now());

-- name: promote_heads
-- One step per lane: heads that nobody made due. A fan-out that still saw the old head, while the settlement of that
-- did not see the new delivery yet, leaves one behind; so does whatever else deletes a head.
WITH RECURSIVE walk AS (
    (SELECT subscription_id, lane, ctid AS place, due_at FROM hookwire.deliveries
     WHERE lane IS NOT NULL ORDER BY subscription_id, lane, event_id LIMIT 1)
    UNION ALL
    SELECT n.subscription_id, n.lane, n.place, n.due_at
    FROM walk w CROSS JOIN LATERAL (
        SELECT d.subscription_id, d.lane, d.ctid AS place, d.due_at FROM hookwire.deliveries d
        WHERE d.lane IS NOT NULL AND (d.subscription_id, d.lane) > (w.subscription_id, w.lane)
        ORDER BY d.subscription_id, d.lane, d.event_id LIMIT 1
    ) AS n
), promoted AS (
    UPDATE hookwire.deliveries d SET due_at = now()
    FROM (SELECT x.ctid AS place FROM walk w JOIN hookwire.deliveries x ON x.ctid = w.place
          WHERE NOT isfinite(w.due_at) AND NOT isfinite(x.due_at) AND x.parked_at IS NULL
          FOR UPDATE OF x SKIP LOCKED) AS head
    WHERE d.ctid = head.place
    RETURNING d.subscription_id
)
SELECT DISTINCT subscription_id FROM promoted;

-- name: settle
-- A late settlement by a former owner finds another fence and changes nothing; of two results for one delivery, made
-- under two claims, at most one does. What waited behind an ended one is due.
--
-- $19 says of each result whether it speaks against its receiver; NULL: it says nothing of it. Of those who fail, and of
-- nobody else, the whole fleet's last $20 attempts within $21 seconds and failures in a row are kept, and given back as
-- this settlement has left them (WH-I07, WH-I08). What a tripped breaker lets through does not count towards opening it.
WITH result AS MATERIALIZED (
    SELECT * FROM unnest(
        $1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::double precision[], $6::text[], $7::smallint[],
        $8::timestamptz[], $9::real[], $10::real[], $11::real[], $12::text[], $13::text[], $14::text[], $15::bytea[], $16::text[],
        $18::text[], $19::boolean[])
    WITH ORDINALITY
    AS r(event_id, subscription_id, fence, decision, delay_seconds, outcome, status,
         started_at, connect_seconds, first_byte_seconds, total_seconds, address, detail, headers, body, kind, reason,
         failed, place)
), ended AS (
    -- The fence once more, here and below: a server before the minor releases of autumn 2025 does not look again at where a
    -- row is when somebody has claimed it meanwhile, and would take the successor's.
    DELETE FROM hookwire.deliveries
    WHERE ctid = ANY (ARRAY(
        SELECT d.place FROM result r CROSS JOIN LATERAL (
            SELECT x.ctid AS place FROM hookwire.deliveries x
            WHERE x.event_id BETWEEN r.event_id AND r.event_id AND x.subscription_id = r.subscription_id AND x.fence = r.fence
            ORDER BY x.event_id LIMIT 1
        ) AS d
        WHERE r.decision NOT IN ('retry', 'park')))
      AND fence = ANY ($3::bigint[])
    RETURNING event_id, subscription_id, fence, attempts, tenant, lane, replay_id
), again AS (
    UPDATE hookwire.deliveries d
    SET due_at = CASE r.decision WHEN 'park' THEN 'infinity' ELSE now() + make_interval(secs => r.delay_seconds) END,
        parked_at = CASE r.decision WHEN 'park' THEN now() END, planned_at = NULL, fence = NULL,
        last_outcome = r.outcome, last_status = r.status, last_seconds = r.total_seconds
    FROM result r CROSS JOIN LATERAL (
        SELECT x.ctid AS place FROM hookwire.deliveries x
        WHERE x.event_id BETWEEN r.event_id AND r.event_id AND x.subscription_id = r.subscription_id AND x.fence = r.fence
        ORDER BY x.event_id LIMIT 1
    ) AS found
    WHERE r.decision IN ('retry', 'park') AND d.ctid = found.place AND d.fence = r.fence
    RETURNING d.event_id, d.subscription_id, r.fence, d.attempts, d.tenant, d.lane, d.replay_id
), promoted AS (
    UPDATE hookwire.deliveries d SET due_at = now()
    FROM ended e CROSS JOIN LATERAL hookwire.next_in_lane(e.subscription_id, e.lane, e.event_id) AS next
    WHERE d.ctid = next.place AND NOT isfinite(d.due_at) AND d.parked_at IS NULL
), settled AS MATERIALIZED (
    SELECT * FROM ended UNION ALL SELECT * FROM again
), logged AS (
    INSERT INTO hookwire.attempts (event_id, subscription_id, number, tenant, started_at, status, connect_seconds,
        first_byte_seconds, total_seconds, outcome, decision, trigger, worker, address, detail, response_headers, response_body)
    SELECT s.event_id, s.subscription_id, s.attempts, s.tenant, r.started_at, r.status, r.connect_seconds,
           r.first_byte_seconds, r.total_seconds, r.outcome, r.decision,
           CASE WHEN s.replay_id = 0 THEN 'manual' WHEN s.replay_id IS NOT NULL THEN 'replay'
                WHEN s.attempts = 1 THEN 'first' ELSE 'retry' END, $17, r.address, coalesce(r.detail, r.reason), r.headers::jsonb, r.body
    FROM settled s JOIN result r USING (event_id, subscription_id, fence)
    -- Of an event that a replay overtook, which is fanned out afterwards, the first attempt is on record already.
    ON CONFLICT DO NOTHING
), buried AS (
    INSERT INTO hookwire.dead_letters (event_id, subscription_id, tenant, kind, attempts, last_status, last_outcome, detail)
    SELECT s.event_id, s.subscription_id, s.tenant, r.kind, s.attempts, r.status, r.outcome, coalesce(r.reason, r.detail)
    FROM settled s JOIN result r USING (event_id, subscription_id, fence) WHERE r.decision = 'dead'
    ON CONFLICT DO NOTHING
), watched AS MATERIALIZED (
    SELECT r.subscription_id FROM result r WHERE r.failed IS NOT NULL
    GROUP BY r.subscription_id
    HAVING bool_or(r.decision <> 'delivered')
        OR EXISTS (SELECT FROM hookwire.delivery_failures f WHERE f.subscription_id = r.subscription_id)
), counted AS MATERIALIZED (
    SELECT s.subscription_id, s.tenant, r.place, r.decision, r.outcome, r.status,
           CASE WHEN NOT EXISTS (SELECT FROM hookwire.delivery_gates g WHERE g.subscription_id = s.subscription_id AND g.trips > 0)
                THEN r.failed END AS failed,
           max(r.place) FILTER (WHERE r.decision = 'delivered') OVER (PARTITION BY s.subscription_id) AS success
    FROM settled s JOIN result r USING (event_id, subscription_id, fence)
    WHERE r.failed IS NOT NULL AND s.subscription_id IN (SELECT w.subscription_id FROM watched w)
)
INSERT INTO hookwire.delivery_failures AS f (subscription_id, tenant, failures, failing_since, last_outcome, last_status,
                                             succeeded_at, settled_at, failed)
SELECT c.subscription_id, min(c.tenant), count(*) FILTER (WHERE c.place > coalesce(c.success, 0)),
       max(now()) FILTER (WHERE c.place > coalesce(c.success, 0)),
       (array_agg(c.outcome ORDER BY c.place DESC) FILTER (WHERE c.decision <> 'delivered'))[1],
       (array_agg(c.status ORDER BY c.place DESC) FILTER (WHERE c.decision <> 'delivered'))[1],
       CASE WHEN max(c.success) IS NOT NULL THEN now() END,
       coalesce(array_agg(now() ORDER BY c.place) FILTER (WHERE c.failed IS NOT NULL), '{}'),
       coalesce(array_agg(c.failed ORDER BY c.place) FILTER (WHERE c.failed IS NOT NULL), '{}')
FROM counted c
GROUP BY c.subscription_id
ORDER BY c.subscription_id -- in the same order everywhere: two workers settle for the same subscriptions at once
ON CONFLICT (subscription_id) DO UPDATE
SET failures = excluded.failures + CASE WHEN excluded.succeeded_at IS NULL THEN f.failures ELSE 0 END,
    failures_before = f.failures,
    failing_since = CASE WHEN excluded.succeeded_at IS NULL THEN coalesce(f.failing_since, excluded.failing_since)
                         ELSE excluded.failing_since END,
    last_outcome = coalesce(excluded.last_outcome, f.last_outcome),
    last_status = CASE WHEN excluded.last_outcome IS NULL THEN f.last_status ELSE excluded.last_status END,
    succeeded_at = coalesce(excluded.succeeded_at, f.succeeded_at),
    (settled_at, failed) = (
        SELECT coalesce(array_agg(x.at ORDER BY x.place), '{}'), coalesce(array_agg(x.failed ORDER BY x.place), '{}')
        FROM (SELECT u.* FROM unnest(f.settled_at || excluded.settled_at, f.failed || excluded.failed)
                  WITH ORDINALITY AS u(at, failed, place)
              WHERE u.at > now() - make_interval(secs => $21::double precision)
              ORDER BY u.place DESC LIMIT $20::integer) AS x)
RETURNING f.subscription_id, f.failures_before, f.failures, cardinality(f.failed) AS attempts,
          cardinality(array_positions(f.failed, true)) AS failed, coalesce(f.failed[cardinality(f.failed)], false) AS last_failed,
          f.failures_before = 0 AND f.succeeded_at IS NULL AS is_unknown;

-- name: recall_success
-- These begin to fail, and their last success is not on record: it is the latest of their attempts.
UPDATE hookwire.delivery_failures f
SET succeeded_at = (SELECT max(a.started_at) FROM (
                        SELECT x.started_at, x.decision FROM hookwire.attempts x
                        WHERE x.subscription_id = f.subscription_id ORDER BY x.event_id DESC LIMIT 1000) AS a
                    WHERE a.decision = 'delivered')
WHERE f.subscription_id = ANY ($1::bigint[]) AND f.succeeded_at IS NULL;

-- name: settle_late
-- Successes whose settlement had to be repeated, under whatever fence. At most once nobody sends again, so a success is
-- the truth: meanwhile another worker may have claimed the delivery, or made a dead letter "unknown" of it (FC-06).
WITH result AS MATERIALIZED (
    SELECT r.* FROM unnest($1::bigint[], $2::bigint[], $3::timestamptz[], $4::smallint[], $5::real[])
        AS r(event_id, subscription_id, started_at, status, total_seconds)
    WHERE (SELECT s.at_most_once FROM hookwire.subscriptions s WHERE s.id = r.subscription_id)
), claimed AS (
    DELETE FROM hookwire.deliveries
    WHERE ctid = ANY (ARRAY(
        SELECT d.place FROM result r CROSS JOIN LATERAL (
            SELECT x.ctid AS place FROM hookwire.deliveries x
            WHERE x.event_id BETWEEN r.event_id AND r.event_id AND x.subscription_id = r.subscription_id
            ORDER BY x.event_id LIMIT 1
        ) AS d))
      AND fence IS NOT NULL
    RETURNING event_id, subscription_id, attempts, tenant
), risen AS (
    DELETE FROM hookwire.dead_letters
    WHERE ctid = ANY (ARRAY(
        SELECT l.place FROM result r CROSS JOIN LATERAL (
            SELECT x.ctid AS place FROM hookwire.dead_letters x
            WHERE x.event_id BETWEEN r.event_id AND r.event_id AND x.subscription_id = r.subscription_id
            ORDER BY x.event_id LIMIT 1
        ) AS l))
      AND kind = 'internal' AND last_outcome = 'unknown'
    RETURNING event_id, subscription_id, attempts, tenant
)
INSERT INTO hookwire.attempts AS a (event_id, subscription_id, number, tenant, started_at, status, total_seconds, outcome,
    decision, trigger, worker)
SELECT t.event_id, t.subscription_id, t.attempts, t.tenant, r.started_at, r.status, r.total_seconds, 'delivered',
       'delivered', 'first', $6
FROM (SELECT * FROM claimed UNION ALL SELECT * FROM risen) AS t JOIN result r USING (event_id, subscription_id)
ON CONFLICT (event_id, subscription_id, number) DO UPDATE
SET started_at = excluded.started_at, status = excluded.status, total_seconds = excluded.total_seconds,
    outcome = excluded.outcome, decision = excluded.decision, worker = excluded.worker, detail = NULL;

-- name: reset_failures
-- Nothing speaks against these any more.
DELETE FROM hookwire.delivery_failures f
WHERE subscription_id = ANY ($1::bigint[]) AND failures = 0 AND NOT true = ANY (failed);

-- name: release
-- Claimed but not attempted: due at once, and the attempt does not count.
UPDATE hookwire.deliveries SET due_at = now(), fence = NULL, attempts = attempts - 1
WHERE ctid = ANY (ARRAY(
    SELECT d.place FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS r(event_id, subscription_id, fence)
    CROSS JOIN LATERAL (
        SELECT x.ctid AS place FROM hookwire.deliveries x
        WHERE x.event_id BETWEEN r.event_id AND r.event_id AND x.subscription_id = r.subscription_id AND x.fence = r.fence
        ORDER BY x.event_id LIMIT 1
    ) AS d))
  AND fence = ANY ($3::bigint[]);

-- name: dead_letter_orphans
-- Claimed, but there is nothing to send: the event's contents are gone.
WITH ended AS (
    DELETE FROM hookwire.deliveries
    WHERE ctid = ANY (ARRAY(
        SELECT d.place FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS r(event_id, subscription_id, fence)
        CROSS JOIN LATERAL (
            SELECT x.ctid AS place FROM hookwire.deliveries x
            WHERE x.event_id BETWEEN r.event_id AND r.event_id AND x.subscription_id = r.subscription_id AND x.fence = r.fence
            ORDER BY x.event_id LIMIT 1
        ) AS d))
      AND fence = ANY ($3::bigint[])
    RETURNING event_id, subscription_id, tenant, lane, attempts, last_status, last_outcome
), promoted AS (
    UPDATE hookwire.deliveries d SET due_at = now()
    FROM ended e CROSS JOIN LATERAL hookwire.next_in_lane(e.subscription_id, e.lane, e.event_id) AS next
    WHERE d.ctid = next.place AND NOT isfinite(d.due_at) AND d.parked_at IS NULL
)
INSERT INTO hookwire.dead_letters (event_id, subscription_id, tenant, kind, attempts, last_status, last_outcome, detail)
SELECT event_id, subscription_id, tenant, 'internal', attempts - 1, last_status, last_outcome, $4 FROM ended
ON CONFLICT DO NOTHING;

-- name: ended_subscriptions
-- Who has ended and is still owed something: an end that was cut short, or a fan-out that overlapped with it.
WITH RECURSIVE walk AS (
    (SELECT subscription_id FROM hookwire.deliveries ORDER BY subscription_id LIMIT 1)
    UNION ALL
    SELECT n.subscription_id
    FROM walk w CROSS JOIN LATERAL (
        SELECT d.subscription_id FROM hookwire.deliveries d
        WHERE d.subscription_id > w.subscription_id ORDER BY d.subscription_id LIMIT 1
    ) AS n
)
SELECT w.subscription_id AS id FROM walk w
WHERE (SELECT s.state IN ('gone', 'expired', 'denied', 'deleted') FROM hookwire.subscriptions s WHERE s.id = w.subscription_id);

-- name: forget_former_audiences
-- Every event up to there is fanned out. One that a transaction still holds back is not accepted yet.
DELETE FROM hookwire.former_audiences
WHERE until_id < coalesce((
    SELECT min(first.id) FROM generate_series(0, 63) AS s(shard)
    CROSS JOIN LATERAL (
        SELECT o.id FROM hookwire.outbox o WHERE o.sink = 'webhooks' AND o.shard = s.shard::smallint ORDER BY o.id LIMIT 1
    ) AS first), 9223372036854775807);

-- name: cancel_ended
-- Up to $2 deliveries of subscriptions that have ended: what they were still owed becomes dead letters with that reason
-- (WH-R09); WebSub's are dropped (DL-2, DL-10). What a consumer of a RabbitHub queue held goes back there instead (RH-29).
WITH owed AS MATERIALIZED (
    SELECT q.event_id, q.subscription_id, s.protocol, s.state_reason
    FROM hookwire.subscriptions s JOIN hookwire.deliveries q ON q.subscription_id = s.id
    WHERE s.id = ANY ($1::bigint[]) AND s.state IN ('gone', 'expired', 'denied', 'deleted')
      AND NOT EXISTS (SELECT FROM hookwire.rabbithub_subscriptions r
                      JOIN hookwire.rabbithub_resources x ON x.id = r.resource_id AND x.kind = 'q' WHERE r.subscription_id = s.id)
    LIMIT $2
    FOR UPDATE OF q SKIP LOCKED
), gone AS (
    DELETE FROM hookwire.deliveries d USING owed o
    WHERE d.event_id = o.event_id AND d.subscription_id = o.subscription_id
    RETURNING d.event_id, d.subscription_id, d.tenant, d.attempts, d.last_status, d.last_outcome, o.protocol, o.state_reason
), buried AS (
    INSERT INTO hookwire.dead_letters (event_id, subscription_id, tenant, kind, attempts, last_status, last_outcome, detail)
    SELECT event_id, subscription_id, tenant, 'gone', attempts, last_status, last_outcome, state_reason
    FROM gone WHERE protocol <> 'websub'
    ON CONFLICT DO NOTHING
)
SELECT count(*) FROM gone;

-- name: retry_now
-- A waiting or parked delivery is due now, before all others of its subscription; a parked one has its whole schedule
-- again. An open breaker lets it pass as its probe (FT-03).
WITH tried AS (
    UPDATE hookwire.deliveries d
    SET due_at = least(now(), (SELECT x.due_at - interval '1 millisecond' FROM hookwire.deliveries x
                               WHERE x.subscription_id = $3 ORDER BY x.due_at LIMIT 1)),
        planned_at = NULL, parked_at = NULL,
        free_attempts = CASE WHEN d.parked_at IS NULL THEN d.free_attempts ELSE d.attempts END,
        created_at = CASE WHEN d.parked_at IS NULL THEN d.created_at ELSE now() END
    WHERE d.tenant = $1 AND d.event_id = $2 AND d.subscription_id = $3 AND d.fence IS NULL
      AND (isfinite(d.due_at) OR d.parked_at IS NOT NULL)
    RETURNING d.event_id, d.subscription_id
), probing AS (
    UPDATE hookwire.delivery_gates g SET open_until = now()
    FROM tried t WHERE g.subscription_id = t.subscription_id AND g.trips > 0 AND g.open_until > now()
), audited AS (
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason)
    SELECT $1, $4, 'delivery.try', 'webhooks ' || t.event_id || ' ' || t.subscription_id, $5 FROM tried t
)
SELECT t.subscription_id FROM tried t;

-- name: dead_letter
-- A waiting or parked delivery is a dead letter; what waited behind it in its lane is due.
WITH ended AS (
    DELETE FROM hookwire.deliveries d
    WHERE d.tenant = $1 AND d.event_id = $2 AND d.subscription_id = $3 AND d.fence IS NULL
    RETURNING d.*
), promoted AS (
    UPDATE hookwire.deliveries d SET due_at = now()
    FROM ended e CROSS JOIN LATERAL hookwire.next_in_lane(e.subscription_id, e.lane, e.event_id) AS next
    WHERE d.ctid = next.place AND NOT isfinite(d.due_at) AND d.parked_at IS NULL AND isfinite(coalesce(e.parked_at, e.due_at))
), buried AS (
    INSERT INTO hookwire.dead_letters (event_id, subscription_id, tenant, kind, attempts, last_status, last_outcome, detail)
    SELECT e.event_id, e.subscription_id, e.tenant, 'exhausted', e.attempts, e.last_status, e.last_outcome, 'given up by ' || $4
    FROM ended e
    ON CONFLICT DO NOTHING
), audited AS (
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason)
    SELECT $1, $4, 'delivery.give_up', 'webhooks ' || e.event_id || ' ' || e.subscription_id, $5 FROM ended e
)
SELECT e.subscription_id FROM ended e;

-- name: list
-- Open, delivered and dead deliveries in one shape; keyset on (event_id, subscription number), newest first. Each branch
-- has its own limit, so that a page costs a page and not the sorting of all.
SELECT * FROM (
    (SELECT d.event_id, d.subscription_id, d.state, d.attempts, d.last_outcome, d.last_status, d.last_seconds,
            nullif(d.due_at, 'infinity') AS due_at, d.created_at AS at, NULL::text AS kind, NULL::text AS detail, d.parked_at,
            d.fence IS NOT NULL AS is_claimed
     FROM (SELECT *, CASE WHEN o.parked_at IS NOT NULL THEN 'parked' WHEN o.attempts = 0 THEN 'pending' WHEN o.fence IS NOT NULL THEN 'sending' ELSE 'retrying' END AS state
           FROM hookwire.deliveries o) AS d
     WHERE d.tenant = $1 AND ($2::bigint IS NULL OR d.event_id = $2) AND ($3::bigint IS NULL OR d.subscription_id = $3)
       AND ($4::text IS NULL OR ($4 IN ('pending', 'sending', 'retrying', 'parked') AND d.state = $4))
       -- said again, so that an index can answer it
       AND ($4 IS DISTINCT FROM 'parked' OR d.parked_at IS NOT NULL)
       AND ($4 IS DISTINCT FROM 'sending' OR (d.attempts > 0 AND d.fence IS NOT NULL AND d.parked_at IS NULL))
       AND ($4 IS DISTINCT FROM 'retrying' OR (d.attempts > 0 AND d.fence IS NULL AND d.parked_at IS NULL))
       AND (d.event_id, d.subscription_id) < ($5, $6) AND d.event_id >= $8
     ORDER BY d.event_id DESC, d.subscription_id DESC LIMIT $7)
    UNION ALL
    (SELECT a.event_id, a.subscription_id, 'delivered', a.number, a.outcome, a.status, a.total_seconds, NULL, a.started_at, NULL, NULL, NULL,
            false
     FROM hookwire.attempts a
     WHERE a.tenant = $1 AND a.decision = 'delivered' AND ($2::bigint IS NULL OR a.event_id = $2)
       AND ($3::bigint IS NULL OR a.subscription_id = $3) AND ($4::text IS NULL OR $4 = 'delivered')
       AND (a.event_id, a.subscription_id) < ($5, $6) AND a.event_id >= $8
     ORDER BY a.event_id DESC, a.subscription_id DESC LIMIT $7)
    UNION ALL
    (SELECT l.event_id, l.subscription_id, 'dead', l.attempts, l.last_outcome, l.last_status, NULL, NULL, l.died_at,
            l.kind, l.detail, NULL, false
     FROM hookwire.dead_letters l
     WHERE l.tenant = $1 AND ($2::bigint IS NULL OR l.event_id = $2) AND ($3::bigint IS NULL OR l.subscription_id = $3)
       AND ($4::text IS NULL OR $4 = 'dead')
       AND (l.event_id, l.subscription_id) < ($5, $6) AND l.event_id >= $8
     ORDER BY l.event_id DESC, l.subscription_id DESC LIMIT $7)
) AS every
CROSS JOIN LATERAL (
    SELECT y.id, y.public_id, y.callback, y.topic, y.protocol, y.subscription_state, y.state_reason, y.lease_until, y.paused_until,
           y.breaker_until, y.rate_until, y.now
    FROM hookwire.receivers y WHERE y.id = every.subscription_id LIMIT 1
) AS s
ORDER BY every.event_id DESC, every.subscription_id DESC
LIMIT $7;

-- name: get
-- One open delivery. is_probing: a delivery that the breaker has let pass is being sent.
SELECT d.event_id, d.subscription_id, d.attempts, d.last_outcome, d.last_status, nullif(d.due_at, 'infinity') AS due_at,
       d.parked_at, d.fence IS NOT NULL AND d.due_at > now() AS is_claimed, s.protocol, s.subscription_state, s.state_reason,
       s.lease_until, s.paused_until, s.breaker_until, s.rate_until, s.now,
       s.breaker_until IS NOT NULL AND EXISTS (
           SELECT FROM hookwire.deliveries x
           WHERE x.subscription_id = d.subscription_id AND x.fence IS NOT NULL AND isfinite(x.due_at) AND x.due_at > now()
       ) AS is_probing
FROM hookwire.deliveries d CROSS JOIN LATERAL (SELECT * FROM hookwire.receivers y WHERE y.id = d.subscription_id LIMIT 1) AS s
WHERE d.tenant = $1 AND d.event_id = $2 AND d.subscription_id = $3;

-- name: attempts
SELECT number, started_at, outcome, decision, status, trigger, worker, address, detail, connect_seconds, first_byte_seconds,
       total_seconds, response_headers, response_body
FROM hookwire.attempts WHERE tenant = $1 AND event_id = $2 AND subscription_id = $3 ORDER BY number LIMIT 200;
