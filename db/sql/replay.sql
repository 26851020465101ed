-- Replays: events or dead letters sent again by a background task that any process may continue.

-- name: create
-- End at the newest event of now, and begin at the first event of the range. $13 says what is done with each. With $16 it
-- has dead letters of this incident alone; it is then never due for a process of 0.2.0, which would take all.
WITH made AS (
    INSERT INTO hookwire.replays (tenant, source, subscription_id, topic, kinds, statuses, event_ids, since_at, until_at,
        rate_per_second, actor, reason, act, job_kind, job_state, incident_id, due_at, incident_due_at, lower_event_id,
        last_event_id, upper_event_id, upper_seq)
    SELECT $1, $2, $3, $4, $5::text[], $6::smallint[], $7::bigint[], $8, $9, $10, $11, $12, $13, $14, $15, $16,
           CASE WHEN $16::bigint IS NULL THEN now() ELSE 'infinity' END, CASE WHEN $16 IS NOT NULL THEN now() END, b.low, b.low, b.high,
           CASE $2 WHEN 'jobs' THEN coalesce((SELECT j.seq FROM hookwire.jobs j ORDER BY j.seq DESC LIMIT 1), 0) ELSE 0 END
    FROM (SELECT coalesce((SELECT min(n) - 1 FROM unnest($7::bigint[]) AS n), 0) AS low,
                 coalesce((SELECT max(n) FROM unnest($7::bigint[]) AS n), (SELECT last_value FROM hookwire.event_id)) AS high) AS b
    RETURNING id
), audited AS (
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason, records)
    SELECT $1, $11, 'replay.create', 'replay ' || made.id, $12, 0 FROM made
)
SELECT id FROM made;

-- name: begin
-- Replay events that a subscription chooses, from event $4 and moment $3 on, at its subscriber's request.
-- No row: event $4 is above the newest id.
WITH made AS (
    INSERT INTO hookwire.replays (tenant, source, subscription_id, since_at, actor, reason, lower_event_id, last_event_id, upper_event_id)
    SELECT $1, 'events', $2, $3, $5, $6, $4::bigint - 1, $4::bigint - 1, i.last_value FROM hookwire.event_id AS i
    WHERE $4::bigint <= i.last_value
    RETURNING id
), audited AS (
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason, records)
    SELECT $1, $5, 'replay.create', 'replay ' || made.id, $6, 0 FROM made
)
SELECT id FROM made;

-- name: prepare
-- Replay the events above the id $3 for the subscription $2. Its first step fixes its end at the newest event then. That is
-- after the commit. So each event that was fanned out before, and has no delivery, is below the end.
WITH made AS (
    INSERT INTO hookwire.replays (tenant, source, missed, subscription_id, rate_per_second, actor, reason, lower_event_id, last_event_id, upper_event_id)
    VALUES ($1, 'events', true, $2, $4, $5, $6, $3, $3, 9223372036854775807)
    RETURNING id
), audited AS (
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason, records)
    SELECT $1, $5, 'replay.create', 'replay ' || made.id, $6, 0 FROM made
)
SELECT id FROM made;

-- name: count_missed
-- Count the events above the id $2 that the subscription $1 wants. Look at the next $3 of its topic only; of a pattern, at
-- the next $3 of all. `more`: there are others behind these.
SELECT count(*) FILTER (WHERE w.is_wanted) AS records, count(*) = $3 AS more
FROM (
    SELECT e.erased_at IS NULL AND (s.topic_regex IS NULL OR e.topic ~ s.topic_regex)
           AND (s.filter_path IS NULL OR hookwire.event_passes(
                e.topic, e.key, e.accepted_at, e.content_type, e.headers, e.payload, s.filter_path)) AS is_wanted
    FROM hookwire.subscriptions s
    CROSS JOIN LATERAL (
        (SELECT x.* FROM hookwire.events x
         WHERE s.topic_regex IS NULL AND x.tenant = s.tenant AND x.topic = s.topic AND x.id > $2 ORDER BY x.id LIMIT $3)
        UNION ALL
        (SELECT x.* FROM hookwire.events x
         WHERE s.topic_regex IS NOT NULL AND x.tenant = s.tenant AND x.id > $2 ORDER BY x.id LIMIT $3)
    ) AS e
    WHERE s.id = $1
) AS w;

