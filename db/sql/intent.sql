-- Intents: WebSub requests, from their acceptance to their decision. Only the room hub writes them.

-- name: topic_allowed
-- Return whether the topic may be named: it exists, or its first publish would create it.
SELECT i.topics_auto_create OR EXISTS (SELECT FROM hookwire.topics t WHERE t.tenant = $1 AND t.name = $2)
FROM hookwire.installation i;

-- name: set_async_commit
-- Let this transaction's COMMIT return before the disk has it.
SELECT set_config('synchronous_commit', 'off', true);

-- name: take_token
-- Take a token: $3 tokens a minute, at most $4 saved. No row: the bucket is empty. A bucket belongs to a tenant, to a
-- callback host, or to a requester, whose name in the column host has a blank in it.
INSERT INTO hookwire.verification_buckets AS b (tenant, host, tokens, refilled_at)
VALUES ($1, $2, $4::double precision - 1, clock_timestamp())
ON CONFLICT (tenant, host) DO UPDATE
SET tokens = least($4, b.tokens + $3 / 60 * extract(epoch FROM clock_timestamp() - b.refilled_at)::double precision) - 1,
    refilled_at = clock_timestamp()
WHERE b.tokens + $3 / 60 * extract(epoch FROM clock_timestamp() - b.refilled_at)::double precision >= 1
RETURNING tokens;

-- name: line_up
-- Let requests for one host wait for each other's COMMIT, so that their ids rise in the order in which they become
-- visible.
SELECT FROM hookwire.verification_buckets WHERE tenant = '' AND host = $1 FOR UPDATE;

-- name: token_wait_seconds
SELECT greatest(ceil((1 - b.tokens) * 60 / $3::double precision
                     - extract(epoch FROM clock_timestamp() - b.refilled_at)::double precision), 1)::integer
FROM hookwire.verification_buckets b WHERE b.tenant = $1 AND b.host = $2;

-- name: charge
-- Charge a repeated GET even to an empty bucket: the GET is not refused, but later requests wait for new tokens.
UPDATE hookwire.verification_buckets SET tokens = tokens - 1 WHERE tenant = $1 AND host = $2;

-- name: pending_of
-- Count the open requests of a network; counting ends at $2.
SELECT count(*) FROM (SELECT FROM hookwire.intents i
                      WHERE i.requester_network = $1 AND i.state IN ('requested', 'verifying') LIMIT $2) AS open;

-- name: renews
-- Return whether the pair has a subscription, or a request that may become one.
SELECT EXISTS (SELECT FROM (SELECT x.state FROM hookwire.subscriptions x
                            WHERE x.tenant = $1 AND x.identity = $2 AND x.protocol = 'websub' OFFSET 0) AS s
               WHERE s.state IN ('active', 'disabled'))
    OR EXISTS (SELECT FROM hookwire.intents i
               WHERE i.tenant = $1 AND i.identity = $2 AND i.mode = 'subscribe' AND i.state IN ('requested', 'verifying'));

-- name: subscriptions_of_host
-- Count the subscriptions of a callback host, and requests that may become subscriptions; counting ends at $2.
SELECT (SELECT count(*) FROM (SELECT FROM hookwire.subscriptions s
                              WHERE s.callback_host BETWEEN $1 AND $1 AND s.protocol = 'websub' AND s.state IN ('active', 'disabled')
                              ORDER BY s.callback_host LIMIT $2) AS made)
     + (SELECT count(*) FROM (SELECT FROM hookwire.intents i
                              WHERE i.callback_host = $1 AND i.mode = 'subscribe' AND i.state IN ('requested', 'verifying')
                              LIMIT $2) AS open);

-- name: subscriptions_of_requester
-- As subscriptions_of_host, for a network.
SELECT (SELECT count(*) FROM (SELECT FROM hookwire.subscriptions s
                              WHERE s.requester_network = $1 AND s.protocol = 'websub' AND s.state IN ('active', 'disabled')
                              LIMIT $2) AS made)
     + (SELECT count(*) FROM (SELECT FROM hookwire.intents i
                              WHERE i.requester_network = $1 AND i.mode = 'subscribe' AND i.state IN ('requested', 'verifying')
                              LIMIT $2) AS open);

