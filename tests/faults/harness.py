"""What the fault scenarios share: a scenario on real servers, readers of the brokers, and the verdict as one object.

A scenario reads: harness, load, fault, heal, `concluded`. It has to end with CLEAN: nothing lost, nothing invented,
nothing reordered, no two sinks in disagreement, no more repeats than can have been in flight (I1 to I5), and no process
that ended by itself.
"""

import asyncio
import heapq
import random
import secrets
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import aio_pika
import asyncpg
import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from app.chaos.arrivals import ArrivalWriter
from app.chaos.checker import Promise, Report
from app.chaos.log import LineLog
from app.chaos.mark import Mark
from app.chaos.scenario import TOPIC, Scenario, ScenarioOptions, open_scenario
from event.key_hash import hash_key, keyless_shard
from tests.rolled_up import miscounted
from tests.waiting import until

QUIET_SECONDS_MAX = 90.0
_MARKERS_SECONDS_MAX = 60.0
"""Without a record the broker may take so long to write the markers of a committed transaction."""
SOAK = (pytest.mark.slow, pytest.mark.soak)


@dataclass(frozen=True)
class Verdict:
    """What the witness says, in the words of the invariants."""

    lost: int = 0
    invented: int = 0
    reordered: int = 0
    stale_term: int = 0
    sequence_disorder: int = 0
    half_present: int = 0
    duplicates_too_many: int = 0
    crashes: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()


CLEAN = Verdict()

CALM: Mapping[str, float] = {"lease_seconds": 15.0, "delivery_timeout_seconds": 15.0}
"""For scenarios in which no process dies without a word: there a repeat is a bug, unless a machine that is short of
processors lets a lease or an attempt run out.
"""


def verdict(report: Report, duplicates_max: int) -> Verdict:
    """The report in the words of the invariants; prints what was counted."""
    duplicates = report.total("duplicate_adjacent") + report.total("duplicate_non_adjacent")
    repeats = {one.sink: one.duplicate_adjacent + one.duplicate_non_adjacent for one in report.sinks}
    print(f"{report.accepted} accepted, {report.unknown} unknown; arrived again: {repeats}")
    return Verdict(
        lost=report.total("lost"),
        invented=report.total("invented"),
        reordered=report.total("inverted") + report.total("duplicate_forbidden"),
        stale_term=report.total("stale_term"),
        sequence_disorder=report.total("sequence_disorder"),
        half_present=report.unknown_half_present,
        duplicates_too_many=max(duplicates - duplicates_max, 0),
        evidence=() if report.holds and duplicates <= duplicates_max else tuple(map(str, report.findings[:12])),
    )


class Rabbit:
    """One scenario's exchange and queue on a RabbitMQ; the queue's messages, in its order, are the arrivals."""

    sink = "amqp"
    promise = Promise.RECORD

    def __init__(self, url: str, through: str = "") -> None:
        """``through``: the URL of a proxy, by which the service goes there."""
        self.url = url
        self.through = through or url
        self.name = f"witness-{secrets.token_hex(4)}"

    @property
    def settings(self) -> Mapping[str, str]:
        return {"AMQP_URL": self.through, "AMQP_EXCHANGE": self.name}

    async def bind(self) -> None:
        """Declare exchange and queue where they are missing, and bind them."""
        connection = await aio_pika.connect(self.url)
        async with connection, connection.channel() as channel:
            exchange = await channel.declare_exchange(self.name, "topic", durable=True)
            queue = await channel.declare_queue(self.name, durable=True)
            await queue.bind(exchange, "#")

    async def delete_exchange(self) -> None:
        """Delete the exchange, and with it the binding; the queue keeps what it has."""
        connection = await aio_pika.connect(self.url)
        async with connection, connection.channel() as channel:
            await channel.exchange_delete(self.name)

    async def unbind(self) -> None:
        """Take the queue away from the exchange."""
        connection = await aio_pika.connect(self.url)
        async with connection, connection.channel() as channel:
            queue = await channel.get_queue(self.name)
            await queue.unbind(self.name, "#")

    async def count(self) -> int:
        """Messages in the queue."""
        connection = await aio_pika.connect(self.url)
        async with connection, connection.channel() as channel:
            queue = await channel.declare_queue(self.name, passive=True)
            return queue.declaration_result.message_count or 0

    async def read(self, folder: Path) -> None:
        """Take everything out of the queue into the arrival log; then delete queue and exchange."""
        connection = await aio_pika.connect(self.url)
        with LineLog(folder / f"arrivals-{self.sink}.jsonl") as log:
            writer = ArrivalWriter(log, self.sink)
            async with connection, connection.channel() as channel:
                queue = await channel.declare_queue(self.name, passive=True)
                left = queue.declaration_result.message_count or 0
                # Sent to us in a stream: asked for one by one they cost a round trip each.
                async with queue.iterator(no_ack=True) as messages:
                    while left:
                        message = await anext(messages)
                        left -= 1
                        headers = message.headers
                        writer.record(
                            Mark.from_payload(message.body),
                            event_id=message.message_id,
                            sequence=_number(headers.get("hookwire-sequence")),
                            term=_number(headers.get("hookwire-term")),
                            stream="queue",
                        )
                await channel.queue_delete(self.name)
                await channel.exchange_delete(self.name)


