-- Backfills: replays from a lake to one subscription. What they send lies in no partition of events or attempts.
ALTER TABLE hookwire.replays DROP CONSTRAINT replays_act_check;
ALTER TABLE hookwire.replays ADD CONSTRAINT replays_act_check CHECK (
    (source IN ('events', 'lake') AND act = 'send') OR (source = 'dead_letters' AND act IN ('send', 'purge'))
    OR (source = 'deliveries' AND act = 'give_up') OR (source = 'jobs' AND act = 'cancel')) NOT VALID;
ALTER TABLE hookwire.replays DROP CONSTRAINT replays_check;
ALTER TABLE hookwire.replays ADD CONSTRAINT replays_check CHECK (
    subscription_id IS NOT NULL OR source NOT IN ('events', 'lake')) NOT VALID;
ALTER TABLE hookwire.replays VALIDATE CONSTRAINT replays_act_check;
ALTER TABLE hookwire.replays VALIDATE CONSTRAINT replays_check;
COMMENT ON COLUMN hookwire.replays.source IS 'events, dead_letters, deliveries, jobs, or lake: a backfill.';

CREATE TABLE hookwire.backfills (
    replay_id bigint PRIMARY KEY REFERENCES hookwire.replays (id) ON DELETE CASCADE,
    lake text NOT NULL,
    topics text[] NOT NULL,
    kafka_topics text[] NOT NULL,
    events bigint NOT NULL,
    erased_at_start bigint NOT NULL,
    before_live boolean NOT NULL,
    skips boolean NOT NULL,
    attempts_max integer NOT NULL CHECK (attempts_max > 0),
    fence bigint NOT NULL DEFAULT 1,
    holder text NOT NULL,
    lease_until timestamptz,
    why text
);
COMMENT ON TABLE hookwire.backfills IS 'Replays from a lake: what they have beside the columns of hookwire.replays.';
COMMENT ON COLUMN hookwire.backfills.replay_id IS 'Its row in hookwire.replays.';
COMMENT ON COLUMN hookwire.backfills.lake IS 'The URI of the lake.';
COMMENT ON COLUMN hookwire.backfills.topics IS 'The topics of the range, fixed at the start.';
COMMENT ON COLUMN hookwire.backfills.kafka_topics IS 'The topic in Kafka of each of them.';
COMMENT ON COLUMN hookwire.backfills.events IS 'The number of events in the range at the start.';
COMMENT ON COLUMN hookwire.backfills.erased_at_start IS 'The number of events that the lake noted as erased at the start.';
COMMENT ON COLUMN hookwire.backfills.before_live IS 'Whether live deliveries of the subscription wait meanwhile.';
COMMENT ON COLUMN hookwire.backfills.skips IS 'Whether it goes on past an event that the receiver does not take.';
COMMENT ON COLUMN hookwire.backfills.attempts_max IS 'The number of attempts at an event.';
COMMENT ON COLUMN hookwire.backfills.fence IS 'The number of times that a process has taken it. Only the last one may write.';
COMMENT ON COLUMN hookwire.backfills.holder IS 'The process that took it last.';
COMMENT ON COLUMN hookwire.backfills.lease_until IS 'Until then no other process may take it; NULL: nobody holds it.';
COMMENT ON COLUMN hookwire.backfills.why IS 'Why it stopped by itself; NULL: it did not.';

CREATE TABLE hookwire.backfill_batches (
    replay_id bigint NOT NULL REFERENCES hookwire.backfills (replay_id) ON DELETE CASCADE,
    above_id bigint NOT NULL,
    part integer NOT NULL,
    sent bigint[] NOT NULL,
    erased bigint[] NOT NULL,
    unwanted bigint[] NOT NULL,
    refused bigint[] NOT NULL,
    noted_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (replay_id, above_id, part)
);
COMMENT ON TABLE hookwire.backfill_batches IS 'What became of the events of a backfill, batch by batch.';
COMMENT ON COLUMN hookwire.backfill_batches.replay_id IS 'The backfill.';
COMMENT ON COLUMN hookwire.backfill_batches.above_id IS 'Its events have higher ids: the cursor at its beginning.';
COMMENT ON COLUMN hookwire.backfill_batches.part IS 'From 0; a batch that was interrupted has several.';
COMMENT ON COLUMN hookwire.backfill_batches.sent IS 'Events that the receiver has taken.';
COMMENT ON COLUMN hookwire.backfill_batches.erased IS 'Events that were erased, and so were not sent.';
COMMENT ON COLUMN hookwire.backfill_batches.unwanted IS 'Events that the filter of the subscription does not pass.';
COMMENT ON COLUMN hookwire.backfill_batches.refused IS 'Events that the receiver did not take, and that were skipped.';
COMMENT ON COLUMN hookwire.backfill_batches.noted_at IS 'When it was stored.';

CREATE TABLE hookwire.backfill_failures (
    replay_id bigint NOT NULL REFERENCES hookwire.backfills (replay_id) ON DELETE CASCADE,
    event_id bigint NOT NULL,
    attempts integer NOT NULL,
    failed_at timestamptz NOT NULL DEFAULT now(),
    outcome text NOT NULL,
    status smallint,
    PRIMARY KEY (replay_id, event_id)
);
COMMENT ON TABLE hookwire.backfill_failures IS 'The failed attempts of a backfill, the last one of each event.';
COMMENT ON COLUMN hookwire.backfill_failures.replay_id IS 'The backfill.';
COMMENT ON COLUMN hookwire.backfill_failures.attempts IS 'The number of failed attempts.';
COMMENT ON COLUMN hookwire.backfill_failures.failed_at IS 'When the last one failed.';
COMMENT ON COLUMN hookwire.backfill_failures.outcome IS 'The class of its answer, or why there was none.';
COMMENT ON COLUMN hookwire.backfill_failures.status IS 'The status of its answer; NULL: there was none.';
