-- The history of applied migrations. The lock belongs to the session and goes with it.

-- name: lock
SELECT pg_advisory_lock(1215262571, -2);

-- name: create_history
CREATE SCHEMA IF NOT EXISTS hookwire;
CREATE TABLE IF NOT EXISTS hookwire.migrations (
    version integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- name: history_exists
SELECT to_regclass('hookwire.migrations');

-- name: history
SELECT version, checksum FROM hookwire.migrations ORDER BY version;

-- name: record
INSERT INTO hookwire.migrations (version, name, checksum) VALUES ($1, $2, $3);

-- Only where the history is replaced in the same transaction (docs/adr/0054-migrations-squashed-once.md).
-- name: clear_history
DELETE FROM hookwire.migrations;
