-- Partitions: the names parent_table and partition_table are filled in by db.statements.for_partition.

-- name: detach
-- Waits for running transactions, and blocks none (RR-05). In no transaction of ours.
ALTER TABLE parent_table DETACH PARTITION partition_table CONCURRENTLY;

-- name: finish_detach
-- A detaching that was cut short.
ALTER TABLE parent_table DETACH PARTITION partition_table FINALIZE;

-- name: drop
DROP TABLE partition_table;
