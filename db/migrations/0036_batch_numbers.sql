-- The last batch number of each group, one row for each: the next number is a new row, and its predecessor goes in the same
-- statement. Counted on the term's row, as before, every number left a version of it behind, and while somebody's old
-- snapshot keeps versions whoever asks for the term reads past all of them (RR-07): claims, manifests, renewals. Here the
-- last is the first that is found from above. What was counted on the term's row counts still.
CREATE TABLE hookwire.relay_batch_numbers (
    sink text COLLATE "C" NOT NULL,
    layout smallint NOT NULL,
    grp smallint NOT NULL,
    batch_no bigint NOT NULL,
    PRIMARY KEY (sink, layout, grp, batch_no)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0);

-- The last number of a group, 0 where none was drawn. VOLATILE: it sees what was committed while its statement waited.
CREATE FUNCTION hookwire.last_batch_no(sink text, layout smallint, grp smallint) RETURNS bigint
LANGUAGE sql VOLATILE
RETURN coalesce((SELECT n.batch_no FROM hookwire.relay_batch_numbers n
                 WHERE n.sink = last_batch_no.sink AND n.layout = last_batch_no.layout AND n.grp = last_batch_no.grp
                 ORDER BY n.batch_no DESC LIMIT 1), 0);

-- A term begins with the last number on its row: there releases before this one look for it, whose processes take over from
-- ours while an installation is upgraded. The number of a new layout begins anew.
CREATE FUNCTION hookwire.note_batch_no() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.batch_no := greatest(NEW.batch_no, hookwire.last_batch_no(NEW.sink, NEW.layout, NEW.grp));
    RETURN NEW;
END $$;
CREATE TRIGGER note_batch_no BEFORE UPDATE OF term ON hookwire.relay_terms
    FOR EACH ROW EXECUTE FUNCTION hookwire.note_batch_no();
