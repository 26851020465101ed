-- Rollups: attempts counted by subscription and time, with the times that they took. A settlement writes one entry for its
-- whole batch. The clean-up folds entries into minutes, hours and days.

CREATE TABLE hookwire.attempt_entries (
    settled_at timestamptz NOT NULL DEFAULT now(),
    subscription_ids bigint[] NOT NULL,
    seconds real[] NOT NULL,
    ages real[] NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE hookwire.attempt_entries ALTER COLUMN subscription_ids SET STORAGE MAIN;
ALTER TABLE hookwire.attempt_entries ALTER COLUMN seconds SET STORAGE MAIN;
ALTER TABLE hookwire.attempt_entries ALTER COLUMN ages SET STORAGE MAIN;
-- No sequence and no unique index: an entry can come twice into being after a restore, and no settlement may fail by it.
CREATE INDEX attempt_entries_settled ON hookwire.attempt_entries (settled_at);
COMMENT ON TABLE hookwire.attempt_entries IS 'Stored attempts: one row for each settlement, folded into attempt_rollups within a minute.';
COMMENT ON COLUMN hookwire.attempt_entries.settled_at IS 'When the transaction began that stored them.';
COMMENT ON COLUMN hookwire.attempt_entries.subscription_ids IS 'The subscription of each attempt; the two other arrays have the same order.';
COMMENT ON COLUMN hookwire.attempt_entries.seconds IS 'How long each attempt took; negative: nothing was sent; NULL: it was counted before, and is known as delivered now.';
COMMENT ON COLUMN hookwire.attempt_entries.ages IS 'Seconds from the acceptance of the event to its delivery; negative: not timed; NULL: this attempt did not deliver it.';

CREATE TABLE hookwire.attempt_rollups (
    subscription_id bigint NOT NULL,
    grain text NOT NULL COLLATE "C" CHECK (grain IN ('minute', 'hour', 'day')),
    at timestamptz NOT NULL,
    attempts bigint NOT NULL,
    delivered bigint NOT NULL,
    latency_buckets smallint[] NOT NULL,
    latency_counts bigint[] NOT NULL,
    age_buckets smallint[] NOT NULL,
    age_counts bigint[] NOT NULL,
    PRIMARY KEY (subscription_id, grain, at)
) WITH (fillfactor = 70);
CREATE INDEX attempt_rollups_at ON hookwire.attempt_rollups (grain, at);
COMMENT ON TABLE hookwire.attempt_rollups IS 'Attempts of a subscription in a minute, an hour or a day, by how long they took.';
COMMENT ON COLUMN hookwire.attempt_rollups.grain IS 'minute, hour or day.';
COMMENT ON COLUMN hookwire.attempt_rollups.at IS 'When the minute, hour or day (UTC) begins.';
COMMENT ON COLUMN hookwire.attempt_rollups.attempts IS 'The attempts, also those that ended before anything was sent.';
COMMENT ON COLUMN hookwire.attempt_rollups.delivered IS 'The deliveries.';
COMMENT ON COLUMN hookwire.attempt_rollups.latency_buckets IS 'Bucket n has the times from 0.0001 * 1.1^n seconds up to the next bucket. Bucket 0 has all shorter ones, too.';
COMMENT ON COLUMN hookwire.attempt_rollups.latency_counts IS 'The attempts in each of these buckets. Those of receivers that fetch are not timed.';
COMMENT ON COLUMN hookwire.attempt_rollups.age_buckets IS 'As latency_buckets, for the time from the acceptance of the event to its delivery.';
COMMENT ON COLUMN hookwire.attempt_rollups.age_counts IS 'The deliveries in each of these buckets. Those of replays and of receivers that fetch are not timed.';