-- name: count
-- Count the records of a replay up to $10, with $11 those of an incident. Return the count, the oldest and the newest event. Erased events are counted
-- apart; a filter cannot judge them any more.
SELECT count(*) FILTER (WHERE NOT m.is_erased) AS records, min(m.event_id) FILTER (WHERE NOT m.is_erased) AS oldest,
       max(m.event_id) FILTER (WHERE NOT m.is_erased) AS newest, count(*) FILTER (WHERE m.is_erased) AS erased, count(*) AS counted
FROM (
    SELECT * FROM (
        SELECT e.id AS event_id, e.erased_at IS NOT NULL AS is_erased FROM hookwire.events e
        JOIN hookwire.subscriptions s ON s.id = $3 AND s.tenant = e.tenant
        WHERE $2 = 'events' AND e.tenant = $1 AND s.topic_regex IS NULL AND e.topic = s.topic
          AND ($4::text IS NULL OR e.topic = $4)
          AND ($7::bigint[] IS NULL OR e.id = ANY ($7)) AND ($8::timestamptz IS NULL OR e.accepted_at >= $8)
          AND ($9::timestamptz IS NULL OR e.accepted_at < $9)
          AND (e.erased_at IS NOT NULL OR hookwire.event_passes(
               e.topic, e.key, e.accepted_at, e.content_type, e.headers, e.payload, s.filter_path))
        UNION ALL
        SELECT e.id, e.erased_at IS NOT NULL FROM hookwire.events e
        JOIN hookwire.subscriptions s ON s.id = $3 AND s.tenant = e.tenant
        WHERE $2 = 'events' AND e.tenant = $1 AND s.topic_regex IS NOT NULL AND e.topic ~ s.topic_regex
          AND ($4::text IS NULL OR e.topic = $4)
          AND ($7::bigint[] IS NULL OR e.id = ANY ($7)) AND ($8::timestamptz IS NULL OR e.accepted_at >= $8)
          AND ($9::timestamptz IS NULL OR e.accepted_at < $9)
          AND (e.erased_at IS NOT NULL OR hookwire.event_passes(
               e.topic, e.key, e.accepted_at, e.content_type, e.headers, e.payload, s.filter_path))
        UNION ALL
        SELECT d.event_id, e.erased_at IS NOT NULL FROM hookwire.dead_letters d
        JOIN hookwire.events e ON e.id = d.event_id
        JOIN hookwire.subscriptions s ON s.id = d.subscription_id AND s.state IN ('active', 'disabled')
        WHERE $2 = 'dead_letters' AND d.tenant = $1 AND ($3::bigint IS NULL OR d.subscription_id = $3)
          AND ($4::text IS NULL OR e.topic = $4) AND ($5::text[] IS NULL OR d.kind = ANY ($5))
          AND ($6::smallint[] IS NULL OR d.last_status = ANY ($6))
          AND ($11::bigint IS NULL OR d.incident_id = $11)
          AND ($7::bigint[] IS NULL OR d.event_id = ANY ($7)) AND ($8::timestamptz IS NULL OR d.died_at >= $8)
          AND ($9::timestamptz IS NULL OR d.died_at < $9)
    ) AS every
    LIMIT $10
) AS m;

