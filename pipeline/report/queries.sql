-- The queries behind the numbers of the report, in Spark SQL over the tables bronze and deliveries of the lake. The page
-- prints them. :first and :last are its days (UTC), :grain is hour or day, :late_seconds is what counts as late.
-- Percentiles are over rounded times, because an exact one holds each distinct value in memory. Rounding moves a time by at
-- most 0.5 %, or by half a millisecond. Each query returns a bounded number of rows, whatever strangers publish.

-- name: volume
WITH counted AS (
    SELECT topic, date_trunc(:grain, CASE WHEN CAST(accepted_at AS date) = dt THEN accepted_at ELSE archived_at END) AS moment,
           count(*) AS records
    FROM bronze
    WHERE dt BETWEEN :first AND :last
    GROUP BY 1, 2
), summed AS (
    SELECT *, sum(records) OVER (PARTITION BY topic) AS total FROM counted
), ranked AS (
    SELECT *, dense_rank() OVER (ORDER BY total DESC, topic) AS place FROM summed
), placed AS (
    SELECT *, CASE WHEN place < 8 THEN topic END AS name, max(place) OVER () AS topics FROM ranked
)
SELECT name AS topic, moment AS at, sum(records) AS records, CASE WHEN name IS NULL THEN max(topics) - 7 END AS others
FROM placed
GROUP BY name, moment ORDER BY name IS NULL, min(place), moment

-- name: attempts
SELECT date_trunc(:grain, started_at) AS at, count(*) AS attempts,
       count(*) FILTER (WHERE decision = 'delivered') AS good,
       count(*) FILTER (WHERE number > 1) AS retries,
       count(*) FILTER (WHERE decision = 'dead') AS dead,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY round(seconds, 3)) AS p50,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY round(seconds, 3)) AS p95,
       percentile_cont(0.99) WITHIN GROUP (ORDER BY round(seconds, 3)) AS p99
FROM deliveries
WHERE dt BETWEEN :first AND :last
GROUP BY 1 ORDER BY 1

-- name: latency
WITH delivered AS (
    SELECT subscription, dt AS day, (unix_micros(started_at) - unix_micros(accepted_at)) / 1e6 + seconds AS exact
    FROM deliveries
    WHERE dt BETWEEN :first AND :last AND decision = 'delivered' AND status BETWEEN 200 AND 299
      AND trigger IN ('first', 'retry') AND accepted_at IS NOT NULL
), rounded AS (
    SELECT subscription, day, exact,
           CASE WHEN exact < 10 THEN round(exact, 3) WHEN exact < 1000 THEN round(exact, 1)
                WHEN exact < 100000 THEN round(exact, 0) ELSE round(exact, -2) END AS seconds
    FROM delivered
), summed AS (
    SELECT subscription, day, count(*) AS events,
           percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) AS p50,
           percentile_cont(0.95) WITHIN GROUP (ORDER BY seconds) AS p95,
           percentile_cont(0.99) WITHIN GROUP (ORDER BY seconds) AS p99,
           max(seconds) AS longest, count(*) FILTER (WHERE exact > :late_seconds) AS late
    FROM rounded
    GROUP BY GROUPING SETS ((), (day), (subscription), (subscription, day))
), compared AS (
    SELECT *, max(CASE WHEN day IS NULL THEN p95 END) OVER (PARTITION BY subscription) AS slowest,
           count(CASE WHEN subscription IS NOT NULL AND day IS NULL THEN 1 END) OVER () AS endpoints
    FROM summed
), ranked AS (
    SELECT *, dense_rank() OVER (ORDER BY subscription IS NULL, slowest DESC, subscription) AS place FROM compared
)
SELECT subscription, day, events, p50, p95, p99, longest, late, endpoints
FROM ranked
WHERE place <= 10 OR subscription IS NULL
ORDER BY subscription IS NOT NULL, place, day NULLS FIRST

-- name: reasons
SELECT error_class AS reason, status, outcome, count(*) AS attempts, count(DISTINCT subscription) AS endpoints,
       min(subscription) AS subscription, count(*) FILTER (WHERE decision = 'dead') AS dead,
       min(started_at) AS first_seen, max(started_at) AS last_seen
FROM deliveries
WHERE dt BETWEEN :first AND :last AND error_class IS NOT NULL
GROUP BY 1, 2, 3 ORDER BY attempts DESC, reason, status, outcome
LIMIT 21

-- name: failing
SELECT subscription, count(*) AS attempts, count(*) FILTER (WHERE decision <> 'delivered') AS failed,
       count(*) FILTER (WHERE decision = 'dead') AS dead,
       max(started_at) FILTER (WHERE decision = 'delivered') AS last_delivered,
       max(started_at) FILTER (WHERE decision <> 'delivered') AS last_failed
FROM deliveries
WHERE dt BETWEEN :first AND :last
GROUP BY 1 HAVING count(*) FILTER (WHERE decision <> 'delivered') > 0
ORDER BY failed DESC, subscription
LIMIT 11

-- name: lateness
WITH carried AS (
    SELECT topic, (unix_micros(archived_at) - unix_micros(accepted_at)) / 1e6 AS exact,
           CASE timestamp_type WHEN 1 THEN (unix_micros(timestamp) - unix_micros(accepted_at)) / 1e6 END AS exact_to_kafka
    FROM bronze
    WHERE dt BETWEEN :first AND :last AND quarantine IS NULL
), rounded AS (
    SELECT topic, exact_to_kafka,
           CASE WHEN exact < 10 THEN round(exact, 3) WHEN exact < 1000 THEN round(exact, 1)
                WHEN exact < 100000 THEN round(exact, 0) ELSE round(exact, -2) END AS seconds,
           CASE WHEN exact_to_kafka < 10 THEN round(exact_to_kafka, 3) WHEN exact_to_kafka < 1000 THEN round(exact_to_kafka, 1)
                WHEN exact_to_kafka < 100000 THEN round(exact_to_kafka, 0) ELSE round(exact_to_kafka, -2) END AS to_kafka
    FROM carried
)
SELECT topic, count(*) AS events,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) AS p50,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY seconds) AS p95,
       percentile_cont(0.99) WITHIN GROUP (ORDER BY seconds) AS p99,
       max(seconds) AS longest, percentile_cont(0.95) WITHIN GROUP (ORDER BY to_kafka) AS p95_to_kafka,
       CASE WHEN count(to_kafka) > 0 THEN count(*) FILTER (WHERE exact_to_kafka > :late_seconds) END AS late
FROM rounded
GROUP BY 1 ORDER BY p95 DESC, topic
LIMIT 21

-- name: newest_event
SELECT max(accepted_at) AS at FROM bronze WHERE quarantine IS NULL

-- name: newest_attempt
SELECT max(started_at) AS at FROM deliveries
