-- Erasure: the contents of an event go, and its row stays.

-- `payload` is NOT NULL, and an empty one may be a tombstone. So an erased event has a mark of its own.
ALTER TABLE hookwire.events ADD COLUMN erased_at timestamptz;
COMMENT ON COLUMN hookwire.events.erased_at IS 'When its contents were erased; NULL: they are there.';

CREATE TABLE hookwire.erased_events (
    event_id bigint PRIMARY KEY,
    tenant text NOT NULL,
    content bigint NOT NULL,
    erased_at timestamptz NOT NULL,
    rewritten_at timestamptz
);
COMMENT ON TABLE hookwire.erased_events IS 'Erased events, with the hash of the contents that they had, for the ledger and the audit.';
COMMENT ON COLUMN hookwire.erased_events.erased_at IS 'When, by the clock of the database.';
COMMENT ON COLUMN hookwire.erased_events.content IS 'hookwire.content_hash before the erasure, as a signed number.';
COMMENT ON COLUMN hookwire.erased_events.rewritten_at IS
'When `hookwire rewrite` had rewritten the tables, so that no file holds the freed bytes; NULL: not yet.';
CREATE INDEX erased_events_freed ON hookwire.erased_events (event_id) WHERE rewritten_at IS NULL;

-- A delivery that an erasure ended is no news for the person who erased.
ALTER TABLE hookwire.dead_letters DROP CONSTRAINT dead_letters_kind_check;
ALTER TABLE hookwire.dead_letters ADD CONSTRAINT dead_letters_kind_check
    CHECK (kind IN ('exhausted', 'declined', 'aborted', 'gone', 'internal', 'erased'));

ALTER TABLE hookwire.replays ADD COLUMN erased bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN hookwire.replays.erased IS 'Events that it left out because their contents were erased.';

-- By the event that a job was made from. Jobs of other makers have no entry.
CREATE INDEX IF NOT EXISTS jobs_event ON hookwire.jobs ((args->>'event_id')) WHERE created_by = 'topic';
CREATE INDEX IF NOT EXISTS job_archive_event ON hookwire.job_archive ((args->>'event_id')) WHERE created_by = 'topic';
