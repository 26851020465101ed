-- Lake marks: what the database knows of a lake, so that whoever writes the lake cannot forge it.

-- name: marks
-- Return the newest known commit of each table of the lake $1.
SELECT m.table_name, m.version, m.number, m.commit_id, m.digest FROM hookwire.lake_marks m WHERE m.lake = $1;

-- name: mark
-- Store the newest commit of the table $2 of the lake $1: its version $3, hookwire's number $4, id $5 and hash $6. A mark
-- never goes back.
INSERT INTO hookwire.lake_marks AS m (lake, table_name, version, number, commit_id, digest) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (lake, table_name) DO UPDATE
SET version = excluded.version, number = excluded.number, commit_id = excluded.commit_id, digest = excluded.digest, marked_at = now()
WHERE m.version < excluded.version;

-- name: forget_mark
-- Forget the mark of the table $2 of the lake $1, so that its present log counts.
DELETE FROM hookwire.lake_marks WHERE lake = $1 AND table_name = $2;

-- name: bounds
-- Return the first day that retention kept in the lake $1, by Kafka topic.
SELECT b.topic, b.first_day FROM hookwire.lake_bounds b WHERE b.lake = $1;

-- name: bound
-- Note that retention deletes the days before $3 of the topic $2 of the lake $1; "" stands for all topics. A bound never
-- goes back.
INSERT INTO hookwire.lake_bounds AS b (lake, topic, first_day) VALUES ($1, $2, $3)
ON CONFLICT (lake, topic) DO UPDATE SET first_day = excluded.first_day, noted_at = now() WHERE b.first_day < excluded.first_day;

-- name: seals
-- Return what is known of the seals of the lake $1: the time from which events have them, and the name of the newest key.
-- The number is that of the records that no seal proves.
SELECT s.sealed_from, s.unproved, s.seal_key FROM hookwire.lake_seals s WHERE s.lake = $1;

-- name: seal
-- Note that the events of the lake $1 have seals from $2 on, unless a time is known. No seal proves $3 records. The key
-- $4 makes the seals.
INSERT INTO hookwire.lake_seals (lake, sealed_from, unproved, seal_key) VALUES ($1, $2, $3, $4) ON CONFLICT (lake) DO NOTHING;

-- name: seal_with
-- Note that the key $2 makes the seals of the lake $1 now.
UPDATE hookwire.lake_seals SET seal_key = $2 WHERE lake = $1 AND seal_key IS DISTINCT FROM $2;

-- name: count_unproved
-- Note that the lake $1, whose events have seals from $2 on, has only $3 records that no seal proves. The number never
-- rises.
UPDATE hookwire.lake_seals SET unproved = $3 WHERE lake = $1 AND sealed_from = $2 AND (unproved IS NULL OR unproved > $3);

-- name: accept_seals
-- Let the present records of the lake $1 count without a seal: only events that are accepted from now on need one. Of the
-- present ones $2 have no seal that proves them; $3 is the name of the present key. What audits proved is read again as far
-- as the ledger covers it, because the time of the seals is part of each digest.
INSERT INTO hookwire.lake_seals AS s (lake, sealed_from, unproved, seal_key) VALUES ($1, now(), $2, $3)
ON CONFLICT (lake) DO UPDATE
SET sealed_from = excluded.sealed_from, unproved = excluded.unproved, seal_key = excluded.seal_key, noted_at = now()
RETURNING s.sealed_from;

-- name: before_ledger
-- Return the cells with events that the ledger has counted before the time at which it says that it began. There are none,
-- unless somebody moved that time. An event of the first hour, which is not whole, tells whether the time is later than it.
SELECT c.since_at, count(*) AS cells, coalesce(sum(l.owed_count), 0)::bigint AS events, min(l.hour) AS first_hour
FROM hookwire.ledger_cursor c
JOIN hookwire.ledger l ON l.sink = '' AND l.owed_count > 0 AND l.hour > 'epoch' AND l.hour <= date_trunc('hour', c.since_at, 'UTC')
WHERE l.hour < date_trunc('hour', c.since_at, 'UTC')
   OR EXISTS (SELECT FROM hookwire.events e WHERE e.id BETWEEN l.owed_min AND l.owed_min AND e.accepted_at < c.since_at)
GROUP BY c.since_at;