-- name: step
-- Advance the due replay by up to $1 records. One statement writes deliveries, marks and cursor, so that a step is
-- complete or has no effect. Open deliveries stay as they are. An ordered lane keeps its order among waiting
-- deliveries. Erased events are left out and counted. The events are locked, so that no erasure begins meanwhile.
--
-- With a rate, the next step is due when the made deliveries have used up their time. That time counts from the moment at
-- which this step was due, so a late step does not lower the rate. Up to 0.2 seconds are made up for. Without a rate,
-- the next step is due after $2 seconds.
--
-- A replay of missed events stops before the oldest event that is not fanned out, and looks again after a second. The
-- fan-out makes the deliveries of that event. The replay leaves out what the subscription has got.
WITH locked AS MATERIALIZED (
    SELECT r.*, least($1, coalesce(r.rate_per_second, $1)) AS most, coalesce(r.incident_due_at, r.due_at) AS due FROM hookwire.replays r
    WHERE r.state = 'running' AND coalesce(r.incident_due_at, r.due_at) <= now() AND r.act = 'send' ORDER BY coalesce(r.incident_due_at, r.due_at) LIMIT 1
    FOR UPDATE SKIP LOCKED
), ranged AS MATERIALIZED (
    SELECT l.*, CASE WHEN l.upper_event_id < 9223372036854775807 THEN l.upper_event_id
                     ELSE greatest((SELECT i.last_value FROM hookwire.event_id AS i), l.last_event_id) END AS end_id,
           CASE WHEN l.missed THEN (
               SELECT min(o.id) FROM generate_series(0, 63) AS g(shard)
               CROSS JOIN LATERAL (
                   SELECT x.id FROM hookwire.outbox x
                   WHERE x.sink = 'webhooks' AND x.shard = g.shard::smallint AND x.id > l.last_event_id ORDER BY x.id LIMIT 1) AS o)
           END AS queued_id
    FROM locked l
), job AS MATERIALIZED (
    SELECT r.*, least(r.end_id, r.queued_id - 1) AS until_id, coalesce(r.queued_id <= r.end_id, false) AS waits FROM ranged r
), seen AS MATERIALIZED (
    SELECT e.id AS event_id, j.subscription_id, e.topic, e.accepted_at AS at, NULL::text AS kind, NULL::smallint AS status
    FROM job j JOIN hookwire.subscriptions s ON s.id = j.subscription_id AND s.topic_regex IS NULL
    CROSS JOIN LATERAL (
        SELECT x.id, x.topic, x.accepted_at FROM hookwire.events x
        WHERE x.tenant = j.tenant AND x.topic = s.topic AND x.id > j.last_event_id AND x.id <= j.until_id
        ORDER BY x.id LIMIT j.most) AS e
    WHERE j.source = 'events'
    UNION ALL
    SELECT e.id, j.subscription_id, e.topic, e.accepted_at, NULL, NULL
    FROM job j JOIN hookwire.subscriptions s ON s.id = j.subscription_id AND s.topic_regex IS NOT NULL
    CROSS JOIN LATERAL (
        SELECT x.id, x.topic, x.accepted_at FROM hookwire.events x
        WHERE x.tenant = j.tenant AND x.id > j.last_event_id AND x.id <= j.until_id
        ORDER BY x.id LIMIT j.most) AS e
    WHERE j.source = 'events'
    UNION ALL
    SELECT d.event_id, d.subscription_id, e.topic, d.died_at, d.kind, d.last_status
    FROM job j CROSS JOIN LATERAL (
        SELECT x.* FROM hookwire.dead_letters x
        WHERE x.tenant = j.tenant AND (j.subscription_id IS NULL OR x.subscription_id = j.subscription_id)
          AND (x.event_id, x.subscription_id) > (j.last_event_id, j.last_subscription_id) AND x.event_id <= j.upper_event_id
        ORDER BY x.event_id, x.subscription_id LIMIT j.most) AS d
    LEFT JOIN LATERAL (SELECT y.topic FROM hookwire.events y WHERE y.id = d.event_id LIMIT 1) AS e ON true
    WHERE j.source = 'dead_letters' AND j.incident_id IS NULL
    UNION ALL
    SELECT d.event_id, d.subscription_id, e.topic, d.died_at, d.kind, d.last_status
    FROM job j CROSS JOIN LATERAL (
        SELECT x.* FROM hookwire.dead_letters x
        WHERE x.incident_id = j.incident_id AND (x.event_id, x.subscription_id) > (j.last_event_id, j.last_subscription_id)
          AND x.event_id <= j.upper_event_id
        ORDER BY x.event_id, x.subscription_id LIMIT j.most) AS d
    LEFT JOIN LATERAL (SELECT y.topic FROM hookwire.events y WHERE y.id = d.event_id LIMIT 1) AS e ON true
    WHERE j.source = 'dead_letters' AND j.incident_id IS NOT NULL
), event AS MATERIALIZED (
    SELECT y.* FROM (SELECT DISTINCT s.event_id FROM seen s ORDER BY s.event_id) AS s
    CROSS JOIN LATERAL (
        SELECT x.* FROM hookwire.events x WHERE x.id BETWEEN s.event_id AND s.event_id ORDER BY x.id LIMIT 1 FOR SHARE OF x
    ) AS y
), wanted AS MATERIALIZED (
    SELECT s.event_id, u.id AS subscription_id, e.tenant, CASE WHEN u.ordered THEN e.key END AS lane, j.id AS replay_id, e.key,
           e.erased_at IS NOT NULL AS is_erased
    FROM job j CROSS JOIN seen s
    JOIN hookwire.subscriptions u ON u.id = s.subscription_id AND u.state IN ('active', 'disabled')
    JOIN event e ON e.id = s.event_id
    WHERE (j.subscription_id IS NULL OR s.subscription_id = j.subscription_id) AND (u.topic_regex IS NULL OR j.source = 'dead_letters' OR s.topic ~ u.topic_regex)
      AND (j.source = 'dead_letters' OR e.erased_at IS NOT NULL OR hookwire.event_passes(
           e.topic, e.key, e.accepted_at, e.content_type, e.headers, e.payload, u.filter_path))
      AND (j.topic IS NULL OR s.topic = j.topic) AND (j.kinds IS NULL OR s.kind = ANY (j.kinds))
      AND (j.statuses IS NULL OR s.status = ANY (j.statuses)) AND (j.event_ids IS NULL OR s.event_id = ANY (j.event_ids))
      AND (j.since_at IS NULL OR s.at >= j.since_at) AND (j.until_at IS NULL OR s.at < j.until_at)
), target AS MATERIALIZED (
    SELECT w.*, row_number() OVER (PARTITION BY w.subscription_id, w.key ORDER BY w.event_id) AS place, p.number
    FROM wanted w CROSS JOIN job j CROSS JOIN LATERAL (
        SELECT greatest(coalesce(max(a.number), 0), coalesce((SELECT l.attempts FROM hookwire.dead_letters l
                   WHERE l.event_id = w.event_id AND l.subscription_id = w.subscription_id), 0)) AS number
        FROM hookwire.attempts a WHERE a.event_id = w.event_id AND a.subscription_id = w.subscription_id) AS p
    WHERE NOT w.is_erased AND (NOT j.missed OR p.number = 0)
), made AS (
    INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant, lane, attempts, free_attempts, replay_id)
    SELECT t.event_id, t.subscription_id,
           CASE WHEN t.lane IS NOT NULL AND (t.place > 1 OR EXISTS (
                     SELECT FROM hookwire.deliveries x
                     WHERE x.subscription_id = t.subscription_id AND x.lane = t.lane AND x.event_id < t.event_id))
                THEN 'infinity' ELSE now() END,
           now(), t.tenant, t.lane, t.number, t.number, t.replay_id
    FROM target t
    ORDER BY t.event_id
    ON CONFLICT DO NOTHING
    RETURNING event_id, subscription_id
), revived AS (
    DELETE FROM hookwire.dead_letters
    WHERE ctid = ANY (ARRAY(
        SELECT l.place FROM target t CROSS JOIN LATERAL (
            SELECT x.ctid AS place FROM hookwire.dead_letters x
            WHERE x.event_id = ANY (ARRAY[t.event_id]) AND x.subscription_id = t.subscription_id
            ORDER BY x.event_id LIMIT 1
        ) AS l))
), moved AS (
    UPDATE hookwire.replays r
    SET last_event_id = coalesce(z.event_id, r.last_event_id), last_subscription_id = coalesce(z.subscription_id, r.last_subscription_id),
        examined = r.examined + z.count, replayed = r.replayed + (SELECT count(*) FROM made),
        erased = r.erased + (SELECT count(*) FROM wanted w WHERE w.is_erased), updated_at = now(), upper_event_id = j.end_id,
        state = CASE WHEN z.count < j.most AND NOT j.waits THEN 'done' ELSE 'running' END,
        due_at = CASE WHEN z.count < j.most AND j.waits THEN greatest(z.due_at, now() + interval '1 second')
                      WHEN j.incident_id IS NULL THEN z.due_at ELSE r.due_at END,
        incident_due_at = CASE WHEN j.incident_id IS NOT NULL THEN z.due_at END
    FROM job j, (SELECT count(*) AS count, (array_agg(s.event_id ORDER BY s.event_id DESC, s.subscription_id DESC))[1] AS event_id,
                        (array_agg(s.subscription_id ORDER BY s.event_id DESC, s.subscription_id DESC))[1] AS subscription_id,
                        (SELECT CASE WHEN x.rate_per_second IS NULL THEN now() + make_interval(secs => $2::double precision)
                                     ELSE greatest(x.due, now() - interval '0.2 seconds')
                                          + make_interval(secs => (SELECT count(*) FROM made)::double precision / x.rate_per_second) END
                         FROM job x) AS due_at
                 FROM seen s) AS z
    WHERE r.id = j.id
    RETURNING r.id, z.count AS examined, r.rate_per_second
), listed AS (
    SELECT coalesce(array_agg(m.event_id), '{}') AS events, coalesce(array_agg(m.subscription_id), '{}') AS subscriptions FROM made m
)
SELECT m.id, m.examined, m.rate_per_second, l.events, l.subscriptions FROM moved m CROSS JOIN listed l;

