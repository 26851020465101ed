-- Probes: attempts that decide nothing. The rows of before need no check, so that the migration does not read them.

ALTER TABLE hookwire.attempts DROP CONSTRAINT attempts_decision_check;
ALTER TABLE hookwire.attempts ADD CONSTRAINT attempts_decision_check
    CHECK (decision IN ('delivered', 'retry', 'park', 'dead', 'dropped', 'probe')) NOT VALID;
COMMENT ON COLUMN hookwire.attempts.decision IS 'What followed: delivered, retry, park, dead, dropped; probe: nothing, the dead letter stays.';
