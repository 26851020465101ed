-- Gold: the lake's metrics and service levels, put into the hub's database once for each entry of the lake's log (PL-X04).

-- name: batches
-- Those of a job that are here.
SELECT batch FROM hookwire.lake_batches WHERE job = $1;

-- name: take_batch
-- Within the transaction that puts its rows; no row: somebody else has put them.
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

-- name: note_backlog
-- What waits now, by topic and subscription, under the present hour; a later look at the same hour takes its place.
INSERT INTO hookwire.lake_backlog AS b (tenant, at, topic, subscription, waiting, oldest_seconds)
SELECT d.tenant, date_trunc('hour', now(), 'UTC'), e.topic, s.public_id, count(*),
       max(extract(epoch FROM now() - e.accepted_at))::double precision
FROM hookwire.deliveries d
CROSS JOIN LATERAL (SELECT x.topic, x.accepted_at FROM hookwire.events x WHERE x.id = d.event_id LIMIT 1) AS e
JOIN hookwire.subscriptions s ON s.id = d.subscription_id
GROUP BY 1, 3, 4
ON CONFLICT (tenant, at, topic, subscription) DO UPDATE SET waiting = excluded.waiting, oldest_seconds = excluded.oldest_seconds
RETURNING b.topic, b.subscription, b.waiting, b.oldest_seconds;
