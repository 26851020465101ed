"""The tails of Kafka's topics: which events lie in the newest records of each partition, as committed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Final, NamedTuple

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from relay.kafka.error import stop_client, translated
from relay.kafka.options import KafkaOptions
from relay.sink import SinkUnavailable

__all__ = ["TailRecord", "existing_topics", "read_tail"]

_POLL_MILLISECONDS: Final = 200
_STILL_SECONDS: Final = 20.0
_STOP_SECONDS: Final = 3.0
_EVENT_ID: Final = "hookwire-event-id"


class TailRecord(NamedTuple):
    """A record of ours in Kafka. ``event_id`` is the public id, of any installation."""

    topic: str
    partition: int
    offset: int
    event_id: str


async def existing_topics(options: KafkaOptions) -> frozenset[str]:
    """Return the names of all topics that we may see. Raise SinkUnavailable."""
    consumer = AIOKafkaConsumer(**options.client("tail"))
    try:
        with translated("connecting"):
            await consumer.start()
        with translated("reading the names of topics"):
            return frozenset(await consumer.topics())
    finally:
        await stop_client(consumer, _STOP_SECONDS)


async def read_tail(options: KafkaOptions, topic: str, records_max: int) -> AsyncIterator[Sequence[TailRecord]]:
    """Yield the newest records of each partition of a topic, up to ``records_max`` of a partition, page by page.

    Records without an event id of ours are left out. Raise SinkUnavailable, also where an open transaction hides the
    newest records.
    """
    consumer = AIOKafkaConsumer(
        topic, **options.client("tail"), isolation_level="read_committed", enable_auto_commit=False,
        auto_offset_reset="earliest",
    )  # fmt: skip
    try:
        with translated(f"reading {topic}"):
            await consumer.start()
            ends = await _begin(consumer, records_max)
        while ends:
            with translated(f"reading {topic}"):
                page, ends = await _page(consumer, topic, ends)
            if page:
                yield page
    finally:
        await stop_client(consumer, _STOP_SECONDS)


async def _begin(consumer: AIOKafkaConsumer, records_max: int) -> dict[TopicPartition, int]:
    """Go to the tails; return the end of each partition that has records."""
    partitions: Collection[TopicPartition] = consumer.assignment()
    lows = await consumer.beginning_offsets(partitions)
    ends = await consumer.end_offsets(partitions)
    for partition in partitions:
        consumer.seek(partition, max(lows[partition], ends[partition] - records_max))
    return {partition: end for partition, end in ends.items() if end > lows[partition]}


async def _page(
    consumer: AIOKafkaConsumer, topic: str, ends: dict[TopicPartition, int]
) -> tuple[list[TailRecord], dict[TopicPartition, int]]:
    """Return what has come, and the ends that are not reached yet. A marker of a transaction is no record."""
    deadline = asyncio.get_running_loop().time() + _STILL_SECONDS
    while True:
        fetched = await consumer.getmany(timeout_ms=_POLL_MILLISECONDS)
        left = {partition: end for partition, end in ends.items() if await consumer.position(partition) < end}
        if fetched or len(left) < len(ends):
            records = [record for of_partition in fetched.values() for record in of_partition]
            return [found for record in records if (found := _of_ours(topic, record)) is not None], left
        if asyncio.get_running_loop().time() > deadline:
            raise SinkUnavailable(f"the newest records of {topic} cannot be read: a transaction may still be open")


def _of_ours(topic: str, record: ConsumerRecord) -> TailRecord | None:
    identity = dict(record.headers).get(_EVENT_ID)
    if identity is None:
        return None
    return TailRecord(topic, record.partition, record.offset, identity.decode(errors="replace"))
