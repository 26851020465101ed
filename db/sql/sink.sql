-- Sinks: a person pauses one, and resumes it. outbox.oldest counts what waits for them.

-- name: list
SELECT s.name AS sink, s.configured, s.paused_at, s.paused_by, s.pause_reason, r.term, r.owner
FROM hookwire.sinks s
CROSS JOIN LATERAL ( -- as in outbox.oldest
    SELECT max(t.term) AS term, string_agg(DISTINCT t.owner, ', ' ORDER BY t.owner) AS owner
    FROM hookwire.relay_terms t WHERE t.sink = s.name
) AS r
ORDER BY s.name;

-- name: pause
-- Pause the sink $1 for the actor $2, with the reason $3, and return it; no row: there is none of this name. One that is
-- paused already stays as it is. Nothing is counted, so that no number of records delays a pause.
WITH before AS MATERIALIZED (
    SELECT s.name, s.configured, s.paused_at, s.paused_by, s.pause_reason FROM hookwire.sinks s WHERE s.name = $1 FOR NO KEY UPDATE
), turned AS (
    UPDATE hookwire.sinks s SET paused_at = now(), paused_by = $2, pause_reason = $3
    FROM before b WHERE s.name = b.name AND b.paused_at IS NULL RETURNING s.name, s.paused_at, s.paused_by, s.pause_reason
), audited AS (
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason) SELECT 'default', $2, 'sink.pause', t.name, $3 FROM turned t
)
SELECT b.name AS sink, b.configured, coalesce(t.paused_at, b.paused_at) AS paused_at,
       CASE WHEN t.name IS NULL THEN b.paused_by ELSE t.paused_by END AS paused_by,
       CASE WHEN t.name IS NULL THEN b.pause_reason ELSE t.pause_reason END AS pause_reason, r.term, r.owner
FROM before b LEFT JOIN turned t ON t.name = b.name
CROSS JOIN LATERAL (
    SELECT max(x.term) AS term, string_agg(DISTINCT x.owner, ', ' ORDER BY x.owner) AS owner
    FROM hookwire.relay_terms x WHERE x.sink = b.name
) AS r;

-- name: resume
-- Resume the sink $1, and return it, as in pause.
WITH before AS MATERIALIZED (
    SELECT s.name, s.configured, s.paused_at FROM hookwire.sinks s WHERE s.name = $1 FOR NO KEY UPDATE
), turned AS (
    UPDATE hookwire.sinks s SET paused_at = NULL, paused_by = NULL, pause_reason = NULL
    FROM before b WHERE s.name = b.name AND b.paused_at IS NOT NULL RETURNING s.name
), audited AS (
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason) SELECT 'default', $2, 'sink.resume', t.name, $3 FROM turned t
)
SELECT b.name AS sink, b.configured, NULL::timestamptz AS paused_at, NULL::text AS paused_by, NULL::text AS pause_reason, r.term, r.owner
FROM before b
CROSS JOIN LATERAL (
    SELECT max(x.term) AS term, string_agg(DISTINCT x.owner, ', ' ORDER BY x.owner) AS owner
    FROM hookwire.relay_terms x WHERE x.sink = b.name
) AS r;

-- name: inflow
-- Return how many of the latest $2 events of the last hour are for the sink $1, their bytes, and the seconds in which they
-- came: an hour, or less where the latest $2 came in less.
SELECT count(*) FILTER (WHERE e.is_owed) AS events, coalesce(sum(e.bytes) FILTER (WHERE e.is_owed), 0)::bigint AS bytes,
       CASE WHEN count(*) < $2 THEN 3600.0 ELSE greatest(extract(epoch FROM now() - min(e.accepted_at)), 0.001) END::double precision AS seconds
FROM (SELECT x.accepted_at, $1::text = ANY (x.sinks) AS is_owed, octet_length(x.payload) AS bytes
      FROM hookwire.events x WHERE x.id > 0 ORDER BY x.id DESC LIMIT $2) AS e
WHERE e.accepted_at > now() - interval '1 hour';
