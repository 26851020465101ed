"""Queues side by side: ours, pgmq, PgQ and PgQueuer on one PostgreSQL, in alternating rounds (JF-40, JF-41, JF-47).

    python -m benchmarks.queues --messages 10000 --rounds 5

Each round submits and drains the given number of messages in each of these ways. The output has medians with their
spread, and ratios. "Per item": each message is settled alone, but those of a few milliseconds share a statement.

==================  ============================================================================================
ours sql            4 consumers: receive 50, accept 50, archive on
pgmq sql            4 consumers: read 50, archive 50
ours copy           1 consumer of copies, batches of 1,000
PgQ copy            1 consumer, a tick for each 1,000
ours worker         the SDK's worker at its default batch of 100, per item, archive on
PgQueuer            at its defaults, and at batch 100
==================  ============================================================================================

The peers are optional: `pip install pgmq pgqueuer` and Debian's `postgresql-15-pgq3`. Missing peers are left out, and
the table says so. The server is the system's PostgreSQL 15, booted for this run with durable commits.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg

from db.migrate import migrate
from hookwire.jobs import Message, Worker
from scripts.servers.fleet import take_server
from scripts.servers.postgres import PostgresServer

PAYLOAD = b"x" * 200
CONSUMERS, BATCH = 4, 50
Run = Callable[[Any, int], Awaitable[float]]


async def ours_sql(pool: asyncpg.Pool, messages: int) -> float:
    """Receive and accept by SQL alone."""
    await pool.execute("INSERT INTO hookwire.queues (name, history) VALUES ('bench', true) ON CONFLICT DO NOTHING")
    await _submit(pool, messages)

    async def consume() -> int:
        done, after = 0, 0
        while True:
            rows = await pool.fetch("SELECT id, claim FROM hookwire.receive('bench', $1, after_id => $2)", BATCH, after)
            if not rows and not after:
                return done
            after = rows[-1]["id"] if rows else 0
            if rows:
                ids = [row["id"] for row in rows]
                done += await pool.fetchval("SELECT hookwire.accept($1, $2)", ids, rows[0]["claim"])

    return await _drained(messages, consume, CONSUMERS)


async def pgmq_sql(pool: asyncpg.Pool, messages: int) -> float:
    """Read and archive by pgmq's functions."""
    if not await _has_pgmq_queue(pool):  # kept from round to round, as our tables are
        await pool.execute("SELECT pgmq.create('bench')")
    body = json.dumps({"p": PAYLOAD.decode()})
    for start in range(0, messages, 1000):
        bodies = [body] * min(1000, messages - start)
        await pool.execute("SELECT pgmq.send_batch('bench', $1::text[]::jsonb[])", bodies)

    async def consume() -> int:
        done = 0
        while rows := await pool.fetch("SELECT msg_id FROM pgmq.read('bench', 60, $1)", BATCH):
            ids = [row["msg_id"] for row in rows]
            done += len(await pool.fetch("SELECT pgmq.archive('bench', $1::bigint[])", ids))
        return done

    return await _drained(messages, consume, CONSUMERS)


async def ours_copy(pool: asyncpg.Pool, messages: int) -> float:
    """Drain by one durable consumer of copies, which moves no message."""
    await pool.execute(
        "INSERT INTO hookwire.queues (name, moves, copies) VALUES ('copies', false, true) ON CONFLICT DO NOTHING"
    )
    await pool.execute("SELECT hookwire.register_consumer('copies', 'one')")
    await _submit(pool, messages, "copies")

    async def consume() -> int:
        done = 0
        while rows := await pool.fetch("SELECT id, claim, payload FROM hookwire.receive_copies('copies', 'one', 1000)"):
            last = [rows[-1]["id"]]
            await pool.execute("SELECT hookwire.accept_copies('copies', 'one', $1, $2)", rows[0]["claim"], last)
            done += len(rows)
        return done

    return await _drained(messages, consume, 1)


async def pgq_copy(pool: asyncpg.Pool, messages: int) -> float:
    """Drain by one consumer; a batch holds the messages between two ticks."""
    if not await pool.fetchval("SELECT count(*) FROM pgq.queue WHERE queue_name = 'bench'"):
        await pool.execute("SELECT pgq.create_queue('bench'), pgq.register_consumer('bench', 'one')")
    for start in range(0, messages, 1000):
        many = min(1000, messages - start)
        await pool.execute(
            "SELECT count(pgq.insert_event('bench', 't', $1)) FROM generate_series(1, $2)", PAYLOAD.decode(), many
        )
        await pool.execute("SELECT pgq.force_tick('bench')")
        await pool.execute("SELECT pgq.ticker()")

    async def consume() -> int:
        done = 0
        while done < messages:
            batch = await pool.fetchval("SELECT pgq.next_batch('bench', 'one')")
            if batch is not None:
                done += len(await pool.fetch("SELECT ev_id, ev_data FROM pgq.get_batch_events($1)", batch))
                await pool.execute("SELECT pgq.finish_batch($1)", batch)
        return done

    return await _drained(messages, consume, 1)


