-- Settlement of deliveries: store results of attempts in batches, and count the failures of their subscriptions.
-- delivery.claim.sql says why rows are updated by their place.

-- name: settle
-- Store results of attempts. A late settlement by a former owner finds another fence and changes nothing. So of two
-- results for one delivery, made under two claims, at most one is stored. The next delivery of an ended one's lane is due.
--
-- $19 is true if a result counts as a failure of its receiver, false if it does not, and NULL if it proves neither. For
-- failing subscriptions only, the statement keeps the failures in a row, and the last $20 attempts of all processes
-- within $21 seconds. It returns these counts. Attempts that an open breaker let pass do not count
-- towards opening it. $22 has the incident of each failed result. Its failures are counted by minute. $23 has the seconds
-- from acceptance to delivery. All stored attempts make one entry for the rollups.
WITH result AS MATERIALIZED (
    SELECT * FROM unnest(
        $1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::double precision[], $6::text[], $7::smallint[],
        $8::timestamptz[], $9::real[], $10::real[], $11::real[], $12::text[], $13::text[], $14::text[], $15::bytea[], $16::text[],
        $18::text[], $19::boolean[], $22::bigint[], $23::real[])
    WITH ORDINALITY
    AS r(event_id, subscription_id, fence, decision, delay_seconds, outcome, status,
         started_at, connect_seconds, first_byte_seconds, total_seconds, address, detail, headers, body, kind, reason,
         failed, incident_id, age, place)
), ended AS (
    -- The fence is checked a second time, here and below. After a concurrent update, servers before the minor releases of
    -- autumn 2025 do not check the place again. They would change the row of the next claim.
    DELETE FROM hookwire.deliveries
    WHERE ctid = ANY (ARRAY(
        SELECT d.place FROM result r CROSS JOIN LATERAL (
            SELECT x.ctid AS place FROM hookwire.deliveries x
            WHERE x.event_id = ANY (ARRAY[r.event_id]) AND x.subscription_id = r.subscription_id AND x.fence = r.fence
            ORDER BY x.event_id LIMIT 1
        ) AS d
        WHERE r.decision NOT IN ('retry', 'park')))
      AND fence = ANY ($3::bigint[])
    RETURNING event_id, subscription_id, fence, attempts, tenant, lane, replay_id
), again AS (
    UPDATE hookwire.deliveries d
    SET due_at = CASE r.decision WHEN 'park' THEN 'infinity' ELSE now() + make_interval(secs => r.delay_seconds) END,
        parked_at = CASE r.decision WHEN 'park' THEN now() END, planned_at = NULL, fence = NULL, member = NULL,
        last_outcome = r.outcome, last_status = r.status, last_seconds = r.total_seconds, incident_id = r.incident_id
    FROM result r CROSS JOIN LATERAL (
        SELECT x.ctid AS place FROM hookwire.deliveries x
        WHERE x.event_id = ANY (ARRAY[r.event_id]) AND x.subscription_id = r.subscription_id AND x.fence = r.fence
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
), finished AS MATERIALIZED (
    SELECT s.event_id, s.subscription_id, s.attempts, s.tenant, s.replay_id, r.decision, r.outcome, r.status, r.started_at,
           r.connect_seconds, r.first_byte_seconds, r.total_seconds, r.address, r.detail, r.headers, r.body, r.kind, r.reason,
           r.failed, r.incident_id, r.age, r.place
    FROM settled s JOIN result r USING (event_id, subscription_id, fence)
), logged AS (
    INSERT INTO hookwire.attempts (event_id, subscription_id, number, tenant, started_at, status, connect_seconds,
        first_byte_seconds, total_seconds, outcome, decision, trigger, worker, address, detail, response_headers, response_body)
    SELECT f.event_id, f.subscription_id, f.attempts, f.tenant, f.started_at, f.status, f.connect_seconds,
           f.first_byte_seconds, f.total_seconds, f.outcome, f.decision,
           CASE WHEN f.replay_id = 0 THEN 'manual' WHEN f.replay_id IS NOT NULL THEN 'replay'
                WHEN f.attempts = 1 THEN 'first' ELSE 'retry' END, $17, f.address, coalesce(f.detail, f.reason), f.headers::jsonb, f.body
    FROM finished f
    -- If a replay of an event came before its fan-out, the first attempt is stored already.
    ON CONFLICT DO NOTHING
    RETURNING event_id, subscription_id
), entered AS (
    INSERT INTO hookwire.attempt_entries (subscription_ids, seconds, ages)
    SELECT array_agg(f.subscription_id), array_agg(coalesce(nullif(f.total_seconds, 0), -1)), array_agg(CASE f.decision WHEN 'delivered' THEN coalesce(f.age, -1) END)
    FROM finished f
    WHERE (SELECT count(*) FROM logged) = (SELECT count(*) FROM finished)
       OR (f.event_id, f.subscription_id) IN (SELECT l.event_id, l.subscription_id FROM logged l)
    HAVING count(*) > 0
), buried AS (
    INSERT INTO hookwire.dead_letters (event_id, subscription_id, tenant, kind, attempts, last_status, last_outcome, detail, incident_id)
    SELECT f.event_id, f.subscription_id, f.tenant, f.kind, f.attempts, f.status, f.outcome, coalesce(f.reason, f.detail), f.incident_id
    FROM finished f WHERE f.decision = 'dead'
    ON CONFLICT DO NOTHING
), grouped AS (
    INSERT INTO hookwire.incident_failures AS i (incident_id, minute, tenant, failures, last_at)
    SELECT f.incident_id, date_trunc('minute', now()), min(f.tenant), count(*), now()
    FROM finished f WHERE f.incident_id IS NOT NULL
    GROUP BY f.incident_id
    ORDER BY f.incident_id -- the same order in all workers prevents deadlocks
    ON CONFLICT (incident_id, minute) DO UPDATE SET failures = i.failures + excluded.failures, last_at = excluded.last_at
), watched AS MATERIALIZED (
    SELECT r.subscription_id FROM result r WHERE r.failed IS NOT NULL
    GROUP BY r.subscription_id
    HAVING bool_or(r.decision <> 'delivered')
        OR (SELECT f.subscription_id FROM hookwire.delivery_failures f WHERE f.subscription_id = r.subscription_id) IS NOT NULL
), counted AS MATERIALIZED (
    SELECT f.subscription_id, f.tenant, f.place, f.decision, f.outcome, f.status,
           CASE WHEN (SELECT g.subscription_id FROM hookwire.delivery_gates g WHERE g.subscription_id = f.subscription_id AND g.trips > 0) IS NULL
                THEN f.failed END AS failed,
           max(f.place) FILTER (WHERE f.decision = 'delivered') OVER (PARTITION BY f.subscription_id) AS success
    FROM finished f
    WHERE f.failed IS NOT NULL AND f.subscription_id IN (SELECT w.subscription_id FROM watched w)
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
ORDER BY c.subscription_id -- the same order in all workers prevents deadlocks
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

-- name: settle_late
-- Store successes whose settlement was repeated, regardless of the fence, for subscriptions with at_most_once. No worker
-- sends such a delivery again, so the success holds. Meanwhile another worker may have claimed the delivery, or ended it
-- as a dead letter with the outcome "unknown".
WITH result AS MATERIALIZED (
    SELECT r.* FROM unnest($1::bigint[], $2::bigint[], $3::timestamptz[], $4::smallint[], $5::real[], $7::real[])
        AS r(event_id, subscription_id, started_at, status, total_seconds, age)
    WHERE (SELECT s.at_most_once FROM hookwire.subscriptions s WHERE s.id = r.subscription_id)
), claimed AS (
    DELETE FROM hookwire.deliveries
    WHERE ctid = ANY (ARRAY(
        SELECT d.place FROM result r CROSS JOIN LATERAL (
            SELECT x.ctid AS place FROM hookwire.deliveries x
            WHERE x.event_id = ANY (ARRAY[r.event_id]) AND x.subscription_id = r.subscription_id
            ORDER BY x.event_id LIMIT 1
        ) AS d))
      AND fence IS NOT NULL
    RETURNING event_id, subscription_id, attempts, tenant
), risen AS (
    DELETE FROM hookwire.dead_letters
    WHERE ctid = ANY (ARRAY(
        SELECT l.place FROM result r CROSS JOIN LATERAL (
            SELECT x.ctid AS place FROM hookwire.dead_letters x
            WHERE x.event_id = ANY (ARRAY[r.event_id]) AND x.subscription_id = r.subscription_id
            ORDER BY x.event_id LIMIT 1
        ) AS l))
      AND kind = 'internal' AND last_outcome = 'unknown'
    RETURNING event_id, subscription_id, attempts, tenant
), logged AS (
    INSERT INTO hookwire.attempts AS a (event_id, subscription_id, number, tenant, started_at, status, total_seconds, outcome,
        decision, trigger, worker)
    SELECT t.event_id, t.subscription_id, t.attempts, t.tenant, r.started_at, r.status, r.total_seconds, 'delivered',
           'delivered', 'first', $6
    FROM (SELECT * FROM claimed UNION ALL SELECT * FROM risen) AS t JOIN result r USING (event_id, subscription_id)
    ON CONFLICT (event_id, subscription_id, number) DO UPDATE
    SET started_at = excluded.started_at, status = excluded.status, total_seconds = excluded.total_seconds,
        outcome = excluded.outcome, decision = excluded.decision, worker = excluded.worker, detail = NULL
    RETURNING event_id, subscription_id, number, total_seconds
)
INSERT INTO hookwire.attempt_entries (subscription_ids, seconds, ages)
-- The statement sees the attempts of before. One that it changed was counted already.
SELECT array_agg(l.subscription_id),
       array_agg(CASE WHEN (SELECT x.number FROM hookwire.attempts x
                            WHERE x.event_id BETWEEN l.event_id AND l.event_id AND x.subscription_id = l.subscription_id AND x.number = l.number
                            ORDER BY x.event_id LIMIT 1) IS NULL THEN l.total_seconds END),
       array_agg(coalesce(r.age, -1))
FROM logged l JOIN result r USING (event_id, subscription_id)
HAVING count(*) > 0;

-- name: recall_success
-- Store the time of the last success of subscriptions that begin to fail; read it from their latest 1000 attempts.
UPDATE hookwire.delivery_failures f
SET succeeded_at = (SELECT max(a.started_at) FROM (
                        SELECT x.started_at, x.decision FROM hookwire.attempts x
                        WHERE x.subscription_id = f.subscription_id ORDER BY x.event_id DESC LIMIT 1000) AS a
                    WHERE a.decision = 'delivered')
WHERE f.subscription_id = ANY ($1::bigint[]) AND f.succeeded_at IS NULL;

-- name: reset_failures
-- Delete the failure stats of subscriptions without recent failures.
DELETE FROM hookwire.delivery_failures f
WHERE subscription_id = ANY ($1::bigint[]) AND failures = 0 AND NOT true = ANY (failed);

-- name: dead_letter_orphans
-- End claimed deliveries whose event no longer exists: they become dead letters.
WITH ended AS (
    DELETE FROM hookwire.deliveries
    WHERE ctid = ANY (ARRAY(
        SELECT d.place FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS r(event_id, subscription_id, fence)
        CROSS JOIN LATERAL (
            SELECT x.ctid AS place FROM hookwire.deliveries x
            WHERE x.event_id = ANY (ARRAY[r.event_id]) AND x.subscription_id = r.subscription_id AND x.fence = r.fence
            ORDER BY x.event_id LIMIT 1
        ) AS d))
      AND fence = ANY ($3::bigint[])
    RETURNING event_id, subscription_id, tenant, lane, attempts, last_status, last_outcome, incident_id
), promoted AS (
    UPDATE hookwire.deliveries d SET due_at = now()
    FROM ended e CROSS JOIN LATERAL hookwire.next_in_lane(e.subscription_id, e.lane, e.event_id) AS next
    WHERE d.ctid = next.place AND NOT isfinite(d.due_at) AND d.parked_at IS NULL
)
INSERT INTO hookwire.dead_letters (event_id, subscription_id, tenant, kind, attempts, last_status, last_outcome, detail, incident_id)
SELECT event_id, subscription_id, tenant, 'internal', attempts - 1, last_status, last_outcome, $4, incident_id FROM ended
ON CONFLICT DO NOTHING;
