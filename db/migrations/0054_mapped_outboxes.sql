-- Anybody's outbox table: the id of a parked row is text there, of any type.

ALTER TABLE hookwire.compat_parked ADD COLUMN row_id text;
COMMENT ON COLUMN hookwire.compat_parked.row_id IS 'The id of the refused row in a mapped table, as text; NULL in goharvest''s.';
COMMENT ON TABLE hookwire.compat_parked IS 'Keys of an outbox table of others whose record was refused. Deleting a row tries the key again at once.';
COMMENT ON COLUMN hookwire.compat_parked.outbox IS 'The table, quoted as PostgreSQL quotes it.';
