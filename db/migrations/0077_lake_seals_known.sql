-- How many records of a lake have no seal that proves them, and which key seals: a rise or another key is told.
ALTER TABLE hookwire.lake_seals ADD COLUMN unproved bigint, ADD COLUMN seal_key text;
COMMENT ON COLUMN hookwire.lake_seals.unproved IS 'At most so many records have no seal that proves them; null: unknown.';
COMMENT ON COLUMN hookwire.lake_seals.seal_key IS 'The name of the newest key that sealed records here; null: unknown.';
COMMENT ON COLUMN hookwire.lake_seals.noted_at IS 'When an archive, an audit or a person noted it.';
