"""The cost of the standby fence: time to the webhook at 200/s, and the rate with 32 clients, with and without it.

A primary has a synchronous standby. The yardstick is the same hub on the same pair without the fence, in turns. Each
publish waits for the standby in both. With the fence it is looked at, too, and so does each claim.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import httpx

from benchmarks.cost import offer, request
from benchmarks.harness import Counted, Harness, Sink, cpu_seconds, postgres_cpu_seconds, running_harness, running_sink
from benchmarks.load import drive
from scripts.servers.postgres import PostgresServer, PostgresStandby, embedded_bin_dir

_TOPIC = "cost"
_RATE = 200
_CLIENTS = 32
_FENCE = "names:one,two"
_STATISTICS_SECONDS = 1.5
"""A backend reports its statistics at most once a second."""
_TRANSACTIONS = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"


@dataclass(frozen=True)
class Fenced:
    """One turn. ``transactions`` and ``milliseconds`` of processor time are for one event at 200/s."""

    received: Counted
    transactions: float
    milliseconds: float
    full_rate: float


@contextmanager
def _pair(folder: Path) -> Iterator[PostgresServer]:
    """Boot a primary whose commits wait for its standby."""
    primary = PostgresServer("one", folder / "one", embedded_bin_dir())
    standby = PostgresStandby("two", folder / "two", primary)
    try:
        primary.start()
        standby.start()
        yield primary
    finally:
        standby.discard()
        primary.discard()


async def _turn(primary: PostgresServer, fence: str, seconds: float) -> Fenced:
    """Run a hub with this fence, or none, and one webhook."""
    settings = {"database_url": primary.url, "standby_fence": fence}
    async with running_sink() as sink, running_harness(**settings) as harness:
        async with httpx.AsyncClient(base_url=harness.url, trust_env=False) as client:
            subscription = {"topic": _TOPIC, "callback": f"http://127.0.0.1:{sink.port}/"}
            (await client.post("/subscriptions", json=subscription)).raise_for_status()
            (await client.put(f"/topics/{_TOPIC}/settings", json={"sinks": ["webhooks"]})).raise_for_status()
        await sink.until(await offer(harness.port, 50, 2), 60)
        at_rate = await _at_rate(primary, harness, sink, seconds)
        await sink.clear()
        load = await drive("127.0.0.1", harness.port, [request(harness.port)], _CLIENTS, seconds)
        await sink.until(len(load.latencies) - load.refused, 120)
        async with httpx.AsyncClient(base_url=harness.url, trust_env=False) as client:
            for one in (await client.get("/subscriptions")).json()["items"]:
                (await client.delete(f"/subscriptions/{one['id']}")).raise_for_status()
    received, transactions, milliseconds = at_rate
    return Fenced(received, transactions, milliseconds, (len(load.latencies) - load.refused) / load.seconds)


async def _at_rate(
    primary: PostgresServer, harness: Harness, sink: Sink, seconds: float
) -> tuple[Counted, float, float]:
    assert primary.pid is not None
    sql = await asyncpg.connect(primary.url)
    try:
        await sink.clear()
        await asyncio.sleep(_STATISTICS_SECONDS)
        before = await sql.fetchval(_TRANSACTIONS)
        used = cpu_seconds(harness.pid) + postgres_cpu_seconds(primary.pid)
        count = await offer(harness.port, _RATE, seconds)
        received = await sink.until(count, 60)
        used = cpu_seconds(harness.pid) + postgres_cpu_seconds(primary.pid) - used
        await asyncio.sleep(_STATISTICS_SECONDS)
        return received, (await sql.fetchval(_TRANSACTIONS) - before) / count, 1000 * used / count
    finally:
        await sql.close()


async def run(rounds: int, seconds: float) -> list[str]:
    """Measure both in turns; return the lines to print."""
    found: dict[str, list[Fenced]] = {"": [], _FENCE: []}
    with tempfile.TemporaryDirectory(prefix="hookwire-bench-") as folder:
        Path(folder).chmod(0o711)
        with _pair(Path(folder)) as primary:
            sql = await asyncpg.connect(primary.url)
            await sql.execute("ALTER SYSTEM SET synchronous_standby_names = 'two'")
            await sql.execute("SELECT pg_reload_conf()")
            await sql.close()
            for _ in range(rounds):
                for fence, turns in found.items():
                    turns.append(await _turn(primary, fence, seconds))
    load = os.getloadavg()[0]
    return [f"load {load:.1f}", *(_line(fence, turns) for fence, turns in found.items())]


def _line(fence: str, turns: Sequence[Fenced]) -> str:
    middle = statistics.median
    return (
        f"{'with the fence' if fence else 'without':15} {_RATE}/s: POST to received p50 "
        f"{middle(one.received.p50 for one in turns):.1f} ms, p99 {middle(one.received.p99 for one in turns):.1f} ms; "
        f"{middle(one.transactions for one in turns):.2f} transactions and "
        f"{middle(one.milliseconds for one in turns):.2f} ms of processor time an event; "
        f"full rate {middle(one.full_rate for one in turns):.0f}/s"
    )


def main() -> None:
    """Measure the fence."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each (default 3)")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each load (default 8)")
    options = parser.parse_args()
    print(*asyncio.run(run(options.rounds, options.seconds)), sep="\n", flush=True)


if __name__ == "__main__":
    main()
