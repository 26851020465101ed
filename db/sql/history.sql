-- History: delete old audit entries, replays, keys and ended subscriptions. Each statement walks from $1 up to $2 and
-- reads at most $3 rows. It deletes rows older than $4 days, and returns the last row that it read.

-- name: purge_audit
-- Entries are in the order of their time. A walk ends at the first batch that has a younger entry.
WITH seen AS MATERIALIZED (
    SELECT a.id, a.at < now() - make_interval(days => $4::integer) AS is_old FROM hookwire.audit a
    WHERE a.id > $1 AND a.id <= $2 ORDER BY a.id LIMIT $3
), gone AS (
    DELETE FROM hookwire.audit a USING seen s WHERE a.id = s.id AND s.is_old RETURNING a.id
)
SELECT (SELECT max(id) FROM seen) AS last_id, (SELECT count(*) FROM seen WHERE is_old) AS examined,
       (SELECT count(*) FROM gone) AS purged;

-- name: purge_replays
-- Delete replays that have ended. A paused replay may go on.
WITH seen AS MATERIALIZED (
    SELECT r.id, r.updated_at FROM hookwire.replays r
    WHERE r.state IN ('done', 'cancelled') AND r.id > $1 AND r.id <= $2 ORDER BY r.id LIMIT $3
), gone AS (
    DELETE FROM hookwire.replays r USING seen s
    WHERE r.id = s.id AND s.updated_at < now() - make_interval(days => $4::integer) RETURNING r.id
)
SELECT (SELECT max(id) FROM seen) AS last_id, (SELECT count(*) FROM seen) AS examined, (SELECT count(*) FROM gone) AS purged;

-- name: purge_keys
-- Delete API keys that were revoked or have expired, by the earlier of the two. least() ignores a NULL. A key with
-- neither stays, and so does the first key that a setting made: deleted, the setting would make it again.
WITH seen AS MATERIALIZED (
    SELECT k.id FROM hookwire.api_keys k WHERE k.id > $1 AND k.id <= $2 ORDER BY k.id LIMIT $3
), gone AS (
    DELETE FROM hookwire.api_keys k USING seen s
    WHERE k.id = s.id AND k.name <> 'bootstrap'
      AND least(k.revoked_at, k.expires_at) < now() - make_interval(days => $4::integer) RETURNING k.id
)
SELECT (SELECT max(id) FROM seen) AS last_id, (SELECT count(*) FROM seen) AS examined, (SELECT count(*) FROM gone) AS purged;

-- name: purge_subscriptions
-- Delete ended subscriptions without a delivery, attempt, dead letter, replay or queue. A RabbitHub subscription can be
-- activated again until it is deleted. A subscription that changes meanwhile is read again, and stays. There is
-- no index for this statement: the planner would use it for other statements, which would then read all ended
-- subscriptions.
WITH seen AS MATERIALIZED (
    SELECT s.id FROM hookwire.subscriptions s WHERE s.id > $1 AND s.id <= $2 ORDER BY s.id LIMIT $3
), gone AS (
    DELETE FROM hookwire.subscriptions s USING seen o
    WHERE s.id = o.id AND (s.state = 'deleted' OR (s.state IN ('gone', 'expired', 'denied') AND s.protocol <> 'rabbithub'))
      AND s.updated_at < now() - make_interval(days => $4::integer)
      AND NOT EXISTS (SELECT FROM hookwire.deliveries d WHERE d.subscription_id = o.id)
      AND NOT EXISTS (SELECT FROM hookwire.attempts a WHERE a.subscription_id = o.id)
      AND NOT EXISTS (SELECT FROM hookwire.dead_letters l WHERE l.subscription_id = o.id)
      AND NOT EXISTS (SELECT FROM hookwire.replays r WHERE r.subscription_id = o.id)
      AND NOT EXISTS (SELECT FROM hookwire.rabbithub_resources q WHERE q.source = o.id)
    RETURNING s.id
), ungated AS (
    DELETE FROM hookwire.delivery_gates g USING gone WHERE g.subscription_id = gone.id
), forgiven AS (
    DELETE FROM hookwire.delivery_failures f USING gone WHERE f.subscription_id = gone.id
)
SELECT (SELECT max(id) FROM seen) AS last_id, (SELECT count(*) FROM seen) AS examined, (SELECT count(*) FROM gone) AS purged;
