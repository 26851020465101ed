-- Patterns of Kafka topics: what was there at the first look, which all processes share, and what is passed over.

CREATE TABLE hookwire.source_patterns (
    pattern text PRIMARY KEY,
    first_topics text[] NOT NULL,
    passed_over jsonb NOT NULL DEFAULT '[]',
    passed_over_count integer NOT NULL DEFAULT 0,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE hookwire.source_patterns IS 'Patterns of Kafka topics that are read, from the first look on.';
COMMENT ON COLUMN hookwire.source_patterns.pattern IS 'The pattern, as the settings have it.';
COMMENT ON COLUMN hookwire.source_patterns.first_topics IS 'The Kafka topics that its first look has found, up to 10,000. The start counts for these; later ones are read from their first record.';
COMMENT ON COLUMN hookwire.source_patterns.passed_over IS 'Topics that fit and that it does not read, up to 20: an array of objects with topic, kind and reason.';
COMMENT ON COLUMN hookwire.source_patterns.passed_over_count IS 'How many topics it passes over.';
COMMENT ON COLUMN hookwire.source_patterns.changed_at IS 'When the topics that it passes over have changed last.';
