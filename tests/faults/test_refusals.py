"""A Kafka that refuses: what tells against a record or a topic parks that, and everything else goes on (F21)."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition

from app.chaos.scenario import TOPIC
from scripts.servers.kafka import KafkaFollower, KafkaServer
from tests.faults.harness import CALM, CLEAN, SOAK, Harness, Kafka, open_harness
from tests.faults.traffic import Traffic
from tests.relay.kafka.kafka_topic import (
    WRITE,
    allow,
    ask_for_message_bytes_max,
    deny,
    make_topic,
    read_committed,
)
from tests.waiting import until

OTHER = "witness.other"
REPEATS_MAX = 500
SMALL, LARGE = 5_000, 20_000  # bytes that a record may have, and that the one too large has
both_modes = pytest.mark.parametrize(
    "mode", [pytest.param("transactional", marks=pytest.mark.slow), pytest.param("idempotent", marks=SOAK)]
)


@pytest.fixture(scope="module")
def pair(servers_folder: Path) -> Iterator[tuple[KafkaServer, KafkaFollower]]:
    """Two brokers; what Kafka keeps for itself is with the first, so that the second may go."""
    first = KafkaServer("first", servers_folder / "first")
    second = KafkaFollower("second", servers_folder / "second", first)
    try:
        first.start()
        asyncio.run(_own_topics_made(first.bootstrap))
        second.start()
        yield first, second
    finally:
        second.discard()
        first.discard()


async def _own_topics_made(bootstrap: str) -> None:
    """Transactions' and groups' topics are made when they are first asked for, the relay's here."""
    await make_topic(bootstrap, "hookwire.progress", 1)
    made = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="first")
    async with made as producer, producer.transaction():
        await producer.send_and_wait("hookwire.progress", b"first")
        await producer.send_offsets_to_transaction({TopicPartition("hookwire.progress", 0): 0}, "first")


class Scene:
    """The witness's topic, which is hurt, and another topic of the same broker, which has to go on."""

    def __init__(self, harness: Harness, broker: Kafka) -> None:
        self.harness = harness
        self.topic = broker.prefix + TOPIC
        self._broker = broker
        self._others: list[str] = []

    async def held(self) -> set[str]:
        """The keys that wait; '' is the whole topic."""
        rows = await self.harness.scenario.database.fetch("hold.open", "kafka", 0)
        return {row["key"] for row in rows if row["topic"] == TOPIC}

    async def comes(self, is_so: Callable[[], Awaitable[bool]], seconds_max: float = 60.0) -> None:
        await until(lambda: is_so(), seconds_max)

    async def waits(self, *keys: str) -> None:
        """Just these keys come to be held."""

        async def so() -> bool:
            return await self.held() == {*keys}

        await self.comes(so)

    async def other_topic_goes_on(self) -> None:
        """What is published there now comes, once and in order."""
        for _ in range(20):
            self._others.append(str(len(self._others)))
            await self.harness.scenario.database.fetchval("witness.publish", OTHER, self._others[-1].encode(), "other")

        async def so() -> bool:
            messages = await read_committed(self._broker.bootstrap, self._broker.prefix + OTHER)
            return [(message.value or b"").decode() for message in messages] == self._others

        await self.comes(so)

    async def kafka_receives(self, count: int) -> None:
        goal = await self._broker.count() + count

        async def so() -> bool:
            return await self._broker.count() >= goal

        await self.comes(so)


@both_modes
async def test_a_topic_that_is_missing_closed_or_too_small_waits_and_everything_else_goes_on(
    mode: str, strict_kafka: KafkaServer, database_url: str, tmp_path: Path, seed: int
) -> None:
    """RL-07, RO-08, F21: I1 I3 I4=0 I7"""
    broker = Kafka(strict_kafka.bootstrap, mode=mode)
    await make_topic(strict_kafka.bootstrap, broker.prefix + OTHER, 1)
    async with open_harness(database_url, tmp_path, seed, broker, processes=1, **CALM) as harness:
        scene, traffic = Scene(harness, broker), Traffic(harness)
        async with harness.scenario.load():
            await scene.waits("")
            await scene.other_topic_goes_on()
            await harness.receives("plain", 50)
            await make_topic(strict_kafka.bootstrap, scene.topic, max_message_bytes=str(SMALL))
            await scene.waits()
            await scene.kafka_receives(50)

            await deny(strict_kafka.bootstrap, scene.topic, WRITE)
            await scene.waits("")
            await scene.other_topic_goes_on()
            await harness.receives("plain", 50)
            await allow(strict_kafka.bootstrap, scene.topic, WRITE)
            await scene.waits()
            await scene.kafka_receives(50)

            await traffic.publish("large", payload_bytes=LARGE)
            await scene.waits("large")
            await traffic.publish("large")
            await scene.other_topic_goes_on()
            await scene.kafka_receives(50)
            assert await scene.held() == {"large"}
            await ask_for_message_bytes_max(strict_kafka.bootstrap, scene.topic, 10 * LARGE)
            await scene.waits()
        print(f"seed {seed}, {mode}: refused and healed three times")
        assert await harness.concluded(duplicates_max=0) == CLEAN


@both_modes
async def test_a_topic_whose_replicas_are_missing_waits_and_everything_else_goes_on(
    mode: str, pair: tuple[KafkaServer, KafkaFollower], database_url: str, tmp_path: Path, seed: int
) -> None:
    """RK-14, RO-08, F21, GW-01: I1 I3 I4 I7; a broker is gone, so one topic has fewer replicas in sync than it wants.

    That tells against this topic alone. A transaction with it cannot end, so the relay goes on under its spare id.
    """
    first, second = pair
    broker = Kafka(first.bootstrap, mode=mode)
    await make_topic(first.bootstrap, broker.prefix + TOPIC, brokers=(1, 2), min_insync_replicas="2")
    await make_topic(first.bootstrap, broker.prefix + OTHER, 1, brokers=(1,))
    async with open_harness(database_url, tmp_path, seed, broker, processes=1, **CALM) as harness:
        scene = Scene(harness, broker)
        async with harness.scenario.load():
            await scene.kafka_receives(100)
            await asyncio.to_thread(second.kill)
            try:
                await scene.waits("")
                await harness.accepts(50)
                await harness.receives("plain", 50)
                await scene.other_topic_goes_on()
            finally:
                await asyncio.to_thread(second.start)
            await scene.waits()
            await scene.kafka_receives(100)
        # Without transactions, what the leader has and its follower has not is kept in the end, and sent again.
        found = await harness.concluded(duplicates_max=0 if mode == "transactional" else REPEATS_MAX)
        assert found == CLEAN
