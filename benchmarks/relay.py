"""The relay against a goharvest-shaped drain, on the same PostgreSQL and the same Kafka, in one run (RB-14, RB-15).

    python -m benchmarks.relay --events 100000 --rounds 3
    python -m benchmarks.relay --backlog 10000 1000000

The yardstick does what goharvest does by default, on a table of goharvest's shape: it marks 100 rows at a time with its
leader id, hands each record to one of eight cells by its key, each with a producer of its own, sends it by itself with
at most one in flight per key, and deletes its row by itself; all its statements share two connections. It drains a
twentieth of the events. Ours is the harvester with its real outbox, manifests and Kafka sink, in both modes.

A second row runs the yardstick with one producer for all cells: records of different cells may then share the client's
batches. Which of the two is faster has differed from machine to machine, so both ratios are printed.

Events have 100 bytes and no headers of their own (ours then carry four, the yardstick's one). Tables are filled in bulk
and the server writes that out before the clock starts; the clock runs from the first acknowledged batch to the last
purge. Contenders alternate; the median rate of each is printed, and per event the processor time of the relay's
process and of PostgreSQL, and the bytes of write-ahead log. With ``--backlog`` the idempotent mode drains backlogs of
those sizes instead: the cost of an event should not depend on how many wait behind it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import resource
import secrets
import statistics
import tempfile
import time
import uuid
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import asyncpg
import structlog
import uvloop
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from prometheus_client import CollectorRegistry

from benchmarks.stage import postgres_cpu_seconds
from db.direct import connect_direct
from db.migrate import migrate
from db.pool import Database, PoolOptions, open_database
from relay.harvester import Harvester, HarvesterOptions
from relay.hold import Holds
from relay.kafka import KafkaOptions, KafkaSink
from relay.lease import LeaseOptions, Leases
from relay.metrics import RelayMetrics
from relay.outbox import Outbox
from relay.sink_relay import SinkRelay
from relay.wake import Wake
from scripts.servers.fleet import take_server

Mode = Literal["idempotent", "transactional"]
PAYLOAD = b"x" * 100
MARK_ROWS = 100
IN_FLIGHT_MAX = 1_000
CELLS = 8
YARDSTICK = "goharvest-shaped"

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
YARDSTICK_TABLE = """
CREATE TABLE outbox (
    id bigserial PRIMARY KEY, create_time timestamptz NOT NULL DEFAULT now(), kafka_topic varchar(249) NOT NULL,
    kafka_key varchar(100) NOT NULL, kafka_value varchar(10000), kafka_header_keys text[] NOT NULL,
    kafka_header_values text[] NOT NULL, leader_id uuid
)
"""
YARDSTICK_FILL = """
INSERT INTO outbox (kafka_topic, kafka_key, kafka_value, kafka_header_keys, kafka_header_values)
SELECT $1, 'key ' || n % $2, $4, '{Seq}', ARRAY[n::text] FROM generate_series(1, $3::integer) AS n
"""
YARDSTICK_MARK = """
UPDATE outbox SET leader_id = $1 WHERE id IN (
    SELECT id FROM outbox WHERE leader_id IS NULL OR leader_id <> $1 ORDER BY id LIMIT $2
) RETURNING id, kafka_topic, kafka_key, kafka_value, kafka_header_keys, kafka_header_values
"""


class Costs(NamedTuple):
    """Of one drain; the last three are per event."""

    rate: float
    relay_microseconds: float
    postgres_microseconds: float
    wal_bytes: float


@dataclass
class Clock:
    """Runs from the first acknowledgement to :meth:`stopped`; ``done`` is set when ``events`` are acknowledged."""

    events: int
    connection: asyncpg.Connection
    postmaster: int | None
    done: asyncio.Event
    count: int = 0
    counted_before: int = 0
    began: float = 0.0

    def acknowledged(self, records: int) -> None:
        """Count confirmed events; the first ones start the time."""
        self.count += records
        if not self.began:
            self.began, self.counted_before = time.perf_counter(), self.count
        if self.count >= self.events:
            self.done.set()

    async def start(self) -> None:
        """Read the meters."""
        self._wal = await self.connection.fetchval("SELECT pg_current_wal_insert_lsn()")
        self._relay_cpu, self._postgres_cpu = own_cpu_seconds(), self._database_cpu()

    async def stopped(self) -> Costs:
        """Read the meters again; the time runs until now."""
        seconds = time.perf_counter() - self.began
        relay, postgres = own_cpu_seconds() - self._relay_cpu, self._database_cpu() - self._postgres_cpu
        wal = await self.connection.fetchval("SELECT pg_current_wal_insert_lsn() - $1", self._wal)
        per_event = 1e6 / self.events
        rate = (self.events - self.counted_before) / seconds
        return Costs(rate, relay * per_event, postgres * per_event, float(wal) / self.events)

    def _database_cpu(self) -> float:
        while self.postmaster is not None:
            with contextlib.suppress(FileNotFoundError):  # a backend that ended while we looked
                return postgres_cpu_seconds(self.postmaster)
        return 0.0


def own_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


@dataclass
class Bench:
    """A migrated database and a broker, and what a contender needs of them."""

    url: str
    bootstrap: str
    postmaster: int | None
    connection: asyncpg.Connection

    def clock(self, events: int) -> Clock:
        """A clock for one drain."""
        return Clock(events, self.connection, self.postmaster, asyncio.Event())

    async def settle(self, *tables: str) -> None:
        """Let the server write out what was filled in bulk."""
        for table in tables:
            await self.connection.execute(f"VACUUM ANALYZE {table}")
        await self.connection.execute("CHECKPOINT")

    async def topic(self) -> str:
        """A new topic of four partitions."""
        name = f"bench.{secrets.token_hex(4)}"
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        await admin.create_topics([NewTopic(name, num_partitions=4, replication_factor=1)])
        await admin.close()
        return name


@asynccontextmanager
async def opened(server_url: str, bootstrap: str, postmaster: int | None) -> AsyncIterator[Bench]:
    name = f"hookwire_bench_{secrets.token_hex(4)}"
    server = await asyncpg.connect(server_url)
    await server.execute(f"CREATE DATABASE {name}")
    url = f"{server_url.rpartition('/')[0]}/{name}"
    try:
        await migrate(url)
        connection = await asyncpg.connect(url, command_timeout=600)
        await connection.execute(YARDSTICK_TABLE)
        yield Bench(url, bootstrap, postmaster, connection)
        await connection.close()
    finally:
        await server.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await server.close()


# --- ours -------------------------------------------------------------------------------------------------------


class ClockedMetrics(RelayMetrics):
    """Tells the clock, too."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(CollectorRegistry())
        self._clock = clock

    def acknowledged(self, sink: str, group: int, records: int) -> None:
        """Count confirmed records."""
        super().acknowledged(sink, group, records)
        self._clock.acknowledged(records)


