"""Kafka batches: the records of one call, packed for each partition, in order and within the size limits.

aiokafka's own accumulator costs five times as much per record and decides by itself where a batch ends. Here a batch
ends at the topic's size limit or at our own (RK-20).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from event.partition import Partitioner
from relay.kafka.headers import Headers
from relay.kafka.topic import KafkaTopic, Unusable
from relay.record import Record
from relay.sink import Refusal

__all__ = ["BatchLayout", "KafkaBatch", "Packer", "waves"]

_WAVE_BYTES_MAX = 16 * 1024 * 1024
_KEY_MISSING = (
    "the Kafka topic {} is compacted and takes no record without a key (Kafka's error 87 INVALID_RECORD); "
    "publish with Hookwire-Key, or change the topic's cleanup.policy"
)
_TOO_LARGE = "{} bytes; the Kafka topic {} takes {}; raise its max.message.bytes, or send less"


@dataclass(slots=True)
class KafkaBatch:
    """One batch of one partition. ``size``: upper bound in bytes, before compression."""

    topic: str
    partition: int
    builder: Any
    records: list[Record] = field(default_factory=list)
    size: int = 0


@dataclass(frozen=True, slots=True)
class BatchLayout:
    """The batches of each partition in order, and the refused records."""

    partitions: Sequence[Sequence[KafkaBatch]]
    refused: Sequence[Refusal]


class Packer:
    """Lays records out, for one producer and one term. The records of the Kafka topics ``alone`` have a batch each. The
    collection is read at each call.
    """

    def __init__(
        self, new_builder: Callable[[], Any], headers: Headers, partitioner: Partitioner, batch_bytes: int,
        alone: Collection[str] = (),
    ) -> None:  # fmt: skip
        self._new_builder = new_builder
        self._headers = headers
        self._partitioner = partitioner
        self._batch_bytes = batch_bytes
        self._alone = alone

    def pack(self, records: Sequence[Record], topics: Sequence[KafkaTopic | Unusable]) -> BatchLayout:
        """Lay out records; ``topics`` has the Kafka topic of each, one for one.

        The first record of an unusable topic is refused. So is each record that is too large, or has no key for a
        compacted topic. Later records of that topic or key are left out.
        """
        lanes: dict[tuple[str, int], list[KafkaBatch]] = {}
        refused: list[Refusal] = []
        waiting: set[tuple[str, str, str | None]] = set()
        for record, topic in zip(records, topics, strict=True):
            if waiting and not waiting.isdisjoint(_waits_behind(record)):
                continue
            refusal = self._place(lanes, record, topic)
            if refusal is not None:
                refused.append(refusal)
                waiting.add(_waits_behind(record)[0 if refusal.scope == "topic" else 1])
        return BatchLayout(list(lanes.values()), refused)

    def _place(
        self, lanes: dict[tuple[str, int], list[KafkaBatch]], record: Record, topic: KafkaTopic | Unusable
    ) -> Refusal | None:
        if isinstance(topic, Unusable):
            return Refusal(record, "topic", topic.reason, topic.detail)
        if record.key is None:
            if topic.is_compacted:
                return Refusal(record, "record", "key_missing", _KEY_MISSING.format(topic.name))
            key, partition = None, record.id % topic.partitions
        else:
            key = record.key.encode()
            partition = self._partitioner.partition(key, topic.partitions)
        headers, milliseconds = self._headers.of(record)
        # An empty payload is an empty value. Null is a tombstone on a compacted topic (WH-C08, FM-05).
        value = None if record.tombstone else record.payload
        size = DefaultRecordBatchBuilder.estimate_size_in_bytes(key, value, headers)
        if size > topic.message_bytes_max:
            return Refusal(record, "record", "too_large", _TOO_LARGE.format(size, topic.name, topic.message_bytes_max))
        lane = lanes.get((topic.name, partition))
        if lane is None:
            lane = lanes[topic.name, partition] = []
        batch = self._with_room(lane, size, topic, partition)
        batch.builder.append(timestamp=topic.timestamp(milliseconds), key=key, value=value, headers=headers)
        batch.records.append(record)
        batch.size += size
        return None

    def _with_room(self, lane: list[KafkaBatch], size: int, topic: KafkaTopic, partition: int) -> KafkaBatch:
        """Return the lane's last batch, or a new one where the last has no room for this record."""
        if lane and topic.name not in self._alone:
            grown = lane[-1].size + size
            if grown <= self._batch_bytes and grown <= topic.message_bytes_max:
                return lane[-1]
        lane.append(KafkaBatch(topic.name, partition, self._new_builder()))
        return lane[-1]


def _waits_behind(record: Record) -> tuple[tuple[str, str, str | None], tuple[str, str, str | None]]:
    """Return the names that can hold a record: its topic and its key. A keyless record waits only behind itself."""
    own = record.key if record.key is not None else f"\x1f{record.id}"
    return (record.tenant, record.topic, None), (record.tenant, record.topic, own)


def waves(partitions: Sequence[Sequence[KafkaBatch]]) -> Iterator[list[KafkaBatch]]:
    """Yield the batches that may be sent at the same time: one for each partition, within the bytes of a request. Two
    batches of a partition are never in flight: a broker may accept a new producer's second batch after it has refused
    the first.
    """
    queues = [deque(batches) for batches in partitions]
    while queues:
        wave: list[KafkaBatch] = []
        size = 0
        for queue in queues:
            if not wave or size + queue[0].size <= _WAVE_BYTES_MAX:
                wave.append(queue.popleft())
                size += wave[-1].size
        yield wave
        queues = [queue for queue in queues if queue]
