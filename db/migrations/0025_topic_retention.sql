-- How long a topic's events are kept, where that is not as long as the hub's setting says (0: for ever); and the version
-- of its settings, for If-Match.
ALTER TABLE hookwire.topics
    ADD COLUMN retention_days integer CHECK (retention_days BETWEEN 0 AND 36500),
    ADD COLUMN version integer NOT NULL DEFAULT 1;
