"""From enqueue to start while a worker idles: ours, PgQueuer and procrastinate, in alternating rounds (JF-42).

    python -m benchmarks.pickup --jobs 40 --rounds 5

Each round starts one worker of each kind with its own defaults, and enqueues single jobs with a pause of 20 to 60 ms.
The time runs from the call that enqueues to the first line of the handler, in one process. The first five jobs of a
round do not count. All of them listen to NOTIFY. The peers are optional, as in ``benchmarks.jobs``.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

import asyncpg

from db.migrate import migrate
from hookwire.jobs import Handlers, Job, JobWorker, SqlJobs
from scripts.servers.fleet import take_server
from scripts.servers.postgres import PostgresServer

_UNCOUNTED = 5
_PATIENCE_SECONDS = 60.0
Enqueue: TypeAlias = Callable[[], Awaitable[object]]
Way: TypeAlias = Callable[[Callable[[], None]], AbstractAsyncContextManager[Enqueue]]


def ours(pool: asyncpg.Pool) -> Way:
    """Return the SDK's worker over SQL."""

    @asynccontextmanager
    async def working(started: Callable[[], None]) -> AsyncIterator[Enqueue]:
        handlers = Handlers()

        @handlers.job("pickup")
        async def handle(_: Job) -> None:
            started()

        worker = JobWorker(SqlJobs(pool), handlers)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(worker.run())
            yield lambda: pool.execute("SELECT hookwire.enqueue('pickup')")
            worker.stop()
            await running

    return working


def pgqueuer(pool: asyncpg.Pool) -> Way:
    """PgQueuer's manager."""

    @asynccontextmanager
    async def working(started: Callable[[], None]) -> AsyncIterator[Enqueue]:
        from pgqueuer import PgQueuer  # type: ignore[import-not-found]
        from pgqueuer.db import AsyncpgPoolDriver  # type: ignore[import-not-found]
        from pgqueuer.queries import Queries  # type: ignore[import-not-found]

        queries = Queries(AsyncpgPoolDriver(pool))
        if not await queries.schema_is_installed():
            await queries.install()
        manager = PgQueuer.from_asyncpg_pool(pool)

        @manager.entrypoint("pickup")  # type: ignore[untyped-decorator]
        async def handle(_: Any) -> None:
            started()

        running = asyncio.create_task(manager.run())
        yield lambda: queries.enqueue("pickup", b"x")
        manager.shutdown.set()
        await running

    return working


def procrastinate(url: str) -> Way:
    """procrastinate's worker."""

    @asynccontextmanager
    async def working(started: Callable[[], None]) -> AsyncIterator[Enqueue]:
        from procrastinate import App, PsycopgConnector  # type: ignore[import-not-found]

        app = App(connector=PsycopgConnector(conninfo=url))

        @app.task(name="pickup")  # type: ignore[untyped-decorator]
        async def handle() -> None:
            started()

        async with app.open_async():
            if not await app.check_connection_async():
                await app.schema_manager.apply_schema_async()
            running = asyncio.create_task(app.run_worker_async(install_signal_handlers=False))
            yield handle.defer_async
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    return working


async def _seconds(way: Way, jobs: int) -> list[float]:
    """Return the seconds of each counted job."""
    started, at, found = asyncio.Event(), 0.0, list[float]()

    def start() -> None:
        nonlocal at
        at = time.perf_counter()
        started.set()

    async with way(start) as enqueue:
        for number in range(jobs + _UNCOUNTED):
            await asyncio.sleep(random.uniform(0.02, 0.06))
            started.clear()
            began = time.perf_counter()
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await enqueue()
                await started.wait()
            if number >= _UNCOUNTED:
                found.append(at - began)
    return found


async def compare(jobs: int, rounds: int) -> None:
    """Rounds of all ways, alternating; prints the table."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        server = take_server("postgres15", Path(folder), {})
        assert isinstance(server, PostgresServer), "none was given"
        try:
            await migrate(server.url)
            async with asyncpg.create_pool(server.url, min_size=4, max_size=8) as pool:
                ways: dict[str, Way] = {"ours": ours(pool)}
                if importlib.util.find_spec("pgqueuer") is not None:
                    ways["PgQueuer"] = pgqueuer(pool)
                if importlib.util.find_spec("procrastinate") is not None:
                    ways["procrastinate"] = procrastinate(server.url)
                seconds: dict[str, list[float]] = {name: [] for name in ways}
                for _ in range(rounds):
                    for name, way in ways.items():
                        seconds[name] += await _seconds(way, jobs)
        finally:
            server.discard()
    _report(seconds)


def _report(seconds: dict[str, list[float]]) -> None:
    for name, found in seconds.items():
        p50, p95 = 1000 * statistics.median(found), 1000 * statistics.quantiles(found, n=20)[18]
        print(f"{name:14} enqueue to start p50 {p50:6.1f} ms, p95 {p95:6.1f} ms, {len(found)} jobs")
    medians = {name: statistics.median(found) for name, found in seconds.items()}
    mine = medians.pop("ours")
    if medians:
        best = min(medians, key=lambda name: medians[name])
        ratio = mine / medians[best]
        print(f"ours : {best} = {ratio:.2f} (bar 1{'' if ratio <= 1 else ', missed'})")
    else:
        print("left out: PgQueuer and procrastinate (pip install pgqueuer procrastinate 'psycopg[binary]')")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def main() -> int:
    """Run the benchmark with the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pickup", description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    asyncio.run(compare(options.jobs, options.rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
