-- The dead letters of an incident, and those that have none yet.
CREATE INDEX IF NOT EXISTS dead_letters_incident ON hookwire.dead_letters (incident_id, event_id, subscription_id)
    WHERE incident_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS dead_letters_ungrouped ON hookwire.dead_letters (event_id, subscription_id)
    WHERE incident_id IS NULL AND last_outcome IS NOT NULL AND kind NOT IN ('gone', 'erased');
