-- The open deliveries of an incident. Only those that have failed are in the index.
CREATE INDEX IF NOT EXISTS deliveries_incident ON hookwire.deliveries (incident_id) WHERE incident_id IS NOT NULL;
