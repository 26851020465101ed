-- The bytes of a description as they are: a backslash would begin an escape. Unlike convert_to, this is immutable.
CREATE UNIQUE INDEX IF NOT EXISTS task_rows_once
    ON hookwire.task_rows (kind, sha256(replace(description, '\', '\\')::bytea)) WHERE is_unique AND finish_time IS NULL;
