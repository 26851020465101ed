-- Sinks: a person pauses one, and resumes it. outbox.oldest lists them.

-- name: pause
-- Pause the sink $1 for the actor $2, with the reason $3. Return the number of sinks of this name; one that is paused
-- already stays as it is.
WITH turned AS (
    UPDATE hookwire.sinks s SET paused_at = now(), paused_by = $2, pause_reason = $3
    WHERE s.name = $1 AND s.paused_at IS NULL RETURNING s.name
), audited AS (
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason) SELECT 'default', $2, 'sink.pause', t.name, $3 FROM turned t
)
SELECT count(*) FROM hookwire.sinks s WHERE s.name = $1;

-- name: resume
WITH turned AS (
    UPDATE hookwire.sinks s SET paused_at = NULL, paused_by = NULL, pause_reason = NULL
    WHERE s.name = $1 AND s.paused_at IS NOT NULL RETURNING s.name
), audited AS (
    INSERT INTO hookwire.audit (tenant, actor, action, subject, reason) SELECT 'default', $2, 'sink.resume', t.name, $3 FROM turned t
)
SELECT count(*) FROM hookwire.sinks s WHERE s.name = $1;

-- name: inflow
-- Return how many of the latest $2 events of the last hour are for the sink $1, their bytes, and the seconds in which they
-- came: an hour, or less where the latest $2 came in less.
SELECT count(*) FILTER (WHERE e.is_owed) AS events, coalesce(sum(e.bytes) FILTER (WHERE e.is_owed), 0)::bigint AS bytes,
       CASE WHEN count(*) < $2 THEN 3600.0 ELSE greatest(extract(epoch FROM now() - min(e.accepted_at)), 0.001) END::double precision AS seconds
FROM (SELECT x.accepted_at, $1::text = ANY (x.sinks) AS is_owed, octet_length(x.payload) AS bytes
      FROM hookwire.events x WHERE x.id > 0 ORDER BY x.id DESC LIMIT $2) AS e
WHERE e.accepted_at > now() - interval '1 hour';