-- name: failures
-- Count the failed requests of the pair within an hour, since the last verified request.
SELECT count(*) FROM hookwire.intents i
WHERE i.tenant = $1 AND i.identity = $2 AND i.state = 'failed' AND i.decided_at > clock_timestamp() - interval '1 hour'
  AND NOT EXISTS (SELECT FROM hookwire.intents v
                  WHERE v.tenant = $1 AND v.identity = $2 AND v.id > i.id AND v.state = 'verified');

-- name: accept
INSERT INTO hookwire.intents (tenant, mode, topic, topic_url, callback, callback_host, identity, lease_seconds,
                              signature_method, verify_token, key_id, sealed, due_at, created_at, requester, verify, permanent,
                              requester_network, stage)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
        clock_timestamp() + make_interval(secs => $13::double precision), clock_timestamp(), $14, $15, $16, $18,
        CASE WHEN $2 = 'subscribe' AND ($17 OR EXISTS (SELECT FROM hookwire.topics t WHERE t.tenant = $1 AND t.name = $3
                                                       AND t.validator_url IS NOT NULL))
             THEN 'validate' ELSE 'verify' END)
RETURNING id;

-- name: claim_lock
-- Run the claims of all processes one after the other: "one in flight per host" depends on rows of other claims.
SELECT pg_advisory_xact_lock(1215262571, -3);

-- name: claim
-- Claim up to $1 due requests for $2 seconds. For each callback host and mode, claim only the oldest. Claim no request
-- while another one of its host and mode, or of its pair, is in flight. At most $3 of them are for hosts
-- without an active subscription, and requesters take turns. Return the row as it was before the claim.
WITH present AS MATERIALIZED (
    SELECT clock_timestamp() AS at
), candidate AS MATERIALIZED (
    SELECT DISTINCT ON (i.callback_host, i.mode)
           i.id, i.due_at, i.callback_host, coalesce(i.requester_network, i.callback_host) AS requester
    FROM hookwire.intents i, present p
    WHERE i.state IN ('requested', 'verifying') AND i.due_at <= p.at
      AND NOT EXISTS (SELECT FROM hookwire.intents f
                      WHERE f.state = 'verifying' AND f.due_at > p.at AND f.callback_host = i.callback_host
                        AND (f.mode = i.mode OR (f.tenant = i.tenant AND f.identity = i.identity)))
      AND NOT EXISTS (SELECT FROM hookwire.intents o
                      WHERE o.tenant = i.tenant AND o.identity = i.identity AND o.id < i.id
                        AND o.state IN ('requested', 'verifying') AND o.due_at <= p.at)
    ORDER BY i.callback_host, i.mode, i.id
), busy AS MATERIALIZED (
    SELECT coalesce(f.requester_network, f.callback_host) AS requester, count(*) AS requests
    FROM hookwire.intents f, present p WHERE f.state = 'verifying' AND f.due_at > p.at GROUP BY 1
), turn AS MATERIALIZED (
    SELECT c.id, c.due_at,
           row_number() OVER (PARTITION BY c.requester ORDER BY c.due_at) + coalesce(b.requests, 0) AS number,
           EXISTS (SELECT FROM hookwire.subscriptions s
                   WHERE s.callback_host = c.callback_host AND s.protocol = 'websub'
                     AND s.state IN ('active', 'disabled')) AS is_proven
    FROM candidate c LEFT JOIN busy b ON b.requester = c.requester
), placed AS MATERIALIZED (
    SELECT t.*, row_number() OVER (PARTITION BY t.is_proven ORDER BY t.number, t.due_at) AS place FROM turn t
), chosen AS MATERIALIZED (
    SELECT i.*, x.is_proven
    FROM (SELECT * FROM placed WHERE is_proven OR place <= $3 ORDER BY number, due_at LIMIT $1) AS x
    JOIN hookwire.intents i ON i.id = x.id
    WHERE i.state IN ('requested', 'verifying') AND i.due_at <= (SELECT at FROM present)
    FOR UPDATE OF i SKIP LOCKED
)
UPDATE hookwire.intents i
SET state = 'verifying', attempts = i.attempts + 1, due_at = p.at + make_interval(secs => $2::double precision)
FROM chosen c, present p
WHERE i.id = c.id
RETURNING c.id, c.tenant, c.mode, c.topic, c.topic_url, c.callback, c.callback_host, c.identity, c.lease_seconds,
          c.signature_method, c.verify_token, c.key_id, c.sealed, c.state, c.due_at, c.attempts,
          c.stage, c.stage_from, c.denial, c.requester, c.requester_network, c.is_proven, c.verify, c.permanent, c.rabbithub::text AS rabbithub, p.at AS claimed_at, i.due_at AS claimed_until,
          (SELECT t.validator_url FROM hookwire.topics t WHERE t.tenant = c.tenant AND t.name = c.topic) AS validator_url,
          (SELECT coalesce(f.self_url, f.url) FROM hookwire.foreign_topics f
           WHERE f.tenant = c.tenant AND f.topic = c.topic) AS foreign_url;