def ours_worker(batch: int) -> Run:
    """Return a run of the SDK's worker with one settlement for each message, flushed in groups."""

    async def run(pool: asyncpg.Pool, messages: int) -> float:
        await pool.execute("INSERT INTO hookwire.queues (name, history) VALUES ('bench', true) ON CONFLICT DO NOTHING")
        await _submit(pool, messages)

        async def handle(_: Message) -> None:
            return

        worker = Worker(pool, "bench", handle, batch=batch)
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            running = group.create_task(worker.run())
            while worker.accepted < messages:  # noqa: ASYNC110 - the rate needs no better than a millisecond
                await asyncio.sleep(0.001)
            took = time.perf_counter() - began
            worker.stop()
            await running
        return messages / took

    return run


def pgqueuer(batch: int | None) -> Run:
    """Return a run of PgQueuer's manager with an entrypoint that does nothing; None: its default batch."""

    async def run(pool: asyncpg.Pool, messages: int) -> float:
        from pgqueuer import PgQueuer  # type: ignore[import-not-found]
        from pgqueuer.db import AsyncpgPoolDriver  # type: ignore[import-not-found]
        from pgqueuer.queries import Queries  # type: ignore[import-not-found]

        driver = AsyncpgPoolDriver(pool)
        queries = Queries(driver)
        if not await queries.schema_is_installed():
            await queries.install()
        for start in range(0, messages, 1000):
            many = min(1000, messages - start)
            await queries.enqueue(["bench"] * many, [PAYLOAD] * many, [0] * many)
        manager = PgQueuer.from_asyncpg_pool(pool)

        @manager.entrypoint("bench")  # type: ignore[untyped-decorator]
        async def handle(_: Any) -> None:
            return

        began = time.perf_counter()
        running = asyncio.create_task(manager.run(**({"batch_size": batch} if batch else {})))
        left = messages
        while left and not running.done():
            await asyncio.sleep(0.02)
            left = await pool.fetchval("SELECT count(*) FROM pgqueuer")
        took = time.perf_counter() - began
        manager.shutdown.set()
        await running
        return messages / took

    return run


async def _submit(pool: asyncpg.Pool, messages: int, queue: str = "bench") -> None:
    for start in range(0, messages, 1000):
        await pool.fetch("SELECT hookwire.submit_batch($1, $2)", queue, [PAYLOAD] * min(1000, messages - start))


async def _has_pgmq_queue(pool: asyncpg.Pool) -> bool:
    return bool(await pool.fetchval("SELECT count(*) FROM pgmq.list_queues() WHERE queue_name = 'bench'"))


async def _drained(messages: int, consume: Callable[[], Awaitable[int]], consumers: int) -> float:
    began = time.perf_counter()
    done = sum(await asyncio.gather(*(consume() for _ in range(consumers))))
    assert done == messages, f"{done} of {messages} were drained"
    return messages / (time.perf_counter() - began)


async def _ways(pool: asyncpg.Pool) -> tuple[dict[str, Run], list[str]]:
    """Return the runs that are possible here, and the names of the missing peers."""
    ways: dict[str, Run] = {
        "ours sql": ours_sql, "ours copy": ours_copy, "ours worker, batch 100": ours_worker(100),
    }  # fmt: skip
    missing = []
    if importlib.util.find_spec("pgmq") is not None:
        import pgmq  # type: ignore[import-not-found]

        text = pgmq.get_embedded_install_sql()
        await pool.execute(text if isinstance(text, str) else Path(text).read_text())
        ways["pgmq sql"] = pgmq_sql
    else:
        missing.append("pgmq (pip install pgmq)")
    if await pool.fetchval("SELECT count(*) FROM pg_available_extensions WHERE name = 'pgq'"):
        await pool.execute("CREATE EXTENSION pgq")
        ways["PgQ copy"] = pgq_copy
    else:
        missing.append("PgQ (apt install postgresql-15-pgq3)")
    if importlib.util.find_spec("pgqueuer") is not None:
        ways |= {"PgQueuer, defaults": pgqueuer(None), "PgQueuer, batch 100": pgqueuer(100)}
    else:
        missing.append("PgQueuer (pip install pgqueuer)")
    return ways, missing


_BARS = (
    ("ours sql", "pgmq sql", 1.0),
    ("ours copy", "PgQ copy", 0.5),
    ("ours worker, batch 100", "PgQueuer, defaults", 5.0),
    ("ours worker, batch 100", "PgQueuer, batch 100", 2.0),
)


async def compare(messages: int, rounds: int) -> None:
    """Run all ways in alternating rounds and print the table."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        server = take_server("postgres15", Path(folder), {})
        assert isinstance(server, PostgresServer), "none was given"
        try:
            await migrate(server.url)
            async with asyncpg.create_pool(server.url, min_size=4, max_size=8) as pool:
                ways, missing = await _ways(pool)
                rates: dict[str, list[float]] = {name: [] for name in ways}
                for number in range(rounds + 1):
                    for name, run in ways.items():
                        rate = await run(pool, messages)
                        if number:  # the first round warms up
                            rates[name].append(rate)
        finally:
            server.discard()
    for name, found in rates.items():
        print(f"{name:26} {statistics.median(found):10,.0f}/s   {min(found):,.0f} to {max(found):,.0f}")
    for ours, peer, bar in _BARS:
        if peer in rates:
            ratio = statistics.median(rates[ours]) / statistics.median(rates[peer])
            print(f"{ours} : {peer} = {ratio:.2f} (bar {bar:g}{'' if ratio >= bar else ', missed'})")
    for peer in missing:
        print(f"left out: {peer}")


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queues", description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    asyncio.run(compare(options.messages, options.rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
