-- Anybody's outbox table in MariaDB or MySQL: claim, purge and park in batches. db.mariadb.database.for_mapped_outbox
-- replaces the words that begin with "mapped" by the table and by the expressions of its mapping.
--
-- As in outbox.sql, each deciding statement reads the term's row under a lock, and looks rows up by their ids in the
-- index of ids. There is no mark of ours: reading is the claim. Each claim begins at the first row.

-- name: made
-- Return how many of the four tables that a mapped outbox needs exist.
SELECT COUNT(*) AS tables FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name IN (
    'hookwire_installation', 'hookwire_terms', 'hookwire_parked_rows', 'hookwire_offsets');

-- name: create_parked
-- Keys that wait because a row of theirs was refused. `lane` is the key, or the id of a row without a key
-- behind "#"; its hash if it is long.
CREATE TABLE IF NOT EXISTS hookwire_parked_rows (
    outbox varchar(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    lane varbinary(1100) NOT NULL,
    row_id varchar(800) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    topic text CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    reason varchar(100) CHARACTER SET utf8mb4 NOT NULL,
    detail text CHARACTER SET utf8mb4 NOT NULL,
    attempts int NOT NULL DEFAULT 1,
    probe_at datetime(6) NOT NULL,
    PRIMARY KEY (outbox, lane)
) ENGINE = InnoDB;

-- name: column_of_id
-- Return the type of the column of ids, and a unique index that has this column alone. A statement forces the index, and
-- an ignored (MariaDB) or invisible (MySQL) one is refused there. Each server lacks the other's column, whose name
-- then finds the value in `shown`.
SELECT c.data_type AS type, c.column_type AS full_type, c.character_set_name AS charset, c.collation_name AS collation,
       c.character_maximum_length AS length_max, c.is_nullable AS is_nullable, (
           SELECT MIN(s.index_name) FROM information_schema.statistics s
           WHERE s.table_schema = c.table_schema AND s.table_name = c.table_name AND s.column_name = c.column_name
             AND s.non_unique = 0 AND s.seq_in_index = 1 AND s.sub_part IS NULL
             AND s.index_type = 'BTREE' AND `ignored` = 'NO' AND `is_visible` = 'YES' AND NOT EXISTS (
               SELECT 1 FROM information_schema.statistics o
               WHERE o.table_schema = s.table_schema AND o.table_name = s.table_name AND o.index_name = s.index_name
                 AND o.seq_in_index = 2)) AS unique_index
FROM information_schema.columns c CROSS JOIN (SELECT 'NO' AS `ignored`, 'YES' AS `is_visible`) AS shown
WHERE c.table_schema = COALESCE(%(database)s, DATABASE()) AND c.table_name = %(table)s AND c.column_name = %(column)s;

-- name: index_of_order
-- Return an index that begins with a column, and that can be forced.
SELECT (SELECT MIN(s.index_name) FROM information_schema.statistics s
        WHERE s.table_schema = COALESCE(%(database)s, DATABASE()) AND s.table_name = %(table)s
          AND s.column_name = %(column)s AND s.seq_in_index = 1 AND s.sub_part IS NULL
          AND s.index_type = 'BTREE' AND `ignored` = 'NO' AND `is_visible` = 'YES') AS index_name
FROM (SELECT 'NO' AS `ignored`, 'YES' AS `is_visible`) AS shown;

-- name: types
-- Return the expressions with no row, for their types. What has no character set is bytes.
SELECT r.topic, r.record_key, r.payload, r.headers, r.content_type, r.waits, r.place,
       CHARSET(r.topic) AS topic_set, CHARSET(r.record_key) AS record_key_set, CHARSET(r.payload) AS payload_set,
       CHARSET(r.headers) AS headers_set, CHARSET(r.content_type) AS content_type_set, CHARSET(r.waits) AS waits_set, CHARSET(r.place) AS place_set
FROM (SELECT 1 AS one) AS one LEFT JOIN (
    SELECT mapped_topic AS topic, mapped_key AS record_key, mapped_payload AS payload, mapped_headers AS headers,
           mapped_content_type AS content_type, mapped_waits AS waits, mapped_order AS place
    FROM mapped_table LIMIT 0) AS r ON TRUE;

-- name: claim
-- Return the first rows that wait, without those of parked keys. A snapshot read waits for no lock.
SELECT r.row_id, r.topic, r.record_key, r.payload, r.headers, r.content_type
FROM (SELECT mapped_id AS row_id, mapped_topic AS topic, CONVERT(mapped_key USING utf8mb4) AS record_key,
             mapped_payload AS payload, mapped_headers AS headers, mapped_content_type AS content_type,
             mapped_order AS place
      FROM mapped_table mapped_hint WHERE mapped_waits) AS r
WHERE r.row_id IS NOT NULL
  AND EXISTS (SELECT 1 FROM hookwire_terms t WHERE t.sink = %(outbox)s AND t.term = %(term)s)
  AND NOT EXISTS (SELECT 1 FROM hookwire_parked_rows p
                  WHERE p.outbox = %(outbox)s AND p.lane = CAST(CASE
                      WHEN OCTET_LENGTH(COALESCE(r.record_key, CONCAT('#', r.row_id))) > 1000
                      THEN CONCAT('sha256:', SHA2(COALESCE(r.record_key, CONCAT('#', r.row_id)), 256))
                      ELSE COALESCE(r.record_key, CONCAT('#', r.row_id)) END AS BINARY))
ORDER BY r.place LIMIT %(limit)s;

-- name: due
-- Return the parked keys whose probe is due, with the row of each.
SELECT p.lane, p.row_id FROM hookwire_parked_rows p
WHERE p.outbox = %(outbox)s AND p.probe_at <= UTC_TIMESTAMP(6)
  AND EXISTS (SELECT 1 FROM hookwire_terms t WHERE t.sink = %(outbox)s AND t.term = %(term)s)
ORDER BY p.probe_at LIMIT %(limit)s;

-- name: rows_of
-- Return those of these rows that wait.
SELECT mapped_id AS row_id, mapped_topic AS topic, CONVERT(mapped_key USING utf8mb4) AS record_key,
       mapped_payload AS payload, mapped_headers AS headers, mapped_content_type AS content_type
FROM JSON_TABLE(%(ids)s, '$[*]' COLUMNS (hookwire_row mapped_type PATH '$')) AS hookwire_ids
STRAIGHT_JOIN mapped_table FORCE INDEX (mapped_index) ON mapped_column = mapped_given
WHERE mapped_waits;

-- name: purge
-- Delete rows that were confirmed, if the term still holds.
DELETE mapped_table
FROM JSON_TABLE(%(ids)s, '$[*]' COLUMNS (hookwire_row mapped_type PATH '$')) AS hookwire_ids
STRAIGHT_JOIN mapped_table FORCE INDEX (mapped_index) ON mapped_column = mapped_given
WHERE EXISTS (SELECT 1 FROM hookwire_terms t WHERE t.sink = %(outbox)s AND t.term = %(term)s);

-- name: purge_by_mark
-- Mark rows that were confirmed, if the term still holds.
UPDATE JSON_TABLE(%(ids)s, '$[*]' COLUMNS (hookwire_row mapped_type PATH '$')) AS hookwire_ids
STRAIGHT_JOIN mapped_table FORCE INDEX (mapped_index) ON mapped_column = mapped_given
SET mapped_mark
WHERE mapped_waits AND EXISTS (SELECT 1 FROM hookwire_terms t WHERE t.sink = %(outbox)s AND t.term = %(term)s);

-- name: left
-- Return how many of these rows still wait, and whether the term still holds.
SELECT (SELECT COUNT(*) FROM JSON_TABLE(%(ids)s, '$[*]' COLUMNS (hookwire_row mapped_type PATH '$')) AS hookwire_ids
        STRAIGHT_JOIN mapped_table FORCE INDEX (mapped_index) ON mapped_column = mapped_given
        WHERE mapped_waits) AS rows_left,
       (SELECT COUNT(*) FROM hookwire_terms t WHERE t.sink = %(outbox)s AND t.term = %(term)s) AS rules;

-- name: park
-- Park the keys whose row was refused. For a key that is parked already, double the wait, up to a limit.
INSERT INTO hookwire_parked_rows (outbox, lane, row_id, topic, reason, detail, probe_at)
SELECT t.sink, CAST(r.lane AS BINARY), r.row_id, r.topic, r.reason, r.detail,
       UTC_TIMESTAMP(6) + INTERVAL %(seconds_first)s SECOND
FROM JSON_TABLE(%(refusals)s, '$[*]' COLUMNS (
         lane text CHARACTER SET utf8mb4 PATH '$.lane', row_id text CHARACTER SET utf8mb4 PATH '$.id',
         topic text CHARACTER SET utf8mb4 PATH '$.topic', reason text CHARACTER SET utf8mb4 PATH '$.reason',
         detail text CHARACTER SET utf8mb4 PATH '$.detail')) AS r
STRAIGHT_JOIN hookwire_terms t ON t.sink = %(outbox)s AND t.term = %(term)s
ON DUPLICATE KEY UPDATE
    row_id = VALUES(row_id), topic = VALUES(topic), reason = VALUES(reason), detail = VALUES(detail),
    probe_at = UTC_TIMESTAMP(6)
             + INTERVAL LEAST(%(seconds_first)s * POW(2, LEAST(attempts, 10)), %(seconds_max)s) SECOND,
    attempts = attempts + 1;

-- name: probe_topic_now
-- Probe keys that wait for the same topics as these keys now: the topic takes records again.
UPDATE JSON_TABLE(%(keys)s, '$[*]' COLUMNS (lane text CHARACTER SET utf8mb4 PATH '$')) AS j
STRAIGHT_JOIN hookwire_parked_rows freed FORCE INDEX (PRIMARY) ON freed.outbox = %(outbox)s AND freed.lane = CAST(j.lane AS BINARY)
STRAIGHT_JOIN hookwire_parked_rows p ON p.outbox = freed.outbox AND p.topic = freed.topic
SET p.probe_at = UTC_TIMESTAMP(6);

-- name: unpark
DELETE p FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (lane text CHARACTER SET utf8mb4 PATH '$')) AS j
STRAIGHT_JOIN hookwire_parked_rows p FORCE INDEX (PRIMARY) ON p.outbox = %(outbox)s AND p.lane = CAST(j.lane AS BINARY);

