"""The harness of the relay's benchmarks: a migrated database, a broker, a clock, and our relay as in production."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import secrets
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import asyncpg
import structlog
import uvloop
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from prometheus_client import CollectorRegistry

from app.cli.process.running import tune_gc
from benchmarks.clock import Clock
from benchmarks.harness import postgres_cpu_seconds
from db.direct import connect_direct
from db.migrate import migrate
from db.pool import Database, PoolOptions, open_database
from relay.election.lease import LeaseOptions, Leases
from relay.election.port import Election
from relay.harvester import Harvester, HarvesterOptions
from relay.holds.hold import Holds
from relay.kafka.sink import KafkaOptions, KafkaSink
from relay.metrics import RelayMetrics
from relay.outbox import Outbox
from relay.sink import Sink
from relay.sink_relay import SinkRelay
from runtime.wake import Wake
from scripts.servers.fleet import take_server

__all__ = [
    "PARTITIONS", "PAYLOAD", "Bench", "ClockedMetrics", "Costs", "Mode", "Relaying", "SinkOf", "drain", "fill",
    "line", "on_servers", "opened", "own_cpu_seconds", "relaying", "to_kafka",
]  # fmt: skip

Mode = Literal["idempotent", "transactional"]
SinkOf = Callable[[Election, int], Sink]
"""A function that builds the sink of one partition group."""

PAYLOAD = b"x" * 100
PARTITIONS = 4
_CHUNK = 1_000_000
_LOOK_SECONDS = 0.01

FILL = """
WITH event AS (
    INSERT INTO hookwire.events (id, accepted_at, ordered, tenant, topic, key, headers, sinks, payload)
    SELECT nextval('hookwire.event_id'), now(), true, 'default', $1, 'key ' || n % $2, '{}', '{kafka}', $4
    FROM generate_series(1, $3::integer) AS n
    RETURNING id, topic, key
)
INSERT INTO hookwire.outbox (id, layout, shard, sink)
SELECT id, 1, hookwire.shard_of(hookwire.key_digest(topic, key)), 'kafka' FROM event
"""


class Costs(NamedTuple):
    """The costs of one drain; the last three are per event."""

    rate: float
    relay_microseconds: float
    postgres_microseconds: float
    wal_bytes: float


@dataclass(kw_only=True)
class MeteredClock(Clock):
    """A clock that also measures the costs from :meth:`start` to :meth:`stopped`."""

    connection: asyncpg.Connection
    postmaster: int | None

    async def start(self) -> None:
        """Read the meters."""
        self._wal = await self.connection.fetchval("SELECT pg_current_wal_insert_lsn()")
        self._relay_cpu, self._postgres_cpu = own_cpu_seconds(), self._database_cpu()

    async def stopped(self) -> Costs:
        """Read the meters again; return the costs until now."""
        rate = self.rate()
        relay, postgres = own_cpu_seconds() - self._relay_cpu, self._database_cpu() - self._postgres_cpu
        wal = await self.connection.fetchval("SELECT pg_current_wal_insert_lsn() - $1", self._wal)
        per_event = 1e6 / self.events
        return Costs(rate, relay * per_event, postgres * per_event, float(wal) / self.events)

    def _database_cpu(self) -> float:
        while self.postmaster is not None:
            with contextlib.suppress(FileNotFoundError):  # a backend ended during the reading
                return postgres_cpu_seconds(self.postmaster)
        return 0.0


def own_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


@dataclass
class Bench:
    """A migrated database and a broker, with helpers for all contenders."""

    url: str
    bootstrap: str
    postmaster: int | None
    connection: asyncpg.Connection

    def clock(self, events: int) -> MeteredClock:
        """Return a clock for one drain."""
        return MeteredClock(events, connection=self.connection, postmaster=self.postmaster)

    async def settle(self, *tables: str) -> None:
        """Let the server write the filled tables to disk."""
        for table in tables:
            await self.connection.execute(f"VACUUM ANALYZE {table}")
        await self.connection.execute("CHECKPOINT")

    async def emptied(self, within_seconds: float = 600.0) -> None:
        """Wait until the outbox is empty. Raise TimeoutError after ``within_seconds``."""
        deadline = time.monotonic() + within_seconds
        while await self.connection.fetchval("SELECT EXISTS (SELECT FROM hookwire.outbox)"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"records still wait after {within_seconds:g} s")
            await asyncio.sleep(_LOOK_SECONDS)

    async def topic(self, **configs: str) -> str:
        """Create a topic of four partitions and return its name."""
        name = f"bench.{secrets.token_hex(4)}"
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        await admin.create_topics([NewTopic(name, PARTITIONS, replication_factor=1, topic_configs=configs)])
        await admin.close()
        return name


@asynccontextmanager
async def opened(server_url: str, bootstrap: str, postmaster: int | None) -> AsyncIterator[Bench]:
    """Yield a bench on a new database of this server; drop the database at the end."""
    name = f"hookwire_bench_{secrets.token_hex(4)}"
    server = await asyncpg.connect(server_url)
    await server.execute(f"CREATE DATABASE {name}")
    url = f"{server_url.rpartition('/')[0]}/{name}"
    try:
        await migrate(url)
        connection = await asyncpg.connect(url, command_timeout=3_600)
        yield Bench(url, bootstrap, postmaster, connection)
        await connection.close()
    finally:
        await server.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await server.close()


# --- ours -------------------------------------------------------------------------------------------------------


class ClockedMetrics(RelayMetrics):
    """Metrics that also notify a clock; the clock may change."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(CollectorRegistry())
        self.clock = clock

    def acknowledged(self, sink: str, group: int, records: int) -> None:
        """Count confirmed records."""
        super().acknowledged(sink, group, records)
        self.clock.acknowledged(records)