-- name: close
-- Decide the request and delete its secrets. No row: another claim or a newer request has decided it.
UPDATE hookwire.intents
SET state = $3, reason = $4, decided_at = clock_timestamp(), key_id = NULL, sealed = NULL, verify_token = NULL,
    rabbithub = rabbithub - 'authorization'
WHERE id = $1 AND attempts = $2 AND state = 'verifying'
RETURNING id;

-- name: retry
UPDATE hookwire.intents SET state = 'requested', due_at = $3, reason = $4
WHERE id = $1 AND attempts = $2 AND state = 'verifying'
RETURNING id;

-- name: outcome
SELECT state, reason FROM hookwire.intents WHERE id = $1 AND decided_at IS NOT NULL;

-- name: abandon
UPDATE hookwire.intents
SET state = 'failed', reason = $2, decided_at = clock_timestamp(), key_id = NULL, sealed = NULL, verify_token = NULL,
    rabbithub = rabbithub - 'authorization'
WHERE id = $1 AND decided_at IS NULL
RETURNING state, reason;

-- name: permanent
-- Return up to $1 permanent subscriptions to refresh: at most a fifth of the lease $2 is left, and no request is open.
SELECT s.id, s.tenant, s.topic, s.topic_url, s.callback, s.identity, s.signature_method, s.verify_token,
       k.number, k.key_id, k.sealed
FROM hookwire.subscriptions s
LEFT JOIN LATERAL (SELECT x.number, x.key_id, x.sealed FROM hookwire.subscription_secrets x
                   WHERE x.subscription_id = s.id ORDER BY x.number DESC LIMIT 1) AS k ON true
WHERE s.permanent AND s.protocol = 'websub' AND s.state IN ('active', 'disabled')
  AND s.lease_until < now() + make_interval(secs => $2::double precision / 5)
  AND NOT EXISTS (SELECT FROM hookwire.intents i
                  WHERE i.tenant = s.tenant AND i.identity = s.identity
                    AND (i.decided_at IS NULL OR i.decided_at > clock_timestamp() - interval '1 hour' AND i.state = 'failed'))
ORDER BY s.lease_until LIMIT $1
FOR UPDATE OF s SKIP LOCKED;

-- name: advance
-- The publisher has answered: begin the next step at once.
UPDATE hookwire.intents
SET state = 'requested', stage = $3, stage_from = attempts, denial = $4, lease_seconds = $5, reason = NULL,
    due_at = clock_timestamp()
WHERE id = $1 AND attempts = $2 AND state = 'verifying'
RETURNING id;

-- name: overtake
-- Newest first, so that two requests of one pair that are verified at the same time lock in the same order.
WITH older AS MATERIALIZED (
    SELECT id FROM hookwire.intents
    WHERE tenant = $1 AND identity = $2 AND id < $3 AND state IN ('requested', 'verifying')
    ORDER BY id DESC
    FOR UPDATE
)
UPDATE hookwire.intents i
SET state = 'superseded', reason = 'a newer request was verified', decided_at = clock_timestamp(),
    key_id = NULL, sealed = NULL, verify_token = NULL,
    rabbithub = rabbithub - 'authorization'
FROM older o WHERE i.id = o.id;

-- name: activate
-- Insert the pair's subscription or replace its lease and signature. Its secret follows.
INSERT INTO hookwire.subscriptions AS s (public_id, tenant, protocol, topic, topic_url, callback, state, ordered,
                                         signature_method, lease_until, identity, pshb03, permanent, verify_token,
                                         callback_host, requester_network)