class Kafka:
    """One scenario's topics on a Kafka; what a read-committed reader gets, per partition, are the arrivals."""

    sink = "kafka"

    def __init__(
        self, bootstrap: str, reader_bootstrap: str = "", mode: str = "transactional", window: str = "batch"
    ) -> None:
        self.bootstrap = bootstrap
        self.reader_bootstrap = reader_bootstrap or bootstrap
        self.mode = mode
        self.window = window
        self.promise = Promise.RECORD if window == "record" else Promise.BATCH
        self.prefix = f"witness-{secrets.token_hex(4)}."

    @property
    def settings(self) -> Mapping[str, str]:
        return {
            "KAFKA_BOOTSTRAP_SERVERS": self.bootstrap,
            "KAFKA_TOPIC_PREFIX": self.prefix,
            "KAFKA_MODE": self.mode,
            "KAFKA_WINDOW": self.window,
        }

    async def count(self) -> int:
        """Records in the topic, transaction markers included."""
        return len([None async for _ in self._records()])

    async def read(self, folder: Path) -> None:
        """Read the topic from its beginning to its end into the arrival log; rows of goharvest's have no event id."""
        with LineLog(folder / f"arrivals-{self.sink}.jsonl") as log:
            writer = ArrivalWriter(log, self.sink)
            async for record in self._records():
                headers = dict(record.headers)
                event_id = headers["hookwire-event-id"].decode() if "hookwire-event-id" in headers else None
                writer.record(
                    Mark.from_payload(record.value),
                    event_id=event_id,
                    sequence=_number(headers.get("hookwire-sequence")),
                    term=_number(headers.get("hookwire-term")),
                    stream=f"partition {record.partition}",
                    group=_shard(Mark.from_payload(record.value), event_id),
                )

    async def _records(self) -> AsyncIterator[ConsumerRecord]:
        """Each partition in its order, and all of them by time; a sequence decides within a millisecond.

        The times are the broker's where the topic says so: only then does it matter that a key has moved (F58).
        """
        consumer = AIOKafkaConsumer(
            self.prefix + TOPIC,
            bootstrap_servers=self.reader_bootstrap,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        found = defaultdict(list)
        try:
            ends = await self._ends()
            # A transaction that stays open hides the rest. That is a TimeoutError, because nothing is known to be lost.
            async with asyncio.timeout(_MARKERS_SECONDS_MAX) as patience:
                while any([await consumer.position(one) < end for one, end in ends.items()]):
                    for partition, records in (await consumer.getmany(timeout_ms=500)).items():
                        found[partition] += records
                        patience.reschedule(asyncio.get_running_loop().time() + _MARKERS_SECONDS_MAX)
        finally:
            await consumer.stop()
        for record in heapq.merge(*found.values(), key=_moment):
            yield record

    async def _ends(self) -> dict[TopicPartition, int]:
        """Return where each partition ends, transactions included whose markers the broker has yet to write.

        A read-committed consumer is told an earlier end for a moment after the commit was acknowledged.
        """
        consumer = AIOKafkaConsumer(self.prefix + TOPIC, bootstrap_servers=self.reader_bootstrap)
        await consumer.start()
        try:
            ends: dict[TopicPartition, int] = await consumer.end_offsets(consumer.assignment())
            return ends
        finally:
            await consumer.stop()


def _moment(record: ConsumerRecord) -> tuple[int, int]:
    return record.timestamp, _number(dict(record.headers).get("hookwire-sequence")) or 0


def _shard(mark: Mark, event_id: str | None) -> int:
    """Terms are counted per partition group; a shard is in one group, whichever the layout (RO-05)."""
    if mark.key is not None:
        return hash_key(mark.topic, mark.key).shard
    assert event_id is not None, "goharvest's rows have keys"
    return keyless_shard(int(event_id.rpartition("_")[2]))


def _number(value: object) -> int | None:
    if isinstance(value, bytes):
        return int(value)
    return value if isinstance(value, int) else None


class Harness:
    """A scenario and the brokers behind it."""

    def __init__(self, scenario: Scenario, *brokers: Rabbit | Kafka) -> None:
        self.scenario = scenario
        self.brokers = brokers

    async def concluded(self, *, duplicates_max: int, quiet_seconds_max: float = QUIET_SECONDS_MAX) -> Verdict:
        """Wait until all is quiet (I13), read the brokers, judge; the numbers of attempts are right, too."""
        found = await self.judged(duplicates_max=duplicates_max, quiet_seconds_max=quiet_seconds_max)
        assert await miscounted(self.scenario.options.database_url) == {}
        return found

    async def judged(self, *, duplicates_max: int, quiet_seconds_max: float = QUIET_SECONDS_MAX) -> Verdict:
        """Return what the witness says, without the numbers of attempts."""
        await self.scenario.quiet(quiet_seconds_max)
        for broker in self.brokers:
            await broker.read(self.scenario.options.folder)
        found = verdict(await self.scenario.judge(), duplicates_max + await self.scenario.unanswered())
        return replace(found, crashes=tuple(self.scenario.crashes))

    async def accepts(self, count: int, seconds_max: float = 60.0) -> None:
        """Wait until so many more events were accepted: progress, asserted while a fault lasts (OR-05)."""
        goal = self.scenario.accepted + count
        await until(lambda: self.scenario.accepted >= goal, seconds_max)

    async def receives(self, sink: str, count: int, seconds_max: float = 60.0) -> None:
        """Wait until a receiver got so many more."""
        receiver = self.scenario.receivers[sink]
        goal = receiver.arrived + count
        await until(lambda: receiver.arrived >= goal, seconds_max)


@asynccontextmanager
async def open_harness(
    database_url: str, folder: Path, seed: int, *brokers: Rabbit | Kafka, settings: Mapping[str, str] | None = None,
    kafka_groups: int = 1, **options: object,
) -> AsyncIterator[Harness]:  # fmt: skip
    """A scenario with these brokers as its sinks; Kafka in one partition group, or in so many."""
    merged = dict(settings or {})
    for broker in brokers:
        merged |= broker.settings
    await _make_new(database_url, kafka_groups)
    async with AsyncExitStack() as stack:
        for broker in brokers:
            if isinstance(broker, Rabbit):
                await broker.bind()
        promises = {broker.sink: broker.promise for broker in brokers}
        scenario = await stack.enter_async_context(
            open_scenario(
                ScenarioOptions(database_url, folder, seed, settings=merged, promises=promises, **options)  # type: ignore[arg-type]
            )
        )
        yield Harness(scenario, *brokers)


async def _make_new(database_url: str, kafka_groups: int) -> None:
    """Every test's database is a clone; without a name of its own a relay would rightly refuse it (F59, RP-10)."""
    connection = await asyncpg.connect(database_url)
    name = "".join(random.choices("abcdefghijklmnopqrstuvwxyz234567", k=8))
    await connection.execute("UPDATE hookwire.installation SET incarnation = $1", name)
    await connection.execute("UPDATE hookwire.layouts SET groups = jsonb_build_object('kafka', $1::int)", kafka_groups)
    await connection.close()
