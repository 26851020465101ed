"""The cost of one event at a fixed rate: time to the webhook, processor time, statements, flushes and bytes of WAL.

Each rate is offered twice. The first run observes only the clocks and ``pg_stat_wal``. In the second run the server's
log counts the statements. The yardstick is a bare client that appends an event to a file, calls fsync and POSTs it to
the same sink. Figures with a bar are measured in several rounds, in turns with the yardstick. Before these, two runs at
full rate measure the cost of a delivery, publishing included.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import httpx

from benchmarks.harness import Counted, Harness, Sink, cpu_seconds, postgres_cpu_seconds, running_harness, running_sink
from benchmarks.idle import log_statements, logged_statements
from benchmarks.load import drive
from scripts.servers.fleet import take_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

_TOPIC = "cost"
_RATES = (1, 50, 200, 1000)
_CONNECTIONS = 256
_YARDSTICK_RATE = 100
_BAR_RATE = 200
_ANSWER_SECONDS = 10.0
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3})")
_STATUS_BYTES = 12
_CLIENTS = 32
_DIRECT = "hookwire_delivery_direct_total"
_BEFORE = {1: "0.37 before; Outpost 1.09, Hookaido 1.28, Svix 2.07", 10: "0.14 before; Svix 0.61, Outpost 0.86"}
"""Processor milliseconds per delivery at full rate, by fan-out, on 2026-11-23, here and in other products."""
_BARS = {1: 0.30, 10: 0.12}
STATISTICS_SECONDS = 1.5
"""A backend reports its statistics at most once a second."""
_WAL = "SELECT wal_sync, wal_bytes::bigint FROM pg_stat_wal"
_WAL_18 = """
SELECT (SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal')::bigint, wal_bytes::bigint FROM pg_stat_wal
"""


@dataclass(frozen=True)
class Cost:
    """The cost of an event; ``service`` and ``database`` are milliseconds of processor time.

    ``direct``: the share of the events that took the direct path.
    """

    received: Counted
    service: float
    database: float
    flushes: float
    wal_bytes: float
    direct: float


def request(port: int, size: int = 200) -> bytes:
    """Return a POST of one event whose body begins with its own send time."""
    body = f"t={time.time():018.7f} ".encode().ljust(size, b"x")
    head = f"POST /topics/{_TOPIC}/events HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n"
    return head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body


async def offer(port: int, rate: float, seconds: float, make: Callable[[int], bytes] = request) -> int:
    """Send at a fixed rate, regardless of the answers; return the number of accepted events.

    The hub refuses requests that a connection sends far ahead of the answers, so many connections are used.
    """
    connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(min(_CONNECTIONS, int(rate) + 1))]
    answers: Counter[bytes] = Counter()
    drains = [asyncio.ensure_future(_count_answers(reader, answers)) for reader, _ in connections]
    count, started = max(int(rate * seconds), 1), time.perf_counter()
    for number in range(count):
        await asyncio.sleep(max(0.0, started + number / rate - time.perf_counter()))
        connections[number % len(connections)][1].write(make(port))
    deadline = time.perf_counter() + _ANSWER_SECONDS
    while answers.total() < count and time.perf_counter() < deadline:  # noqa: ASYNC110 - another process answers
        await asyncio.sleep(0.05)
    for _, writer in connections:
        writer.close()
    await asyncio.gather(*drains, return_exceptions=True)
    if answers[b"202"] < count:
        print(f"  of {count} events at {rate:g}/s {answers[b'202']} were accepted: {dict(answers)}", flush=True)
    return answers[b"202"]


async def _count_answers(reader: asyncio.StreamReader, answers: Counter[bytes]) -> None:
    rest = b""
    while data := rest + await reader.read(65_536):
        if data == rest:
            return
        answers.update(_STATUS.findall(data))
        rest = data[-(_STATUS_BYTES - 1) :]  # too short to be counted twice


async def observe(harness: Harness, sink: Sink, rate: float, seconds: float) -> Cost:
    """Offer the rate and return its cost per event."""
    connection = await asyncpg.connect(harness.database_url)
    try:
        await sink.clear()
        await asyncio.sleep(STATISTICS_SECONDS)
        wal, direct = await wal_so_far(connection), await _direct(harness)
        service, database = cpu_seconds(harness.pid), postgres_cpu_seconds(harness.postmaster)
        count = await offer(harness.port, rate, seconds)
        received = await sink.until(count, 60)
        service, database = cpu_seconds(harness.pid) - service, postgres_cpu_seconds(harness.postmaster) - database
        await asyncio.sleep(STATISTICS_SECONDS)
        syncs, size = (after - before for after, before in zip(await wal_so_far(connection), wal, strict=True))
        direct = await _direct(harness) - direct
    finally:
        await connection.close()
    return Cost(received, 1000 * service / count, 1000 * database / count, syncs / count, size / count, direct / count)


async def _direct(harness: Harness) -> float:
    """Return how many deliveries publishing commits have made."""
    async with httpx.AsyncClient(base_url=harness.url, trust_env=False) as client:
        text = (await client.get("/metrics")).text
    return float(next(line.split()[1] for line in text.splitlines() if line.startswith(f"{_DIRECT} ")))


async def wal_so_far(connection: asyncpg.Connection) -> tuple[int, int]:
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
        f"flushes {cost.flushes:.2f}, WAL {cost.wal_bytes:.0f} bytes; {cost.direct:.0%} direct"
    )


def _statement_lines(count: int, statements: Counter[str]) -> list[str]:
    named = (f"{name} {number / count:.2f}" for name, number in statements.most_common() if number / count >= 0.005)
    return [f"           {sum(statements.values()) / count:.2f} statements per event: {', '.join(named)}"]


async def measure(harness: Harness, sink: Sink, rates: Sequence[float], seconds: float) -> list[str]:
    """Measure every rate; return the lines to print."""
    await offer(harness.port, 50, 2)
    lines = []
    for rate in rates:
        cost = await observe(harness, sink, rate, seconds)
        lines += [_cost_line(rate, cost), *_statement_lines(*await count_statements(harness, sink, rate, seconds / 2))]
    return lines


async def bars(harness: Harness, sink: Sink, rounds: int, seconds: float) -> list[str]:
    """Measure what has a bar, and the yardstick, in turns; returns the lines to print."""
    at_bar, ours, bare = [], [], []
    for _ in range(rounds):
        at_bar.append(await observe(harness, sink, _BAR_RATE, seconds))
        ours.append((await observe(harness, sink, _YARDSTICK_RATE, seconds)).received.p50)
        bare.append((await yardstick(sink, seconds)).p50)
    ratio = statistics.median(ours) / statistics.median(bare)
    return [
        f"  {_BAR_RATE}/s, {rounds} rounds: p50 {_spread([cost.received.p50 for cost in at_bar])} ms (bar 3), "
        f"p99 {_spread([cost.received.p99 for cost in at_bar])} ms (bar 15); processor "
        f"{_spread([cost.service + cost.database for cost in at_bar])} ms an event (bar 2.2; 4.65 before, "
        f"Outpost 2.95, Svix 3.16); {statistics.median(cost.direct for cost in at_bar):.0%} direct",
        f"  {_YARDSTICK_RATE}/s, {rounds} rounds: p50 {_spread(ours)} ms, {ratio:.1f}x append + fsync + POST "
        f"({_spread(bare)} ms; bar 8)",
    ]


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


async def full_rate(fan_out: int, seconds: float) -> str:
    """Publish as fast as 32 clients can, with this many subscriptions; returns the line to print."""
    async with _hub({}, ["webhooks"], fan_out) as (harness, sink):
        requests = [request(harness.port)]
        warm = await drive("127.0.0.1", harness.port, requests, _CLIENTS, 1.0)
        await sink.until(fan_out * len(warm.latencies), 60)
        await sink.clear()
        service, database = cpu_seconds(harness.pid), postgres_cpu_seconds(harness.postmaster)
        load = await drive("127.0.0.1", harness.port, requests, _CLIENTS, seconds)
        events = len(load.latencies) - load.refused
        counted = await sink.until(fan_out * events, 120)
        service, database = cpu_seconds(harness.pid) - service, postgres_cpu_seconds(harness.postmaster) - database
    each, rate = 1000 / (fan_out * events), fan_out * events / (counted.last - counted.first)
    return (
        f"full rate, fan-out {fan_out:2}: {load.rate:.0f} events/s, {rate:.0f} deliveries/s; "
        f"processor ms per delivery: service {each * service:.3f} + database {each * database:.3f}"
        f" = {each * (service + database):.3f} (bar {_BARS[fan_out]:.2f}; {_BEFORE[fan_out]})"
    )


@asynccontextmanager
async def _hub(settings: Mapping[str, str], sinks: list[str], fan_out: int = 1) -> AsyncIterator[tuple[Harness, Sink]]:
    async with running_sink() as sink, running_harness(**settings) as harness:
        async with httpx.AsyncClient(base_url=harness.url, trust_env=False) as client:
            for number in range(fan_out):
                subscription = {"topic": _TOPIC, "callback": f"http://127.0.0.1:{sink.port}/{number}"}
                (await client.post("/subscriptions", json=subscription)).raise_for_status()
            (await client.put(f"/topics/{_TOPIC}/settings", json={"sinks": sinks})).raise_for_status()
        yield harness, sink


async def run(settings: Mapping[str, str], sinks: list[str], options: argparse.Namespace) -> list[str]:
    """Measure one service with one webhook subscription and these sinks; returns the lines to print."""
    async with _hub(settings, sinks) as (harness, sink):
        lines = await measure(harness, sink, options.rates, options.seconds)
        return lines + (await bars(harness, sink, options.rounds, options.seconds / 2) if options.rounds else [])


def main() -> None:
    """Measure one webhook; with ``--kafka`` the same events go to Kafka too."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each rate is offered (default 10)")
    parser.add_argument("--rates", type=float, nargs="*", default=_RATES, help="events per second")
    parser.add_argument("--rounds", type=int, default=5, help="of the bars and the yardstick (default 5)")
    parser.add_argument("--no-full-rate", action="store_true", help="leave out the runs at full rate")
    parser.add_argument("--no-kafka", action="store_true", help="measure the webhook alone")
    options = parser.parse_args()
    for fan_out in () if options.no_full_rate else _BARS:
        print(asyncio.run(full_rate(fan_out, options.seconds)), flush=True)
    print("one webhook", *asyncio.run(run({}, ["webhooks"], options)), sep="\n", flush=True)
    if options.no_kafka:
        return
    with tempfile.TemporaryDirectory(prefix="hookwire-bench-") as folder:
        Path(folder).chmod(0o711)
        kafka = take_server("kafka", Path(folder), os.environ)
        try:
            brokers = {"kafka_bootstrap_servers": kafka.address}
            lines = asyncio.run(run(brokers, ["webhooks", "kafka"], options))
            print("one webhook and Kafka", *lines, sep="\n", flush=True)
        finally:
            kafka.discard()


if __name__ == "__main__":
    main()
