-- Pushed jobs: a subscription of the protocol `job` is a worker behind a callback, for one kind in one queue.
ALTER TABLE hookwire.subscriptions
    ADD COLUMN kind text COLLATE "C",
    ADD COLUMN queue text COLLATE "C",
    DROP CONSTRAINT subscriptions_protocol_check,
    ADD CONSTRAINT subscriptions_protocol_check CHECK (protocol IN ('webhook', 'websub', 'pull', 'rabbithub', 'service', 'job'));
CREATE INDEX IF NOT EXISTS subscriptions_job ON hookwire.subscriptions (kind) WHERE protocol = 'job' AND state = 'active';

-- Later, without costing an attempt (JB-75); with a token it is parked until `resume_job`, at most so long (JB-55). A job
-- that was to be cancelled is cancelled: a pushed one has no heartbeat that would say so.
CREATE OR REPLACE FUNCTION hookwire.snooze_job(id uuid, claim bigint, seconds double precision, token text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    job CONSTANT hookwire.jobs := hookwire.running_job(snooze_job.id, snooze_job.claim);
    moved hookwire.jobs;
BEGIN
    IF seconds NOT BETWEEN 0 AND 315360000 OR octet_length(snooze_job.token) NOT BETWEEN 16 AND 200 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'seconds is 0 to 315360000, a token has 16 to 200 bytes';
    END IF;
    IF job.is_cancelled THEN
        PERFORM hookwire.end_jobs(ARRAY[job.id], 'cancelled', NULL, 'cancelled while it ran');
        RETURN;
    END IF;
    UPDATE hookwire.jobs j
    SET state = 'scheduled', due_at = clock_timestamp() + make_interval(secs => seconds), attempts = j.attempts - 1, claim = NULL,
        lease_until = NULL, run_until = NULL, number = j.number + 1, token = snooze_job.token, resumed = NULL
    WHERE j.id = job.id RETURNING j.* INTO moved;
    PERFORM hookwire.announce_jobs(ARRAY[moved]);
END
$$;
