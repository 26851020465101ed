"""What a settlement costs with the entry for the rollups, beside the same statement without it.

Successes of batches of several sizes are settled in turns, in one session. The yardstick is today's statement without
the part that writes the entry. Printed for each size: bytes of WAL, rows written, and processor time of the session's
backend for each delivery.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import statistics
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import asyncpg

from db.migrate import migrate
from db.statements import STATEMENTS
from scripts.servers.fleet import take_server
from scripts.servers.postgres import PostgresServer

_SIZES: Final = (1, 25, 250, 1_000)
_DELIVERIES: Final = 20_000
SUBSCRIPTIONS: Final = 20
_ENTRY: Final = re.compile(r"\), entered AS \(\n.*?HAVING count\(\*\) > 0\n(?=\), buried)", re.S)
_WAL: Final = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"
_TICKS: Final = 100
SUBSCRIBE: Final = """
    INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state)
    SELECT 'sub_' || n, 'webhook', 'orders', 'http://a/', 'active' FROM generate_series(1, $1::bigint) AS n
"""
FILL: Final = """
    INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, fence, attempts, tenant)
    SELECT $1 + n, 1 + n % $3, now() + interval '1 hour', now(), $1 + n, 1, 'default'
    FROM generate_series(1, $2::bigint) AS n
"""


async def measure(
    connection: asyncpg.Connection, statement: Any, first: int, size: int, deliveries: int
) -> tuple[float, float]:
    """Settle so many deliveries in batches; return WAL bytes and processor microseconds for each."""
    await connection.execute(FILL, first, deliveries, SUBSCRIPTIONS)
    pid = await connection.fetchval("SELECT pg_backend_pid()")
    wal, ticks = await connection.fetchval(_WAL), _cpu_ticks(pid)
    at = datetime.now(UTC)
    for begin in range(0, deliveries, size):
        numbers = range(begin + 1, begin + size + 1)
        await statement.fetch(*arguments(first, numbers, at))
    seconds = (_cpu_ticks(pid) - ticks) / _TICKS
    return float(await connection.fetchval(_WAL) - wal) / deliveries, 1e6 * seconds / deliveries


def arguments(first: int, numbers: Sequence[int], at: datetime) -> list[Any]:
    """Return the parameters of a batch of plain successes."""
    count = len(numbers)
    values = {
        4: "delivered",
        6: "delivered",
        7: 204,
        8: at,
        10: 0.002,
        11: 0.0041,
        12: "127.0.0.1",
        19: False,
        23: 0.0093,
    }
    named: dict[int, Any] = {number: [value] * count for number, value in values.items()}
    named |= {number: [None] * count for number in (5, 9)} | {number: [] for number in (13, 14, 15, 16, 18, 22)}
    named |= {1: [first + n for n in numbers], 2: [1 + n % SUBSCRIPTIONS for n in numbers], 17: "w1", 20: 20, 21: 60.0}
    named[3] = named[1]
    return [named[number] for number in range(1, 24)]


def _cpu_ticks(pid: int) -> int:
    """Return the processor time of a process in hundredths of a second."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def without_entry(text: str) -> str:
    """Return the statement without the part that writes the entry. Raises ``ValueError`` if there is none."""
    bare, found = _ENTRY.subn("", text)
    if found != 1:
        raise ValueError("the settlement has no entry any more")
    return bare


async def run(rounds: int) -> list[str]:
    """Measure on a PostgreSQL of its own; return the lines of the table."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        server = take_server("postgres18", Path(folder), {})
        assert isinstance(server, PostgresServer), "none was given"
        try:
            await migrate(server.url)
            return await _compare(server.url, rounds)
        finally:
            server.discard()


async def _compare(url: str, rounds: int) -> list[str]:
    connection = await asyncpg.connect(url)
    await connection.execute("SET plan_cache_mode = force_generic_plan")
    await connection.execute(SUBSCRIBE, SUBSCRIPTIONS)
    text = STATEMENTS["delivery.settle"]
    kinds = [await connection.prepare(without_entry(text)), await connection.prepare(text)]
    lines, first = ["batch   WAL bytes a delivery       processor us a delivery     rows more"], 1_000
    for size in _SIZES:
        deliveries = _DELIVERIES if size > 1 else _DELIVERIES // 10
        found: list[list[tuple[float, float]]] = [[], []]
        for turn in range(rounds + 1):
            for place, kind in enumerate(kinds):
                one = await measure(connection, kind, first, size, deliveries)
                first += deliveries + 1_000
                if turn:  # the first round warms
                    found[place].append(one)
        bare, ours = ([statistics.median(column) for column in zip(*rows, strict=True)] for rows in found)
        lines.append(
            f"{size:5}   {bare[0]:7.0f} {ours[0]:7.0f} {ours[0] / bare[0]:6.3f}x   "
            f"{bare[1]:7.1f} {ours[1]:7.1f} {ours[1] / bare[1]:6.3f}x   {1 / size:.3f}"
        )
    await connection.close()
    return lines


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each size (5)")
    print("\n".join(asyncio.run(run(parser.parse_args().rounds))), flush=True)


if __name__ == "__main__":
    main()
