-- What the verdict needs: the states that processes report, and look-ups of what waits and what died lately.

-- Each process reports the sinks that it relays and the queues that it reads, so that every other process can say more than
-- "nothing moves".
CREATE TABLE hookwire.process_states (
    process text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('sink', 'source')),
    name text NOT NULL,
    state text NOT NULL,
    reason text NOT NULL,
    since timestamptz NOT NULL DEFAULT clock_timestamp(),
    until timestamptz NOT NULL,
    PRIMARY KEY (process, kind, name)
) WITH (fillfactor = 50);
COMMENT ON TABLE hookwire.process_states IS 'Sinks and sources as the processes that carry them report them.';
COMMENT ON COLUMN hookwire.process_states.process IS 'Id of the process that reports.';
COMMENT ON COLUMN hookwire.process_states.kind IS 'sink, or source: an AMQP queue whose messages become events.';
COMMENT ON COLUMN hookwire.process_states.reason IS 'The last error while it does not work; else empty.';
COMMENT ON COLUMN hookwire.process_states.since IS 'When this state began.';
COMMENT ON COLUMN hookwire.process_states.until IS 'When the process counts as gone unless it has reported again.';

-- Dead letters that a person made are no news for this person.
ALTER TABLE hookwire.dead_letters ADD COLUMN on_purpose boolean DEFAULT false NOT NULL;
COMMENT ON COLUMN hookwire.dead_letters.on_purpose IS 'Whether a person gave it up.';
ALTER TABLE hookwire.relay_dead_letters ADD COLUMN on_purpose boolean DEFAULT false NOT NULL;
COMMENT ON COLUMN hookwire.relay_dead_letters.on_purpose IS 'Whether a person gave it up.';

CREATE INDEX IF NOT EXISTS dead_letters_latest ON hookwire.dead_letters (died_at) WHERE kind <> 'gone' AND NOT on_purpose;
CREATE INDEX IF NOT EXISTS relay_dead_letters_latest ON hookwire.relay_dead_letters (died_at) WHERE NOT on_purpose;
CREATE INDEX IF NOT EXISTS dead_tasks_kind ON hookwire.dead_tasks (kind, died_at);
CREATE INDEX IF NOT EXISTS job_archive_discarded ON hookwire.job_archive (kind, ended_at) WHERE state = 'discarded';
CREATE INDEX IF NOT EXISTS requests_dead ON hookwire.requests (service, deadline_at) WHERE state IN ('expired', 'failed');

-- The last columns are computed only where a statement names them. Waiting deliveries are counted up to 1,000, in the order
-- of an index: otherwise a bitmap of all of them is made first. The last success and the time to answer are those of the
-- latest events (FT-01). The delivery that has waited longest is looked for among the ten that are due first, and among
-- those behind others of their key.
CREATE OR REPLACE VIEW hookwire.receivers AS
SELECT s.id, s.tenant, s.public_id, s.protocol, s.topic, s.callback, s.state AS subscription_state, s.state_reason,
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
            WHERE x.subscription_id = s.id ORDER BY x.event_id DESC LIMIT 20) AS a) AS answer_seconds
FROM hookwire.subscriptions s
LEFT JOIN hookwire.delivery_gates g ON g.subscription_id = s.id
LEFT JOIN hookwire.delivery_failures f ON f.subscription_id = s.id;
