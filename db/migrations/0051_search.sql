-- What people call a subscription, and the look-up of events by their key (FT-13).
ALTER TABLE hookwire.subscriptions
    ADD COLUMN name text,
    ADD COLUMN description text,
    ADD COLUMN metadata jsonb;

CREATE INDEX IF NOT EXISTS events_key ON hookwire.events (tenant, key, id) WHERE key IS NOT NULL;
