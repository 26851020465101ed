"""Publish acknowledgements per second with everything on, beside an empty FastAPI POST and raw INSERT commits.

One run on one machine measures all of them, with 32 clients on keep-alive connections, 600-byte bodies and 1,000 keys.
The first yardstick is an empty FastAPI endpoint on uvicorn. It runs once with h11 and asyncio, the default of ``pip
install uvicorn``, and once with httptools and uvloop, which hookwire uses. The second is one INSERT per commit over 16
connections to the same server.

At the end other topics are added without ANALYZE, while the hub keeps the plans that it made for ten topics. Publishing
beside 10, 1,000, 10,000 and 100,000 topics is printed with its ratio to that beside ten.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import asyncpg

from benchmarks.harness import Harness, cpu_seconds, postgres_cpu_seconds, running_harness
from benchmarks.load import Load, drive
from runtime.port import free_port

_CLIENTS = 32
_TOPICS = (10, 1_000, 10_000, 100_000)
_BODY = b'{"x":"%b"}' % (b"x" * 592)
_EMPTY_APP = """
import sys, uvicorn
from fastapi import FastAPI, Response
app = FastAPI()
@app.post("/empty")
async def empty() -> Response:
    return Response(status_code=202)
options = {"http": "h11", "loop": "asyncio"} if sys.argv[2] == "plain" else {"http": "httptools", "loop": "uvloop"}
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error", access_log=False, **options)
"""


def _post(path: str, port: int) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
    return head.encode() + b"content-length: %d\r\n\r\n" % len(_BODY) + _BODY


async def run(seconds: float = 6.0) -> list[str]:
    """Run all; return the lines to print."""
    plain = await _empty_fastapi("plain", seconds)
    fast = await _empty_fastapi("fast", seconds)
    async with running_harness() as harness:
        raw = await _raw_inserts(harness.database_url, seconds)
        requests = [_post(f"/topics/bench/events?key=k{n}", harness.port) for n in range(1000)]
        await _execute(harness, "ALTER TABLE hookwire.topics SET (autovacuum_enabled = false)")
        await _add_topics(harness, 10)
        await drive("127.0.0.1", harness.port, requests, _CLIENTS, 1.0)
        cpu, database_cpu = cpu_seconds(harness.pid), postgres_cpu_seconds(harness.postmaster)
        wal = await _wal_bytes(harness.database_url)
        ours = await drive("127.0.0.1", harness.port, requests, _CLIENTS, seconds)
        count = len(ours.latencies)
        cpu = 1e6 * (cpu_seconds(harness.pid) - cpu) / count
        database_cpu = 1e6 * (postgres_cpu_seconds(harness.postmaster) - database_cpu) / count
        wal = (await _wal_bytes(harness.database_url) - wal) // count
        topics = [await _among_topics(harness, number, requests, seconds / 2) for number in _TOPICS]
    assert ours.refused == 0, "every publish of the benchmark is acknowledged"
    return [
        f"empty FastAPI POST, h11       {plain:8.0f}/s",
        f"empty FastAPI POST, httptools {fast:8.0f}/s",
        f"raw INSERT, 16 connections    {raw:8.0f}/s",
        f"hookwire publish              {ours.rate:8.0f}/s   p50 {ours.percentile(0.5):.1f} ms, "
        f"p99 {ours.percentile(0.99):.1f} ms; each {cpu:.0f} us CPU and {database_cpu:.0f} us in PostgreSQL, "
        f"{wal} B of WAL (relay and fan-out included)",
        f"  {ours.rate / plain:.2f}x the empty POST on h11, {ours.rate / fast:.2f}x on httptools (bar 0.9); "
        f"{ours.rate / raw:.2f}x raw INSERTs (bar 0.6)",
        *(
            f"  beside {number:7,} topics {load.rate:8.0f}/s   p50 {load.percentile(0.5):.1f} ms, "
            f"{load.percentile(0.5) / topics[0].percentile(0.5):.2f}x that beside ten"
            for number, load in zip(_TOPICS, topics, strict=True)
        ),
    ]


async def _among_topics(harness: Harness, number: int, requests: list[bytes], seconds: float) -> Load:
    """Publish to one topic beside so many, none of them analysed."""
    await _add_topics(harness, number)
    return await drive("127.0.0.1", harness.port, requests, _CLIENTS, seconds)


async def _add_topics(harness: Harness, number: int) -> None:
    await _execute(
        harness,
        f"INSERT INTO hookwire.topics (name) SELECT 'other.' || n FROM generate_series(1, {number}) n"
        " ON CONFLICT DO NOTHING",
    )


async def _execute(harness: Harness, statement: str) -> None:
    connection = await asyncpg.connect(harness.database_url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def _empty_fastapi(kind: str, seconds: float) -> float:
    port = free_port()
    server = await asyncio.to_thread(subprocess.Popen, [sys.executable, "-c", _EMPTY_APP, str(port), kind])
    try:
        for _ in range(200):
            try:
                await drive("127.0.0.1", port, [_post("/empty", port)], 1, 0.2)
                break
            except OSError:
                await asyncio.sleep(0.1)
        return (await drive("127.0.0.1", port, [_post("/empty", port)], _CLIENTS, seconds)).rate
    finally:
        server.kill()
        server.wait()


async def _raw_inserts(database_url: str, seconds: float) -> float:
    connections = [await asyncpg.connect(database_url) for _ in range(16)]
    try:
        await connections[0].execute("CREATE TABLE public.raw (id bigserial PRIMARY KEY, key text, payload bytea)")
        until = time.perf_counter() + seconds

        async def insert(connection: asyncpg.Connection[asyncpg.Record]) -> int:
            count = 0
            while time.perf_counter() < until:
                await connection.execute("INSERT INTO public.raw (key, payload) VALUES ($1, $2)", f"k{count}", _BODY)
                count += 1
            return count

        return sum(await asyncio.gather(*(insert(connection) for connection in connections))) / seconds
    finally:
        for connection in connections:
            await connection.close()


async def _wal_bytes(database_url: str) -> int:
    connection = await asyncpg.connect(database_url)
    try:
        return int(await connection.fetchval("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn"))
    finally:
        await connection.close()
