-- A delivery that a person gave up, and one whose time had ended, were stored as `exhausted`, which says that all attempts
-- were made. Both have a kind of their own now. Every row of before has one of the old kinds, so the check need not read
-- them while the table is locked.

ALTER TABLE hookwire.dead_letters DROP CONSTRAINT dead_letters_kind_check;
ALTER TABLE hookwire.dead_letters ADD CONSTRAINT dead_letters_kind_check
    CHECK (kind IN ('exhausted', 'too_late', 'declined', 'aborted', 'given_up', 'internal', 'gone', 'erased')) NOT VALID;
COMMENT ON COLUMN hookwire.dead_letters.kind IS
'Why: exhausted, too_late, declined, aborted, given_up or internal. What ended by itself: gone or erased.';
