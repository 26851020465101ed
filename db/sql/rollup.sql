-- Rollups: the attempts of a subscription by minute, hour and day, with the times that they took.

-- name: fold
-- Add up to $1 of the oldest entries from $2 on to their minutes, hours and days. It is one statement, so that no entry is
-- counted twice or lost. Return how many there were, and the last one's moment.
WITH taken AS MATERIALIZED (
    DELETE FROM hookwire.attempt_entries
    WHERE ctid = ANY (ARRAY(
        SELECT x.ctid FROM hookwire.attempt_entries x WHERE x.settled_at >= $2 ORDER BY x.settled_at LIMIT $1
        FOR UPDATE SKIP LOCKED))
    RETURNING settled_at, subscription_ids, seconds, ages
), attempt AS MATERIALIZED (
    SELECT date_trunc('minute', t.settled_at, 'UTC') AS minute, u.subscription_id, u.seconds, u.age
    FROM taken t CROSS JOIN LATERAL unnest(t.subscription_ids, t.seconds, t.ages) AS u(subscription_id, seconds, age)
), cell AS MATERIALIZED (
    SELECT a.subscription_id, a.minute, m.measure,
           floor(ln(greatest(m.seconds::double precision, 0.0001) / 0.0001) / ln(1.1::double precision))::smallint AS bucket,
           count(*) AS count
    FROM attempt a
    CROSS JOIN LATERAL (VALUES ('attempts', a.seconds), ('latency', nullif(a.seconds, -1)), ('age', nullif(a.age, -1)), ('delivered', a.age)) AS m(measure, seconds)
    WHERE m.seconds IS NOT NULL
    GROUP BY a.subscription_id, a.minute, m.measure, bucket
), span AS MATERIALIZED (
    SELECT c.subscription_id, g.grain, date_trunc(g.grain, c.minute, 'UTC') AS at, c.measure, c.bucket, sum(c.count)::bigint AS count
    FROM cell c CROSS JOIN (VALUES ('minute'), ('hour'), ('day')) AS g(grain)
    GROUP BY c.subscription_id, g.grain, 3, c.measure, c.bucket
), folded AS (
    INSERT INTO hookwire.attempt_rollups AS r
        (subscription_id, grain, at, attempts, delivered, latency_buckets, latency_counts, age_buckets, age_counts)
    SELECT s.subscription_id, s.grain, s.at, coalesce(sum(s.count) FILTER (WHERE s.measure = 'attempts'), 0),
           coalesce(sum(s.count) FILTER (WHERE s.measure = 'delivered'), 0),
           coalesce(array_agg(s.bucket ORDER BY s.bucket) FILTER (WHERE s.measure = 'latency'), '{}'),
           coalesce(array_agg(s.count ORDER BY s.bucket) FILTER (WHERE s.measure = 'latency'), '{}'),
           coalesce(array_agg(s.bucket ORDER BY s.bucket) FILTER (WHERE s.measure = 'age'), '{}'),
           coalesce(array_agg(s.count ORDER BY s.bucket) FILTER (WHERE s.measure = 'age'), '{}')
    FROM span s
    GROUP BY s.subscription_id, s.grain, s.at
    ORDER BY s.subscription_id, s.grain, s.at -- the same order in all processes prevents deadlocks
    ON CONFLICT (subscription_id, grain, at) DO UPDATE
    SET attempts = r.attempts + excluded.attempts, delivered = r.delivered + excluded.delivered,
        (latency_buckets, latency_counts) = (
            SELECT coalesce(array_agg(b.bucket ORDER BY b.bucket), '{}'), coalesce(array_agg(b.count ORDER BY b.bucket), '{}')
            FROM (SELECT u.bucket, sum(u.count)::bigint AS count
                  FROM unnest(r.latency_buckets || excluded.latency_buckets, r.latency_counts || excluded.latency_counts) AS u(bucket, count)
                  GROUP BY u.bucket) AS b),
        (age_buckets, age_counts) = (
            SELECT coalesce(array_agg(b.bucket ORDER BY b.bucket), '{}'), coalesce(array_agg(b.count ORDER BY b.bucket), '{}')
            FROM (SELECT u.bucket, sum(u.count)::bigint AS count
                  FROM unnest(r.age_buckets || excluded.age_buckets, r.age_counts || excluded.age_counts) AS u(bucket, count)
                  GROUP BY u.bucket) AS b)
)
SELECT count(*) AS entries, max(settled_at) AS last FROM taken;

-- name: purge
-- Delete up to 5,000 rows of the grain $1 that are older than $2 days.
DELETE FROM hookwire.attempt_rollups
WHERE ctid = ANY (ARRAY(
    SELECT r.ctid FROM hookwire.attempt_rollups r
    WHERE r.grain = $1 AND r.at < now() - make_interval(days => $2::integer) ORDER BY r.at LIMIT 5000 FOR UPDATE SKIP LOCKED));

-- name: points
-- Return the rows of the grain $2 of one subscription, oldest first.
SELECT r.at, r.attempts, r.delivered, r.latency_buckets, r.latency_counts, r.age_buckets, r.age_counts FROM hookwire.attempt_rollups r
WHERE r.subscription_id BETWEEN $1 AND $1 AND r.grain = $2 AND r.at >= $3 AND r.at < $4
ORDER BY r.subscription_id, r.grain, r.at LIMIT $5;

-- name: recent
-- Return the last $2 minutes of each of these subscriptions.
SELECT w.id AS subscription_id, r.latency_buckets, r.latency_counts FROM unnest($1::bigint[]) AS w(id)
CROSS JOIN LATERAL (
    SELECT y.latency_buckets, y.latency_counts FROM hookwire.attempt_rollups y
    -- A range in the order of an index leaves the planner only this index.
    WHERE y.subscription_id BETWEEN w.id AND w.id AND y.grain = 'minute' AND y.at > now() - make_interval(mins => $2::integer)
    ORDER BY y.subscription_id, y.grain, y.at LIMIT $2) AS r;

-- name: folded_until
-- Return the moment up to which all attempts are folded: that of the oldest entry, or now.
SELECT coalesce((SELECT x.settled_at FROM hookwire.attempt_entries x ORDER BY x.settled_at LIMIT 1), now());
