-- A delivery and a dead letter have the number of the incident of their last failure. A replay that has one takes the dead
-- letters of this incident alone. Releases without incidents would take all dead letters. So such a replay is never due
-- for them: its next step has a column of its own.

ALTER TABLE hookwire.deliveries ADD COLUMN IF NOT EXISTS incident_id bigint;
ALTER TABLE hookwire.dead_letters ADD COLUMN IF NOT EXISTS incident_id bigint;
ALTER TABLE hookwire.replays
    ADD COLUMN incident_id bigint,
    ADD COLUMN incident_due_at timestamptz,
    ADD CONSTRAINT replays_incident_check CHECK (
        (incident_id IS NULL AND incident_due_at IS NULL)
        OR (source = 'dead_letters' AND due_at = 'infinity' AND incident_id IS NOT NULL AND incident_due_at IS NOT NULL));
CREATE INDEX IF NOT EXISTS replays_due ON hookwire.replays (coalesce(incident_due_at, due_at)) WHERE state = 'running';
COMMENT ON COLUMN hookwire.deliveries.incident_id IS 'The incident of its last failure; NULL: it has not failed.';
COMMENT ON COLUMN hookwire.dead_letters.incident_id IS 'The incident of its last failure; NULL: none, or not grouped yet.';
COMMENT ON COLUMN hookwire.replays.incident_id IS 'Only dead letters of this incident; NULL: all.';
COMMENT ON COLUMN hookwire.replays.incident_due_at IS 'When the next step is made for an incident. Then due_at is infinity, because processes of 0.2.0 know no incidents.';
