"""How records are laid out in Kafka batches, and what of it may be on the wire at the same time."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime

from aiokafka.producer.message_accumulator import BatchBuilder

from event.partition import Partitioner
from relay.kafka.batches import KafkaBatch, Packer, waves
from relay.kafka.headers import Headers
from relay.kafka.topic import KafkaTopic, Unusable
from relay.record import Record

TOPIC = KafkaTopic("orders", partitions=1, message_bytes_max=1_000_000)
MEBIBYTE = 1024 * 1024


def record(number: int, key: str | None = "k", payload: bytes = b"x", topic: str = "orders") -> Record:
    return Record(
        id=number, shard=0, event_id=f"evt_abcd2345_{number}", tenant="default", topic=topic, key=key,
        sequence=number, content_type=None, headers={}, payload=payload, accepted_at=datetime(2026, 1, 2, tzinfo=UTC),
    )  # fmt: skip


def packer(alone: Collection[str] = (), batch_bytes: int = MEBIBYTE) -> Packer:
    return Packer(lambda: BatchBuilder(2 * MEBIBYTE, 0), Headers(1), Partitioner(), batch_bytes, alone)


def ids(batches: list[KafkaBatch]) -> list[list[int]]:
    return [[r.id for r in batch.records] for batch in batches]


def test_a_batch_ends_where_the_next_record_would_cross_its_bytes() -> None:
    """RK-19."""
    layout = packer(batch_bytes=2_500).pack([record(n, payload=bytes(1_000)) for n in range(5)], [TOPIC] * 5)
    [lane] = layout.partitions
    assert ids(list(lane)) == [[0, 1], [2, 3], [4]]


def test_a_record_larger_than_a_batch_travels_alone() -> None:
    """RK-20."""
    records = [record(1), record(2, payload=bytes(5_000)), record(3)]
    [lane] = packer(batch_bytes=2_500).pack(records, [TOPIC] * 3).partitions
    assert ids(list(lane)) == [[1], [2], [3]]


def test_records_of_a_topic_travel_alone_while_the_refused_one_is_searched() -> None:
    """RO-08, GW-01: the answer to a batch of one names it."""
    other = replace(TOPIC, name="other")
    records = [record(n, topic="other" if n > 3 else "orders") for n in range(1, 6)]
    layout = packer({"orders"}).pack(records, [TOPIC] * 3 + [other] * 2)
    assert [ids(list(lane)) for lane in layout.partitions] == [[[1], [2], [3]], [[4, 5]]]


def test_a_compacted_topic_takes_no_record_without_a_key() -> None:
    """GW-01: Kafka would refuse the whole batch for it, with error 87."""
    layout = packer().pack([record(1), record(2, None), record(3)], [replace(TOPIC, is_compacted=True)] * 3)
    assert [ids(list(lane)) for lane in layout.partitions] == [[[1, 3]]]
    assert [(r.record.id, r.scope, r.reason) for r in layout.refused] == [(2, "record", "key_missing")]
    assert "publish with Hookwire-Key, or change the topic's cleanup.policy" in layout.refused[0].detail


def test_what_follows_a_refused_record_of_its_key_or_topic_is_left_out() -> None:
    records = [
        record(1, "a", bytes(2_000_000)), record(2, "b"), record(3, "a"),
        record(4, "a", topic="absent"), record(5, "b", topic="absent"),
        record(6, None, bytes(2_000_000)), record(7, None),
    ]  # fmt: skip
    absent = Unusable("topic_missing", "")
    layout = packer().pack(records, [TOPIC, TOPIC, TOPIC, absent, absent, TOPIC, TOPIC])
    assert ids(list(layout.partitions[0])) == [[2, 7]]
    assert [(r.record.id, r.scope) for r in layout.refused] == [(1, "record"), (4, "topic"), (6, "record")]


def test_a_wave_has_one_batch_of_each_partition_and_no_more_bytes_than_a_request_takes() -> None:
    """RK-13, RO-03: at most one unacknowledged batch per partition."""
    sizes = {"a": [9, 1], "b": [9], "c": [1, 1, 1]}  # MiB; 16 fit
    partitions = [
        [KafkaBatch(topic, 0, None, size=size * MEBIBYTE) for size in batches] for topic, batches in sizes.items()
    ]
    assert [[(batch.topic, batch.size // MEBIBYTE) for batch in wave] for wave in waves(partitions)] == [
        [("a", 9), ("c", 1)],
        [("a", 1), ("b", 9), ("c", 1)],
        [("c", 1)],
    ]
