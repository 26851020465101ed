"""Whether a partition is still the one that was read: a topic may have been deleted and made anew, or cut."""

from __future__ import annotations

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import OffsetOutOfRangeError

from relay.kafka.source.incoming import digest_of
from relay.kafka.source.offsets import Position

__all__ = ["why_another"]

_LOOK_SECONDS = 1.0


async def why_another(consumer: AIOKafkaConsumer, partition: TopicPartition, known: Position) -> str:
    """Return why it is another partition, with the commands that cure it; '' if there is no sign of that.

    Another record at the offset of the last one that was taken is a sign, or an end below the next offset. A record
    that compaction or retention has removed is none. The consumer's position is moved.
    """
    end: int = (await consumer.end_offsets([partition]))[partition]
    if end < known.next_offset:
        return _cure(f"the log ends at {end}, below the offset {known.next_offset}", partition, end)
    if known.last_offset is None or known.last_offset >= end:
        return ""
    consumer.seek(partition, known.last_offset)
    try:
        found = await consumer.getmany(partition, timeout_ms=int(_LOOK_SECONDS * 1000), max_records=1)
    except OffsetOutOfRangeError:
        return ""
    first = next(iter(found.get(partition, ())), None)
    if first is None or first.offset != known.last_offset or digest_of(first) == known.last_digest:
        return ""
    return _cure(f"another record stands at the offset {known.last_offset}", partition, end)


def _cure(reason: str, partition: TopicPartition, end: int) -> str:
    command = f"hookwire sources reset {partition.topic} --partition {partition.partition} --yes --offset"
    return (
        f"{reason}: the topic was made anew or cut. Read it from its first record by `{command} 0`, or from its end by "
        f"`{command} {end}`"
    )
