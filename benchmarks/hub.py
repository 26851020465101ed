"""The WebSub hub: the cost of a ping, a subscribe request, the lease sweep and the verification queue as it grows.

There are three measures, each compared with a small size in the same run:

* accepting a ping of a topic with one subscriber and with 100,000
* a subscribe request while 1,000 verifications hang
* a round of the sweep and a claim of the queue with 1,000 to 1,000,000 subscriptions, of which a hundred are due
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlencode

import asyncpg

from benchmarks.harness import Harness, running_harness
from benchmarks.load import Load, drive, milliseconds
from db.statements import STATEMENTS

_HANGING = 1_000
_DUE = 100
_LOAD_SECONDS = 5.0
_ROUNDS = 15
_SUBSCRIBERS = """
INSERT INTO hookwire.subscriptions (public_id, protocol, topic, topic_url, callback, state, ordered, lease_until,
                                    identity)
SELECT 'sub_' || $1 || n, 'websub', $1, 'http://127.0.0.1:61001/' || $1, 'http://127.0.0.1:61001/' || n, 'active', true,
       now() + interval '9 days', sha256(($1 || n)::bytea)
FROM generate_series($2::bigint, $3::bigint) AS n
"""
_REQUESTS = """
INSERT INTO hookwire.intents (tenant, mode, topic, topic_url, callback, callback_host, identity, lease_seconds,
                              signature_method, due_at, created_at, state, decided_at)
SELECT 'default', 'subscribe', 't', 'http://127.0.0.1:61001/t', 'http://127.0.0.1:61001/' || n, 'h' || n,
       sha256(n::text::bytea), 864000, 'sha256', now(), now(), CASE WHEN $3 THEN 'requested' ELSE 'verified' END,
       CASE WHEN $3 THEN NULL ELSE now() END
