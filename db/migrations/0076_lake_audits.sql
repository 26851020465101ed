-- How the last audit of each lake ended, so that the hub's verdict and `hookwire doctor` tell it. A judgement and a failure
-- have columns of their own: an audit that fails does not take back what an earlier one has found.
CREATE TABLE hookwire.lake_audits (
    lake text PRIMARY KEY,
    noted_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    ended_at timestamptz,
    until_at timestamptz,
    exit_code smallint,
    findings bigint,
    not_compared bigint,
    has_contents boolean NOT NULL DEFAULT false,
    failed_at timestamptz,
    failure_code smallint,
    failure text
);
COMMENT ON TABLE hookwire.lake_audits IS 'How the last audit of all hours of a lake ended.';
COMMENT ON COLUMN hookwire.lake_audits.lake IS 'The URI of the lake.';
COMMENT ON COLUMN hookwire.lake_audits.noted_at IS 'When the first audit of the lake began.';
COMMENT ON COLUMN hookwire.lake_audits.started_at IS 'When the first of the audits began that have not ended; NULL: the last one has ended.';
COMMENT ON COLUMN hookwire.lake_audits.ended_at IS 'When the last audit that judged the lake ended; NULL: none has.';
COMMENT ON COLUMN hookwire.lake_audits.until_at IS 'The end of the hours that it judged.';
COMMENT ON COLUMN hookwire.lake_audits.exit_code IS 'Its exit code: 0 all compared, 1 findings, 2 not all compared.';
COMMENT ON COLUMN hookwire.lake_audits.findings IS 'The number of its findings.';
COMMENT ON COLUMN hookwire.lake_audits.not_compared IS 'How many things it could not compare or confirm.';
COMMENT ON COLUMN hookwire.lake_audits.has_contents IS 'Whether it compared all contents.';
COMMENT ON COLUMN hookwire.lake_audits.failed_at IS 'When an audit failed; NULL: none has failed since the lake was judged.';
COMMENT ON COLUMN hookwire.lake_audits.failure_code IS 'The exit code of that audit.';
COMMENT ON COLUMN hookwire.lake_audits.failure IS 'Why it failed.';
