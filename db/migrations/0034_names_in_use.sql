-- Names that their first use made: who made them, and when they were last in use. Their number has limits, and unused ones
-- are removed. Names of today count as made by hand: nobody knows who made them.

ALTER TABLE hookwire.installation
    ADD COLUMN names_per_key_max integer NOT NULL DEFAULT 10000,
    ADD COLUMN names_max integer NOT NULL DEFAULT 100000;
COMMENT ON COLUMN hookwire.installation.names_per_key_max IS 'How many topics an API key may make by using them; the same for queues and for services.';
COMMENT ON COLUMN hookwire.installation.names_max IS 'How many topics all callers together may make by using them; the same for queues and for services.';

ALTER TABLE hookwire.topics
    ADD COLUMN made_by text,
    ADD COLUMN used_on date,
    ADD CONSTRAINT topics_made_by_check CHECK ((made_by IS NULL) = (used_on IS NULL));
COMMENT ON COLUMN hookwire.topics.made_by IS 'The API key whose use made the topic, empty without a key; NULL: made by hand.';
COMMENT ON COLUMN hookwire.topics.used_on IS 'The last day on which a process saw the topic in use; NULL: made by hand.';
CREATE INDEX IF NOT EXISTS topics_made_by ON hookwire.topics (made_by, used_on) WHERE made_by IS NOT NULL;

ALTER TABLE hookwire.queues
    ADD COLUMN made_by text,
    ADD COLUMN used_on date,
    ADD CONSTRAINT queues_made_by_check CHECK ((made_by IS NULL) = (used_on IS NULL));
COMMENT ON COLUMN hookwire.queues.made_by IS 'The API key whose use made the queue, empty without a key; NULL: made by hand.';
COMMENT ON COLUMN hookwire.queues.used_on IS 'The last day on which a process saw a submission; NULL: made by hand.';
CREATE INDEX IF NOT EXISTS queues_made_by ON hookwire.queues (made_by, used_on) WHERE made_by IS NOT NULL;

ALTER TABLE hookwire.services
    ADD COLUMN made_by text,
    ADD COLUMN used_on date,
    ADD CONSTRAINT services_made_by_check CHECK ((made_by IS NULL) = (used_on IS NULL));
COMMENT ON COLUMN hookwire.services.made_by IS 'The API key whose use made the service, empty without a key; NULL: made by hand.';
COMMENT ON COLUMN hookwire.services.used_on IS 'The last day on which a process saw a call or a worker; NULL: made by hand.';
CREATE INDEX IF NOT EXISTS services_made_by ON hookwire.services (made_by, used_on) WHERE made_by IS NOT NULL;
