-- A delivery that a person gave up, and one whose time had ended, were stored as `exhausted`, which says that all attempts
-- were made. Both have a kind of their own now.

ALTER TABLE hookwire.dead_letters DROP CONSTRAINT dead_letters_kind_check;
UPDATE hookwire.dead_letters
SET kind = CASE WHEN on_purpose THEN 'given_up' ELSE 'too_late' END
WHERE kind = 'exhausted' AND (on_purpose OR last_outcome = 'expired' OR detail LIKE '% the age limit of % s');
ALTER TABLE hookwire.dead_letters ADD CONSTRAINT dead_letters_kind_check
    CHECK (kind IN ('exhausted', 'too_late', 'declined', 'aborted', 'given_up', 'internal', 'gone', 'erased'));
COMMENT ON COLUMN hookwire.dead_letters.kind IS
'Why: exhausted, too_late, declined, aborted, given_up or internal. What ended by itself: gone or erased.';