async def hookwire(bench: Bench, mode: Mode, events: int, keys: int) -> Costs:
    topic = await bench.topic()
    await bench.connection.execute("TRUNCATE hookwire.outbox, hookwire.events")
    await bench.connection.execute(FILL, topic, keys, events, PAYLOAD)
    await bench.settle("hookwire.outbox", "hookwire.events")
    database = await open_database(PoolOptions(bench.url))
    clock = bench.clock(events)
    leases, relay = make_relay(bench, database, mode, ClockedMetrics(clock))
    await clock.start()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(leases.run())
        relaying = tasks.create_task(relay.run())
        await clock.done.wait()
        relay.stop()
        await relaying
        leases.stop()
    costs = await clock.stopped()
    assert not await bench.connection.fetchval("SELECT EXISTS (SELECT FROM hookwire.outbox)")
    await database.aclose()
    return costs


def make_relay(bench: Bench, database: Database, mode: Mode, metrics: RelayMetrics) -> tuple[Leases, SinkRelay]:
    incarnation = secrets.token_hex(4)
    leases = Leases(database, lambda: connect_direct(database.options), ["kafka"], LeaseOptions("bench"))
    election = leases.election("kafka")

    def harvester_of(group: int) -> Harvester:
        sink = KafkaSink(KafkaOptions(bench.bootstrap, incarnation, mode), lambda: election.trusted(group))
        return Harvester(
            sink, Outbox(database, "kafka", incarnation, payload=True), Holds(database, "kafka", incarnation),
            Wake(), metrics, HarvesterOptions(),
        )  # fmt: skip

    return leases, SinkRelay("kafka", election, harvester_of)


# --- the yardstick ----------------------------------------------------------------------------------------------


