-- The id of a task is one word: it stands in logs, in e-mails and on terminals. One that is none gets another; the cleaner
-- notifies its workers of that.
UPDATE hookwire.task_rows SET id = 'task-' || md5(id) WHERE id ~ '[\x01-\x1f\x7f]';
UPDATE hookwire.dead_tasks SET id = 'task-' || md5(id) WHERE id ~ '[\x01-\x1f\x7f]';
ALTER TABLE hookwire.task_rows DROP CONSTRAINT task_rows_id_check,
    ADD CONSTRAINT task_rows_id_check CHECK (octet_length(id) BETWEEN 1 AND 200 AND id !~ '[\x01-\x1f\x7f]');
