-- A replay of what a disabled subscription missed sends nothing that the fan-out sends.

ALTER TABLE hookwire.replays ADD COLUMN missed boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN hookwire.replays.missed IS
'Only events that the subscription never got. It waits for the fan-out of events that were accepted before.';