VALUES ($1, $2, 'websub', $3, $4, $5, 'active', true, $6, $7, $8, $9, $10, $11, $12, $13)
ON CONFLICT (tenant, identity) WHERE protocol = 'websub' AND state IN ('active', 'disabled') DO UPDATE
SET topic_url = excluded.topic_url, callback = excluded.callback, state = 'active', state_reason = NULL,
    signature_method = excluded.signature_method, lease_until = excluded.lease_until, paused_until = NULL,
    pshb03 = excluded.pshb03, permanent = excluded.permanent, verify_token = excluded.verify_token,
    callback_host = excluded.callback_host,
    requester_network = coalesce(excluded.requester_network, s.requester_network),
    version = s.version + 1, updated_at = clock_timestamp()
RETURNING s.id, s.public_id,
          (SELECT coalesce(max(k.number), 0) + 1 FROM hookwire.subscription_secrets k WHERE k.subscription_id = s.id)
          AS secret_number;

-- name: forget_secrets
DELETE FROM hookwire.subscription_secrets WHERE subscription_id = ANY ($1::bigint[]);

-- name: keep_secret
INSERT INTO hookwire.subscription_secrets (subscription_id, number, tenant, key_id, sealed) VALUES ($1, $2, $3, $4, $5);

-- name: withdraw
UPDATE hookwire.subscriptions
SET state = 'deleted', state_reason = 'unsubscribed', version = version + 1, updated_at = clock_timestamp()
WHERE id = (SELECT s.id
            FROM (SELECT x.id, x.state FROM hookwire.subscriptions x
                  WHERE x.tenant = $1 AND x.identity = $2 AND x.protocol = 'websub' OFFSET 0) AS s
            WHERE s.state IN ('active', 'disabled'))
  AND state IN ('active', 'disabled')
RETURNING id;

-- name: expire
-- End up to $1 subscriptions whose lease has ended. Compare with now(): an index cannot serve
-- clock_timestamp().
UPDATE hookwire.subscriptions s
SET state = 'expired', state_reason = 'the lease has ended', version = s.version + 1, updated_at = clock_timestamp()
WHERE s.id = ANY (ARRAY(
    SELECT x.id FROM hookwire.subscriptions x
    WHERE x.protocol = 'websub' AND x.state IN ('active', 'disabled') AND x.lease_until <= now()
    ORDER BY x.lease_until LIMIT $1
    FOR UPDATE SKIP LOCKED))
RETURNING s.id, s.callback;

-- name: pair_of
SELECT identity FROM hookwire.subscriptions WHERE tenant = $1 AND public_id = $2;

-- name: revoke
-- End the subscription now, regardless of its callback's later answer.
UPDATE hookwire.subscriptions
SET state = 'denied', state_reason = $3, version = version + 1, updated_at = clock_timestamp()
WHERE tenant = $1 AND public_id = $2 AND protocol = 'websub' AND state IN ('active', 'disabled')
RETURNING id, callback;

-- name: tell_denial
-- Queue a denial with its reason for the callbacks of these ended subscriptions, like any other request.
INSERT INTO hookwire.intents (tenant, mode, topic, topic_url, callback, callback_host, identity, signature_method,
                              stage, denial, due_at, created_at)
SELECT s.tenant, 'subscribe', s.topic, s.topic_url, s.callback, hosts.host, s.identity, s.signature_method,
       'deny', $3, clock_timestamp(), clock_timestamp()
FROM unnest($1::bigint[], $2::text[]) AS hosts(id, host)
JOIN hookwire.subscriptions s ON s.id = hosts.id AND NOT s.pshb03;

-- name: drop_deliveries
-- Drop up to $1 open deliveries of subscriptions that ended within the last hour. Each leaves an attempt that says so.
-- Repeat it: a fan-out that overlapped with the end may add deliveries afterwards.
WITH gone AS (
    DELETE FROM hookwire.deliveries
    WHERE ctid = ANY (ARRAY(
        SELECT q.place
        FROM (SELECT y.id FROM hookwire.subscriptions y
              WHERE y.protocol = 'websub' AND y.state IN ('expired', 'denied', 'deleted')
                AND y.updated_at > now() - interval '1 hour' ORDER BY y.updated_at) AS s
        CROSS JOIN LATERAL (
            SELECT x.ctid AS place FROM hookwire.deliveries x WHERE x.subscription_id = s.id LIMIT $1 FOR UPDATE SKIP LOCKED
        ) AS q
        LIMIT $1))
    RETURNING event_id, subscription_id, tenant, attempts
)
INSERT INTO hookwire.attempts (event_id, subscription_id, started_at, number, total_seconds, tenant, outcome, decision, trigger, worker,
                               detail)
