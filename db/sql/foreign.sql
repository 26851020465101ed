-- Foreign topics: topics that other publishers host, and their known state. Only the room hub writes them.

-- name: ensure
-- Create the topic's row, so that its events do not go to sinks that were not asked to take them.
WITH topic AS (
    INSERT INTO hookwire.topics (tenant, name, sinks) VALUES ($1, $2, '{webhooks}') ON CONFLICT DO NOTHING
)
INSERT INTO hookwire.foreign_topics (tenant, topic, url) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING;

-- name: known
SELECT EXISTS (SELECT FROM hookwire.foreign_topics WHERE tenant = $1 AND topic = $2);

-- name: ping
-- Merge the ping with those that wait, and never drop it. A ping during a fetch causes another fetch. At least
-- $3 seconds lie between two fetches.
UPDATE hookwire.foreign_topics f
SET pings = f.pings + 1, failures = 0,
    due_at = greatest(clock_timestamp(), f.fetched_at + make_interval(secs => $3::double precision))
WHERE f.tenant = $1 AND f.topic = $2;

-- name: near
-- Return followed URLs that differ from this one by the scheme, the host's `www`, the case, the query or the last slash.
WITH alike AS MATERIALIZED (
    SELECT f.tenant, f.url FROM hookwire.foreign_topics f
    WHERE left(regexp_replace(regexp_replace(lower(f.url), '^https?://(www[.])?', ''), '(:80|:443)?/*([?#].*)?$', ''), 500)
        = left(regexp_replace(regexp_replace(lower($2), '^https?://(www[.])?', ''), '(:80|:443)?/*([?#].*)?$', ''), 500)
)
SELECT a.url FROM alike a WHERE a.tenant = $1 AND a.url <> $2 ORDER BY a.url LIMIT 3;

-- name: claim
-- Claim topics that are due, the oldest first. $3: also those whose last fetch failed, and new ones.
WITH chosen AS MATERIALIZED (
    SELECT f.tenant, f.topic FROM hookwire.foreign_topics f
    WHERE f.due_at <= now() AND (f.claimed_until IS NULL OR f.claimed_until <= now())
      AND ($3::boolean OR f.fetched_at IS NOT NULL AND f.last_error IS NULL)
    ORDER BY f.due_at LIMIT $1
    FOR UPDATE SKIP LOCKED
)
UPDATE hookwire.foreign_topics f
SET claimed_until = clock_timestamp() + make_interval(secs => $2::double precision), claims = f.claims + 1
FROM chosen c WHERE f.tenant = c.tenant AND f.topic = c.topic
RETURNING f.tenant, f.topic, f.url, f.feed_diff, f.always_deliver, f.pings, f.claims, f.failures, f.etag,
          f.last_modified, f.digest, f.entries::text AS entries, f.fetched_at IS NULL OR f.last_error IS NOT NULL AS is_doubtful,
          (SELECT count(*) FROM hookwire.subscriptions s
           WHERE s.tenant = f.tenant AND s.topic = f.topic AND s.state = 'active' AND s.topic_regex IS NULL) AS subscribers;

-- name: fetched
-- Record a fetch under the claim's number $3. It is due again at once where a ping came after the claim, which saw $4
-- of them.
UPDATE hookwire.foreign_topics f
SET pings_fetched = $4, claimed_until = NULL, failures = 0, fetched_at = clock_timestamp(),
    due_at = CASE WHEN f.pings > $4 THEN f.due_at END,
    last_status = $5, last_error = NULL
WHERE f.tenant = $1 AND f.topic = $2 AND f.claims = $3
RETURNING f.topic;

-- name: changed
-- $9 tells whether something is distributed. Known entries stay known where no feed was read ($6 is NULL).
UPDATE hookwire.foreign_topics f
SET etag = $3, last_modified = $4, digest = $5, entries = coalesce($6::text::jsonb, f.entries), self_url = $7, hub_url = $8,
    changed_at = CASE WHEN $9::boolean THEN clock_timestamp() ELSE f.changed_at END
WHERE f.tenant = $1 AND f.topic = $2;

-- name: failed
-- Try again after $5 seconds; where that is NULL, at the next ping.
UPDATE hookwire.foreign_topics f
SET claimed_until = NULL, failures = f.failures + 1, fetched_at = clock_timestamp(), last_status = $6, last_error = $7,
    due_at = CASE WHEN f.pings > $4 THEN f.due_at ELSE clock_timestamp() + make_interval(secs => $5::double precision) END
WHERE f.tenant = $1 AND f.topic = $2 AND f.claims = $3;

-- name: register
-- NULL leaves an option as it is.
UPDATE hookwire.foreign_topics f
SET feed_diff = coalesce($3, f.feed_diff), always_deliver = coalesce($4, f.always_deliver)
WHERE f.tenant = $1 AND f.topic = $2;

-- name: get
SELECT topic, url, self_url, hub_url, feed_diff, always_deliver, pings, pings_fetched, due_at, failures, last_status,
       last_error, fetched_at, changed_at, created_at,
       (SELECT t.sinks FROM hookwire.topics t WHERE t.tenant = f.tenant AND t.name = f.topic) AS sinks
FROM hookwire.foreign_topics f WHERE tenant = $1 AND topic = $2;

-- name: list
SELECT topic, url, self_url, hub_url, feed_diff, always_deliver, pings, pings_fetched, due_at, failures, last_status,
       last_error, fetched_at, changed_at, created_at,
       (SELECT t.sinks FROM hookwire.topics t WHERE t.tenant = f.tenant AND t.name = f.topic) AS sinks
FROM hookwire.foreign_topics f WHERE tenant = $1 AND topic > $2 ORDER BY topic LIMIT $3;