-- name: begin_audit
-- Note that an audit of all hours of the lake $1 begins. The database has to know the lake, unless $2: the settings name it.
-- The begin of an audit that has not ended stays.
INSERT INTO hookwire.lake_audits AS a (lake, started_at)
SELECT $1, now()
WHERE $2 OR EXISTS (SELECT FROM hookwire.lake_marks m WHERE m.lake = $1) OR EXISTS (SELECT FROM hookwire.lake_audits x WHERE x.lake = $1)
ON CONFLICT (lake) DO UPDATE SET started_at = coalesce(a.started_at, now());

-- name: end_audit
-- Note what an audit of all hours of the lake $1 judged. $2: the end of its hours. $3: exit code. $4: findings. $5: the number
-- of things that it could not compare. $6: it compared all contents. Hours that were judged later stay judged. Findings of
-- an audit of all contents stay until another one of all contents.
UPDATE hookwire.lake_audits a
SET ended_at = now(), until_at = $2, exit_code = $3, findings = $4, not_compared = $5, has_contents = $6, started_at = NULL,
    failed_at = NULL, failure_code = NULL, failure = NULL
WHERE a.lake = $1 AND (a.until_at IS NULL OR a.until_at <= $2) AND ($6 OR NOT (a.has_contents AND a.exit_code = 1));

-- name: fail_audit
-- Note that an audit of all hours of the lake $1 failed with the exit code $2 for the reason $3. What was judged stays.
UPDATE hookwire.lake_audits SET failed_at = now(), failure_code = $2, failure = $3, started_at = NULL WHERE lake = $1;

-- name: audit
-- Return how the last audit of all hours of the lake $1 ended.
SELECT a.ended_at, a.exit_code::bigint AS exit_code, a.findings, a.not_compared, a.failed_at, a.failure
FROM hookwire.lake_audits a WHERE a.lake = $1;

-- name: audits
-- Return up to $1 lakes, each with its last audit of all hours, the worst first. `unaudited_at`: the first hour with events
-- for Kafka that no audit has judged, if it began three days ago. A lake without findings and without such an hour is
-- returned for a week after the last job has changed or audited it.
SELECT coalesce(m.lake, a.lake) AS lake, a.started_at, a.ended_at, a.until_at, a.exit_code::bigint AS exit_code, a.findings,
       a.not_compared, a.has_contents, a.failed_at, a.failure_code::bigint AS failure_code, a.failure, u.hour AS unaudited_at
FROM (SELECT x.lake, x.marked_at FROM hookwire.lake_marks x WHERE x.table_name = 'bronze') AS m
FULL JOIN hookwire.lake_audits a ON a.lake = m.lake
LEFT JOIN LATERAL (
    SELECT l.hour FROM hookwire.ledger l
    WHERE l.hour >= coalesce(a.until_at, a.noted_at) AND l.hour < now() - interval '3 days' AND l.sink = 'kafka' AND l.owed_count > 0
    ORDER BY l.hour LIMIT 1) AS u ON true
WHERE 1 IN (a.exit_code, a.failure_code) OR u.hour IS NOT NULL
   OR greatest(m.marked_at, a.started_at, a.ended_at, a.failed_at) > now() - interval '7 days'
ORDER BY (1 IN (a.exit_code, a.failure_code)) IS TRUE DESC, u.hour IS NULL, a.ended_at NULLS FIRST, 1 LIMIT $1;

-- name: forget
-- Forget the lake $1: its marks, bounds, the time of its seals, its proofs and how its audits ended. Return the number of rows.
WITH marks AS (DELETE FROM hookwire.lake_marks WHERE lake = $1 RETURNING 1),
     bounds AS (DELETE FROM hookwire.lake_bounds WHERE lake = $1 RETURNING 1),
     seals AS (DELETE FROM hookwire.lake_seals WHERE lake = $1 RETURNING 1),
     proofs AS (DELETE FROM hookwire.lake_proofs WHERE lake = $1 RETURNING 1),
     audits AS (DELETE FROM hookwire.lake_audits WHERE lake = $1 RETURNING 1)
SELECT (SELECT count(*) FROM marks) + (SELECT count(*) FROM bounds) + (SELECT count(*) FROM seals)
     + (SELECT count(*) FROM proofs) + (SELECT count(*) FROM audits);
