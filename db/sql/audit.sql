-- Audit: the person, the action and the reason. The entry is written by the statement that acts, or by its route.

-- name: page
-- $4 is an actor, $5 an action or the first word of several, $6 a subject, $7 and $8 the time.
SELECT id, at, actor, role, action, subject, reason, records FROM hookwire.audit
WHERE tenant = $1 AND id < $2 AND ($4::text IS NULL OR actor = $4)
  AND ($5::text IS NULL OR action = $5 OR starts_with(action, $5 || '.')) AND ($6::text IS NULL OR subject = $6)
  AND ($7::timestamptz IS NULL OR at >= $7) AND ($8::timestamptz IS NULL OR at < $8)
ORDER BY id DESC LIMIT $3;

-- name: add
INSERT INTO hookwire.audit (tenant, actor, action, subject) VALUES ($1, $2, $3, $4);
