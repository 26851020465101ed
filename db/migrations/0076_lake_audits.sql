-- How the last audit of each lake ended, so that the hub's verdict and `hookwire doctor` tell it.
CREATE TABLE hookwire.lake_audits (
    lake text PRIMARY KEY,
    ended_at timestamptz NOT NULL DEFAULT now(),
    until_at timestamptz,
    exit_code smallint NOT NULL,
    findings bigint NOT NULL,
    not_compared bigint NOT NULL,
    reason text
);
COMMENT ON TABLE hookwire.lake_audits IS 'How the last audit of all hours of a lake ended.';
COMMENT ON COLUMN hookwire.lake_audits.lake IS 'The URI of the lake.';
COMMENT ON COLUMN hookwire.lake_audits.ended_at IS 'When the audit ended.';
COMMENT ON COLUMN hookwire.lake_audits.until_at IS 'The end of the hours that it judged; NULL: it failed.';
COMMENT ON COLUMN hookwire.lake_audits.exit_code IS 'Its exit code: 0 all compared, 1 findings, 2 not all compared, 3 unreachable.';
COMMENT ON COLUMN hookwire.lake_audits.findings IS 'The number of its findings.';
COMMENT ON COLUMN hookwire.lake_audits.not_compared IS 'How many things it could not compare or confirm.';
COMMENT ON COLUMN hookwire.lake_audits.reason IS 'Why it failed; NULL: it judged.';
