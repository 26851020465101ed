-- The dead letters of before get their new kinds. Only these rows are locked. One that another session has locked is
-- being sent again or deleted, so nobody waits for it.

UPDATE hookwire.dead_letters SET kind = CASE WHEN on_purpose THEN 'given_up' ELSE 'too_late' END
WHERE ctid = ANY (ARRAY(
    SELECT l.ctid FROM hookwire.dead_letters l
    WHERE l.kind = 'exhausted' AND (l.on_purpose OR l.last_outcome = 'expired' OR l.detail LIKE '% the age limit of % s')
    FOR UPDATE SKIP LOCKED));
