-- Inbound sources: doors for webhooks that others send.

-- name: put
-- Make a door or change its settings; return whether it is new.
WITH before AS (SELECT FROM hookwire.inbound_sources s WHERE s.name = $1)
INSERT INTO hookwire.inbound_sources (name, preset, settings, remember_seconds, rate_per_minute)
VALUES ($1, $2, $3::text::jsonb, $4, $5)
ON CONFLICT (name) DO UPDATE SET preset = excluded.preset, settings = excluded.settings,
    remember_seconds = excluded.remember_seconds, rate_per_minute = excluded.rate_per_minute, changed_at = clock_timestamp()
RETURNING NOT EXISTS (SELECT FROM before) AS is_new;

-- name: remove
-- Remove a door, with its secrets and its last requests; return whether there was one.
WITH gone AS (DELETE FROM hookwire.inbound_sources s WHERE s.name = $1 RETURNING s.name)
SELECT count(*) FROM gone;

-- name: find
SELECT s.name, s.preset, s.settings::text AS settings, s.remember_seconds, s.rate_per_minute, s.changed_at
FROM hookwire.inbound_sources s WHERE s.name = $1;

-- name: list
-- Return the doors after $1 by name, each with the times of its last requests.
SELECT s.name, s.preset, s.settings::text AS settings, s.remember_seconds, s.rate_per_minute, s.changed_at,
       (SELECT max(r.arrived_at) FROM hookwire.inbound_requests r WHERE r.source = s.name AND r.outcome = 'accepted') AS accepted_at,
       (SELECT max(r.arrived_at) FROM hookwire.inbound_requests r WHERE r.source = s.name AND r.outcome = 'refused') AS refused_at
FROM hookwire.inbound_sources s WHERE s.name > $1 ORDER BY s.name LIMIT $2;

-- name: with_requests
-- Return a door with the times of its last requests.
SELECT s.name, s.preset, s.settings::text AS settings,
       (SELECT max(r.arrived_at) FROM hookwire.inbound_requests r WHERE r.source = s.name AND r.outcome = 'accepted') AS accepted_at,
       (SELECT max(r.arrived_at) FROM hookwire.inbound_requests r WHERE r.source = s.name AND r.outcome = 'refused') AS refused_at
FROM hookwire.inbound_sources s WHERE s.name = $1;

-- name: secrets
-- Return the secrets that are valid now, newest first.
SELECT c.number, c.key_id, c.sealed, c.created_at, c.expires_at FROM hookwire.inbound_secrets c
WHERE c.source = $1 AND (c.expires_at IS NULL OR c.expires_at > now()) ORDER BY c.number DESC LIMIT 2;

-- name: lock
-- Lock a door until the end of the transaction, and return the number of its next secret.
SELECT (SELECT coalesce(max(c.number), 0) + 1 FROM hookwire.inbound_secrets c WHERE c.source = s.name) AS number
FROM hookwire.inbound_sources s WHERE s.name = $1 FOR UPDATE;

-- name: add_secret
-- Add the secret $2. The one before it is valid for $5 seconds more, any older one ends now.
WITH older AS (
    DELETE FROM hookwire.inbound_secrets c WHERE c.source = $1 AND c.number < $2 - 1
), former AS (
    UPDATE hookwire.inbound_secrets c
    SET expires_at = least(c.expires_at, clock_timestamp() + make_interval(secs => $5::double precision))
    WHERE c.source = $1 AND c.number = $2 - 1
)
INSERT INTO hookwire.inbound_secrets (source, number, key_id, sealed) VALUES ($1, $2, $3, $4);

-- name: keep_requests
-- Keep requests, those of doors that exist, and only the last $11 of each door and outcome.
WITH added AS (
    INSERT INTO hookwire.inbound_requests
        (source, outcome, arrived_at, address, bytes, delivery_id, event_id, topic, reason, detail, body)
    SELECT n.source, n.outcome, n.arrived_at, n.address, n.bytes, n.delivery_id, n.event_id, n.topic, n.reason, n.detail, n.body
    FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::text[], $5::integer[], $6::text[], $7::bigint[], $8::text[],
                $9::text[], $10::text[], $12::bytea[])
             AS n(source, outcome, arrived_at, address, bytes, delivery_id, event_id, topic, reason, detail, body)
    JOIN hookwire.inbound_sources s ON s.name = n.source
    RETURNING source, outcome
)
DELETE FROM hookwire.inbound_requests r WHERE r.id IN (
    SELECT o.id FROM (SELECT DISTINCT a.source, a.outcome FROM added a) AS d CROSS JOIN LATERAL (
        SELECT x.id FROM hookwire.inbound_requests x WHERE x.source = d.source AND x.outcome = d.outcome
        ORDER BY x.arrived_at DESC OFFSET $11) AS o);

-- name: purge_requests
-- Delete requests that are older than $1 seconds.
DELETE FROM hookwire.inbound_requests r
WHERE r.ctid = ANY (ARRAY(
    SELECT o.ctid FROM hookwire.inbound_requests o
    WHERE o.arrived_at < now() - make_interval(secs => $1::double precision) LIMIT 5000));

-- name: requests
-- Return the last requests at a door, newest first. $3: with the bodies.
SELECT r.outcome, r.arrived_at, r.address, r.bytes, r.delivery_id, r.event_id, r.topic, r.reason, r.detail,
       CASE WHEN $3 THEN r.body END AS body
FROM hookwire.inbound_requests r WHERE r.source = $1 AND r.outcome = $2 ORDER BY r.arrived_at DESC LIMIT 20;
