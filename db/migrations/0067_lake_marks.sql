-- What the database knows of a lake: the newest commit of each table's log, and what retention has deleted.
CREATE TABLE hookwire.lake_marks (
    lake text NOT NULL,
    table_name text NOT NULL,
    version bigint NOT NULL,
    number bigint NOT NULL,
    commit_id text NOT NULL,
    digest text NOT NULL,
    marked_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (lake, table_name)
);
COMMENT ON TABLE hookwire.lake_marks IS 'The newest commit that each table of a lake had after a job of hookwire.';
COMMENT ON COLUMN hookwire.lake_marks.lake IS 'The URI of the lake.';
COMMENT ON COLUMN hookwire.lake_marks.table_name IS 'The table of the lake, such as bronze.';
COMMENT ON COLUMN hookwire.lake_marks.version IS 'The number of the commit in the table''s log.';
COMMENT ON COLUMN hookwire.lake_marks.number IS 'The number of the newest commit of hookwire.';
COMMENT ON COLUMN hookwire.lake_marks.commit_id IS 'The id in the commit; empty if another tool made it.';
COMMENT ON COLUMN hookwire.lake_marks.digest IS 'SHA-256 over the bytes of the commit.';
COMMENT ON COLUMN hookwire.lake_marks.marked_at IS 'When the mark was stored.';

CREATE TABLE hookwire.lake_bounds (
    lake text NOT NULL,
    topic text NOT NULL,
    first_day date NOT NULL,
    noted_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (lake, topic)
);
COMMENT ON TABLE hookwire.lake_bounds IS 'The first day that `hookwire pipeline retain` kept of the archived events of a lake.';
COMMENT ON COLUMN hookwire.lake_bounds.lake IS 'The URI of the lake.';
COMMENT ON COLUMN hookwire.lake_bounds.topic IS 'The topic in Kafka; empty: all topics.';
COMMENT ON COLUMN hookwire.lake_bounds.first_day IS 'Earlier days were deleted.';
COMMENT ON COLUMN hookwire.lake_bounds.noted_at IS 'When the bound was noted.';
