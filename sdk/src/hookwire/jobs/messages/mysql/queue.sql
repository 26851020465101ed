-- A queue in MariaDB or MySQL. `message_table` and `message_archive` stand for the quoted names of its tables.
--
-- claim: NULL is available, 0 is delayed, 1 is dead, and any other number is the mark of a receiver. A delay is a lease
-- that nobody holds. Rows are changed by their primary key alone and in its order, so that two sessions do not deadlock.
-- FORCE INDEX keeps the server from a scan, which would wait for the locks of rows that are not committed yet.
--
-- A plain INSERT can write what no Python value holds. So texts are read as bytes, and a driver decodes none.

-- name: create
CREATE TABLE IF NOT EXISTS message_table (
    id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    claim bigint unsigned NULL COMMENT 'NULL: available, 0: delayed, 1: dead, else the mark of a receiver',
    lease_until datetime(6) NULL COMMENT 'UTC: when the lease or the delay ends',
    deliveries int NOT NULL DEFAULT 0 COMMENT 'how often it was received',
    deliveries_max int NOT NULL DEFAULT {deliveries_max} COMMENT 'after as many it is dead',
    is_archived tinyint NOT NULL DEFAULT {is_archived} COMMENT '1: kept in the archive table when accepted',
    created_at datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    claimed_at datetime(6) NULL,
    receiver varchar(200) NULL,
    reason varchar(500) NULL COMMENT 'why it was returned, or is dead',
    type varchar(200) NULL,
    `key` varchar(200) NULL,
    content_type varchar(200) NULL,
    headers json NULL,
    payload longblob NOT NULL,
    KEY waiting (claim, id),
    KEY ending (lease_until)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin COMMENT = 'queue of hookwire';

-- name: create_archive
CREATE TABLE IF NOT EXISTS message_archive (
    id bigint NOT NULL COMMENT 'begins anew after TRUNCATE of the queue',
    deliveries int NOT NULL,
    created_at datetime(6) NOT NULL,
    claimed_at datetime(6) NULL,
    accepted_at datetime(6) NOT NULL,
    receiver varchar(200) NULL,
    type varchar(200) NULL,
    `key` varchar(200) NULL,
    content_type varchar(200) NULL,
    headers json NULL,
    payload longblob NOT NULL,
    PRIMARY KEY (id, accepted_at),
    KEY accepted (accepted_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin COMMENT = 'archive of a queue of hookwire';

-- name: queues
SELECT table_name AS name FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_comment = 'queue of hookwire' ORDER BY table_name;

-- name: packet
SELECT @@max_allowed_packet AS bytes;

-- name: submit
-- The payload comes in hexadecimal, because drivers differ in how they send bytes, or fail to.
INSERT INTO message_table (payload, content_type, headers, type, `key`, claim, lease_until) VALUES
(UNHEX(%s), %s, %s, %s, %s, IF(%s > 0, 0, NULL), IF(%s > 0, UTC_TIMESTAMP(6) + INTERVAL %s MICROSECOND, NULL));

-- name: submit_many
-- The ids of such a statement follow each other by auto_increment_increment.
INSERT INTO message_table (payload, content_type) VALUES {rows};

-- name: step
SELECT @@auto_increment_increment AS step;

-- name: waiting
-- A snapshot waits for no lock and sees no row that is not committed. It returns the lowest available ids, each with a
-- number that this server never gives twice. It also returns the rows whose lease or delay has ended.
(SELECT id, 0 AS has_ended, UUID_SHORT() AS mark FROM message_table FORCE INDEX (waiting)
 WHERE claim IS NULL AND id > %s{filter} ORDER BY id LIMIT %s)
UNION ALL
(SELECT id, 1, 0 FROM message_table FORCE INDEX (ending) WHERE lease_until <= UTC_TIMESTAMP(6) LIMIT 500);

-- name: isolation
-- Without it the locks below would cover gaps, for which submitters wait.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;

-- name: unlocked
-- As waiting, for receivers that need no order: each takes rows that no other has locked.
SELECT id, 0, UUID_SHORT() FROM message_table FORCE INDEX (waiting)
WHERE claim IS NULL AND id > %s{filter} ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED;

-- name: ended
SELECT id FROM message_table FORCE INDEX (ending) WHERE lease_until <= UTC_TIMESTAMP(6) LIMIT %s;

-- name: ended_unlocked
-- Lock those of the rows that no other session has locked. Nobody waits for one that settles in its own transaction.
SELECT id FROM message_table FORCE INDEX (PRIMARY)
WHERE id IN ({ids}) AND lease_until <= UTC_TIMESTAMP(6) ORDER BY id FOR UPDATE SKIP LOCKED;

-- name: mark
UPDATE message_table FORCE INDEX (PRIMARY)
SET claim = %s, lease_until = UTC_TIMESTAMP(6) + INTERVAL %s MICROSECOND, claimed_at = UTC_TIMESTAMP(6),
    deliveries = LEAST(deliveries, 2147483646) + 1, receiver = %s
WHERE id IN ({ids}) AND claim IS NULL;

-- name: marked
SELECT id, claim, deliveries, lease_until, created_at, CAST(content_type AS BINARY),
       CAST(CAST(headers AS CHAR CHARACTER SET utf8mb4) AS BINARY), payload, CAST(type AS BINARY), CAST(`key` AS BINARY)
FROM message_table FORCE INDEX (PRIMARY) WHERE id IN ({ids}) AND claim = %s ORDER BY id;

-- name: browse
SELECT id, 0, deliveries, created_at, created_at, CAST(content_type AS BINARY),
       CAST(CAST(headers AS CHAR CHARACTER SET utf8mb4) AS BINARY), payload, CAST(type AS BINARY), CAST(`key` AS BINARY)
FROM message_table FORCE INDEX (waiting) WHERE claim IS NULL AND id > %s ORDER BY id LIMIT %s;

-- name: dead
SELECT id, created_at, deliveries, CAST(reason AS BINARY), CAST(content_type AS BINARY), payload, CAST(type AS BINARY),
       CAST(`key` AS BINARY)
FROM message_table FORCE INDEX (waiting) WHERE claim = 1 ORDER BY id LIMIT %s;

-- name: held
-- Lock the rows that their claim still holds.
SELECT id, is_archived, deliveries >= deliveries_max FROM message_table FORCE INDEX (PRIMARY)
WHERE id IN ({ids}) AND claim = %s AND claim > 1 ORDER BY id FOR UPDATE;

-- name: archive
-- A moment that is none, such as 0000-00-00, is refused by a strict server: the time of the claim stands for it.
INSERT INTO message_archive (id, deliveries, created_at, claimed_at, accepted_at, receiver, type, `key`, content_type,
                             headers, payload)
SELECT id, deliveries,
       IF(MONTH(created_at) > 0 AND DAYOFMONTH(created_at) > 0
          AND DAYOFMONTH(created_at) <= DAYOFMONTH(LAST_DAY(created_at)), created_at, claimed_at),
       claimed_at, UTC_TIMESTAMP(6), receiver, type, `key`, content_type, headers, payload
FROM message_table FORCE INDEX (PRIMARY) WHERE id IN ({ids});

-- name: delete
DELETE m FROM message_table AS m FORCE INDEX (PRIMARY) WHERE m.id IN ({ids});

-- name: bury
UPDATE message_table FORCE INDEX (PRIMARY) SET claim = 1, lease_until = NULL, reason = %s WHERE id IN ({ids});

-- name: free
UPDATE message_table FORCE INDEX (PRIMARY)
SET claim = IF(%s > 0, 0, NULL), lease_until = IF(%s > 0, UTC_TIMESTAMP(6) + INTERVAL %s MICROSECOND, NULL),
    deliveries = deliveries - %s, reason = %s
WHERE id IN ({ids});

-- name: extend
UPDATE message_table FORCE INDEX (PRIMARY) SET lease_until = UTC_TIMESTAMP(6) + INTERVAL %s MICROSECOND
WHERE id IN ({ids});

-- name: reap
-- The reason is set first: it reads the old claim.
UPDATE message_table FORCE INDEX (PRIMARY)
SET reason = CASE WHEN claim = 0 THEN reason
                  WHEN deliveries >= deliveries_max THEN CONCAT('received ', deliveries, ' times and never settled')
                  ELSE 'lease expired' END,
    claim = IF(claim > 0 AND deliveries >= deliveries_max, 1, NULL), lease_until = NULL
WHERE id IN ({ids}) AND lease_until <= UTC_TIMESTAMP(6);

-- name: redrive
UPDATE message_table FORCE INDEX (PRIMARY) SET claim = NULL, deliveries = 0 WHERE id IN ({ids}) AND claim = 1;

-- name: purge
DELETE m FROM message_table AS m FORCE INDEX (PRIMARY) WHERE m.id IN ({ids}) AND m.claim = 1;

-- name: count
SELECT COUNT(*) FROM message_table FORCE INDEX (waiting) WHERE claim IS NULL;

-- name: counts
SELECT COUNT(IF(claim IS NULL, 1, NULL)), COUNT(IF(claim > 1, 1, NULL)), COUNT(IF(claim = 0, 1, NULL)),
       COUNT(IF(claim = 1, 1, NULL))
FROM message_table FORCE INDEX (waiting);

-- name: oldest
SELECT created_at FROM message_table FORCE INDEX (waiting) WHERE claim IS NULL ORDER BY id LIMIT 1;
