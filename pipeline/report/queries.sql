-- The queries behind the numbers of the report, in Spark SQL over the tables bronze and deliveries of the lake. The page
-- prints them. :first and :last are its days (UTC), :grain is hour or day, :late_seconds is what counts as late.
-- Times are rounded, because an exact percentile holds each distinct value in memory.

-- name: volume
SELECT topic, date_trunc(:grain, coalesce(accepted_at, archived_at)) AS at, count(*) AS records
FROM bronze
WHERE dt BETWEEN :first AND :last
GROUP BY 1, 2 ORDER BY 1, 2

-- name: attempts
SELECT date_trunc(:grain, started_at) AS at, count(*) AS attempts,
       count(*) FILTER (WHERE decision = 'delivered') AS good,
       count(*) FILTER (WHERE number > 1) AS retries,
       count(*) FILTER (WHERE decision = 'dead') AS dead,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY round(seconds, 4)) AS p50,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY round(seconds, 4)) AS p95,
       percentile_cont(0.99) WITHIN GROUP (ORDER BY round(seconds, 4)) AS p99
FROM deliveries
WHERE dt BETWEEN :first AND :last
GROUP BY 1 ORDER BY 1

-- name: latency
WITH delivered AS (
    SELECT subscription, dt AS day,
           round((unix_micros(started_at) - unix_micros(accepted_at)) / 1e6 + seconds, 3) AS seconds
    FROM deliveries
    WHERE dt BETWEEN :first AND :last AND decision = 'delivered' AND status BETWEEN 200 AND 299
      AND trigger IN ('first', 'retry') AND accepted_at IS NOT NULL
)
SELECT subscription, day, count(*) AS events,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) AS p50,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY seconds) AS p95,
       percentile_cont(0.99) WITHIN GROUP (ORDER BY seconds) AS p99,
       max(seconds) AS longest, count(*) FILTER (WHERE seconds > :late_seconds) AS late
FROM delivered
GROUP BY GROUPING SETS ((), (day), (subscription), (subscription, day))
ORDER BY subscription NULLS FIRST, day NULLS FIRST

-- name: reasons
SELECT error_class AS reason, status, outcome, count(*) AS attempts, count(DISTINCT subscription) AS endpoints,
       min(subscription) AS subscription, count(*) FILTER (WHERE decision = 'dead') AS dead,
       min(started_at) AS first_seen, max(started_at) AS last_seen
FROM deliveries
WHERE dt BETWEEN :first AND :last AND error_class IS NOT NULL
GROUP BY 1, 2, 3 ORDER BY attempts DESC, reason, status, outcome
LIMIT 20

-- name: failing
SELECT subscription, count(*) AS attempts, count(*) FILTER (WHERE decision <> 'delivered') AS failed,
       count(*) FILTER (WHERE decision = 'dead') AS dead,
       max(started_at) FILTER (WHERE decision = 'delivered') AS last_delivered,
       max(started_at) FILTER (WHERE decision <> 'delivered') AS last_failed
FROM deliveries
WHERE dt BETWEEN :first AND :last
GROUP BY 1 HAVING count(*) FILTER (WHERE decision <> 'delivered') > 0
ORDER BY failed DESC, subscription
LIMIT 10

-- name: lateness
WITH carried AS (
    SELECT topic, round((unix_micros(archived_at) - unix_micros(accepted_at)) / 1e6, 3) AS seconds,
           CASE timestamp_type WHEN 1 THEN round((unix_micros(timestamp) - unix_micros(accepted_at)) / 1e6, 3)
           END AS to_kafka
    FROM bronze
    WHERE dt BETWEEN :first AND :last AND accepted_at IS NOT NULL
)
SELECT topic, count(*) AS events,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) AS p50,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY seconds) AS p95,
       percentile_cont(0.99) WITHIN GROUP (ORDER BY seconds) AS p99,
       max(seconds) AS longest, percentile_cont(0.95) WITHIN GROUP (ORDER BY to_kafka) AS p95_to_kafka,
       CASE WHEN count(to_kafka) > 0 THEN count(*) FILTER (WHERE to_kafka > :late_seconds) END AS late
FROM carried
GROUP BY 1 ORDER BY p95 DESC, topic
LIMIT 20

-- name: newest_event
SELECT max(accepted_at) AS at FROM bronze WHERE dt = (SELECT max(dt) FROM bronze)

-- name: newest_attempt
SELECT max(started_at) AS at FROM deliveries WHERE dt = (SELECT max(dt) FROM deliveries)
