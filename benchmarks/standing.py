"""Costs that must not grow with stored rows: subscribers of a topic, waiting retries, undelivered events.

``python -m benchmarks.standing [--owed 10000000]``
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time

import asyncpg
import httpx

from benchmarks.harness import Harness, peak_bytes, running_harness
from db.statements import STATEMENTS

_SUBSCRIBERS = 100_000
_WAITING = 1_000_000
_CLAIMED = 32
_ROUNDS = 40


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--owed", type=int, default=1_000_000, help="deliveries for GET /undelivered")
    print("\n".join(asyncio.run(run(parser.parse_args().owed))), flush=True)


async def run(owed: int = 1_000_000) -> list[str]:
    """Run all; return the lines to print."""
    async with running_harness("api") as harness:
        connection = await asyncpg.connect(harness.database_url, timeout=30, command_timeout=3600)
        try:
            lines = await _publish(harness, connection)
            lines += await _claim(harness, connection)
            return lines + await _undelivered(harness, connection, owed)
        finally:
            await connection.close()


async def _subscribers(connection: asyncpg.Connection, topic: str, count: int) -> int:
    """Insert subscriptions in one statement; return the number of the first."""
    first: int = await connection.fetchval(
        "WITH made AS (INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state)"
        " SELECT 'sub_' || gen_random_uuid(), 'webhook', $1, 'http://127.0.0.1:9/', 'active'"
        " FROM generate_series(1, $2::integer) RETURNING id) SELECT min(id) FROM made",
        topic, count,
    )  # fmt: skip
    return first


async def _publish(harness: Harness, connection: asyncpg.Connection) -> list[str]:
    """Measure both topics in turns, so that the machine's load affects both. No fan-out runs meanwhile."""
    await _subscribers(connection, "one", 1)
    await _subscribers(connection, "many", _SUBSCRIBERS)
    await connection.execute("VACUUM ANALYZE hookwire.subscriptions")
    took: dict[str, list[float]] = {"one": [], "many": []}
    async with httpx.AsyncClient(base_url=harness.url, trust_env=False) as client:
        for number in range(1_000):
            for topic, seconds in took.items():
                started = time.perf_counter()
                (await client.post(f"/topics/{topic}/events", content=b"x" * 600)).raise_for_status()
                if number >= 50:
                    seconds.append(time.perf_counter() - started)
    one, many = (1000 * statistics.median(took[name]) for name in ("one", "many"))
    await connection.execute("DELETE FROM hookwire.outbox")
    name = f"publish to ack, 1 and {_SUBSCRIBERS:,} subscribers"
    return [f"{name}   {one:.2f} and {many:.2f} ms   {many / one:.2f}x (bar 1.10)"]


async def _claim(harness: Harness, connection: asyncpg.Connection) -> list[str]:
    """Measure a claim for 32 subscriptions with 16 due deliveries each, alone and beside a million that wait."""
    first = await _subscribers(connection, "claimed", _CLAIMED)
    await connection.execute(
        "INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant)"
        " SELECT n, $1::bigint + n % $2, now(), now(), 'default' FROM generate_series(1, 16 * $2::integer) n",
        first, _CLAIMED,
    )  # fmt: skip
    empty = await _claim_ms(connection, first)
    await connection.execute(
        "INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant, attempts)"
        " SELECT 1000 + n, $1::bigint + n % $2, now() + interval '1 hour', now(), 'default', 1"
        " FROM generate_series(1, $3::integer) n",
        first, _CLAIMED, _WAITING,
    )  # fmt: skip
    full = await _claim_ms(connection, first)
    await connection.execute("DELETE FROM hookwire.deliveries WHERE due_at <= now()")  # these have no receiver
    with harness.process("deliver") as worker:
        await asyncio.sleep(8)
        peak = peak_bytes(worker.pid)
    await connection.execute("TRUNCATE hookwire.deliveries")
    return [
        f"claim of {16 * _CLAIMED}, nothing else and {_WAITING:,} waiting   {empty:.1f} and {full:.1f} ms   "
        f"{full / empty:.2f}x (bar 1.20)",
        f"memory of a worker beside them   {peak / 2**20:.0f} MiB (bar 200)",
    ]


async def _claim_ms(connection: asyncpg.Connection, first: int) -> float:
    await connection.execute("VACUUM ANALYZE hookwire.deliveries")
    claim = await connection.prepare(STATEMENTS["delivery.claim"])
    subscriptions = list(range(first, first + _CLAIMED))
    took = []
    for _ in range(_ROUNDS):
        transaction = connection.transaction()
        await transaction.start()
        started = time.perf_counter()
        rows = await claim.fetch(subscriptions, [16] * _CLAIMED, 15.0, 5.0, None)
        took.append(time.perf_counter() - started)
        await transaction.rollback()
        assert len(rows) == 16 * _CLAIMED, f"{len(rows)} were claimed"
    return 1000 * statistics.median(took)


async def _undelivered(harness: Harness, connection: asyncpg.Connection, owed: int) -> list[str]:
    """Measure pages of GET /undelivered, of all and of one subscription, from the start and from the middle."""
    first = await _subscribers(connection, "owed", 1_000)
    public_id = await connection.fetchval("SELECT public_id FROM hookwire.subscriptions WHERE id = $1", first + 500)
    for start in range(0, owed, 1_000_000):
        await connection.execute(
            "INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant, attempts)"
            " SELECT 1 + n / 1000, $1::bigint + n % 1000, now() + interval '1 hour', now(), 'default', 1"
            " FROM generate_series($2::integer, $3::integer - 1) n",
            first, start, min(start + 1_000_000, owed),
        )  # fmt: skip
    await connection.execute("VACUUM ANALYZE hookwire.deliveries")
    lines = []
    async with httpx.AsyncClient(base_url=harness.url, trust_env=False, timeout=60) as client:
        pages = (
            ("/undelivered of all", "/undelivered?limit=100"),
            ("/undelivered of one subscription", f"/undelivered?limit=100&subscription_id={public_id}"),
            ("/deliveries in the state parked (there are none)", "/deliveries?limit=100&state=parked"),
        )
        for name, first_page in pages:
            path, took = first_page, []
            for _ in range(20):
                started = time.perf_counter()
                page = (await client.get(path)).raise_for_status().json()
                took.append(1000 * (time.perf_counter() - started))
                if page["next_cursor"] is None:
                    break
                path = f"{first_page}&cursor={page['next_cursor']}"
            lines.append(
                f"GET {name}, {owed:,} owed   page of 100: median {statistics.median(took):.1f} ms, "
                f"slowest {max(took):.1f} ms (bar 100)"
            )
    return lines


if __name__ == "__main__":
    main()
