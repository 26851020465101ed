-- An outbox in MariaDB or MySQL: mark, purge and reset in batches. db.mariadb.database.for_outbox replaces
-- `compat_outbox` by the quoted name of the table.
--
-- Every deciding statement is a transaction of its own that reads the term's row. Under REPEATABLE READ, InnoDB takes a
-- shared lock on rows that an UPDATE, DELETE or INSERT SELECT reads. So the statement is refused when the term is over,
-- and the term cannot rise during it (RR-08). No lock outlives a statement, so a leader that is stopped holds none.
--
-- Ids come as a JSON array. STRAIGHT_JOIN looks each up by the primary key: a scan would wait for the locks of rows
-- that their writers have not committed yet.

-- name: waiting
-- Return the lowest rows of keys that are not parked, without those that `mark` has marked; each time from the lowest
-- id (RG-05). A snapshot read waits for no lock and skips no committed row. Keys are compared as bytes.
SELECT o.id, o.kafka_topic, o.kafka_key, o.kafka_value, o.kafka_header_keys, o.kafka_header_values
FROM compat_outbox o FORCE INDEX (PRIMARY)
WHERE (o.leader_id IS NULL OR o.leader_id <> %(mark)s)
  AND EXISTS (SELECT 1 FROM hookwire_terms t WHERE t.sink = %(outbox)s AND t.term = %(term)s)
  AND NOT EXISTS (SELECT 1 FROM hookwire_parked p
                  WHERE p.outbox = %(outbox)s
                    AND p.kafka_key = CAST(CONVERT(o.kafka_key USING utf8mb4) AS BINARY))
ORDER BY o.id LIMIT %(limit)s;

-- name: due
-- Return the first row of each parked key whose probe is due. For a row that is gone, return only the key.
SELECT p.kafka_key AS parked_key, o.id, o.kafka_topic, o.kafka_key, o.kafka_value, o.kafka_header_keys,
       o.kafka_header_values
FROM hookwire_parked p
JOIN hookwire_terms t ON t.sink = %(outbox)s AND t.term = %(term)s
LEFT JOIN compat_outbox o ON o.id = p.record_id
WHERE p.outbox = %(outbox)s AND p.probe_at <= UTC_TIMESTAMP(6)
ORDER BY p.probe_at LIMIT %(limit)s;

-- name: mark
UPDATE JSON_TABLE(%(ids)s, '$[*]' COLUMNS (id bigint PATH '$')) AS j
STRAIGHT_JOIN hookwire_terms t ON t.sink = %(outbox)s AND t.term = %(term)s
STRAIGHT_JOIN compat_outbox o FORCE INDEX (PRIMARY) ON o.id = j.id
SET o.leader_id = %(mark)s;

-- name: marked
SELECT o.id FROM JSON_TABLE(%(ids)s, '$[*]' COLUMNS (id bigint PATH '$')) AS j
STRAIGHT_JOIN compat_outbox o FORCE INDEX (PRIMARY) ON o.id = j.id AND o.leader_id = %(mark)s;

-- name: purge
-- Delete the rows that Kafka has confirmed, if they still carry one of our marks (RL-05).
DELETE o FROM JSON_TABLE(%(ids)s, '$[*]' COLUMNS (id bigint PATH '$')) AS j
STRAIGHT_JOIN hookwire_terms t ON t.sink = %(outbox)s AND t.term = %(term)s
STRAIGHT_JOIN compat_outbox o FORCE INDEX (PRIMARY) ON o.id = j.id
WHERE o.leader_id IN (%(mark)s, %(mark_before)s);

-- name: purge_unmarked
-- As purge, without marks: the term alone decides.
DELETE o FROM JSON_TABLE(%(ids)s, '$[*]' COLUMNS (id bigint PATH '$')) AS j
STRAIGHT_JOIN hookwire_terms t ON t.sink = %(outbox)s AND t.term = %(term)s
STRAIGHT_JOIN compat_outbox o FORCE INDEX (PRIMARY) ON o.id = j.id;

-- name: left
-- Return how many rows a purge has left, and whether the term still holds.
SELECT (SELECT COUNT(*) FROM JSON_TABLE(%(ids)s, '$[*]' COLUMNS (id bigint PATH '$')) AS j
        STRAIGHT_JOIN compat_outbox o FORCE INDEX (PRIMARY) ON o.id = j.id) AS rows_left,
       (SELECT COUNT(*) FROM hookwire_terms t WHERE t.sink = %(outbox)s AND t.term = %(term)s) AS rules;

