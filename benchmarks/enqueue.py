"""Enqueueing jobs in SQL, beside a raw INSERT of the same row into the same table, in alternating rounds.

One by one, 32 connections commit one job each time. In bulk, four connections commit a thousand jobs each time. Each is
measured where SQL notifies workers, and where it does not: all commits that notify wait for each other. The server is
the system's PostgreSQL 15, booted for this run with durable commits.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

import asyncpg

from db.migrate import migrate
from scripts.servers.fleet import take_server
from scripts.servers.postgres import PostgresServer

__all__ = ["main"]

_KIND = "bench"
_BULK = 1_000
_ARGS = json.dumps({"order": 4711, "lines": ["x" * 20] * 4})
_DRAFTS = json.dumps([{"kind": _KIND, "args": json.loads(_ARGS)}] * _BULK)
_RAW = """
INSERT INTO hookwire.jobs (kind, state, args, rank_at, attempts_max, run_seconds, number, created_at)
SELECT $1, 'available', $2::jsonb, now(), 25, 3600, 1, now() FROM generate_series(1, {})
"""
_SETTING = "UPDATE hookwire.installation SET sql_notify = $1"
_BARS = {"one by one": 0.25, "bulk": 0.3}
_WAYS: dict[tuple[str, str], tuple[str, tuple[str, ...]]] = {
    ("one by one", "raw INSERT"): (_RAW.format(1), (_KIND, _ARGS)),
    ("one by one", "enqueue"): ("SELECT hookwire.enqueue($1, $2::jsonb)", (_KIND, _ARGS)),
    ("bulk", "raw INSERT"): (_RAW.format(_BULK), (_KIND, _ARGS)),
    ("bulk", "enqueue"): ("SELECT count(*) FROM hookwire.add_jobs($1::jsonb)", (_DRAFTS,)),
}
_CONNECTIONS = {"one by one": 32, "bulk": 4}
_JOBS = {"one by one": 1, "bulk": _BULK}


async def _rate(pool: asyncpg.Pool, kind: str, way: str, seconds: float) -> float:
    """Return the jobs per second of one way."""
    statement, arguments = _WAYS[kind, way]
    await pool.execute("TRUNCATE hookwire.jobs")
    began, count = time.perf_counter(), 0

    async def connection() -> None:
        nonlocal count
        async with pool.acquire() as own:
            while time.perf_counter() - began < seconds:
                await own.fetchval(statement, *arguments)
                count += _JOBS[kind]

    await asyncio.gather(*(connection() for _ in range(_CONNECTIONS[kind])))
    return count / (time.perf_counter() - began)


async def run(seconds: float, rounds: int) -> list[str]:
    """Run all; return the lines to print."""
    rates: dict[tuple[str, str, bool], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        server = take_server("postgres15", Path(folder), {})
        assert isinstance(server, PostgresServer), "none was given"
        try:
            await migrate(server.url)
            async with asyncpg.create_pool(server.url, min_size=32, max_size=32) as pool:
                for number in range(rounds + 1):
                    for notifies in (False, True):
                        await pool.execute(_SETTING, notifies)
                        for kind, way in _WAYS:
                            rate = await _rate(pool, kind, way, seconds)
                            if number:  # the first round warms up
                                rates.setdefault((kind, way, notifies), []).append(rate)
        finally:
            server.discard()
    return _lines({key: statistics.median(found) for key, found in rates.items()})


def _lines(rates: dict[tuple[str, str, bool], float]) -> list[str]:
    lines = []
    for kind, bar in _BARS.items():
        for notifies in (False, True):
            raw, ours = rates[kind, "raw INSERT", notifies], rates[kind, "enqueue", notifies]
            told = "SQL notifies" if notifies else "without NOTIFY"
            lines.append(f"{kind:10} {told:14} {ours:9,.0f}/s beside {raw:9,.0f}/s   {ours / raw:.2f} (bar {bar:g})")
    return [*lines, f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.enqueue", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="of each way in each round (default 3)")
    parser.add_argument("--rounds", type=int, default=5, help="default 5")
    options = parser.parse_args()
    print("\n".join(asyncio.run(run(options.seconds, options.rounds))))


if __name__ == "__main__":
    main()
