"""The Kafka source under kills and outages: each record is one event, in the order of its partition."""

from __future__ import annotations

import asyncio
import random
import re
import secrets
import shlex
from collections import defaultdict
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from app.chaos.child import Child
from runtime.loopback import at_loopback
from scripts.servers.kafka import KafkaServer
from scripts.servers.postgres import PostgresServer
from tests.app.cli.test_main import HOOKWIRE
from tests.faults.harness import SOAK
from tests.hub.test_publish import foreign_transaction
from tests.relay.kafka.kafka_topic import kafka_admin, make_topic
from tests.waiting import poll, until

DEADLINE_SECONDS = 60.0
PARTITIONS = 4
_KEYS = 60
_NO_DATABASE = 3  # a start while the database is killed
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
        self.api = Child("api", folder, settings, command=("serve", "--role", "api"))

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

    async def dies_at_commit(self, child: Child) -> None:
        """Let a process end itself after a COMMIT, before whatever it would have done next."""
        await child.kill()
        await child.start("source.after_commit:kill", wait=False)
        async with asyncio.timeout(DEADLINE_SECONDS):
            while child.is_running:
                await self.send(10)
                await poll()

    async def is_made_anew(self) -> None:
        """Delete the Kafka topic, and make it again."""
        async with kafka_admin(self.server.bootstrap) as admin:
            await admin.delete_topics([self.topic])

            async def is_gone() -> object:
                return self.topic not in await admin.list_topics()  # to ask for it by name would make it anew

            await until(is_gone, DEADLINE_SECONDS)
        await make_topic(self.server.bootstrap, self.topic, PARTITIONS)

    async def troubles(self) -> list[str]:
        """Why the partitions do not go on, once none does."""
        connection = await asyncpg.connect(self.database_url)
        try:

            async def hold_all() -> object:
                rows = await connection.fetch("SELECT trouble FROM hookwire.source_offsets WHERE trouble IS NOT NULL")
                return [row["trouble"] for row in rows] if len(rows) == PARTITIONS else None

            found: list[str] = await until(hold_all, DEADLINE_SECONDS)
            return found
        finally:
            await connection.close()

    async def run(self, command: str) -> int:
        """Run a command of ours at the process with the API; return its exit code."""
        _, *words = shlex.split(command)
        url = f"http://{at_loopback(self.api.port)}"
        process = await asyncio.create_subprocess_exec(HOOKWIRE, *words, "--url", url)
        async with asyncio.timeout(DEADLINE_SECONDS):
            return await process.wait()

    async def verdict(self, seconds: float = DEADLINE_SECONDS) -> dict[str, list[Any]]:
        """Coordinates that were lost or doubled, and keys out of order, once all partitions are taken to their ends."""
        sent = await self._sent_coordinates()

        async def are_taken() -> bool:
            return await self._taken() >= len(sent)

        await until(are_taken, seconds, 0.1)
        for child in self.children:
            if child.is_running:
                await child.drain(DEADLINE_SECONDS)
        rows = await self.stored()
        found = [(row["partition"], row["n"]) for row in rows]
        lanes: dict[str, list[Coordinates]] = defaultdict(list)
        for row in rows:
            lanes[row["key"]].append((row["partition"], row["n"]))
        return {
            "lost": sorted(sent - {*found}),
            "doubled": sorted({one for one in found if found.count(one) > 1}) if len({*found}) < len(found) else [],
            "inverted": [key for key, lane in lanes.items() if lane != sorted(lane)],
            "crashes": [crash for child in self.children for crash in child.crashes if crash != _NO_DATABASE],
        }

    async def _taken(self) -> int:
        """The sum of the offsets in the database."""
        connection = await asyncpg.connect(self.database_url)
        try:
            return await connection.fetchval("SELECT sum(next_offset)::bigint FROM hookwire.source_offsets")
        finally:
            await connection.close()

    async def _sent_coordinates(self) -> set[Coordinates]:
        async with AIOKafkaConsumer(bootstrap_servers=self.server.bootstrap) as consumer:
            ends = await consumer.end_offsets([TopicPartition(self.topic, n) for n in range(PARTITIONS)])
        return {(partition.partition, offset) for partition, end in ends.items() for offset in range(end)}


SOUND: dict[str, list[Any]] = {"lost": [], "doubled": [], "inverted": [], "crashes": []}


