"""How long events wait while a relay joins, leaves or dies (RO-06 a, b, c), under leases and under NELI.

Two relays share four groups of the Kafka sink, in transactional mode; 100 events per second are published. The gap is
the longest time from an event's commit to its arrival at a read-committed reader, for events that are published during
the change. Repeats are counted by event id. NELI's session is 6 s, which is the setting's default and the brokers'
minimum.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
from aiokafka import AIOKafkaConsumer

from benchmarks.harness import Harness, running_harness
from scripts.servers.fleet import take_server

_KILLED_SECONDS_MAX = {"lease": 1.5, "neli": 8.0}
"""The bar for each election."""
_KEYS = 64
_PAUSE_SECONDS = 0.01
_CALM_SECONDS = 3.0
_WAIT_SECONDS_MAX = 60.0


@dataclass
class Arrivals:
    """The arrivals of a run. ``delays`` holds the time of publishing and the delay of each event that has arrived, in
    seconds.
    """

    delays: dict[str, tuple[float, float]] = field(default_factory=dict)
    repeats: int = 0

    def gap(self, since: float) -> float:
        """Return the longest delay of events published since then."""
        return max(delay for at, delay in self.delays.values() if at >= since)


@dataclass
class Scene:
    """A database, a broker, and relays by process id."""

    harness: Harness
    sql: asyncpg.Connection
    arrivals: Arrivals

    def relay(self) -> AbstractContextManager[subprocess.Popen[bytes]]:
        """Start a `hookwire relay`; send it SIGTERM at the end if it still runs."""
        return self.harness.process("relay")

    async def led_by(self, count: int) -> None:
        """Wait until ``count`` relays lead all groups and events arrive with the usual delay."""
        deadline = time.monotonic() + _WAIT_SECONDS_MAX
        while (found := await self._leaders()) != (4, count):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{found[0]} of 4 groups are led, by {found[1]} of {count} relays")
            await asyncio.sleep(0.05)
        await asyncio.sleep(_CALM_SECONDS)

    async def _leaders(self) -> tuple[int, int]:
        row = await self.sql.fetchrow(
            "SELECT count(*) AS leases, count(DISTINCT owner) AS owners FROM hookwire.relay_terms"
            " WHERE sink = 'kafka' AND owner IS NOT NULL"
        )
        assert row is not None
        return row["leases"], row["owners"]


async def publish(url: str, topic: str) -> None:
    """Publish a hundred events per second, one commit each, until cancelled."""
    connection = await asyncpg.connect(url)
    number = 0
    try:
        while True:
            number += 1
            await connection.execute(
                "SELECT hookwire.publish($1, $2::bytea, key => $3)",
                topic, repr(time.time()).encode(), f"k{number % _KEYS}",
            )  # fmt: skip
            await asyncio.sleep(_PAUSE_SECONDS)
    finally:
        await connection.close(timeout=2)


async def read(bootstrap: str, topic: str, arrivals: Arrivals) -> None:
    """Note the arrivals until cancelled."""
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest",
        enable_auto_commit=False, metadata_max_age_ms=1000, fetch_max_wait_ms=20,
    )  # fmt: skip
    await consumer.start()
    try:
        async for record in consumer:
            event = dict(record.headers)["hookwire-event-id"].decode()
            if event in arrivals.delays:
                arrivals.repeats += 1
                continue
            at = float(record.value)
            arrivals.delays[event] = at, time.time() - at
    finally:
        await consumer.stop()


@contextlib.asynccontextmanager
async def staged(bootstrap: str, election: str) -> AsyncIterator[Scene]:
    """Yield a scene with a new database and topic, a publisher and a reader."""
    topic = f"gap.{election}"
    async with running_harness("api", kafka_bootstrap_servers=bootstrap, kafka_election=election) as harness:
        sql = await asyncpg.connect(harness.database_url)
        await sql.execute("UPDATE hookwire.sinks SET configured = true WHERE name = 'kafka'")
        arrivals = Arrivals()
        work = [publish(harness.database_url, topic), read(bootstrap, topic, arrivals)]
        tasks = [asyncio.create_task(one) for one in work]
        try:
            yield Scene(harness, sql, arrivals)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await sql.close(timeout=2)


async def measure(scene: Scene, rounds: int) -> tuple[float, float, int, list[float]]:
    """Return the gap of a join, the gap and the repeats of a SIGTERM, and the gaps of kills."""
    killed: list[float] = []
    with scene.relay() as first:
        await scene.led_by(1)
        began, scene.arrivals.repeats = time.time(), 0
        with scene.relay():
            await scene.led_by(2)
            joined = scene.arrivals.gap(began)
            began = time.time()
            first.send_signal(signal.SIGTERM)
            await scene.led_by(1)
            left, repeats = scene.arrivals.gap(began), scene.arrivals.repeats
            for _ in range(rounds):
                with scene.relay() as other:
                    await scene.led_by(2)
                    began = time.time()
                    other.kill()
                    await scene.led_by(1)
                    killed.append(scene.arrivals.gap(began))
    return joined, left, repeats, killed


async def run(bootstrap: str, election: str, rounds: int) -> list[str]:
    """Measure; return the lines to print."""
    async with staged(bootstrap, election) as scene:
        joined, left, repeats, killed = await measure(scene, rounds)
        usual = statistics.median(delay for _, delay in scene.arrivals.delays.values())
    p95 = statistics.quantiles(killed, n=20, method="inclusive")[-1]
    return [
        f"{election}: commit to reader, usually {1000 * usual:.0f} ms; at most",
        f"  a relay joins         {joined:5.2f} s (bar 1)",
        f"  SIGTERM               {left:5.2f} s (bar 1), {repeats} repeats (bar 0)",
        f"  SIGKILL, {rounds:2} times     median {statistics.median(killed):.2f} s, p95 {p95:.2f} s"
        f" (bar {_KILLED_SECONDS_MAX[election]:g}); load {os.getloadavg()[0]:.1f}",
    ]


def main() -> None:
    """Measure both elections on an own Kafka."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=10, help="how often a relay is killed")
    parser.add_argument("--election", action="append", choices=list(_KILLED_SECONDS_MAX), help="default: both")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hookwire-bench-") as folder:
        Path(folder).chmod(0o711)
        kafka = take_server("kafka", Path(folder), os.environ)
        try:
            for election in options.election or _KILLED_SECONDS_MAX:
                print(*asyncio.run(run(kafka.address, election, options.rounds)), sep="\n", flush=True)
        finally:
            kafka.discard()


if __name__ == "__main__":
    main()