-- name: create_offsets
-- How far the rows of an append-only table were sent. A person may set `place`.
CREATE TABLE IF NOT EXISTS hookwire_offsets (
    outbox varchar(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
    place bigint NOT NULL
) ENGINE = InnoDB;

-- name: horizon
-- Return the highest offset that is committed.
SELECT MAX(mapped_order) AS place FROM mapped_table;

-- name: claim_behind
-- Return the first rows behind the table's offset, up to another one, in their order.
SELECT r.row_id, r.topic, r.record_key, r.payload, r.headers, r.content_type, r.place
FROM (SELECT mapped_id AS row_id, mapped_topic AS topic, CONVERT(mapped_key USING utf8mb4) AS record_key,
             mapped_payload AS payload, mapped_headers AS headers, mapped_content_type AS content_type,
             mapped_order AS place
      FROM mapped_table mapped_hint) AS r
WHERE EXISTS (SELECT 1 FROM hookwire_terms t WHERE t.sink = %(outbox)s AND t.term = %(term)s)
  AND r.place > COALESCE((SELECT o.place FROM hookwire_offsets o WHERE o.outbox = %(outbox)s), -9223372036854775808)
  AND r.place <= %(until)s
ORDER BY r.place LIMIT %(limit)s;

-- name: advance
-- Set the table's offset forward, if the term still holds.
INSERT INTO hookwire_offsets (outbox, place)
SELECT t.sink, %(place)s FROM hookwire_terms t WHERE t.sink = %(outbox)s AND t.term = %(term)s
ON DUPLICATE KEY UPDATE place = GREATEST(place, VALUES(place));
