-- Throttles: rate limits and breakers of subscriptions, for the whole fleet. delivery.claim applies them.

-- name: ensure
-- Create the throttle of a subscription that has a rate limit. A new throttle is full.
INSERT INTO hookwire.delivery_gates (subscription_id, tenant, tokens)
SELECT s.id, s.tenant, coalesce(s.rate_burst, greatest(ceil(s.rate_per_second), 1)) FROM hookwire.subscriptions s
WHERE s.id = $1 AND s.rate_per_second IS NOT NULL
ON CONFLICT (subscription_id) DO NOTHING;

-- name: trip
-- Open the breaker. After a failed probe ($5), open it for twice as long, up to $3 seconds. If several workers open it,
-- only the first has an effect. When it closes, the attempts that opened it are deleted. Disable a subscription that
-- has failed for $4 seconds (NULL: never), with a reason; never WebSub's (WH-R15, WH-I09).
WITH gate AS (
    INSERT INTO hookwire.delivery_gates AS g (subscription_id, tenant, trips, open_until, failing_since, tokens)
    SELECT s.id, s.tenant, 1, now() + make_interval(secs => $2::double precision), now(), 0
    FROM hookwire.subscriptions s WHERE s.id = $1
    ON CONFLICT (subscription_id) DO UPDATE
    SET trips = g.trips + 1, failing_since = coalesce(g.failing_since, now()),
        open_until = now() + make_interval(secs => least($2::double precision * power(2, least(g.trips, 20)), $3::double precision))
    WHERE $5 OR g.trips = 0
    RETURNING g.trips, g.open_until, g.failing_since
), judged AS (
    UPDATE hookwire.delivery_failures SET settled_at = '{}', failed = '{}' WHERE subscription_id = $1
), disabled AS (
    UPDATE hookwire.subscriptions s
    SET state = 'disabled', state_reason = 'failing since ' || to_char(g.failing_since, 'YYYY-MM-DD HH24:MI'),
        version = version + 1, updated_at = now()
    FROM gate g
    WHERE s.id = $1 AND s.state = 'active' AND s.protocol = 'webhook' AND g.failing_since < now() - make_interval(secs => $4::double precision)
    RETURNING s.id
)
SELECT g.trips, extract(epoch FROM g.open_until - now())::double precision AS open_seconds,
       EXISTS (SELECT FROM disabled) AS is_disabled
FROM gate g;

-- name: close
-- These subscriptions have succeeded again: delete a throttle without a rate limit. Return those whose breaker was
-- open.
WITH closed AS (
    UPDATE hookwire.delivery_gates g SET trips = 0, open_until = NULL, failing_since = NULL
    FROM hookwire.subscriptions s
    WHERE g.subscription_id = ANY ($1::bigint[]) AND g.trips > 0 AND s.id = g.subscription_id AND s.rate_per_second IS NOT NULL
    RETURNING g.subscription_id
), gone AS (
    DELETE FROM hookwire.delivery_gates g USING hookwire.subscriptions s
    WHERE g.subscription_id = ANY ($1::bigint[]) AND g.trips > 0 AND s.id = g.subscription_id AND s.rate_per_second IS NULL
    RETURNING g.subscription_id
)
SELECT subscription_id FROM closed UNION ALL SELECT subscription_id FROM gone;
