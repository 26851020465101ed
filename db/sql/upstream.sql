-- Upstreams: our subscriptions at other hubs.

-- name: want
-- Add an upstream, or ask again for an existing one.
INSERT INTO hookwire.upstreams AS u (tenant, topic, url, token, key_id, sealed, given_hub_url, given_topic_url)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (tenant, topic) DO UPDATE SET state = CASE WHEN u.state = 'active' THEN u.state ELSE 'wanted' END,
    token = CASE WHEN u.state = 'ended' THEN excluded.token ELSE u.token END,
    key_id = CASE WHEN u.state = 'ended' THEN excluded.key_id ELSE u.key_id END,
    sealed = CASE WHEN u.state = 'ended' THEN excluded.sealed ELSE u.sealed END,
    given_hub_url = excluded.given_hub_url, given_topic_url = excluded.given_topic_url, due_at = now(), failures = 0;

-- name: end
UPDATE hookwire.upstreams SET state = 'ended', reason = NULL, due_at = NULL WHERE tenant = $1 AND topic = $2 RETURNING topic;

-- name: list
SELECT topic, url, hub_url, self_url, state, reason, lease_until, due_at, failures, created_at, given_hub_url, given_topic_url,
       received_at, hookwire.is_quiet(u) AS is_quiet,
       (SELECT t.sinks FROM hookwire.topics t WHERE t.tenant = u.tenant AND t.name = u.topic) AS sinks
FROM hookwire.upstreams u WHERE tenant = $1 AND topic > $2 ORDER BY topic LIMIT $3;

-- name: claim
WITH chosen AS MATERIALIZED (
    SELECT u.tenant, u.topic FROM hookwire.upstreams u
    WHERE u.due_at <= now() AND (u.claimed_until IS NULL OR u.claimed_until <= now())
    ORDER BY u.due_at LIMIT $1
    FOR UPDATE SKIP LOCKED
)
UPDATE hookwire.upstreams u
SET claimed_until = clock_timestamp() + make_interval(secs => $2::double precision), claims = u.claims + 1
FROM chosen c WHERE u.tenant = c.tenant AND u.topic = c.topic
RETURNING u.tenant, u.topic, u.url, u.token, u.key_id, u.sealed, u.state, u.claims, u.failures, u.given_hub_url,
          u.given_topic_url;

-- name: ask
-- Store the request before it leaves, because some hubs verify before they answer (WS-91). An active upstream stays
-- active.
UPDATE hookwire.upstreams
SET hub_url = $4, self_url = $5, state = CASE WHEN state = 'active' THEN state ELSE 'requested' END
WHERE tenant = $1 AND topic = $2 AND claims = $3 AND state <> 'ended' RETURNING topic;

-- name: asked
-- Ask again when no verification has come after $4 seconds. A denial that came before the answer stays (FX-03).
UPDATE hookwire.upstreams
SET claimed_until = NULL, failures = failures + 1,
    reason = CASE WHEN state = 'denied' AND due_at > clock_timestamp() THEN reason END,
    due_at = CASE WHEN state IN ('active', 'denied') AND due_at > clock_timestamp() THEN due_at
                  ELSE clock_timestamp() + make_interval(secs => $4::double precision) END
WHERE tenant = $1 AND topic = $2 AND claims = $3 AND state <> 'ended';

-- name: failed
UPDATE hookwire.upstreams
SET claimed_until = NULL, failures = failures + 1,
    reason = CASE WHEN state = 'denied' AND due_at > clock_timestamp() THEN reason ELSE $5 END,
    due_at = CASE WHEN state = 'denied' AND due_at > clock_timestamp() THEN due_at
                  ELSE clock_timestamp() + make_interval(secs => $4::double precision) END
WHERE tenant = $1 AND topic = $2 AND claims = $3 AND state <> 'ended';

-- name: by_token
SELECT tenant, topic, url, self_url, key_id, sealed, state, lease_until FROM hookwire.upstreams WHERE token = $1;

-- name: confirm
-- The hub's lease counts (WS-95). Ask again after about four fifths of it, with jitter.
UPDATE hookwire.upstreams
SET state = 'active', reason = NULL, failures = 0, lease_until = clock_timestamp() + make_interval(secs => $2::double precision),
    due_at = clock_timestamp() + make_interval(secs => $2::double precision * (0.75 + random() * 0.1))
WHERE token = $1 AND state IN ('requested', 'active') RETURNING topic;

-- name: denied
-- A denial is not final: ask again after a day (WS-94).
UPDATE hookwire.upstreams
SET state = 'denied', reason = $2, lease_until = NULL, due_at = clock_timestamp() + interval '1 day'
WHERE token = $1 AND state IN ('requested', 'active') RETURNING topic;

-- name: received
UPDATE hookwire.upstreams
SET longest_gap = greatest(longest_gap, clock_timestamp() - received_at), received_at = clock_timestamp(), quiet_told_at = NULL
WHERE token = $1;

-- name: quiet
-- Return the upstreams that are quiet for longer than usual, each once until its next delivery.
UPDATE hookwire.upstreams u SET quiet_told_at = clock_timestamp()
WHERE u.quiet_told_at IS NULL AND hookwire.is_quiet(u) RETURNING u.topic, u.url, u.received_at;
