"""Jobs side by side: the SDK's worker, PgQueuer and procrastinate on one PostgreSQL, in alternating rounds (JF-40).

    python -m benchmarks.jobs --jobs 10000 --rounds 5

Each round enqueues and completes the given number of jobs that do nothing. The output has medians with their spread,
ratios and the load. Our worker has 100 slots over SQL: each job is settled alone, but jobs that end within a few
milliseconds share a statement. The row with limits allows 5 running jobs for each of 100 keys.

==========================  ====================================================================================
our jobs                    without events; with the three end events; with a limit for each key
PgQueuer                    at its defaults, and at batch 100
procrastinate               10 at once, jobs that succeed are deleted; a tenth of the jobs
==========================  ====================================================================================

The peers are optional: `pip install pgqueuer procrastinate 'psycopg[binary]'`. Missing peers are left out, and the
table says so. Oban for Python is left out, because it needs Python 3.12. The server is the system's PostgreSQL 15,
booted for this run with durable commits.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import asyncpg

from benchmarks.queues import Run, pgqueuer
from db.migrate import migrate
from hookwire.jobs import Handlers, Job, JobWorker, SqlJobs
from scripts.servers.fleet import take_server
from scripts.servers.postgres import PostgresServer

_SLOTS = 100


def our_jobs(kind: str, settings: str) -> Run:
    """Return a run of the SDK's worker; ``settings`` are those of the kind."""

    async def run(pool: asyncpg.Pool, jobs: int) -> float:
        await pool.execute("SELECT hookwire.put_job_kind($1, $2::text::jsonb, 'bench')", kind, settings)
        await pool.execute(
            "SELECT count(hookwire.enqueue($1, to_jsonb(n), key => 'k' || n % 100)) FROM generate_series(1, $2::int) n",
            kind, jobs,
        )  # fmt: skip
        handlers = Handlers()

        @handlers.job(kind)
        async def handle(_: Job) -> None:
            return

        worker = JobWorker(SqlJobs(pool), handlers, slots=_SLOTS, idle_seconds=0.01)
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            running = group.create_task(worker.run())
            while worker.completed < jobs:  # noqa: ASYNC110 - the rate needs no better than a millisecond
                await asyncio.sleep(0.001)
            took = time.perf_counter() - began
            worker.stop()
            await running
        return jobs / took

    return run


def procrastinate(url: str) -> Run:
    """Return a run of its worker, with a task that does nothing, until the queue is empty."""

    async def run(_: asyncpg.Pool, jobs: int) -> float:
        from procrastinate import App, PsycopgConnector  # type: ignore[import-not-found]

        app, some = App(connector=PsycopgConnector(conninfo=url)), max(jobs // 10, 1)

        @app.task(name="bench")  # type: ignore[untyped-decorator]
        async def handle(n: int) -> None:
            return

        async with app.open_async():
            if not await app.check_connection_async():
                await app.schema_manager.apply_schema_async()
            await handle.batch_defer_async(*({"n": n} for n in range(some)))
            began = time.perf_counter()
            await app.run_worker_async(
                wait=False, concurrency=10, delete_jobs="successful", install_signal_handlers=False
            )
            return some / (time.perf_counter() - began)

    return run


def _ways(url: str) -> tuple[dict[str, Run], list[str]]:
    """Return the runs that are possible here, and the names of the missing peers."""
    ways: dict[str, Run] = {
        "our jobs": our_jobs("plain", '{"events": []}'),
        "our jobs, end events": our_jobs("loud", "{}"),
        "our jobs, key limits": our_jobs("limited", '{"events": [], "key_running_max": 5}'),
    }
    missing = ["Oban for Python (needs Python 3.12)"]
    if importlib.util.find_spec("pgqueuer") is not None:
        ways |= {"PgQueuer, defaults": pgqueuer(None), "PgQueuer, batch 100": pgqueuer(100)}
    else:
        missing.append("PgQueuer (pip install pgqueuer)")
    if importlib.util.find_spec("procrastinate") is not None:
        ways["procrastinate"] = procrastinate(url)
    else:
        missing.append("procrastinate (pip install procrastinate 'psycopg[binary]')")
    return ways, missing


_BARS = (
    ("our jobs", "PgQueuer, defaults", 5.0),
    ("our jobs", "PgQueuer, batch 100", 2.0),
    ("our jobs", "procrastinate", 5.0),
    ("our jobs, end events", "our jobs", 0.4),
    ("our jobs, key limits", "our jobs", 0.85),
)


async def compare(jobs: int, rounds: int, only: str) -> None:
    """Run all ways in alternating rounds and print the table."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        server = take_server("postgres15", Path(folder), {})
        assert isinstance(server, PostgresServer), "none was given"
        try:
            await migrate(server.url)
            async with asyncpg.create_pool(server.url, min_size=4, max_size=8) as pool:
                ways, missing = _ways(server.url)
                ways = {name: run for name, run in ways.items() if only in name}
                rates: dict[str, list[float]] = {name: [] for name in ways}
                for number in range(rounds + 1):
                    for name, run in ways.items():
                        rate = await run(pool, jobs)
                        if number:  # the first round warms up
                            rates[name].append(rate)
        finally:
            server.discard()
    _report(rates, missing)


def _report(rates: dict[str, list[float]], missing: list[str]) -> None:
    for name, found in rates.items():
        print(f"{name:26} {statistics.median(found):10,.0f}/s   {min(found):,.0f} to {max(found):,.0f}")
    for ours, peer, bar in _BARS:
        if ours in rates and peer in rates:
            ratio = statistics.median(rates[ours]) / statistics.median(rates[peer])
            print(f"{ours} : {peer} = {ratio:.2f} (bar {bar:g}{'' if ratio >= bar else ', missed'})")
    for peer in missing:
        print(f"left out: {peer}")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jobs", description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="only ways whose name holds this text")
    options: Any = parser.parse_args()
    asyncio.run(compare(options.jobs, options.rounds, options.only))
    return 0


if __name__ == "__main__":
    sys.exit(main())
