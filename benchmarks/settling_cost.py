"""What the entry for the rollups costs: instructions of the settlement, and processor time of a whole delivery.

The yardstick is today's statement without the part that writes the entry. Callgrind counts the instructions of a
PostgreSQL in single-user mode. It settles a few and then more batches, so that its start is not counted. For the
processor time, hubs from this tree and from a copy with the bare statement deliver at full rate by turns.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import asyncpg

from benchmarks.settling import FILL, SUBSCRIBE, SUBSCRIPTIONS, arguments, without_entry
from db.migrate import migrate
from db.statements import STATEMENTS
from scripts.servers.fleet import take_server
from scripts.servers.postgres import PostgresServer

_ROOT: Final = Path(__file__).parents[1]
_SETTLE: Final = "db/sql/delivery.settle.sql"
_SIZES: Final = (25, 250)
_FEW, _MANY = 4, 24
_COLLECTED: Final = re.compile(r"Collected : (\d+)")
_WHOLE: Final = """
import asyncio, sys
from benchmarks.cost import full_rate
print(asyncio.run(full_rate(1, float(sys.argv[1]))))
"""
_MILLISECONDS: Final = re.compile(r" = ([0-9.]+) \(bar")


def _literal(value: Any) -> str:
    """Return a parameter as SQL without a type. No value has a character with a meaning in an array."""
    if isinstance(value, list):
        return f"'{{{','.join(_text(one) for one in value)}}}'"
    return f"'{_text(value)}'"


def _text(value: Any) -> str:
    if value is None:
        return "NULL"
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _script(text: str, first: int, size: int, batches: int) -> str:
    """Return the commands of a session that settles so many batches."""
    at = datetime.now(UTC)
    lines = ["SET plan_cache_mode = force_generic_plan", f"PREPARE settle AS {text.rstrip().rstrip(';')}"]
    for batch in range(batches):
        numbers = range(1 + batch * size, 1 + (batch + 1) * size)
        lines.append(f"EXECUTE settle ({', '.join(_literal(one) for one in arguments(first, numbers, at))})")
    return "".join(f"{line};\n\n" for line in lines)


def _instructions(server: PostgresServer, script: str) -> int:
    """Run the commands under callgrind; return the instructions of the process."""
    command = [
        "valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
        str(server.bin_dir / "postgres"), "--single", "-j", "-D", str(server.data_dir), "postgres",
    ]  # fmt: skip
    account = "postgres" if os.geteuid() == 0 else None
    ended = subprocess.run(command, input=script, capture_output=True, text=True, check=True, cwd="/", user=account)
    if "ERROR" in ended.stderr:
        raise RuntimeError(ended.stderr[:2_000])
    return int(_COLLECTED.findall(ended.stderr)[-1])


async def _filled(url: str, first: int, deliveries: int) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(FILL, first, deliveries, SUBSCRIPTIONS)
    await connection.close()


async def counted() -> list[str]:
    """Count instructions; return the lines of the table."""
    text = STATEMENTS["delivery.settle"]
    lines, first = ["batch   instructions a delivery, without and with the entry"], 1_000
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        server = take_server("postgres18", Path(folder), {})
        assert isinstance(server, PostgresServer), "none was given"
        try:
            await migrate(server.url)
            connection = await asyncpg.connect(server.url)
            await connection.execute(SUBSCRIBE, SUBSCRIPTIONS)
            await connection.close()
            for size in _SIZES:
                found = []
                for kind in (without_entry(text), text):
                    sums = []
                    for batches in (_FEW, _MANY):
                        await _filled(server.url, first, batches * size)
                        server.stop()
                        sums.append(await asyncio.to_thread(_instructions, server, _script(kind, first, size, batches)))
                        server.start()
                        first += batches * size + 1_000
                    found.append((sums[1] - sums[0]) / (size * (_MANY - _FEW)))
                lines.append(f"{size:5}   {found[0]:9,.0f} {found[1]:9,.0f} {found[1] / found[0]:6.3f}x")
        finally:
            server.discard()
    return lines


def whole(rounds: int, seconds: float) -> list[str]:
    """Deliver at full rate by turns; return the line to print."""
    found: list[list[float]] = [[], []]
    with tempfile.TemporaryDirectory(prefix="hookwire-bench-") as folder:
        bare = Path(folder) / "bare"
        shutil.copytree(_ROOT, bare, ignore=shutil.ignore_patterns(".*", "tests", "docs", "__pycache__"))
        statement = bare / _SETTLE
        statement.write_text(without_entry(statement.read_text()))
        for turn in range(rounds):
            for place in (0, 1) if turn % 2 else (1, 0):
                tree = (bare, _ROOT)[place]
                command = [sys.executable, "-c", _WHOLE, str(seconds)]
                environment = os.environ | {"PYTHONPATH": str(tree)}
                text = subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True, check=True)
                found[place].append(float(_MILLISECONDS.findall(text.stdout)[-1]))
    without, ours = (statistics.median(one) for one in found)
    return [
        f"processor ms a delivery, service and database, {rounds} rounds: {without:.3f} without the entry "
        f"({min(found[0]):.3f}-{max(found[0]):.3f}), {ours:.3f} with it ({min(found[1]):.3f}-{max(found[1]):.3f}), "
        f"{ours / without:.3f}x",
        f"load of the machine {' '.join(f'{one:.1f}' for one in os.getloadavg())}",
    ]


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=5, help="rounds at full rate (5)")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each round publishes (5)")
    parser.add_argument("--no-instructions", action="store_true", help="count no instructions")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("valgrind is not installed: instructions are not counted", flush=True)
    elif not options.no_instructions:
        print("\n".join(asyncio.run(counted())), flush=True)
    if options.rounds:
        print("\n".join(whole(options.rounds, options.seconds)), flush=True)


if __name__ == "__main__":
    main()
