-- Outbox tables of others that nobody may change: how far their rows were sent.

CREATE TABLE hookwire.outbox_offsets (
    outbox   text PRIMARY KEY,
    place    bigint NOT NULL,
    moved_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE hookwire.outbox_offsets IS 'How far the rows of an append-only outbox table of others were sent.';
COMMENT ON COLUMN hookwire.outbox_offsets.outbox IS 'The table, quoted as PostgreSQL quotes it.';
COMMENT ON COLUMN hookwire.outbox_offsets.place IS 'The offset of the last row that was sent, with all before it. A person may set it.';
COMMENT ON COLUMN hookwire.outbox_offsets.moved_at IS 'When a row was sent last.';
