-- Days of the lake that an audit has proved. It reads a day again only when the day's files or its ledger have changed.
CREATE TABLE hookwire.lake_proofs (
    lake text NOT NULL,
    day date NOT NULL,
    topic text NOT NULL,
    digest text NOT NULL,
    records bigint NOT NULL,
    unproved integer NOT NULL,
    proved_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (lake, day, topic)
);
COMMENT ON TABLE hookwire.lake_proofs IS 'Days of the lake that an audit has compared without a finding.';
COMMENT ON COLUMN hookwire.lake_proofs.lake IS 'The URI of the lake.';
COMMENT ON COLUMN hookwire.lake_proofs.topic IS 'The topic in Kafka.';
COMMENT ON COLUMN hookwire.lake_proofs.digest IS 'SHA-256 over the bytes of the day''s files, its cells of the ledger and the audit''s options.';
COMMENT ON COLUMN hookwire.lake_proofs.day IS 'The day in UTC in which the events were accepted.';
COMMENT ON COLUMN hookwire.lake_proofs.records IS 'Records of the day in the lake.';
COMMENT ON COLUMN hookwire.lake_proofs.unproved IS 'Cells whose contents could not be compared.';
COMMENT ON COLUMN hookwire.lake_proofs.proved_at IS 'When the digest was stored.';