class Yardstick:
    """goharvest's loop: mark, send one by one with one in flight per key, delete one by one."""

    def __init__(self, pool: asyncpg.Pool, producers: Sequence[AIOKafkaProducer], clock: Clock) -> None:
        self._pool = pool
        self._producers = producers
        self._clock = clock
        self._leader = uuid.uuid4()
        self._slots = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._busy: dict[str, asyncio.Event] = {}

    async def run(self) -> None:
        """Drain until the clock is done."""
        async with asyncio.TaskGroup() as sends:
            while not self._clock.done.is_set():
                marked = await self._pool.fetch(YARDSTICK_MARK, self._leader, MARK_ROWS)
                if not marked:
                    await asyncio.sleep(0.01)
                for row in sorted(marked, key=lambda row: row["id"]):
                    while (busy := self._busy.get(row["kafka_key"])) is not None:
                        await busy.wait()
                    await self._slots.acquire()
                    self._busy[row["kafka_key"]] = asyncio.Event()
                    sends.create_task(self._carry(row))

    async def _carry(self, row: Any) -> None:
        key = row["kafka_key"].encode()
        headers = [(k, v.encode()) for k, v in zip(row["kafka_header_keys"], row["kafka_header_values"], strict=True)]
        cell = self._producers[zlib.crc32(key) % len(self._producers)]
        await cell.send_and_wait(row["kafka_topic"], row["kafka_value"].encode(), key, headers=headers)
        await self._pool.execute("DELETE FROM outbox WHERE id = $1", row["id"])
        self._busy.pop(row["kafka_key"]).set()
        self._slots.release()
        self._clock.acknowledged(1)


async def goharvest_shaped(bench: Bench, events: int, keys: int, producers_count: int = CELLS) -> Costs:
    topic = await bench.topic()
    await bench.connection.execute("TRUNCATE outbox")
    await bench.connection.execute(YARDSTICK_FILL, topic, keys, events, PAYLOAD.decode())
    await bench.settle("outbox")
    clock = bench.clock(events)
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(asyncpg.create_pool(bench.url, min_size=2, max_size=2))
        producers = [
            await stack.enter_async_context(
                AIOKafkaProducer(bootstrap_servers=bench.bootstrap, enable_idempotence=True)
            )
            for _ in range(producers_count)
        ]
        await clock.start()
        await Yardstick(pool, producers, clock).run()
        return await clock.stopped()


# --- the run ----------------------------------------------------------------------------------------------------


async def compare(bench: Bench, events: int, rounds: int, keys: int) -> None:
    contenders: dict[str, Callable[[], Awaitable[Costs]]] = {
        YARDSTICK: lambda: goharvest_shaped(bench, max(events // 20, 100), keys),
        "same, one producer": lambda: goharvest_shaped(bench, max(events // 20, 100), keys, 1),
        "hookwire idempotent": lambda: hookwire(bench, "idempotent", events, keys),
        "hookwire transactional": lambda: hookwire(bench, "transactional", events, keys),
    }
    figures: dict[str, list[Costs]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, drain in contenders.items():
            figures[name].append(await drain())
    print(f"{events} events of {len(PAYLOAD)} bytes, {keys} keys, {rounds} rounds")
    yardstick = statistics.median(costs.rate for costs in figures[YARDSTICK])
    for name, rows in figures.items():
        print(line(name, rows, f"{statistics.median(costs.rate for costs in rows) / yardstick:6.1f} x"), flush=True)


async def backlogs(bench: Bench, sizes: Sequence[int], rounds: int) -> None:
    for size in sizes:
        rows = [await hookwire(bench, "idempotent", size, 1_000) for _ in range(rounds)]
        print(line(f"backlog of {size}", rows), flush=True)


def line(name: str, rows: Sequence[Costs], ratio: str = "") -> str:
    rates = sorted(costs.rate for costs in rows)
    relay, postgres, wal = (statistics.median(values) for values in list(zip(*rows, strict=True))[1:])
    return (
        f"{name:24} {statistics.median(rates):8,.0f} events/s ({rates[0]:,.0f}-{rates[-1]:,.0f}) {ratio}"
        f"  {relay:5.1f} us relay, {postgres:5.1f} us PostgreSQL, {wal:4.0f} B WAL"
    )


async def run(options: argparse.Namespace, server_url: str, bootstrap: str, postmaster: int | None) -> None:
    async with opened(server_url, bootstrap, postmaster) as bench:
        if options.backlog:
            await backlogs(bench, options.backlog, options.rounds)
            return
        for keys in (1_000, 10):
            await compare(bench, options.events, options.rounds, keys)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--backlog", type=int, nargs="*", help="drain backlogs of these sizes instead")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    # At the start of a transaction the broker asks for a repeat, and the client says so each time.
    logging.getLogger("aiokafka").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="hookwire-bench-") as folder:
        Path(folder).chmod(0o711)  # PostgreSQL runs under another account
        postgres = take_server("postgres18", Path(folder), os.environ)
        kafka = take_server("kafka", Path(folder), os.environ, lasting=True)
        postmaster = None if "HOOKWIRE_TEST_POSTGRES18_URL" in os.environ else postgres.pid
        try:
            uvloop.run(run(options, postgres.address, kafka.address, postmaster))
        finally:
            kafka.discard()
            postgres.discard()


if __name__ == "__main__":
    main()
