"""The Kafka source under kills and outages: each record is one event, in the order of its partition."""

from __future__ import annotations

import secrets
from collections import defaultdict
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from app.chaos.child import Child
from scripts.servers.kafka import KafkaServer
from tests.hub.test_publish import foreign_transaction
from tests.relay.kafka.kafka_topic import make_topic
from tests.waiting import until

DEADLINE_SECONDS = 60.0
PARTITIONS = 4
_KEYS = 60
_STORED = (
    "SELECT key, (headers ->> 'x-kafka-partition')::integer AS partition, (headers ->> 'x-kafka-offset')::bigint AS n"
    " FROM hookwire.events WHERE topic = $1 ORDER BY id"
)
Coordinates = tuple[int, int]


class Feed:
    """A Kafka topic, the processes that read it, and the witness: what the topic has against what was stored."""

    def __init__(self, server: KafkaServer, database_url: str, folder: Path, processes: int = 2) -> None:
        self.topic = f"feed-{secrets.token_hex(4)}"
        self.server = server
        self.database_url = database_url
        self._sent = 0
        settings = {
            "DATABASE_URL": database_url, "DATA_DIR": str(folder / "data"), "LOG_FORMAT": "json",
            "KAFKA_SOURCE_SERVERS": server.bootstrap, "KAFKA_SOURCES": f"{self.topic}?start=earliest",
            "KAFKA_SOURCE_RECORDS": "50",
        }  # fmt: skip
        command = ("serve", "--role", "source")
        self.children = [Child(f"source{n}", folder, settings, command=command) for n in range(processes)]

    async def send(self, count: int) -> None:
        """Append records; the order of a key is that of its partition."""
        async with AIOKafkaProducer(bootstrap_servers=self.server.bootstrap, linger_ms=5) as producer:
            for number in range(self._sent, self._sent + count):
                await producer.send(self.topic, b"%d" % number, b"k%d" % (number % _KEYS))
            await producer.flush()
        self._sent += count

    async def stored(self) -> list[asyncpg.Record]:
        connection = await asyncpg.connect(self.database_url)
        try:
            return await connection.fetch(_STORED, self.topic)
        finally:
            await connection.close()

    async def stores(self, count: int, seconds: float = DEADLINE_SECONDS) -> None:
        """Until so many events are stored."""

        async def holds() -> bool:
            return len(await self.stored()) >= count

        await until(holds, seconds, 0.1)

    async def verdict(self, seconds: float = DEADLINE_SECONDS) -> dict[str, list[Any]]:
        """Coordinates that were lost or doubled, and keys out of order, once all records are stored."""
        await self.stores(self._sent, seconds)
        for child in self.children:
            if child.is_running:
                await child.drain(DEADLINE_SECONDS)
        rows = await self.stored()
        found = [(row["partition"], row["n"]) for row in rows]
        lanes: dict[str, list[Coordinates]] = defaultdict(list)
        for row in rows:
            lanes[row["key"]].append((row["partition"], row["n"]))
        return {
            "lost": sorted(await self._sent_coordinates() - {*found}),
            "doubled": sorted({one for one in found if found.count(one) > 1}) if len({*found}) < len(found) else [],
            "inverted": [key for key, lane in lanes.items() if lane != sorted(lane)],
            "crashes": [crash for child in self.children for crash in child.crashes],
        }

    async def _sent_coordinates(self) -> set[Coordinates]:
        async with AIOKafkaConsumer(bootstrap_servers=self.server.bootstrap) as consumer:
            ends = await consumer.end_offsets([TopicPartition(self.topic, n) for n in range(PARTITIONS)])
        return {(partition.partition, offset) for partition, end in ends.items() for offset in range(end)}


SOUND: dict[str, list[Any]] = {"lost": [], "doubled": [], "inverted": [], "crashes": []}


@pytest.mark.parametrize("point", ["source.after_commit", pytest.param("source.before_commit", marks=pytest.mark.slow)])
async def test_a_kill_at_a_commit_makes_one_event_of_each_record(
    database_url: str, kafka: KafkaServer, tmp_path: Path, point: str
) -> None:
    """RR-12: its successors begin while a foreign transaction holds a key."""
    feed = Feed(kafka, database_url, tmp_path)
    await make_topic(kafka.bootstrap, feed.topic, PARTITIONS)
    await feed.send(1_500)
    mortal, other = feed.children
    await mortal.start(f"{point}:kill@10", wait=False)
    killed = await mortal.ended(DEADLINE_SECONDS)
    async with foreign_transaction(database_url, "k1", feed.topic):
        await mortal.start(wait=False)
        await other.start(wait=False)
        await feed.stores(501)
    found = await feed.verdict()

    assert (killed, found) == (-9, SOUND)
