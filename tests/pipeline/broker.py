"""Writing to the real broker as a relay does, and worse."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Literal

from aiokafka.admin import RecordsToDelete
from aiokafka.structs import TopicPartition
from confluent_kafka import Producer

from pipeline.audit.selftest import SelftestRecord
from pipeline.kafka_options import SparkKafkaOptions
from scripts.servers.kafka import KafkaServer
from tests.relay.kafka.kafka_topic import kafka_admin, make_topic
from tests.waiting import until

Source = Literal["python", "jvm"]
Written = tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]  # key, value, partition, headers


def ours(number: int, partition: int = 0) -> Written:
    headers = [
        ("hookwire-event-id", b"evt_abcd2345_%d" % number), ("hookwire-sequence", b"%d" % number),
        ("hookwire-term", b"1"), ("hookwire-accepted-at", b"2026-01-15T09:00:00+00:00"),
    ]  # fmt: skip
    return b"key-%d" % (number % 3), b"%d" % number, partition, headers


def record_of(event: SelftestRecord) -> Written:
    """As the relay writes an event of the audit's tests."""
    headers: list[tuple[str, bytes | None]] = [
        ("hookwire-event-id", event.event_id.encode()), ("hookwire-term", b"1"),
        ("hookwire-accepted-at", b"2026-01-15T09:07:00+00:00"), ("hookwire-sequence", b"%d" % event.number),
    ]  # fmt: skip
    return (event.key or "").encode(), event.value, 0, headers


def write(kafka: KafkaServer, topic: str, *transactions: Sequence[Written], abort: Sequence[int] = ()) -> None:
    """Write each list in a transaction of its own; those whose position is in ``abort`` are aborted."""

    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": f"writer-{topic}"})
    producer.init_transactions()
    for position, records in enumerate(transactions):
        producer.begin_transaction()
        for key, value, partition, headers in records:
            producer.produce(topic, value, key, partition, headers=headers, timestamp=1_768_467_600_123)
        producer.flush()
        _ = producer.abort_transaction() if position in abort else producer.commit_transaction()


def make(kafka: KafkaServer, topic: str, partitions: int = 1) -> None:
    """A topic that keeps what is written into it: its timestamps are old, and retention looks every five minutes."""
    asyncio.run(make_topic(kafka.bootstrap, topic, partitions, retention_ms="-1"))


def delete_before(kafka: KafkaServer, topic: str, offset: int) -> None:
    """What retention does."""

    async def delete() -> None:
        async with kafka_admin(kafka.bootstrap) as admin:
            await admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(offset)})

    asyncio.run(delete())


def make_anew(kafka: KafkaServer, topic: str) -> None:
    """Delete a topic and make it again."""

    async def again() -> None:
        async with kafka_admin(kafka.bootstrap) as admin:
            await admin.delete_topics([topic])

            async def is_gone() -> bool:
                return topic not in await admin.list_topics()

            await until(is_gone)

    asyncio.run(again())
    make(kafka, topic)


def kafka_options(kafka: KafkaServer, source: Source = "python", **more: Any) -> SparkKafkaOptions:
    return SparkKafkaOptions(kafka.bootstrap, source=source, **more)
