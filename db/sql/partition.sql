-- Partitions: db.statements.for_partition replaces the names parent_table and partition_table.

-- name: detach
-- Wait for running transactions without blocking them (RR-05). Do not run it in a transaction.
ALTER TABLE parent_table DETACH PARTITION partition_table CONCURRENTLY;

-- name: finish_detach
-- Finish an interrupted detach.
ALTER TABLE parent_table DETACH PARTITION partition_table FINALIZE;

-- name: drop
DROP TABLE partition_table;
