-- What the database knows of the seals of a lake's rows, so that whoever writes the lake cannot take them off unseen.
CREATE TABLE hookwire.lake_seals (
    lake text PRIMARY KEY,
    sealed_from timestamptz NOT NULL,
    noted_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE hookwire.lake_seals IS 'The time from which the archived events of a lake have seals.';
COMMENT ON COLUMN hookwire.lake_seals.lake IS 'The URI of the lake.';
COMMENT ON COLUMN hookwire.lake_seals.sealed_from IS 'A record of an event that was accepted later has a seal.';
COMMENT ON COLUMN hookwire.lake_seals.noted_at IS 'When an audit or a person noted it.';

ALTER TABLE hookwire.lake_proofs ADD COLUMN unsealed bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN hookwire.lake_proofs.unsealed IS 'Records of the day whose columns no seal proves.';
