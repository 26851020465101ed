-- A disabled subscription: what it has missed, so that it can be sent later. One that is drained sends what waits, and gets
-- nothing new.

ALTER TABLE hookwire.subscriptions
    ADD COLUMN disabled_after_id bigint,
    ADD COLUMN drains boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN hookwire.subscriptions.disabled_after_id IS
'The last event id that was drawn when it was disabled: later events got no delivery. NULL: it is not disabled, or was so before this column.';
COMMENT ON COLUMN hookwire.subscriptions.drains IS
'Of a disabled subscription: its open deliveries are sent. Processes of before this column let them wait.';

CREATE FUNCTION hookwire.note_disabled() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.disabled_after_id := CASE WHEN NEW.state = 'disabled' THEN
        (SELECT CASE WHEN e.is_called THEN e.last_value ELSE 0 END FROM hookwire.event_id e) END;
    NEW.drains := NEW.drains AND NEW.state = 'disabled';
    RETURN NEW;
END $$;
COMMENT ON FUNCTION hookwire.note_disabled() IS
'Note where a subscription that is disabled stops to get events; forget it, and its drain, when it is enabled or ends.';
REVOKE EXECUTE ON FUNCTION hookwire.note_disabled() FROM PUBLIC;

CREATE TRIGGER note_disabled BEFORE UPDATE OF state ON hookwire.subscriptions
    FOR EACH ROW WHEN (old.state IS DISTINCT FROM new.state) EXECUTE FUNCTION hookwire.note_disabled();

-- As before, with drains. The deliveries of a drained subscription are sent as those of an active one.
CREATE OR REPLACE VIEW hookwire.receivers AS
SELECT s.id, s.tenant, s.public_id, s.protocol, s.topic, s.callback, CASE WHEN s.drains THEN 'active' ELSE s.state END AS subscription_state, s.state_reason,
       s.lease_until, s.paused_until,
       CASE WHEN g.trips > 0 THEN g.open_until END AS breaker_until,
       CASE WHEN s.rate_per_second IS NOT NULL THEN now() + make_interval(secs => greatest(0, (1 - least(
           coalesce(s.rate_burst, greatest(ceil(s.rate_per_second), 1)),
           g.tokens + extract(epoch FROM now() - g.refilled_at)::double precision * s.rate_per_second)) / s.rate_per_second))
       END AS rate_until,
       f.failing_since, f.last_outcome AS failure_outcome, f.last_status AS failure_status, now() AS now,
       (SELECT count(*) FROM (SELECT FROM hookwire.deliveries d WHERE d.subscription_id = s.id
                             ORDER BY d.due_at, d.event_id LIMIT 1000) AS few) AS waiting,
       (SELECT nullif(d.due_at, 'infinity') FROM hookwire.deliveries d
        WHERE d.subscription_id = s.id ORDER BY d.due_at LIMIT 1) AS next_due_at,
       greatest(f.succeeded_at, (
           SELECT max(a.started_at) FROM (
               SELECT x.started_at, x.decision FROM hookwire.attempts x
               WHERE x.subscription_id = s.id ORDER BY x.event_id DESC LIMIT 20) AS a
           WHERE a.decision = 'delivered')) AS last_success_at,
       (SELECT d.fence IS NOT NULL FROM hookwire.deliveries d
        WHERE d.subscription_id = s.id ORDER BY d.due_at LIMIT 1) AS next_is_claimed,
       least((SELECT min(d.created_at) FROM (
                  SELECT x.created_at FROM hookwire.deliveries x
                  WHERE x.subscription_id = s.id ORDER BY x.due_at, x.event_id LIMIT 10) AS d),
             (SELECT d.created_at FROM hookwire.deliveries d
              WHERE d.subscription_id = s.id AND d.due_at = 'infinity' ORDER BY d.due_at, d.event_id LIMIT 1)) AS waiting_since,
       (SELECT avg(a.total_seconds) FROM (
            SELECT x.total_seconds FROM hookwire.attempts x
            WHERE x.subscription_id = s.id ORDER BY x.event_id DESC LIMIT 20) AS a) AS answer_seconds,
       s.drains
FROM hookwire.subscriptions s
LEFT JOIN hookwire.delivery_gates g ON g.subscription_id = s.id
LEFT JOIN hookwire.delivery_failures f ON f.subscription_id = s.id;
