"""A claim with 10^6 waiting beside one with 10^3, of messages and of jobs.

    python -m benchmarks.depth --many 1000000 --rounds 200

Two databases on one server, in turn: claim ten, settle them, add ten; only the claim is timed. The connection has the
settings of a program's own pool, not those of the hub.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import asyncpg

from db.migrate import migrate
from scripts.servers.fleet import take_server
from scripts.servers.postgres import PostgresServer

_FEW, _BAR = 1_000, 1.2
_FILL = (
    "INSERT INTO hookwire.queues (name) VALUES ('depth')",
    "INSERT INTO hookwire.messages (id, queue, created_at, payload)"
    " SELECT nextval('hookwire.message_id'), 'depth', now(), convert_to(repeat('x', 200), 'UTF8')"
    " FROM generate_series(1, {0})",
    "INSERT INTO hookwire.jobs (kind, state, args, rank_at, attempts_max, run_seconds, created_at, number)"
    " SELECT 'depth', 'available', '{{}}', now() + n * interval '1 microsecond', 5, 60, now(), 1"
    " FROM generate_series(1, {0}) n",
    "VACUUM ANALYZE hookwire.messages",
    "VACUUM ANALYZE hookwire.jobs",
)


async def claim_messages(sql: asyncpg.Connection) -> float:
    """Claim ten messages, and keep the number that waits; return the seconds of the claim."""
    began = time.perf_counter()
    rows = await sql.fetch("SELECT id, claim FROM hookwire.receive('depth', 10)")
    took = time.perf_counter() - began
    await sql.execute("SELECT hookwire.accept($1, $2)", [row["id"] for row in rows], rows[0]["claim"])
    await sql.execute("SELECT hookwire.submit_batch('depth', array_fill($1::bytea, ARRAY[10]))", b"x" * 200)
    return took


async def claim_jobs(sql: asyncpg.Connection) -> float:
    """Claim ten jobs, and keep the number that waits; return the seconds of the claim."""
    began = time.perf_counter()
    rows = await sql.fetch("SELECT id, claim FROM hookwire.claim_jobs('{depth}', 10, 'bench')")
    took = time.perf_counter() - began
    ids, claims = [row["id"] for row in rows], [row["claim"] for row in rows]
    await sql.execute("SELECT hookwire.complete_jobs($1, $2)", ids, claims)
    await sql.execute("SELECT count(hookwire.enqueue('depth')) FROM generate_series(1, 10)")
    return took


async def _filled(server: PostgresServer, name: str, rows: int) -> asyncpg.Connection:
    admin = await asyncpg.connect(server.url)
    await admin.execute(f"CREATE DATABASE {name}")
    await admin.close()
    url = server.url.rpartition("/")[0] + "/" + name
    await migrate(url)
    sql = await asyncpg.connect(url)
    for statement in _FILL:
        await sql.execute(statement.format(rows), timeout=1200)
    return sql


async def compare(many: int, rounds: int) -> None:
    """Claims in turn; prints the medians and the ratios."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        server = take_server("postgres15", Path(folder), {})
        assert isinstance(server, PostgresServer), "none was given"
        try:
            sessions = {count: await _filled(server, f"of_{count}", count) for count in (_FEW, many)}
            for what, claim in (("messages", claim_messages), ("jobs", claim_jobs)):
                took: dict[int, list[float]] = {count: [] for count in sessions}
                for number in range(rounds + 10):
                    for count, sql in sessions.items():
                        seconds = await claim(sql)
                        if number >= 10:  # plans and caches
                            took[count].append(seconds)
                few, lots = (1000 * statistics.median(found) for found in took.values())
                ratio = lots / few
                print(f"a claim of 10 {what:9} p50 {few:6.2f} ms of {_FEW:,}, {lots:6.2f} ms of {many:,} waiting:"
                      f" {ratio:.2f} (bar {_BAR}{'' if ratio <= _BAR else ', missed'})")  # fmt: skip
            for sql in sessions.values():
                await sql.close()
        finally:
            server.discard()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def main() -> int:
    """Run the benchmark with the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.depth", description=__doc__.splitlines()[0])
    parser.add_argument("--many", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    asyncio.run(compare(options.many, options.rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
