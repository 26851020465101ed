-- Refused messages of AMQP queues that can have no queue for them are kept beside the refused records of Kafka.

ALTER TABLE hookwire.source_refusals
    ADD COLUMN kind text NOT NULL DEFAULT 'kafka' CHECK (kind IN ('kafka', 'amqp')),
    ALTER COLUMN partition DROP NOT NULL,
    ALTER COLUMN record_offset DROP NOT NULL;
COMMENT ON TABLE hookwire.source_refusals IS 'Records of Kafka that cannot become events, as they are there, and messages of AMQP.';
COMMENT ON COLUMN hookwire.source_refusals.kind IS 'kafka for a record; amqp for a message whose queue can have no queue for refused ones.';
COMMENT ON COLUMN hookwire.source_refusals.source IS 'The Kafka topic of a record; the queue of a message.';
COMMENT ON COLUMN hookwire.source_refusals.partition IS 'Its partition; NULL for a message.';
COMMENT ON COLUMN hookwire.source_refusals.record_offset IS 'Its offset there; NULL for a message.';
COMMENT ON COLUMN hookwire.source_refusals.headers IS 'Of a record: an array of names and values by turns; the values are Base64. Of a message: an object of its properties, null if they cannot be read.';