-- name: reset
-- Free the rows that were marked and not sent, so that any relay may take them.
UPDATE JSON_TABLE(%(ids)s, '$[*]' COLUMNS (id bigint PATH '$')) AS j
STRAIGHT_JOIN compat_outbox o FORCE INDEX (PRIMARY) ON o.id = j.id
SET o.leader_id = NULL WHERE o.leader_id IN (%(mark)s, %(mark_before)s);

-- name: park
-- Park the keys whose record was refused. For a key that is parked already, double the wait, up to a limit.
INSERT INTO hookwire_parked (outbox, kafka_key, record_id, topic, reason, detail, probe_at)
SELECT t.sink, CAST(r.kafka_key AS BINARY), r.record_id, LEFT(r.topic, 249), r.reason, r.detail,
       UTC_TIMESTAMP(6) + INTERVAL %(seconds_first)s SECOND
FROM JSON_TABLE(%(refusals)s, '$[*]' COLUMNS (
         kafka_key text CHARACTER SET utf8mb4 PATH '$.key', record_id bigint PATH '$.id',
         topic text CHARACTER SET utf8mb4 PATH '$.topic', reason text CHARACTER SET utf8mb4 PATH '$.reason',
         detail text CHARACTER SET utf8mb4 PATH '$.detail')) AS r
STRAIGHT_JOIN hookwire_terms t ON t.sink = %(outbox)s AND t.term = %(term)s
ON DUPLICATE KEY UPDATE
    record_id = VALUES(record_id), topic = VALUES(topic), reason = VALUES(reason), detail = VALUES(detail),
    probe_at = UTC_TIMESTAMP(6)
             + INTERVAL LEAST(%(seconds_first)s * POW(2, LEAST(attempts, 10)), %(seconds_max)s) SECOND,
    attempts = attempts + 1;

-- name: probe_topic_now
-- Probe keys that wait for the same topics as these keys now: the topic takes records again.
UPDATE JSON_TABLE(%(keys)s, '$[*]' COLUMNS (kafka_key text CHARACTER SET utf8mb4 PATH '$')) AS j
STRAIGHT_JOIN hookwire_parked freed FORCE INDEX (PRIMARY) ON freed.outbox = %(outbox)s AND freed.kafka_key = CAST(j.kafka_key AS BINARY)
STRAIGHT_JOIN hookwire_parked p ON p.outbox = freed.outbox AND p.topic = freed.topic
SET p.probe_at = UTC_TIMESTAMP(6);

-- name: unpark
DELETE p FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (kafka_key text CHARACTER SET utf8mb4 PATH '$')) AS j
STRAIGHT_JOIN hookwire_parked p FORCE INDEX (PRIMARY) ON p.outbox = %(outbox)s AND p.kafka_key = CAST(j.kafka_key AS BINARY);

-- name: create_table
-- Create goharvest's table as docs/how-to/mariadb.md has it, for trials.
CREATE TABLE IF NOT EXISTS compat_outbox (
    id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    create_time timestamp(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    kafka_topic varchar(249) NOT NULL,
    kafka_key varchar(100) NOT NULL,
    kafka_value mediumtext,
    kafka_header_keys json NOT NULL,
    kafka_header_values json NOT NULL,
    leader_id char(36) CHARACTER SET ascii COLLATE ascii_bin
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- name: stash
-- Insert one row for each element, in their order, like goharvest's stasher. The headers are Seq and Run.
INSERT INTO compat_outbox (create_time, kafka_topic, kafka_key, kafka_value, kafka_header_keys, kafka_header_values)
SELECT CURRENT_TIMESTAMP(6), %(topic)s, r.kafka_key, r.kafka_value, JSON_ARRAY('Seq', 'Run'),
       JSON_ARRAY(CAST(r.seq AS CHAR), %(run)s)
FROM JSON_TABLE(%(rows)s, '$[*]' COLUMNS (
         n FOR ORDINALITY, seq bigint PATH '$.seq', kafka_key text CHARACTER SET utf8mb4 PATH '$.key',
         kafka_value mediumtext CHARACTER SET utf8mb4 PATH '$.value')) AS r
ORDER BY r.n;

-- name: pump_owed
-- Return the numbers of a run of `hookwire pump` that still wait in the table; it knows no record that was given up.
SELECT CAST(JSON_UNQUOTE(JSON_EXTRACT(o.kafka_header_values, '$[0]')) AS SIGNED) AS number, 0 AS is_given_up
FROM compat_outbox o
WHERE o.kafka_topic = %(topic)s AND JSON_UNQUOTE(JSON_EXTRACT(o.kafka_header_values, '$[1]')) = %(run)s;
