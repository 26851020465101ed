-- Audit: the person, the action and the reason. The entry is written by the statement that acts, or by its route.

-- name: page
SELECT id, at, actor, role, action, subject, reason, records FROM hookwire.audit
WHERE tenant = $1 AND id < $2 ORDER BY id DESC LIMIT $3;

-- name: add
INSERT INTO hookwire.audit (tenant, actor, action, subject) VALUES ($1, $2, $3, $4);
