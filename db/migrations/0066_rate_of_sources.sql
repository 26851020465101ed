-- How fast a Kafka source takes the records of a partition.
ALTER TABLE hookwire.source_offsets ADD COLUMN rate double precision;
COMMENT ON COLUMN hookwire.source_offsets.rate IS 'Records a second that its reader has taken, of the last seconds before its last report.';
