-- Partitions: db.statements.for_partition replaces the names parent_table and partition_table.

-- name: detach
-- Wait for running transactions without blocking them. Do not run it in a transaction.
ALTER TABLE parent_table DETACH PARTITION partition_table CONCURRENTLY;

-- name: finish_detach
-- Finish an interrupted detach.
ALTER TABLE parent_table DETACH PARTITION partition_table FINALIZE;

-- name: drop
-- CASCADE: a column of its row type in a table of any other role would keep it for ever.
DROP TABLE partition_table CASCADE;

-- name: rewrite
-- Write a table and its indexes into new files, without freed bytes. Nothing else reads or writes the table meanwhile. Do
-- not run it in a transaction.
VACUUM (FULL, ANALYZE) partition_table;