@pytest.mark.parametrize("point", ["source.after_commit", pytest.param("source.before_commit", marks=pytest.mark.slow)])
async def test_a_kill_at_a_commit_makes_one_event_of_each_record(
    database_url: str, kafka: KafkaServer, tmp_path: Path, point: str
) -> None:
    """RR-12, KS-06, KS-08: its successors begin while a foreign transaction holds a key."""
    feed = Feed(kafka, database_url, tmp_path)
    await make_topic(kafka.bootstrap, feed.topic, PARTITIONS)
    await feed.send(1_500)
    mortal, other = feed.children
    await mortal.start(f"{point}:kill@10", wait=False)
    killed = await mortal.ended(DEADLINE_SECONDS)
    async with foreign_transaction(database_url, "k1", feed.topic):
        await mortal.start(wait=False)
        await other.start(wait=False)
        await feed.stores(1_000)  # the other partitions go on
        await until(
            lambda: any("is held by" in child.log_path.read_text() for child in feed.children), DEADLINE_SECONDS
        )
    found = await feed.verdict()

    assert (killed, found) == (-9, SOUND)


@pytest.mark.slow
@pytest.mark.parametrize("count", [100, 1_600], ids=["the logs end below", "other records stand there"])
async def test_a_topic_made_anew_while_nobody_lives_stops_each_partition_until_its_command_is_run(
    database_url: str, kafka: KafkaServer, tmp_path: Path, count: int
) -> None:
    """KS-12: two processes were killed with four partitions. By the commands that they print, each new record is taken
    once, in order per key.
    """
    feed = Feed(kafka, database_url, tmp_path)
    await make_topic(kafka.bootstrap, feed.topic, PARTITIONS)
    await feed.send(800)
    for child in feed.children:
        await child.start(wait=False)
    await feed.stores(800)
    for child in feed.children:
        await child.kill()
    await feed.is_made_anew()
    await feed.send(count)
    for child in (feed.api, *feed.children):
        await child.start(wait=child is feed.api)
    troubles = await feed.troubles()
    before = len(await feed.stored())
    commands = [re.findall(r"`(hookwire sources reset [^`]* 0)`", trouble) for trouble in troubles]
    codes = [await feed.run(command) for found in commands for command in found]
    await feed.stores(800 + count)
    rows = (await feed.stored())[800:]
    for child in (feed.api, *feed.children):
        await child.drain(DEADLINE_SECONDS)
    lanes: dict[str, list[Coordinates]] = defaultdict(list)
    for row in rows:
        lanes[row["key"]].append((row["partition"], row["n"]))

    assert (before, codes, [len(found) for found in commands]) == (800, [0] * PARTITIONS, [1] * PARTITIONS)
    assert len({(row["partition"], row["n"]) for row in rows}) == len(rows) == count
    assert [key for key, lane in lanes.items() if lane != sorted(lane)] == []


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("kills", [pytest.param(40, marks=pytest.mark.slow), pytest.param(200, marks=SOAK)])
async def test_kills_of_sources_broker_and_database_make_one_event_of_each_record(
    database_url: str, kafka: KafkaServer, postgres18: PostgresServer, tmp_path: Path, seed: int, kills: int
) -> None:
    """RR-12, KS-09: every third kill is between the COMMIT and whatever the process would have done next."""
    chance = random.Random(seed)
    feed = Feed(kafka, database_url, tmp_path)
    await make_topic(kafka.bootstrap, feed.topic, PARTITIONS)
    for number in range(kills):
        await feed.send(100)
        for child in feed.children:
            if not child.is_running:
                await child.start(wait=False)
        await feed.stores(50 * number)  # something moves between two kills
        if number % 3 == 0:
            await feed.dies_at_commit(chance.choice(feed.children))
            continue
        match chance.choice(("source", "source", "broker", "database")):
            case "source":
                await chance.choice([child for child in feed.children if child.is_running] or feed.children).kill()
            case "broker":
                await asyncio.to_thread(kafka.kill)
                await asyncio.to_thread(kafka.start)
            case _:
                await asyncio.to_thread(postgres18.kill)
                await asyncio.to_thread(postgres18.start)
    for child in feed.children:
        if not child.is_running:
            await child.start(wait=False)
    found = await feed.verdict(600)

    print(f"seed {seed}: {kills} kills, every third between a COMMIT and what follows")
    assert found == SOUND
