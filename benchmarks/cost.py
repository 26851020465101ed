"""The cost of one event at a fixed rate: time to the webhook, processor time, statements, flushes and bytes of WAL.

Each rate is offered twice. The first run observes only the clocks and ``pg_stat_wal``. In the second run the server's
log counts the statements. The yardstick is a bare client that appends an event to a file, calls fsync and POSTs it to
the same sink.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import httpx

from benchmarks.harness import Counted, Harness, Sink, cpu_seconds, postgres_cpu_seconds, running_harness, running_sink
from benchmarks.idle import log_statements, logged_statements
from scripts.servers.fleet import take_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

_TOPIC = "cost"
_RATES = (1, 50, 200, 1000)
_CONNECTIONS = 256
_YARDSTICK_RATE = 100
_STATISTICS_SECONDS = 1.5
"""A backend reports its statistics at most once a second."""
_WAL = "SELECT wal_sync, wal_bytes::bigint FROM pg_stat_wal"
_WAL_18 = """
SELECT (SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal')::bigint, wal_bytes::bigint FROM pg_stat_wal
"""


@dataclass(frozen=True)
class Cost:
    """The cost of an event; ``service`` and ``database`` are milliseconds of processor time."""

    received: Counted
    service: float
    database: float
    flushes: float
    wal_bytes: float


def request(port: int, size: int = 200) -> bytes:
    """Return a POST of one event whose body begins with its own send time."""
    body = f"t={time.time():018.7f} ".encode().ljust(size, b"x")
    head = f"POST /topics/{_TOPIC}/events HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n"
    return head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body


async def offer(port: int, rate: float, seconds: float, make: Callable[[int], bytes] = request) -> int:
    """Send at a fixed rate, regardless of the answers; return the number of events.

    The hub refuses requests that a connection sends far ahead of the answers, so many connections are used.
    """
    connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(min(_CONNECTIONS, int(rate) + 1))]
    drains = [asyncio.ensure_future(reader.read(-1)) for reader, _ in connections]
    count, started = max(int(rate * seconds), 1), time.perf_counter()
    for number in range(count):
        await asyncio.sleep(max(0.0, started + number / rate - time.perf_counter()))
        connections[number % len(connections)][1].write(make(port))
    await asyncio.sleep(1)
    for _, writer in connections:
        writer.close()
    await asyncio.gather(*drains, return_exceptions=True)
    return count


async def observe(harness: Harness, sink: Sink, rate: float, seconds: float) -> Cost:
    """Offer the rate and return its cost per event."""
    connection = await asyncpg.connect(harness.database_url)
    try:
        await sink.clear()
        await asyncio.sleep(_STATISTICS_SECONDS)
        wal = await _wal(connection)
        service, database = cpu_seconds(harness.pid), postgres_cpu_seconds(harness.postmaster)
        count = await offer(harness.port, rate, seconds)
        received = await sink.until(count, 60)
        service, database = cpu_seconds(harness.pid) - service, postgres_cpu_seconds(harness.postmaster) - database
        await asyncio.sleep(_STATISTICS_SECONDS)
        syncs, size = (after - before for after, before in zip(await _wal(connection), wal, strict=True))
    finally:
        await connection.close()
    return Cost(received, 1000 * service / count, 1000 * database / count, syncs / count, size / count)


async def _wal(connection: asyncpg.Connection) -> tuple[int, int]:
    """Return the numbers of flushes and of WAL bytes so far."""
    version = connection.get_server_version().major
    [(syncs, size)] = await connection.fetch(_WAL_18 if version >= 18 else _WAL)
    return syncs, size


async def count_statements(harness: Harness, sink: Sink, rate: float, seconds: float) -> tuple[int, Counter[str]]:
    """Offer the rate while the server logs each statement; returns the events and the statements by name."""
    await sink.clear()
    folder = harness.data_dir / "postgres" / "log"
    before = logged_statements(folder)
    url = re.sub("hookwire[?]", "postgres?", harness.database_url)
    connection = await asyncpg.connect(url)
    try:
        await log_statements(connection, "0")
        count = await offer(harness.port, rate, seconds)
        await sink.until(count, 60)
        await log_statements(connection, "-1")
    finally:
        await connection.close()
    return count, logged_statements(folder) - before


async def yardstick(sink: Sink, seconds: float) -> Counted:
    """Append, fsync and POST at the yardstick's rate, on one connection."""
    await sink.clear()
    reader, writer = await asyncio.open_connection("127.0.0.1", sink.port)
    drain = asyncio.ensure_future(reader.read(-1))
    count, started = int(_YARDSTICK_RATE * seconds), time.perf_counter()
    with tempfile.NamedTemporaryFile(prefix="hookwire-bench-") as file:
        for number in range(count):
            await asyncio.sleep(max(0.0, started + number / _YARDSTICK_RATE - time.perf_counter()))
            data = request(sink.port)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            writer.write(data)
    counted = await sink.until(count, 30)
    writer.close()
    await asyncio.gather(drain, return_exceptions=True)
    return counted


def _cost_line(rate: float, cost: Cost) -> str:
    return (
        f"  {rate:5g}/s  POST to received p50 {cost.received.p50:5.1f} ms, p99 {cost.received.p99:5.1f} ms; "
        f"processor ms per event: service {cost.service:.2f} + database {cost.database:.2f}; "
        f"flushes {cost.flushes:.2f}, WAL {cost.wal_bytes:.0f} bytes"
    )


def _statement_lines(count: int, statements: Counter[str]) -> list[str]:
    named = (f"{name} {number / count:.2f}" for name, number in statements.most_common() if number / count >= 0.005)
    return [f"           {sum(statements.values()) / count:.2f} statements per event: {', '.join(named)}"]


async def measure(harness: Harness, sink: Sink, rates: tuple[float, ...], seconds: float) -> list[str]:
    """Measure every rate; return the lines to print."""
    await offer(harness.port, 50, 2)
    lines = []
    for rate in rates:
        cost = await observe(harness, sink, rate, seconds)
        lines += [_cost_line(rate, cost), *_statement_lines(*await count_statements(harness, sink, rate, seconds / 2))]
    ours, bare = await observe(harness, sink, _YARDSTICK_RATE, seconds), await yardstick(sink, seconds)
    ratio = ours.received.p50 / bare.p50
    return [
        *lines,
        f"  {_YARDSTICK_RATE:5g}/s  p50 {ours.received.p50:.1f} ms, {ratio:.1f}x append + fsync + POST "
        f"({bare.p50:.2f} ms; bar 8)",
    ]


@asynccontextmanager
async def _hub(settings: Mapping[str, str], sinks: list[str]) -> AsyncIterator[tuple[Harness, Sink]]:
    async with running_sink() as sink, running_harness(**settings) as harness:
        async with httpx.AsyncClient(base_url=harness.url, trust_env=False) as client:
            subscription = {"topic": _TOPIC, "callback": f"http://127.0.0.1:{sink.port}/"}
            (await client.post("/subscriptions", json=subscription)).raise_for_status()
            (await client.put(f"/topics/{_TOPIC}/settings", json={"sinks": sinks})).raise_for_status()
        yield harness, sink


async def run(settings: Mapping[str, str], sinks: list[str], rates: tuple[float, ...], seconds: float) -> list[str]:
    """Measure one service with one webhook subscription and these sinks."""
    async with _hub(settings, sinks) as (harness, sink):
        return await measure(harness, sink, rates, seconds)


def main() -> None:
    """Measure one webhook; with ``--kafka`` the same events go to Kafka too."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each rate is offered (default 10)")
    parser.add_argument("--rates", type=float, nargs="+", default=_RATES, help="events per second")
    parser.add_argument("--no-kafka", action="store_true", help="measure the webhook alone")
    arguments = parser.parse_args()
    rates = tuple(arguments.rates)
    print("one webhook", *asyncio.run(run({}, ["webhooks"], rates, arguments.seconds)), sep="\n", flush=True)
    if arguments.no_kafka:
        return
    with tempfile.TemporaryDirectory(prefix="hookwire-bench-") as folder:
        Path(folder).chmod(0o711)
        kafka = take_server("kafka", Path(folder), os.environ)
        try:
            brokers = {"kafka_bootstrap_servers": kafka.address}
            lines = asyncio.run(run(brokers, ["webhooks", "kafka"], rates, arguments.seconds))
            print("one webhook and Kafka", *lines, sep="\n", flush=True)
        finally:
            kafka.discard()


if __name__ == "__main__":
    main()
