"""Whether a partition is still the one that was read: a topic may have been deleted and made anew, or cut."""

from __future__ import annotations

from typing import Final

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import (
    CorruptRecordException,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    UnsupportedCodecError,
)

from relay.kafka.source.incoming import digest_of
from relay.kafka.source.offsets import Position

__all__ = ["UNREADABLE", "reset_command", "why_another"]

UNREADABLE: Final = (CorruptRecordException, NoOffsetForPartitionError, UnsupportedCodecError)
"""Errors of a partition whose records the client cannot read."""
_log = structlog.get_logger(__name__)
_LOOK_SECONDS = 1.0


async def why_another(consumer: AIOKafkaConsumer, partition: TopicPartition, known: Position) -> str:
    """Return why it is another partition, with the commands that cure it; '' if there is no sign of that.

    Another record at the offset of the last one that was taken is a sign, or an end below the next offset. A record
    that compaction or retention has removed is none, nor is one that cannot be read. The consumer's position is moved.
    """
    end: int = (await consumer.end_offsets([partition]))[partition]
    if end < known.next_offset:
        return _cure(f"the log ends at {end}, below the offset {known.next_offset}", partition, end)
    if known.last_offset is None or known.last_offset >= end:
        return ""
    consumer.seek(partition, known.last_offset)
    try:
        found = await consumer.getmany(partition, timeout_ms=int(_LOOK_SECONDS * 1000), max_records=1)
    except (OffsetOutOfRangeError, UnicodeDecodeError, *UNREADABLE):
        return ""
    first = next(iter(found.get(partition, ())), None)
    if first is None or digest_of(first) == known.last_digest:
        return ""
    if first.offset != known.last_offset:
        _log.info(
            "kafka_source_record_removed", source=partition.topic, partition=partition.partition,
            offset=known.last_offset, hint="compaction or retention has removed the record that was taken last",
        )  # fmt: skip
        return ""
    return _cure(f"another record stands at the offset {known.last_offset}", partition, end)


def reset_command(partition: TopicPartition) -> str:
    """Return the command that moves a partition, without the offset at its end."""
    return f"hookwire sources reset {partition.topic} --partition {partition.partition} --yes --offset"


def _cure(reason: str, partition: TopicPartition, end: int) -> str:
    command = reset_command(partition)
    return (
        f"{reason}: the topic was made anew or cut. Read it from its first record by `{command} 0`, or from its end by "
        f"`{command} {end}`"
    )
