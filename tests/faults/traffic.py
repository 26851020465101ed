"""Events of single keys, each with the moments of its COMMIT and of its arrival in Kafka (F21, F57)."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress

from aiokafka import AIOKafkaConsumer

from app.chaos.history import Attempt, PublishOutcome
from app.chaos.mark import Mark
from app.chaos.scenario import TOPIC
from tests.faults.harness import Harness
from tests.waiting import until

# Promised are 2; the machine is others' too, and may be busy in one phase and idle in the next.
SLOWER_MAX = 20
SECONDS_MIN = 0.05

ROUNDS = 60
PAUSE_SECONDS = 0.02
COLD_KEYS = 5


def p99(seconds: Iterable[float]) -> float:
    """What 99 of a hundred stay below."""
    ordered = sorted(seconds)
    return ordered[int(0.99 * (len(ordered) - 1))]


def is_slower(sick: float, usual: float) -> bool:
    """Whether a p99 beside a fault is worse than the same run's without it, and noticeably so."""
    return sick > SLOWER_MAX * max(usual, SECONDS_MIN)


class Traffic:
    """Publishes by SQL and knows when each event was committed; ``arrived``: when a read-committed reader had it."""

    def __init__(self, harness: Harness) -> None:
        self.arrived: dict[Mark, float] = {}
        self._harness = harness
        self._numbers: Counter[str] = Counter()
        self._committed: dict[Mark, float] = {}

    async def publish(self, *keys: str, payload_bytes: int = 0) -> list[Mark]:
        """One transaction with an event for each key."""
        marks, at = [], time.time()
        for key in keys:
            self._numbers[key] += 1
            marks.append(Mark("traffic", TOPIC, key, self._numbers[key]))
        async with self._harness.scenario.database.transaction() as transaction:
            ids = [
                await transaction.fetchval("witness.publish", TOPIC, mark.to_payload(at, payload_bytes), mark.key)
                for mark in marks
            ]
        for mark, event_id in zip(marks, ids, strict=True):
            self._committed[mark] = time.monotonic()
            self._harness.scenario._history.record(Attempt(mark, PublishOutcome.OK, event_id, client_time=at))
        return marks

    async def phase(self, hot_share: int, seconds_max: float = 60.0) -> tuple[list[Mark], list[Mark]]:
        """Round after round an event of a cold key behind so many of the hot one; ends when the cold ones have arrived.

        Returns the hot and the cold ones. Raises TimeoutError when they need longer than ``seconds_max``.
        """
        hot: list[Mark] = []
        cold: list[Mark] = []
        for number in range(ROUNDS):
            *some, one = await self.publish(*["hot"] * hot_share, f"cold {number % COLD_KEYS}")
            hot += some
            cold.append(one)
            await asyncio.sleep(PAUSE_SECONDS)
        await until(lambda: self.arrived.keys() >= set(cold), seconds_max)
        return hot, cold

    def p99(self, marks: list[Mark]) -> float:
        """Seconds from COMMIT to the reader."""
        return p99(self.arrived[mark] - self._committed[mark] for mark in marks)


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
