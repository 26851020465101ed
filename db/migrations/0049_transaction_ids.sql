-- A dump that is restored elsewhere brings transaction ids of another server, which may be far ahead of those that are given
-- out here. Consumers of copies would read nothing until this server has counted up to there, and pass over what is submitted
-- meanwhile; the ledger would wait as long. So each position gets a low transaction id in the old order, and the messages
-- between two positions that of the later one. Does nothing where all ids are of the past. Returns whether it did something.
CREATE FUNCTION hookwire.adopt_transaction_ids() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    next_xid CONSTANT xid8 := pg_snapshot_xmax(pg_current_snapshot());
BEGIN
    IF NOT EXISTS (SELECT FROM hookwire.consumers c WHERE c.xid > next_xid)
       AND NOT EXISTS (SELECT FROM hookwire.queues q WHERE q.copies AND next_xid < (
                           SELECT l.xid FROM hookwire.message_log l WHERE l.queue = q.name ORDER BY l.xid DESC, l.id DESC LIMIT 1))
       AND NOT EXISTS (SELECT FROM hookwire.ledger_cursor c WHERE c.mark_xid > next_xid) THEN
        RETURN false;
    END IF;
    LOCK TABLE hookwire.consumers, hookwire.message_log IN SHARE ROW EXCLUSIVE MODE;
    UPDATE hookwire.ledger_cursor c SET mark_id = NULL, mark_at = NULL, mark_xid = NULL WHERE c.mark_xid > next_xid;
    CREATE TEMP TABLE adopted ON COMMIT DROP AS
    SELECT p.queue, p.xid, p.id, row_number() OVER (PARTITION BY p.queue ORDER BY p.xid, p.id) AS number
    FROM (SELECT DISTINCT c.queue, c.xid, c.id FROM hookwire.consumers c) AS p;
    UPDATE hookwire.message_log l SET xid = (
        SELECT count(*)::text::xid8 FROM adopted a WHERE a.queue = l.queue AND (a.xid, a.id) < (l.xid, l.id));
    UPDATE hookwire.consumers c SET xid = (a.number - 1)::text::xid8, id = 9223372036854775807, claim = NULL, lease_until = NULL
    FROM adopted a WHERE a.queue = c.queue AND a.xid = c.xid AND a.id = c.id;
    DROP TABLE adopted;
    RETURN true;
END
$$;
