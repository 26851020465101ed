"""Nine events in ten have one key, and one of them is poison: what the others notice of it (F57)."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer

from app.witness.history import Attempt, Outcome
from app.witness.mark import Mark
from app.witness.stage import TOPIC
from scripts.servers.kafka import KafkaServer
from tests.faults.rig import CALM, CLEAN, Kafka, Rig, open_rig, until
from tests.relay.kafka_topic import ask_for_message_bytes_max, make_topic

HOT_SHARE = 9  # of ten
ROUNDS = 60
PAUSE_SECONDS = 0.02
COLD_KEYS = 5
# Promised are 2; the machine is others' too, and may be busy in one phase and idle in the next.
SLOWER_MAX = 20
SECONDS_MIN = 0.05


class Traffic:
    """Publishes by SQL and knows when each event was committed; ``arrived``: when a read-committed reader had it."""

    def __init__(self, rig: Rig) -> None:
        self.arrived: dict[Mark, float] = {}
        self._rig = rig
        self._numbers: Counter[str] = Counter()
        self._committed: dict[Mark, float] = {}

    async def publish(self, *keys: str, payload_bytes: int = 0) -> list[Mark]:
        """One transaction with an event for each key."""
        marks, at = [], time.time()
        for key in keys:
            self._numbers[key] += 1
            marks.append(Mark("traffic", TOPIC, key, self._numbers[key]))
        async with self._rig.stage.database.transaction() as transaction:
            ids = [
                await transaction.fetchval("witness.publish", TOPIC, mark.to_payload(at, payload_bytes), mark.key)
                for mark in marks
            ]
        for mark, event_id in zip(marks, ids, strict=True):
            self._committed[mark] = time.monotonic()
            self._rig.stage._history.record(Attempt(mark, Outcome.OK, event_id, client_time=at))
        return marks

    async def phase(self, hot_share: int) -> tuple[list[Mark], list[Mark]]:
        """Round after round an event of a cold key behind so many of the hot one; ends when the cold ones have arrived.

        Returns the hot and the cold ones.
        """
        hot: list[Mark] = []
        cold: list[Mark] = []
        for number in range(ROUNDS):
            *some, one = await self.publish(*["hot"] * hot_share, f"cold {number % COLD_KEYS}")
            hot += some
            cold.append(one)
            await asyncio.sleep(PAUSE_SECONDS)
        await until(lambda: self.arrived.keys() >= set(cold), 60)
        return hot, cold

    def p99(self, marks: list[Mark]) -> float:
        """Seconds from COMMIT to the reader."""
        seconds = sorted(self.arrived[mark] - self._committed[mark] for mark in marks)
        return seconds[int(0.99 * (len(seconds) - 1))]


@asynccontextmanager
async def read_by(traffic: Traffic, bootstrap: str, topic: str) -> AsyncIterator[None]:
    """A reader that notes what arrives while the block runs."""
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest",
        enable_auto_commit=False, fetch_max_wait_ms=20,
    )  # fmt: skip
    await consumer.start()

    async def read() -> None:
        async for record in consumer:
            traffic.arrived.setdefault(Mark.from_payload(record.value), time.monotonic())

    reading = asyncio.create_task(read())
    try:
        yield
    finally:
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
        await consumer.stop()


@pytest.mark.slow
async def test_other_keys_go_on_beside_a_hot_key_and_beside_poison_on_it(
    database_url: str, kafka: KafkaServer, tmp_path: Path, seed: int
) -> None:
    """RL-08, F57: I7 I1 I3 I4=0. In one run: cold keys alone, then with the hot one, then with poison at its head."""
    broker = Kafka(kafka.bootstrap)
    topic = broker.prefix + TOPIC
    await make_topic(kafka.bootstrap, topic, 4, max_message_bytes="5000")
    async with open_rig(database_url, tmp_path, seed, broker, processes=1, **CALM) as rig:
        traffic = Traffic(rig)
        async with read_by(traffic, kafka.bootstrap, topic):
            await traffic.phase(0)  # whatever is done for the first time
            _, alone = await traffic.phase(0)
            hot, beside_hot = await traffic.phase(HOT_SHARE)
            await until(lambda: traffic.arrived.keys() >= set(hot), 60)
            [poison] = await traffic.publish("hot", payload_bytes=20_000)
            behind_poison, beside_poison = await traffic.phase(HOT_SHARE)
            overtaken = traffic.arrived.keys() & {poison, *behind_poison}
            await ask_for_message_bytes_max(kafka.bootstrap, topic, 100_000)
            await until(lambda: traffic.arrived.keys() >= {poison, *behind_poison}, 60)
        p99 = {name: traffic.p99(cold) for name, cold in (("hot", beside_hot), ("poison", beside_poison))}
        usual = traffic.p99(alone)
        for name, seconds in p99.items():
            print(f"seed {seed}, cold keys beside {name}: p99 {seconds * 1000:.0f} ms, {seconds / usual:.1f} x alone")
        assert await rig.concluded(duplicates_max=0) == CLEAN
    assert (overtaken, max(p99.values()) <= SLOWER_MAX * max(usual, SECONDS_MIN)) == (set(), True), p99
