"""Schema: the columns of a Kafka source and of bronze.

A row of bronze is one Kafka record, never changed and never deduplicated. Typed columns hold the envelope that the
relay wrote. The natural key is (topic, kafka_topic_id, partition, offset): a Kafka topic that was made again has
another id, and its offsets begin again. If a part of the envelope cannot be read, its column is null
and ``quarantine`` has the reason. No record is dropped, and the raw bytes stay.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DateType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

__all__ = [
    "BRONZE",
    "BRONZE_PARTITIONS",
    "CLOUDEVENT",
    "ENVELOPE",
    "EVENT_COLUMNS",
    "HEADERS",
    "KAFKA",
    "RECORD",
    "SEAL",
]

HEADERS: Final = ArrayType(
    StructType([StructField("key", StringType(), nullable=False), StructField("value", BinaryType())])
)

KAFKA: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
        StructField("headers", HEADERS),
    ]
)
"""The columns of Spark's Kafka connector. ``timestampType``: 0 the producer's clock, 1 the broker's, -1 none."""

ENVELOPE: Final = {
    "event_id": "hookwire-event-id",
    "sequence": "hookwire-sequence",
    "term": "hookwire-term",
    "accepted_at": "hookwire-accepted-at",
    "content_type": "content-type",
}
"""Columns of bronze, each with the header that it is read from. ``headers`` does not repeat these headers."""

RECORD: Final = StructType([*KAFKA.fields, *(StructField(name, BinaryType()) for name in ENVELOPE.values())])
"""The rows of both Kafka sources: Kafka's columns, and a column for each header of ``ENVELOPE``.

``headers`` holds the other headers, in order, and is null if there is none. It also holds headers without a value, and
all headers of a record that has two of one name.
"""

CLOUDEVENT: Final = ("ce_id", "ce_source", "ce_type", "ce_subject", "ce_time")
"""Attributes of a CloudEvent that have a column. They also stay in ``headers``: the content's hash needs the order."""

BRONZE: Final = StructType(
    [
        StructField("topic", StringType()),  # the Kafka topic
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestamp_type", IntegerType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("headers", HEADERS),
        StructField("event_id", StringType()),
        StructField("event_number", LongType()),  # the part of the id after the last _: hookwire.events.id
        StructField("sequence", LongType()),
        StructField("term", LongType()),
        StructField("accepted_at", TimestampType()),
        StructField("content_type", StringType()),
        *(StructField(name, StringType()) for name in CLOUDEVENT),
        StructField("archived_at", TimestampType()),
        StructField("kafka_topic_id", StringType()),  # null in rows that an older version archived
        StructField("quarantine", ArrayType(StringType())),  # null: no fault; see pipeline.bronze.REASONS
        StructField("seal", StringType()),  # see pipeline.audit.seal; null in rows of an older version
        StructField("seal_key", StringType()),
        StructField("dt", DateType()),  # day of accepted_at in UTC, or of archived_at if accepted_at is not plausible
    ]
)

SEAL: Final = ("seal", "seal_key")
"""The columns that a seal does not cover."""

BRONZE_PARTITIONS: Final = ("dt", "topic")
"""The folders of bronze, outermost first."""

EVENT_COLUMNS: Final = {
    "id": "event_id",
    "topic": "topic",
    "key": "key",
    "sequence": "sequence",
    "content_type": "content_type",
    "headers": "headers",
    "accepted_at": "accepted_at",
    "payload": "value",
    "payload_base64": "value",
}
"""The columns that hold members of ``openapi/event.schema.json``."""