FROM generate_series($1::bigint, $2::bigint) AS n
"""


_UNLIMITED = {  # all requests come from one address
    "websub_verifications_per_minute_requester": "1000000",
    "websub_pending_requester_max": "0",
    "websub_subscriptions_requester_max": "0",
}


async def run(sizes: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000), subscribers: int = 100_000) -> list[str]:
    """Run all; return the lines to print."""
    async with running_harness(websub_foreign_topics="any", **_UNLIMITED) as harness:
        sql = await asyncpg.connect(harness.database_url)
        try:
            lines = [*await _pings(harness, sql, subscribers), *await _subscribing(harness)]
        finally:
            await sql.close()
    async with running_harness() as harness:
        sql = await asyncpg.connect(harness.database_url)
        os.kill(harness.pid, signal.SIGSTOP)  # the hub would sweep and claim too
        try:
            return lines + await _rounds(sql, sizes)
        finally:
            os.kill(harness.pid, signal.SIGCONT)
            await sql.close()


async def _pings(harness: Harness, sql: asyncpg.Connection, subscribers: int) -> list[str]:
    """Measure both topics in turns, so that a slow minute of the machine affects both."""
    names = {}
    for path in ("few", "many"):
        url = f"http://127.0.0.1:61001/{path}"
        answer = await _post(harness, **{"mode": "subscribe", "topic": url, "callback": "http://127.0.0.1:61001/cb"})
        assert answer == 202, answer
        names[path] = await sql.fetchval("SELECT topic FROM hookwire.foreign_topics WHERE url = $1", url)
    await sql.execute(_SUBSCRIBERS, names["few"], 1, 1)
    await sql.execute(_SUBSCRIBERS, names["many"], 1, subscribers)
    await sql.execute("ANALYZE hookwire.subscriptions")
    loads: dict[str, list[Load]] = {"few": [], "many": []}
    for turn in range(6):
        path = ("few", "many")[turn % 2]
        form = urlencode({"hub.mode": "publish", "hub.url": f"http://127.0.0.1:61001/{path}"})
        loads[path].append(await drive("127.0.0.1", harness.port, [_request(harness, form)], 4, _LOAD_SECONDS / 2))
    few, many = (statistics.median(one.rate for one in loads[path]) for path in ("few", "many"))
    return [
        f"pings accepted, 1 subscriber        {few:8.0f}/s",
        f"pings accepted, {subscribers:,} subscribers {many:6.0f}/s = {few / many:.2f}x the cost (bar 1.10x)",
    ]


async def _subscribing(harness: Harness) -> list[str]:
    async with _callback(hangs=True) as hanging, _callback(hangs=False) as answering:
        calm = await _offer(harness, lambda n: f"http://127.1.{n // 250}.{n % 250 + 1}:{answering}/", 200)
        for n in range(_HANGING):
            callback = f"http://127.2.{n // 250}.{n % 250 + 1}:{hanging}/"
            topic = f"http://127.0.0.1:{harness.port}/topics/t"
            status = await _post(harness, mode="subscribe", topic=topic, callback=callback)
            assert status == 202, status
        busy = await _offer(harness, lambda n: f"http://127.3.{n // 250}.{n % 250 + 1}:{answering}/", 300)
    (calm50, calm99), (busy50, busy99) = ([milliseconds(one, share) for share in (0.5, 0.99)] for one in (calm, busy))
    return [
        f"subscribe, nothing hangs            p50 {calm50:.1f} ms, p99 {calm99:.1f} ms",
        f"subscribe, {_HANGING:,} verifications hang  p50 {busy50:.1f} ms, p99 {busy99:.1f} (bar 50)",
    ]


async def _offer(
    harness: Harness, callback: Callable[[int], str], requests: int, per_second: float = 20.0
) -> list[float]:
    """Send at a fixed rate; return the seconds of each answer."""
    topic = f"http://127.0.0.1:{harness.port}/topics/t"
    started = time.perf_counter()

    async def one(n: int) -> float:
        await asyncio.sleep(max(started + n / per_second - time.perf_counter(), 0))
        began = time.perf_counter()
        status = await _post(harness, mode="subscribe", topic=topic, callback=callback(n))
        assert status == 202, status
        return time.perf_counter() - began

    return list(await asyncio.gather(*(one(n) for n in range(requests))))


async def _rounds(sql: asyncpg.Connection, sizes: tuple[int, ...]) -> list[str]:
    lines, made = [], 0
    await sql.execute(_REQUESTS, 10_000_001, 10_000_000 + _DUE, True)
    for size in sizes:
        await sql.execute(_SUBSCRIBERS, "t", made + 1, size)
        await sql.execute(_REQUESTS, made + 1, size, False)
        await sql.execute(
            "UPDATE hookwire.subscriptions SET lease_until = now() + interval '9 days' WHERE lease_until <= now()"
        )
        await sql.execute(
            "UPDATE hookwire.subscriptions SET lease_until = now() - interval '1 second'"
            " WHERE id IN (SELECT id FROM hookwire.subscriptions ORDER BY id DESC LIMIT $1)",
            _DUE,
        )
        made = size
        await sql.execute("VACUUM ANALYZE hookwire.subscriptions")
        await sql.execute("VACUUM ANALYZE hookwire.intents")
        sweep = await _median(sql, "intent.expire", 5_000)
        claim = await _median(sql, "intent.claim", 32, 20.0, 32)
        lines.append(f"{size:9,} subscriptions: sweep of {_DUE} {sweep:6.2f} ms, claim of 32 {claim:6.2f} ms")
    return lines


async def _median(sql: asyncpg.Connection, statement: str, *arguments: object) -> float:
    """Return the median milliseconds. Each round is rolled back, so that the next round finds the same rows."""
    found = []
    for _ in range(_ROUNDS):
        transaction = sql.transaction()
        await transaction.start()
        began = time.perf_counter()
        rows = await sql.fetch(STATEMENTS[statement], *arguments)
        found.append(1000 * (time.perf_counter() - began))
        await transaction.rollback()
        assert rows, "nothing was due"
    return statistics.median(found)


def _request(harness: Harness, form: str) -> bytes:
    head = (
        f"POST /hub HTTP/1.1\r\nhost: 127.0.0.1:{harness.port}\r\ncontent-type: application/x-www-form-urlencoded\r\n"
    )
    return f"{head}content-length: {len(form)}\r\n\r\n{form}".encode()


async def _post(harness: Harness, **form: str) -> int:
    """Send a form on a new connection; return the status."""
    reader, writer = await asyncio.open_connection("127.0.0.1", harness.port)
    writer.write(_request(harness, urlencode({f"hub.{name}": value for name, value in form.items()})))
    status = int((await reader.readline()).split()[1])
    writer.close()
    return status


@asynccontextmanager
async def _callback(*, hangs: bool) -> AsyncIterator[int]:
    """Run a callback on all loopback addresses that never answers, or answers 404; yield its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        try:
            await reader.readuntil(b"\r\n\r\n")
            if hangs:
                await reader.read()
            writer.write(b"HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writers.discard(writer)
        writer.close()

    writers: set[asyncio.StreamWriter] = set()
    server = await asyncio.start_server(serve, "0.0.0.0", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    for writer in writers:
        writer.transport.abort()
    await asyncio.sleep(0.1)