def to_kafka(bench: Bench, mode: Mode) -> SinkOf:
    """Build the Kafka sink as in production."""
    incarnation = secrets.token_hex(4)

    def made(election: Election, group: int) -> Sink:
        return KafkaSink(KafkaOptions(bench.bootstrap, incarnation, mode), lambda: election.trusted(group))

    return made


async def fill(bench: Bench, topic: str, events: int, keys: int) -> None:
    """Store ``events`` events of a topic for Kafka; a large number takes several transactions."""
    for start in range(0, events, _CHUNK):
        await bench.connection.execute(FILL, topic, keys, min(_CHUNK, events - start), PAYLOAD)


@dataclass
class Relaying:
    """A running relay."""

    relay: SinkRelay
    wakes: Sequence[Wake]
    stop: Callable[[], Awaitable[None]]

    def notify(self) -> None:
        """Wake all groups, because records wait."""
        for wake in self.wakes:
            wake.notify()


@asynccontextmanager
async def relaying(bench: Bench, sink_of: SinkOf, metrics: RelayMetrics) -> AsyncIterator[Relaying]:
    """Run the relay of the sink "kafka" in this process, in the groups of the layout, under leases."""
    database = await open_database(PoolOptions(bench.url))
    incarnation = secrets.token_hex(4)
    leases = Leases(database, lambda: connect_direct(database.options), ["kafka"], LeaseOptions("bench"))
    election = leases.election("kafka")
    wakes: list[Wake] = []

    def harvester_of(group: int) -> Harvester:
        wakes.append(Wake())
        return _harvester(database, incarnation, sink_of(election, group), wakes[-1], metrics)

    relay = SinkRelay("kafka", election, harvester_of)
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(leases.run())
            running = tasks.create_task(relay.run())

            async def stop() -> None:
                relay.stop()
                await running

            try:
                yield Relaying(relay, wakes, stop)
            finally:
                await stop()
                leases.stop()
    finally:
        await database.aclose()


def _harvester(database: Database, incarnation: str, sink: Sink, wake: Wake, metrics: RelayMetrics) -> Harvester:
    outbox = Outbox(database, "kafka", incarnation, payload=True)
    return Harvester(sink, outbox, Holds(database, "kafka", incarnation), wake, metrics, HarvesterOptions())


async def drain(bench: Bench, sink_of: SinkOf, events: int, keys: int) -> Costs:
    """Fill, settle, relay until the outbox is empty; return the costs."""
    topic = await bench.topic()
    await bench.connection.execute("TRUNCATE hookwire.outbox, hookwire.events, hookwire.ledger_entries")
    await fill(bench, topic, events, keys)
    await bench.settle("hookwire.outbox", "hookwire.events")
    clock = bench.clock(events)
    await clock.start()
    async with relaying(bench, sink_of, ClockedMetrics(clock)) as ours:
        await clock.done.wait()
        await ours.stop()
        costs = await clock.stopped()
    assert not await bench.connection.fetchval("SELECT EXISTS (SELECT FROM hookwire.outbox)")
    return costs


# --- servers, lines ---------------------------------------------------------------------------------------------


def on_servers(run: Callable[[str, str, int | None], Awaitable[None]]) -> None:
    """Call ``run`` with PostgreSQL's URL, Kafka's address and, if the server is ours, its process id."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    # At the start of a transaction the broker asks for a repeat, and the client logs that each time.
    logging.getLogger("aiokafka").setLevel(logging.ERROR)
    tune_gc()  # as in every command of hookwire
    with tempfile.TemporaryDirectory(prefix="hookwire-bench-") as folder:
        Path(folder).chmod(0o711)  # PostgreSQL runs under another account
        postgres = take_server("postgres18", Path(folder), os.environ)
        kafka = take_server("kafka", Path(folder), os.environ, lasting=True)
        postmaster = None if "HOOKWIRE_TEST_POSTGRES18_URL" in os.environ else postgres.pid
        try:
            uvloop.run(_ran(run(postgres.address, kafka.address, postmaster)))
        finally:
            kafka.discard()
            postgres.discard()


async def _ran(running: Awaitable[None]) -> None:
    await running


def line(name: str, rows: Sequence[Costs], ratio: str = "") -> str:
    """Return a contender's line: the median rate with its spread, and the cost of an event."""
    rates = sorted(costs.rate for costs in rows)
    relay, postgres, wal = (statistics.median(values) for values in list(zip(*rows, strict=True))[1:])
    return (
        f"{name:28} {statistics.median(rates):8,.0f} events/s ({rates[0]:,.0f}-{rates[-1]:,.0f}) {ratio}"
        f"  {relay:5.1f} us relay, {postgres:5.1f} us PostgreSQL, {wal:4.0f} B WAL"
    )
