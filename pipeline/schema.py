"""The columns of the lake: what a Kafka source yields, and what the archive keeps (PL-K10, PL-X01, PL-T07).

A row of bronze is one Kafka record as it lay there, never changed and never deduplicated, with the envelope that the
relay wrote in typed columns beside it. (topic, partition, offset) is its natural key. What could not be read of the
envelope is null, and ``quarantine`` has the reason: nothing is dropped, and the raw bytes stay.
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

__all__ = ["BRONZE", "BRONZE_PARTITIONS", "CLOUDEVENT", "ENVELOPE", "EVENT_COLUMNS", "HEADERS", "KAFKA", "RECORD"]

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
"""Columns of bronze, and the header that each is read from; such a header is not stored in ``headers`` as well."""

RECORD: Final = StructType([*KAFKA.fields, *(StructField(name, BinaryType()) for name in ENVELOPE.values())])
"""What both Kafka sources yield: Kafka's columns, and the headers of ``ENVELOPE`` in columns of their own.

``headers`` holds the others, in order, and is null if there is none. A header without a value stays there, and so do
all headers of a record that has two of one name.
"""

CLOUDEVENT: Final = ("ce_id", "ce_source", "ce_type", "ce_subject", "ce_time")
"""Attributes of a CloudEvent that have a column. They stay in ``headers``: the content's hash needs the order there."""

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
        StructField("event_number", LongType()),  # what follows the last _ of the id: hookwire.events.id
        StructField("sequence", LongType()),
        StructField("term", LongType()),
        StructField("accepted_at", TimestampType()),
        StructField("content_type", StringType()),
        *(StructField(name, StringType()) for name in CLOUDEVENT),
        StructField("archived_at", TimestampType()),
        StructField("quarantine", ArrayType(StringType())),  # null: nothing was wrong; see pipeline.bronze.REASONS
        StructField("dt", DateType()),  # day of accepted_at in UTC; of archived_at where that could not be believed
    ]
)

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
"""Which column holds which member of ``openapi/event.schema.json``."""
