-- Gold: the lake's metrics and service levels in the hub's database. Each entry of the lake's log is stored once
-- (PL-X04).

-- name: batches
-- Return the stored batches of a job.
SELECT batch FROM hookwire.lake_batches WHERE job = $1;

-- name: take_batch
-- Claim a batch within the transaction that stores its rows. No row: another run has stored it.
INSERT INTO hookwire.lake_batches (job, batch) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING batch;

-- name: put_metrics
INSERT INTO hookwire.lake_metrics AS m (tenant, hour, topic, subscription, attempts, delivered, retries, dead, p50_seconds, p95_seconds,
                                        p99_seconds, tries_to_success, oldest_seconds)
SELECT * FROM unnest($1::text[], $2::timestamptz[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
                     $9::double precision[], $10::double precision[], $11::double precision[], $12::double precision[],
                     $13::double precision[])
ON CONFLICT (tenant, hour, topic, subscription) DO UPDATE
SET attempts = excluded.attempts, delivered = excluded.delivered, retries = excluded.retries, dead = excluded.dead,
    p50_seconds = excluded.p50_seconds, p95_seconds = excluded.p95_seconds, p99_seconds = excluded.p99_seconds,
    tries_to_success = excluded.tries_to_success, oldest_seconds = excluded.oldest_seconds;

-- name: put_slo
INSERT INTO hookwire.lake_slo AS s (tenant, day, subscription, attempts, delivered, share, target, burn)
SELECT * FROM unnest($1::text[], $2::date[], $3::text[], $4::bigint[], $5::bigint[], $6::double precision[], $7::double precision[],
                     $8::double precision[])
ON CONFLICT (tenant, day, subscription) DO UPDATE
SET attempts = excluded.attempts, delivered = excluded.delivered, share = excluded.share, target = excluded.target,
    burn = excluded.burn;

-- name: backlog_page
-- Return the backlog by topic and subscription, of the $3 deliveries after event $1 and subscription $2. Return at
-- least one row. Each row has the place of the last delivery that was read, and how many were read.
WITH page AS MATERIALIZED (
    SELECT d.tenant, d.event_id, d.subscription_id FROM hookwire.deliveries d
    WHERE (d.event_id, d.subscription_id) > ($1, $2) ORDER BY d.event_id, d.subscription_id LIMIT $3
), waiting AS (
    SELECT p.tenant, e.topic, s.public_id AS subscription, count(*) AS waiting, min(e.accepted_at) AS since
    FROM page p
    CROSS JOIN LATERAL (
        SELECT x.topic, x.accepted_at FROM hookwire.events x
        WHERE x.id BETWEEN p.event_id AND p.event_id ORDER BY x.id LIMIT 1 -- a range in order: see outbox.sql
    ) AS e
    CROSS JOIN LATERAL (SELECT x.public_id FROM hookwire.subscriptions x WHERE x.id = p.subscription_id LIMIT 1) AS s
    GROUP BY 1, 2, 3
)
SELECT w.tenant, w.topic, w.subscription, w.waiting, w.since, l.event_id, l.subscription_id, l.examined
FROM (SELECT (SELECT max(p.event_id) FROM page p) AS event_id,
             (SELECT p.subscription_id FROM page p ORDER BY p.event_id DESC, p.subscription_id DESC LIMIT 1) AS subscription_id,
             (SELECT count(*) FROM page) AS examined) AS l
LEFT JOIN waiting w ON true;

-- name: put_backlog
-- Store the backlog under the present hour. A later count of the same hour replaces it.
INSERT INTO hookwire.lake_backlog AS b (tenant, at, topic, subscription, waiting, oldest_seconds)
SELECT w.tenant, date_trunc('hour', now(), 'UTC'), w.topic, w.subscription, w.waiting,
       extract(epoch FROM now() - w.since)::double precision
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::timestamptz[]) AS w(tenant, topic, subscription, waiting, since)
ON CONFLICT (tenant, at, topic, subscription) DO UPDATE SET waiting = excluded.waiting, oldest_seconds = excluded.oldest_seconds;

-- name: purge_metrics
-- Delete up to $2 rows older than $1 days, oldest first and along the key. Return how many were deleted. The next two
-- statements do the same.
WITH gone AS (
    DELETE FROM hookwire.lake_metrics WHERE (tenant, hour, topic, subscription) IN (
        SELECT tenant, hour, topic, subscription FROM hookwire.lake_metrics
        WHERE tenant = 'default' AND hour < now() - make_interval(days => $1::integer) ORDER BY tenant, hour LIMIT $2)
    RETURNING 1
)
SELECT count(*) FROM gone;

-- name: purge_backlog
WITH gone AS (
    DELETE FROM hookwire.lake_backlog WHERE (tenant, at, topic, subscription) IN (
        SELECT tenant, at, topic, subscription FROM hookwire.lake_backlog
        WHERE tenant = 'default' AND at < now() - make_interval(days => $1::integer) ORDER BY tenant, at LIMIT $2)
    RETURNING 1
)
SELECT count(*) FROM gone;

-- name: purge_slo
WITH gone AS (
    DELETE FROM hookwire.lake_slo WHERE (tenant, day, subscription) IN (
        SELECT tenant, day, subscription FROM hookwire.lake_slo
        WHERE tenant = 'default' AND day < current_date - $1::integer ORDER BY tenant, day LIMIT $2)
    RETURNING 1
)
SELECT count(*) FROM gone;

-- name: purge_batches
-- Keep batches a day longer than rows. Entries of the lake's log that are older than the rows' retention are not
-- stored. The extra day covers different clocks, so no entry is stored twice. The table has no index by time and is
-- small: one row for each run of a job.
WITH gone AS (
    DELETE FROM hookwire.lake_batches WHERE (job, batch) IN (
        SELECT job, batch FROM hookwire.lake_batches WHERE at < now() - make_interval(days => $1::integer + 1) LIMIT $2)
    RETURNING 1
)
SELECT count(*) FROM gone;
