"""Two hubs on one database beside one: publishing, delivering, jobs, and relaying to Kafka.

The same work is done by one process and by two, in alternating rounds, on one PostgreSQL and one Kafka. Publishing has
32 clients, which two hubs share. Deliveries are a backlog of webhooks to one receiver, and relayed events a backlog of
one commit. Jobs do nothing, and are enqueued before. Load, receiver and servers use the cores of the hubs, and their
number is printed. On two cores a second process finds little to use. A first round of each is not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager

import asyncpg

from benchmarks.deliver import prepare
from benchmarks.drain import Bench, on_servers, opened
from benchmarks.harness import Harness, running_harness, running_sink
from benchmarks.load import drive
from benchmarks.pair import by_processes
from hookwire.jobs import Handlers, Job, JobWorker, SqlJobs

__all__ = ["main"]

_CLIENTS = 32
_KIND = "bench"
_SLOTS = 100
_WAIT_SECONDS_MAX = 300.0
_BODY = b'{"x":"%b"}' % (b"x" * 592)
Way = Callable[[int], Awaitable[float]]
"""The rate of so many processes."""


@asynccontextmanager
async def _hubs(bench: Bench, count: int, *roles: str) -> AsyncIterator[list[Harness]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(running_harness(*roles, database_url=bench.url)) for _ in range(count)]


async def published(bench: Bench, count: int, seconds: float) -> float:
    """Return the acknowledged events per second of so many hubs."""
    async with _hubs(bench, count, "api") as hubs:
        loads = await asyncio.gather(*(_published_by(hub, _CLIENTS // count, seconds) for hub in hubs))
    return sum(loads)


async def _published_by(hub: Harness, clients: int, seconds: float) -> float:
    head = f" HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {len(_BODY)}\r\n\r\n"
    requests = [f"POST /topics/published/events?key=k{n}{head}".encode() + _BODY for n in range(1_000)]
    await drive("127.0.0.1", hub.port, requests, clients, seconds / 4)
    load = await drive("127.0.0.1", hub.port, requests, clients, seconds)
    assert load.refused == 0, "every publish of the benchmark is acknowledged"
    return load.rate


async def delivered(count: int, deliveries: int) -> float:
    """Return the webhooks per second of so many delivering processes, on a database of their own.

    The second half counts: one process starts earlier than the other.
    """
    async with running_sink() as sink, running_harness("api", "relay") as hub:
        await prepare(hub, sink, 10, deliveries)
        with ExitStack() as processes:
            for _ in range(count):
                processes.enter_context(hub.process("deliver"))
            half = await sink.until(deliveries // 2, 300)
            all_ = await sink.until(deliveries, 300)
    return (all_.count - half.count) / (all_.last - half.last)


async def worked(bench: Bench, count: int, jobs: int) -> float:
    """Return the jobs per second of so many worker processes, from the first end to the last."""
    sql = bench.connection
    await sql.execute("SELECT hookwire.put_job_kind($1, '{\"events\": []}', 'bench')", _KIND)
    await sql.execute("SELECT count(hookwire.enqueue($1, to_jsonb(n))) FROM generate_series(1, $2::int) n", _KIND, jobs)
    command = [sys.executable, "-m", "benchmarks.two_hubs", "--work-on", bench.url]
    workers = [await asyncio.to_thread(subprocess.Popen[bytes], command) for _ in range(count)]
    try:
        return await _rate_of_ends(sql, jobs)
    finally:
        for worker in workers:
            worker.terminate()
            worker.wait()


async def _rate_of_ends(sql: asyncpg.Connection, jobs: int) -> float:
    """Return the jobs per second since the first half was seen done: one worker starts earlier than the other."""
    began, done_before, left = 0.0, 0, jobs
    deadline = time.monotonic() + _WAIT_SECONDS_MAX
    while left:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{left} of {jobs} jobs were not done")
        left = await sql.fetchval("SELECT count(*) FROM hookwire.jobs WHERE kind = $1", _KIND)
        if left <= jobs // 2 and not began:
            began, done_before = time.perf_counter(), jobs - left
        await asyncio.sleep(0.02)
    return (jobs - done_before) / (time.perf_counter() - began)


async def work_on(url: str) -> None:
    """Do jobs until the process ends."""
    handlers = Handlers()

    @handlers.job(_KIND)
    async def handle(_: Job) -> None:
        return

    async with asyncpg.create_pool(url, min_size=2, max_size=8) as pool:
        await JobWorker(SqlJobs(pool), handlers, slots=_SLOTS, idle_seconds=0.01).run()


async def run(options: argparse.Namespace, server_url: str, bootstrap: str, postmaster: int | None) -> None:
    """Measure one and two of each, and print the ratios."""
    async with opened(server_url, bootstrap, postmaster) as bench:
        ways: dict[str, Way] = {
            "publish": lambda count: published(bench, count, options.seconds),
            "deliver": lambda count: delivered(count, 3 * options.count),
            "jobs": lambda count: worked(bench, count, 3 * options.count),
            "relay": lambda count: by_processes(bench, "idempotent", count, 4 * options.count),
        }
        for name, way in ways.items():
            rates: dict[int, list[float]] = {1: [], 2: []}
            for number in range(options.rounds + 1):
                for count in (1, 2) if number % 2 else (2, 1):
                    rate = await way(count)
                    if number:
                        rates[count].append(rate)
            one, two = (statistics.median(found) for found in rates.values())
            print(f"{name:8} one {one:9,.0f}/s, two {two:9,.0f}/s   {two / one:.2f}x", flush=True)
    print(f"{os.cpu_count()} cores for hubs, servers and load; load average {os.getloadavg()[0]:.1f}")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.two_hubs", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="of one and of two (default 5)")
    parser.add_argument("--seconds", type=float, default=6.0, help="of publishing (default 6)")
    parser.add_argument(
        "--count", type=int, default=20_000, help="of deliveries and jobs 3 times as many, of relayed 4 (default 20000)"
    )
    parser.add_argument("--work-on", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work_on:
        asyncio.run(work_on(options.work_on))
    else:
        on_servers(lambda *servers: run(options, *servers))


if __name__ == "__main__":
    main()
