-- What a disabled subscription missed: no event is sent twice, and none of an open transaction is lost.

ALTER TABLE hookwire.replays ADD COLUMN missed boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN hookwire.replays.missed IS
'Only events that the subscription never got. It waits for the fan-out of events that were accepted before.';

-- An event whose transaction was open at the change has an id up to until_id, and no outbox row yet.
ALTER TABLE hookwire.former_audiences ADD COLUMN changed_xid xid8;
COMMENT ON COLUMN hookwire.former_audiences.changed_xid IS
'A transaction that began after the change. The row is kept while an older one may commit an event. NULL: not noted yet.';
