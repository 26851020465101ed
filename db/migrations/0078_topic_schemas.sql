-- Schemas of topics: the lake makes columns of a topic's JSON by the newest version. A version is never changed.
CREATE TABLE hookwire.topic_schemas (
    tenant text NOT NULL,
    topic text NOT NULL,
    version integer NOT NULL CHECK (version > 0),
    schema text NOT NULL CHECK (octet_length(schema) <= 65536),
    made_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, topic, version)
);
COMMENT ON TABLE hookwire.topic_schemas IS 'JSON Schemas of topics, of which the lake makes columns.';
COMMENT ON COLUMN hookwire.topic_schemas.tenant IS 'The tenant of the topic.';
COMMENT ON COLUMN hookwire.topic_schemas.topic IS 'The topic.';
COMMENT ON COLUMN hookwire.topic_schemas.version IS 'From 1. The newest one counts.';
COMMENT ON COLUMN hookwire.topic_schemas.schema IS 'The JSON Schema as text, which keeps the order of its properties.';
COMMENT ON COLUMN hookwire.topic_schemas.made_at IS 'When it was stored.';
