-- The lake's erasures are confirmed by the database: the lake's own notes can be forged by whoever writes to it.
ALTER TABLE hookwire.erased_events ADD COLUMN lake_at timestamptz;
ALTER TABLE hookwire.erased_events ALTER COLUMN content DROP NOT NULL;
ALTER TABLE hookwire.erased_events ALTER COLUMN erased_at DROP NOT NULL;
ALTER TABLE hookwire.erased_events ADD CONSTRAINT erased_events_check
    CHECK ((erased_at IS NULL) = (content IS NULL) AND (erased_at IS NOT NULL OR lake_at IS NOT NULL));
COMMENT ON TABLE hookwire.erased_events IS
'Events that were erased from the hub, with the hash of their former contents, and events that were erased from the lake.';
COMMENT ON COLUMN hookwire.erased_events.erased_at IS
'When the hub erased it, by the clock of the database; NULL: its contents are in the hub.';
COMMENT ON COLUMN hookwire.erased_events.content IS
'hookwire.content_hash before the erasure, as a signed number; NULL: the hub has not erased it.';
COMMENT ON COLUMN hookwire.erased_events.lake_at IS 'When `hookwire pipeline erase` took it from the lake; NULL: it did not.';

-- Only what the hub has erased left freed bytes in the files of the database.
DROP INDEX hookwire.erased_events_freed;
CREATE INDEX IF NOT EXISTS erased_events_freed ON hookwire.erased_events (event_id)
    WHERE erased_at IS NOT NULL AND rewritten_at IS NULL;
