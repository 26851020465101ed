-- hookwire's own tables beside an outbox in MariaDB or MySQL. Nothing is added to the outbox itself.

-- name: version
SELECT VERSION() AS version;

-- name: made
-- Return how many of the three tables below exist: a role without CREATE needs only to find them.
SELECT COUNT(*) AS tables FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name IN ('hookwire_installation', 'hookwire_terms', 'hookwire_parked');

-- name: create_installation
CREATE TABLE IF NOT EXISTS hookwire_installation (
    id tinyint NOT NULL PRIMARY KEY,
    incarnation varchar(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL
) ENGINE = InnoDB;

-- name: create_terms
-- One row for each outbox. Its term rises with every change of leader; every deciding statement names the term.
CREATE TABLE IF NOT EXISTS hookwire_terms (
    sink varchar(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
    term bigint NOT NULL DEFAULT 0,
    owner varchar(255) CHARACTER SET utf8mb4 NULL,
    lease_until datetime(6) NOT NULL DEFAULT '1970-01-01'
) ENGINE = InnoDB;

-- name: create_parked
-- Keys that wait because Kafka refuses their record. Stored as bytes, so that no collation and no trailing space makes
-- two keys equal.
CREATE TABLE IF NOT EXISTS hookwire_parked (
    outbox varchar(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    kafka_key varbinary(2048) NOT NULL,
    record_id bigint NOT NULL,
    topic varchar(249) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    reason varchar(100) CHARACTER SET utf8mb4 NOT NULL,
    detail text CHARACTER SET utf8mb4 NOT NULL,
    attempts int NOT NULL DEFAULT 1,
    probe_at datetime(6) NOT NULL,
    PRIMARY KEY (outbox, kafka_key)
) ENGINE = InnoDB;

-- name: incarnate
INSERT INTO hookwire_installation (id, incarnation) VALUES (1, %(incarnation)s) ON DUPLICATE KEY UPDATE id = 1;

-- name: incarnation
SELECT incarnation FROM hookwire_installation WHERE id = 1;

-- name: columns
-- Check that the outbox has its columns, also when it has no rows.
SELECT o.id, o.kafka_topic, o.kafka_key, o.kafka_value, o.kafka_header_keys, o.kafka_header_values, o.leader_id
FROM compat_outbox o LIMIT 0;

-- name: texts
-- Return the types of a row's topic and key: without a character set they are bytes.
SELECT c.column_name AS name, c.character_set_name AS charset, c.character_octet_length AS bytes_max
FROM information_schema.columns c
WHERE c.table_schema = COALESCE(%(database)s, DATABASE()) AND c.table_name = %(table)s
  AND c.column_name IN ('kafka_topic', 'kafka_key');

-- name: engine
SELECT t.engine AS engine FROM information_schema.tables t
WHERE t.table_schema = COALESCE(%(database)s, DATABASE()) AND t.table_name = %(table)s;
