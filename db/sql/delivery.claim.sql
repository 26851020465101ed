-- Claims of deliveries: find due deliveries, give each a lease and a fence, read the contents, release claims.
--
-- Statements find a row once and then update it by its place (ctid). They check isfinite(due_at), which no index can
-- answer. The reason: statistics made while the table was almost empty make all indexes look alike. The planner could
-- then choose the index that reads all deliveries behind the heads of lanes. For the same reason a delivery is looked up
-- by an array of one event, in order. Only the primary key has this order, and the planner expects one row. For a range of
-- one event it expects many rows. Then PostgreSQL 18 may skip through deliveries_due, with a search for each moment at
-- which the subscription has deliveries (tests/db/test_plans.py).
--
-- A place stays valid as outbox.sql says. Only the owner of a claim changes the row without changing its fence, so a row
-- that has moved has another fence, or none.

-- name: claim
-- Claim due deliveries of subscriptions $1, up to the number in $2 for each. The attempt counts from here on.
-- The end of the lease is the new due_at, so that a dead worker's claims are due again. Only the lowest event of an
-- ordered lane is ever claimed. Deliveries behind it have due_at = infinity. Only the latest of them are read: a
-- fan-out that overlapped with the settlement of a head may have left the new head among them. A lease lasts for the
-- subscription's deadline, or $3 seconds, plus $4 seconds. A lane whose worker was killed waits no longer than that.
-- is_held: an earlier claim ended without a known outcome. $5 is the member that claims.
--
-- A subscription with a row in delivery_gates has a throttle. In all processes together, one claim at a time passes it.
-- The claim gets as many deliveries as there are tokens. An open breaker passes no delivery, and after its end one as a
-- probe. A subscription that is held back yields a row without an event, with the seconds until the
-- next claim.
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
        WHERE x.id = w.id AND (x.state = 'active' OR x.drains) AND x.protocol <> 'pull'
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
    SET due_at = now() + make_interval(secs => p.lease_seconds), fence = fence.value, attempts = d.attempts + 1,
        member = $5::integer
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
-- Return events with payloads and headers, lowest id first. Beyond the event that exceeds $2 bytes both are NULL.
-- An erased event is left out, as if it were gone.
SELECT id, ordered, topic, key, content_type, CASE WHEN before < $2 THEN headers END AS headers,
       CASE WHEN before < $2 THEN payload END AS payload, accepted_at
FROM (SELECT e.*, sum(w.size) OVER (ORDER BY e.id ROWS UNBOUNDED PRECEDING) - w.size AS before
      FROM hookwire.events e CROSS JOIN LATERAL (
          SELECT octet_length(e.payload) + coalesce(octet_length(nullif(e.headers::text, '{}')), 0) AS size
      ) AS w
      WHERE e.id = ANY ($1::bigint[]) AND e.erased_at IS NULL) AS wanted;

-- name: due_subscriptions
-- Return subscriptions with a due delivery that may be sent. A loose index scan: one step per subscription.
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
  AND (SELECT (s.state = 'active' OR s.drains) AND s.protocol <> 'pull' AND coalesce(s.paused_until <= now(), true) AND coalesce(s.lease_until > now(), true)
       FROM hookwire.subscriptions s WHERE s.id = w.subscription_id)
  AND NOT EXISTS (SELECT FROM hookwire.delivery_gates g WHERE g.subscription_id = w.subscription_id AND g.open_until > now());

-- name: release
-- Release claims that were not attempted: they are due at once, and the attempt does not count.
UPDATE hookwire.deliveries SET due_at = now(), fence = NULL, attempts = attempts - 1, member = NULL
WHERE ctid = ANY (ARRAY(
    SELECT d.place FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS r(event_id, subscription_id, fence)
    CROSS JOIN LATERAL (
        SELECT x.ctid AS place FROM hookwire.deliveries x
        WHERE x.event_id = ANY (ARRAY[r.event_id]) AND x.subscription_id = r.subscription_id AND x.fence = r.fence
        ORDER BY x.event_id LIMIT 1
    ) AS d))
  AND fence = ANY ($3::bigint[]);

-- name: take_over
-- Make due what a dead worker holds under the fences $1, except in ordered lanes. A receiver may still work on the head
-- of a lane. A repeat beside that work would be followed by the next event. Each delivery gets a new fence, so a
-- settlement of before changes nothing. It stays held: nothing else tells that it may have been sent. Only a first attempt
-- is due at once. If a delivery kills each worker, the second death costs a lease, as without take-over.
WITH fence AS MATERIALIZED (
    SELECT nextval('hookwire.delivery_fence') AS value
), held AS MATERIALIZED (
    SELECT d.ctid AS place, d.fence FROM hookwire.deliveries d
    WHERE d.attempts > 0 AND d.fence IS NOT NULL AND d.parked_at IS NULL
      AND d.fence = ANY ($1::bigint[]) AND d.lane IS NULL AND d.attempts - d.free_attempts <= 1
    ORDER BY d.event_id, d.subscription_id
    FOR UPDATE OF d SKIP LOCKED
)
UPDATE hookwire.deliveries d SET due_at = now(), fence = fence.value, member = NULL
FROM held h, fence WHERE d.ctid = h.place AND d.fence = h.fence
RETURNING d.subscription_id;