-- name: unsent
-- Count those of these deliveries that a worker is about to send or is sending. Deliveries that wait for a retry, behind
-- another one of their lane, or for their subscription, are not counted.
SELECT count(*) FROM unnest($1::bigint[], $2::bigint[]) AS m(event_id, subscription_id)
CROSS JOIN LATERAL (
    SELECT x.due_at, x.fence FROM hookwire.deliveries x
    WHERE x.event_id = ANY (ARRAY[m.event_id]) AND x.subscription_id = m.subscription_id
    ORDER BY x.event_id LIMIT 1
) AS d
WHERE (d.fence IS NOT NULL OR d.due_at <= now())
  AND (SELECT (s.state = 'active' OR s.drains) AND s.protocol <> 'pull' AND coalesce(s.paused_until <= now(), true)
       FROM hookwire.subscriptions s WHERE s.id = m.subscription_id);

-- name: set_state
-- Pause, resume or cancel: from one of the states $3 to $4.
WITH turned AS (
    UPDATE hookwire.replays r SET state = $4, updated_at = now() WHERE r.tenant = $1 AND r.id = $2 AND r.state = ANY ($3::text[])
    RETURNING r.id, r.replayed
)
INSERT INTO hookwire.audit (tenant, actor, action, subject, reason, records)
SELECT $1, $5, $6, 'replay ' || t.id, $7, t.replayed FROM turned t
RETURNING id;

-- name: list
SELECT r.id, r.state, r.source, r.act, r.job_kind, r.job_state, r.incident_id, s.public_id AS subscription_id, r.topic,
       coalesce(s.topic, CASE WHEN r.subscription_id IS NULL THEN r.topic END) AS pattern, r.kinds, r.statuses, r.since_at, r.until_at,
       r.rate_per_second, r.actor, r.reason, r.created_at, r.updated_at, r.examined, r.replayed, r.erased,
       b.why, CASE WHEN r.source = 'lake' THEN coalesce(b.lease_until > now(), false) END AS is_held,
       CASE WHEN r.state = 'done' THEN 1 WHEN r.source = 'jobs' THEN r.last_seq::double precision / greatest(r.upper_seq, 1)
            ELSE (r.last_event_id - r.lower_event_id)::double precision / greatest(r.upper_event_id - r.lower_event_id, 1) END AS progress
FROM hookwire.replays r LEFT JOIN hookwire.subscriptions s ON s.id = r.subscription_id
LEFT JOIN hookwire.backfills b ON b.replay_id = r.id
WHERE r.tenant = $1 AND ($2::bigint IS NULL OR r.id = $2) AND r.id < $3
ORDER BY r.id DESC LIMIT $4;
