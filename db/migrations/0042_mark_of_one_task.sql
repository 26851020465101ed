-- Whether a task is the only live one of its kind and description. Rows of before stay unmarked: duplicates among them run.

ALTER TABLE hookwire.task_rows ADD COLUMN IF NOT EXISTS is_unique boolean;
ALTER TABLE hookwire.dead_tasks ADD COLUMN IF NOT EXISTS is_unique boolean;
COMMENT ON COLUMN hookwire.task_rows.is_unique IS 'Whether no other live task has its kind and description; NULL: enqueued before there was this mark.';
COMMENT ON COLUMN hookwire.dead_tasks.is_unique IS 'Whether no other live task had its kind and description; NULL: enqueued before there was this mark.';
