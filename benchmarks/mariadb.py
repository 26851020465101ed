"""An outbox in MariaDB: our harvester in both modes against a goharvest-shaped drain of the same table, in one run.

    python -m benchmarks.mariadb --events 50000 --rounds 3

The yardstick works as goharvest does. It marks 100 rows at a time with its leader id and reads them back. It passes
each record by its key to one of eight cells, each with a producer. A cell sends one record at a time for each key, and
deletes each row alone. All statements share two connections. The yardstick drains a twentieth of the events.

Ours is the compat harvester with its real table, lease and Kafka sink: `compat` marks and purges in batches, `fast`
writes no marks. Every commit is flushed. Contenders alternate. The clock runs from the first acknowledgement to the
last purge.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import secrets
import statistics
import tempfile
import uuid
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiomysql
import structlog
import uvloop
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from benchmarks.clock import Clock
from db.mariadb.database import MariaDatabase, maria_options, open_maria
from relay.election.lease import LeaseOptions
from relay.embeddable import Relay
from relay.goharvest.compat import CompatHarvester, CompatOptions
from relay.goharvest.maria_election import MariaElection
from relay.goharvest.maria_installation import ensure_tables
from relay.goharvest.maria_table import MariaTable
from relay.kafka.sink import KafkaOptions, KafkaSink
from relay.observer import Observer
from scripts.servers.fleet import take_server

VALUE = "x" * 100
MARK_ROWS = 100
CELLS = 8
IN_FLIGHT_MAX = 1_000
YARDSTICK = "goharvest-shaped"

TABLE = """
CREATE TABLE outbox (
    id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, create_time timestamp(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    kafka_topic varchar(249) NOT NULL, kafka_key varchar(100) NOT NULL, kafka_value mediumtext,
    kafka_header_keys json NOT NULL, kafka_header_values json NOT NULL,
    leader_id char(36) CHARACTER SET ascii COLLATE ascii_bin
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
"""
FILL = """
INSERT INTO outbox (kafka_topic, kafka_key, kafka_value, kafka_header_keys, kafka_header_values)
SELECT %(topic)s, CONCAT('key ', seq %% %(keys)s), %(value)s, '["Seq"]', CONCAT('["', seq, '"]') FROM seq_1_to_{events}
"""
MARK = "UPDATE outbox SET leader_id = %s WHERE leader_id IS NULL OR leader_id <> %s ORDER BY id LIMIT %s"
MARKED = (
    "SELECT id, kafka_topic, kafka_key, kafka_value FROM outbox WHERE leader_id = %s AND id > %s ORDER BY id LIMIT %s"
)


@dataclass
class Bench:
    """A database with an empty outbox, and a broker."""

    url: str
    bootstrap: str
    pool: aiomysql.Pool

    async def run(self, statement: str, *values: Any, **named: Any) -> tuple[int, Sequence[tuple[Any, ...]]]:
        """Run one statement in its own transaction; return the number of rows and the rows."""
        async with self.pool.acquire() as connection, connection.cursor() as cursor:
            await cursor.execute(statement, named or values)
            return cursor.rowcount, await cursor.fetchall()

    async def filled(self, events: int, keys: int) -> None:
        """Fill the table, and create a topic of four partitions for it."""
        topic = f"bench.{secrets.token_hex(4)}"
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        await admin.create_topics([NewTopic(topic, num_partitions=4, replication_factor=1)])
        await admin.close()
        await self.run("TRUNCATE outbox")
        await self.run(FILL.format(events=events), topic=topic, keys=keys, value=VALUE)
        await self.run("ANALYZE TABLE outbox")


@asynccontextmanager
async def opened(server_url: str, bootstrap: str) -> AsyncIterator[Bench]:
    """Yield a bench on a new database of this server; drop the database at the end."""
    name = f"hookwire_bench_{secrets.token_hex(4)}"
    at = maria_options(f"{server_url}/mysql")
    common = {"host": at.host, "port": at.port, "user": at.user, "password": at.password, "autocommit": True}
    server = await aiomysql.connect(**common)
    async with server.cursor() as cursor:
        await cursor.execute(f"CREATE DATABASE {name}")
    pool = await aiomysql.create_pool(**common, db=name, charset="utf8mb4", minsize=2, maxsize=2)
    try:
        bench = Bench(f"{server_url}/{name}", bootstrap, pool)
        await _with_tables(bench)
        yield bench
    finally:
        pool.close()
        await pool.wait_closed()
        async with server.cursor() as cursor:
            await cursor.execute(f"DROP DATABASE {name}")
        server.close()


async def _with_tables(bench: Bench) -> None:
    await bench.run(TABLE)
    database = await open_maria(maria_options(bench.url))
    await ensure_tables(database, "outbox")
    await database.aclose()


# --- ours -------------------------------------------------------------------------------------------------------


class ClockedObserver(Observer):
    """An observer that also notifies the clock."""

    def __init__(self, clock: Clock) -> None:
        super().__init__("outbox")
        self._clock = clock

    def acknowledged(self, records: int) -> None:
        """Count confirmed records."""
        super().acknowledged(records)
        self._clock.acknowledged(records)


async def hookwire(bench: Bench, *, fast: bool, events: int, keys: int) -> float:
    """Drain once; return events per second."""
    await bench.filled(events, keys)
    clock = Clock(events)
    database: MariaDatabase = await open_maria(maria_options(bench.url))
    table = MariaTable(database, "outbox", fast=fast)
    election = MariaElection(database, table.name, LeaseOptions("bench"))
    kafka = KafkaOptions(bench.bootstrap, secrets.token_hex(4), manifests=False)
    observer = ClockedObserver(clock)
    sink = KafkaSink(kafka, lambda: election.trusted(0))
    harvester = CompatHarvester(table, sink, election, observer, CompatOptions())
    async with Relay([(harvester, observer)], [election]) as relay:
        await clock.done.wait()
        relay.stop()
        await relay.wait()
        rate = clock.rate()
    await database.aclose()
    assert (await bench.run("SELECT COUNT(*) FROM outbox"))[1][0][0] == 0
    return rate


# --- the yardstick ----------------------------------------------------------------------------------------------


class Yardstick:
    """goharvest's loop: mark rows, send each record alone with one in flight per key, delete each row alone."""

    def __init__(self, bench: Bench, producers: Sequence[AIOKafkaProducer], clock: Clock) -> None:
        self._bench = bench
        self._producers = producers
        self._clock = clock
        self._leader = str(uuid.uuid4())
        self._slots = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._busy: dict[str, asyncio.Event] = {}

    async def run(self) -> None:
        """Drain until the clock is done."""
        last = 0
        async with asyncio.TaskGroup() as sends:
            while not self._clock.done.is_set():
                marked, _ = await self._bench.run(MARK, self._leader, self._leader, MARK_ROWS)
                if not marked:
                    await asyncio.sleep(0.01)
                    continue
                _, rows = await self._bench.run(MARKED, self._leader, last, marked)
                for row in rows:
                    while (busy := self._busy.get(row[2])) is not None:
                        await busy.wait()
                    await self._slots.acquire()
                    self._busy[row[2]] = asyncio.Event()
                    sends.create_task(self._carry(row))
                last = rows[-1][0]

    async def _carry(self, row: tuple[Any, ...]) -> None:
        number, topic, key, value = row
        cell = self._producers[zlib.crc32(key.encode()) % len(self._producers)]
        headers = [("Seq", str(number).encode())]
        await cell.send_and_wait(topic, value.encode(), key.encode(), headers=headers)
        await self._bench.run("DELETE FROM outbox WHERE id = %s", number)
        self._busy.pop(key).set()
        self._slots.release()
        self._clock.acknowledged(1)


async def goharvest_shaped(bench: Bench, events: int, keys: int) -> float:
    """Drain once with the yardstick; return events per second."""
    await bench.filled(events, keys)
    clock = Clock(events)
    async with AsyncExitStack() as stack:
        producers = [
            await stack.enter_async_context(
                AIOKafkaProducer(bootstrap_servers=bench.bootstrap, enable_idempotence=True)
            )
            for _ in range(CELLS)
        ]
        await Yardstick(bench, producers, clock).run()
        return clock.rate()


# --- the run ----------------------------------------------------------------------------------------------------


async def compare(bench: Bench, events: int, rounds: int, keys: int) -> None:
    """Measure all contenders in turns."""
    contenders: dict[str, Callable[[], Awaitable[float]]] = {
        YARDSTICK: lambda: goharvest_shaped(bench, max(events // 20, 100), keys),
        "hookwire compat": lambda: hookwire(bench, fast=False, events=events, keys=keys),
        "hookwire fast": lambda: hookwire(bench, fast=True, events=events, keys=keys),
    }
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, contender in contenders.items():
            rates[name].append(await contender())
    print(f"{events} rows of {len(VALUE)} bytes, {keys} keys, {rounds} rounds, Kafka in transactional mode")
    yardstick = statistics.median(rates[YARDSTICK])
    for name, found in rates.items():
        middle = statistics.median(found)
        print(f"{name:20} {middle:8,.0f} events/s ({min(found):,.0f}-{max(found):,.0f}) {middle / yardstick:6.1f} x")


async def run(options: argparse.Namespace, server_url: str, bootstrap: str) -> None:
    """Run the comparison on these servers."""
    async with opened(server_url, bootstrap) as bench:
        for keys in (1_000, 10):
            await compare(bench, options.events, options.rounds, keys)


def main() -> None:
    """Run on own servers, or on those that the environment names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--events", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    logging.getLogger("aiokafka").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="hookwire-bench-") as folder:
        Path(folder).chmod(0o711)  # MariaDB runs under another account
        maria = take_server("mariadb", Path(folder), os.environ)
        kafka = take_server("kafka", Path(folder), os.environ, lasting=True)
        try:
            uvloop.run(run(options, maria.address, kafka.address))
        finally:
            kafka.discard()
            maria.discard()


if __name__ == "__main__":
    main()
