-- Replays do more than send again: they also delete dead letters, give up open deliveries and cancel jobs. All of these run
-- in the background, in steps that any process continues.

ALTER TABLE hookwire.replays
    ADD COLUMN act text NOT NULL DEFAULT 'send',
    ADD COLUMN job_kind text,
    ADD COLUMN job_state text,
    ADD COLUMN last_seq bigint NOT NULL DEFAULT 0,
    ADD COLUMN upper_seq bigint NOT NULL DEFAULT 0,
    DROP CONSTRAINT replays_check,
    DROP CONSTRAINT replays_source_check,
    ADD CONSTRAINT replays_check CHECK (subscription_id IS NOT NULL OR source <> 'events'),
    ADD CONSTRAINT replays_act_check CHECK (
        (source = 'events' AND act = 'send') OR (source = 'dead_letters' AND act IN ('send', 'purge'))
        OR (source = 'deliveries' AND act = 'give_up') OR (source = 'jobs' AND act = 'cancel'));
COMMENT ON TABLE hookwire.replays IS 'Replays: what is sent again, given up, deleted or cancelled in steps, in the background.';
COMMENT ON COLUMN hookwire.replays.source IS 'events, dead_letters, deliveries or jobs.';
COMMENT ON COLUMN hookwire.replays.act IS 'What is done with each: send, purge, give_up or cancel.';
COMMENT ON COLUMN hookwire.replays.job_kind IS 'Only jobs of this kind; NULL: all.';
COMMENT ON COLUMN hookwire.replays.job_state IS 'Only jobs in this state; NULL: all.';
COMMENT ON COLUMN hookwire.replays.last_seq IS 'Up to this job the range is done.';
COMMENT ON COLUMN hookwire.replays.upper_seq IS 'The last job of the range, fixed at the start.';
COMMENT ON COLUMN hookwire.replays.replayed IS 'What was done: deliveries made, dead letters deleted, deliveries given up or jobs cancelled.';
