-- Audit: who did what, and why. Entries are written by the statements that do it.

-- name: page
SELECT id, at, actor, action, subject, reason, records FROM hookwire.audit
WHERE tenant = $1 AND id < $2 ORDER BY id DESC LIMIT $3;
