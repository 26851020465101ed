-- Pull subscriptions: fetched with a lease and a fence, as a worker claims them; settled by delivery.settle.

-- name: create
INSERT INTO hookwire.subscriptions (public_id, tenant, protocol, topic, topic_regex, callback, state, ordered, filter, filter_path,
                                    lifetime_seconds, lease_until, drops_at_end, name)
VALUES ($1, $2, 'pull', $3, $4, '', 'active', $5, $6::text::jsonb, $7::text::jsonpath,
        $8::integer, now() + make_interval(secs => $8::integer), $9, $10)
RETURNING id, public_id;

-- name: dequeue
-- Fetch only the lowest event of an ordered lane. A replay's attempts start anew (free_attempts). The fence names the
-- holder, and the new due_at is the end of the lease.
WITH asked AS (
    UPDATE hookwire.subscriptions SET lease_until = now() + make_interval(secs => lifetime_seconds)
    WHERE id = $1 AND lifetime_seconds IS NOT NULL AND lease_until < now() + make_interval(secs => lifetime_seconds * 0.9)
), fence AS MATERIALIZED (
    SELECT nextval('hookwire.delivery_fence') AS value
), picked AS MATERIALIZED (
    SELECT q.event_id FROM hookwire.deliveries q
    WHERE q.subscription_id = $1 AND q.due_at <= now()
      AND (SELECT s.state = 'active' AND s.protocol = 'pull' FROM hookwire.subscriptions s WHERE s.id = $1)
      AND (q.lane IS NULL OR NOT EXISTS (
            SELECT FROM hookwire.deliveries x
            WHERE x.subscription_id = q.subscription_id AND x.lane = q.lane AND x.event_id < q.event_id))
    ORDER BY q.due_at, q.event_id LIMIT $2
    FOR UPDATE OF q SKIP LOCKED
)
UPDATE hookwire.deliveries d
SET due_at = now() + make_interval(secs => $3::double precision), fence = fence.value, attempts = d.attempts + 1,
    member = NULL
FROM picked p, fence
WHERE d.event_id = p.event_id AND d.subscription_id = $1
RETURNING d.event_id, d.fence, d.attempts - d.free_attempts AS attempts, d.due_at AS leased_until;

-- name: held
-- Return which of these the fence still holds, and lock them until they are settled.
SELECT d.event_id, d.fence, d.attempts
FROM (SELECT * FROM unnest($2::bigint[], $3::bigint[]) AS a(event_id, fence) ORDER BY a.event_id) AS r
CROSS JOIN LATERAL (
    SELECT x.event_id, x.fence, x.attempts - x.free_attempts AS attempts FROM hookwire.deliveries x
    WHERE x.event_id = ANY (ARRAY[r.event_id]) AND x.subscription_id = $1 AND x.fence = r.fence
    ORDER BY x.event_id LIMIT 1
    FOR UPDATE OF x
) AS d;

-- name: extend
-- Extend the leases. A receiver that holds messages counts as present, without asking for more. Run it after `held`,
-- which has locked the rows.
WITH asked AS (
    UPDATE hookwire.subscriptions SET lease_until = now() + make_interval(secs => lifetime_seconds)
    WHERE id = $1 AND lifetime_seconds IS NOT NULL AND lease_until < now() + make_interval(secs => lifetime_seconds * 0.9)
)
UPDATE hookwire.deliveries SET due_at = now() + make_interval(secs => $4::double precision)
WHERE ctid = ANY (ARRAY(
    SELECT d.place FROM unnest($2::bigint[], $3::bigint[]) AS r(event_id, fence)
    CROSS JOIN LATERAL (
        SELECT x.ctid AS place FROM hookwire.deliveries x
        WHERE x.event_id = ANY (ARRAY[r.event_id]) AND x.subscription_id = $1 AND x.fence = r.fence
        ORDER BY x.event_id LIMIT 1
    ) AS d))
RETURNING event_id, fence;

-- name: expire_idle
-- Cancel the open deliveries, as for every other ended subscription.
UPDATE hookwire.subscriptions SET state = 'expired', state_reason = 'nobody asked', version = version + 1, updated_at = now()
WHERE protocol = 'pull' AND state = 'active' AND lease_until < now();