SELECT g.event_id, g.subscription_id, clock_timestamp(), g.attempts + 1, 0, g.tenant, 'ended', 'dropped', 'end', 'hookwire',
       'the subscription is ' || s.state || coalesce(': ' || s.state_reason, '')
FROM gone g JOIN hookwire.subscriptions s ON s.id = g.subscription_id
ON CONFLICT DO NOTHING;

-- name: drop_deliveries_of
-- Drop up to $2 open deliveries of one subscription, as drop_deliveries does.
WITH gone AS (
    DELETE FROM hookwire.deliveries
    WHERE ctid = ANY (ARRAY(
        SELECT q.ctid FROM hookwire.deliveries q WHERE q.subscription_id = $1 LIMIT $2 FOR UPDATE SKIP LOCKED))
    RETURNING event_id, subscription_id, tenant, attempts
)
INSERT INTO hookwire.attempts (event_id, subscription_id, started_at, number, total_seconds, tenant, outcome, decision, trigger, worker,
                               detail)
SELECT g.event_id, g.subscription_id, clock_timestamp(), g.attempts + 1, 0, g.tenant, 'ended', 'dropped', 'end', 'hookwire',
       'the subscription is ' || s.state || coalesce(': ' || s.state_reason, '')
FROM gone g JOIN hookwire.subscriptions s ON s.id = g.subscription_id
ON CONFLICT DO NOTHING;

-- name: purge
-- Delete decided requests after a day, and buckets that have been full for long. Compare with now(), as in expire.
WITH old AS (
    DELETE FROM hookwire.intents
    WHERE id = ANY (ARRAY(
        SELECT i.id FROM hookwire.intents i WHERE i.decided_at < now() - interval '1 day'
        ORDER BY i.decided_at LIMIT $1 FOR UPDATE SKIP LOCKED))
    RETURNING id
), full_buckets AS (
    DELETE FROM hookwire.verification_buckets b
    USING (SELECT tenant, host FROM hookwire.verification_buckets WHERE refilled_at < clock_timestamp() - interval '1 hour'
           LIMIT $1 FOR UPDATE SKIP LOCKED) AS f
    WHERE b.tenant = f.tenant AND b.host = f.host
)
SELECT count(*) FROM old;

-- name: pair
-- Return the latest request to subscribe, the latest subscription and its open deliveries; all NULL where none exists.
SELECT i.state AS request_state, i.stage, i.stage_from, i.reason AS request_reason, i.attempts, i.created_at AS requested_at,
       i.decided_at, CASE WHEN i.decided_at IS NULL THEN i.due_at END AS next_attempt_at,
       s.public_id, s.state AS subscription_state, s.state_reason, s.lease_until, s.updated_at,
       (SELECT max(v.decided_at) FROM hookwire.intents v
        WHERE v.tenant = $1 AND v.identity = $2 AND v.state = 'verified') AS verified_at,
       (SELECT count(*) FROM (SELECT FROM hookwire.deliveries d WHERE d.subscription_id = s.id LIMIT 1001) AS counted) AS owed,
       (SELECT d.last_outcome FROM hookwire.deliveries d WHERE d.subscription_id = s.id AND d.last_outcome IS NOT NULL
        ORDER BY d.due_at LIMIT 1) AS last_outcome
FROM (SELECT) AS one
LEFT JOIN LATERAL (SELECT * FROM hookwire.intents x
                   WHERE x.tenant = $1 AND x.identity = $2 AND x.mode = 'subscribe' ORDER BY x.id DESC LIMIT 1) AS i ON true
LEFT JOIN LATERAL (SELECT * FROM hookwire.subscriptions x
                   WHERE x.tenant = $1 AND x.topic = $3 AND x.identity = $2 AND x.protocol = 'websub'
                   ORDER BY x.id DESC LIMIT 1) AS s ON true;
