-- What a page, a metric and the API say of a subscription: since when it fails, by what, and what blocks it (FT-01).
--
-- failing_since: the first failure since the last success; NULL while the last attempt succeeded. last_outcome and
-- last_status: of the latest failure.
ALTER TABLE hookwire.delivery_failures
    ADD COLUMN failing_since timestamptz,
    ADD COLUMN last_outcome text,
    ADD COLUMN last_status smallint;
UPDATE hookwire.delivery_failures SET failing_since = now() WHERE failures > 0;

CREATE INDEX IF NOT EXISTS delivery_failures_failing ON hookwire.delivery_failures (failing_since) WHERE failing_since IS NOT NULL;
CREATE INDEX IF NOT EXISTS subscriptions_paused ON hookwire.subscriptions (paused_until) WHERE paused_until IS NOT NULL;
CREATE INDEX IF NOT EXISTS subscriptions_disabled ON hookwire.subscriptions (id) WHERE state = 'disabled';

-- Each subscription with all that decides when it is sent to next. The last three columns are computed only where a
-- statement names them: what waits is counted up to 1,000, and the last success is looked for among the latest events.
CREATE VIEW hookwire.receivers AS
SELECT s.id, s.tenant, s.public_id, s.protocol, s.topic, s.callback, s.state AS subscription_state, s.state_reason,
       s.lease_until, s.paused_until,
       CASE WHEN g.trips > 0 THEN g.open_until END AS breaker_until,
       CASE WHEN s.rate_per_second IS NOT NULL THEN now() + make_interval(secs => greatest(0, (1 - least(
           coalesce(s.rate_burst, greatest(ceil(s.rate_per_second), 1)),
           g.tokens + extract(epoch FROM now() - g.refilled_at)::double precision * s.rate_per_second)) / s.rate_per_second))
       END AS rate_until,
       f.failing_since, f.last_outcome AS failure_outcome, f.last_status AS failure_status, now() AS now,
       (SELECT count(*) FROM (SELECT FROM hookwire.deliveries d WHERE d.subscription_id = s.id LIMIT 1000) AS few) AS waiting,
       (SELECT nullif(d.due_at, 'infinity') FROM hookwire.deliveries d
        WHERE d.subscription_id = s.id ORDER BY d.due_at LIMIT 1) AS next_due_at,
       greatest(f.succeeded_at, (
           SELECT max(a.started_at) FROM (
               SELECT x.started_at, x.decision FROM hookwire.attempts x
               WHERE x.subscription_id = s.id ORDER BY x.event_id DESC LIMIT 20) AS a
           WHERE a.decision = 'delivered')) AS last_success_at
FROM hookwire.subscriptions s
LEFT JOIN hookwire.delivery_gates g ON g.subscription_id = s.id
LEFT JOIN hookwire.delivery_failures f ON f.subscription_id = s.id;

-- declined: the receiver's answer is final for the delivery (FT-08). Until now such a dead letter was called exhausted.
ALTER TABLE hookwire.dead_letters DROP CONSTRAINT dead_letters_kind_check;
ALTER TABLE hookwire.dead_letters ADD CONSTRAINT dead_letters_kind_check
    CHECK (kind IN ('exhausted', 'declined', 'aborted', 'gone', 'internal'));
