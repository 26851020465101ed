-- name: lock
-- Return whether no other transaction is about to keep an answer for this key.
SELECT pg_try_advisory_xact_lock(1215262576, hashtext(concat_ws(E'\x1f', $1::text, $2::text, $3::text, $4::text)));

-- name: find
SELECT k.fingerprint, k.status, k.headers, k.body FROM hookwire.kept_answers k
WHERE k.tenant = $1 AND k.caller = $2 AND k.path = $3 AND k.key = $4;

-- name: keep
INSERT INTO hookwire.kept_answers (tenant, caller, path, key, fingerprint, status, headers, body)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

-- name: purge
DELETE FROM hookwire.kept_answers
WHERE ctid = ANY (ARRAY(
    SELECT k.ctid FROM hookwire.kept_answers k
    WHERE k.answered_at < now() - make_interval(secs => $1::double precision)
    ORDER BY k.answered_at LIMIT 5000));
