"""Deliveries per second at fan-out 1, 10 and 100, beside two bare clients: aiohttp and our own outbound client.

The clients POST the same number of bytes. Durable claims, signatures, attempt log and settlement are on. The backlog is
fanned out and written to disk first (CHECKPOINT). Then ``hookwire deliver`` starts and the sink counts.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass

import aiohttp
import asyncpg
import httpx
import uvloop

from benchmarks.harness import Harness, Sink, cpu_seconds, postgres_cpu_seconds, running_harness, running_sink
from egress.client import Client, ClientOptions, Request
from egress.guard import GuardPolicy, networks
from egress.resolver import ThreadResolver
from egress.url import parse_target

_BODY_BYTES = 600
_CLIENTS = 50
_HEADERS = (
    ("content-type", "application/json"),
    ("webhook-id", "evt_k3v7q2ha_42"),
    ("webhook-timestamp", "1795242667"),
    ("webhook-signature", "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4="),
)


@dataclass(frozen=True)
class Delivered:
    """One run: deliveries per second, and processor milliseconds per delivery in the worker and in PostgreSQL."""

    fan_out: int
    rate: float
    worker_ms: float
    postgres_ms: float


async def run(deliveries: int = 30_000) -> list[str]:
    """Run all; return the lines to print."""
    lines = []
    async with running_sink() as sink:
        bare, bare_ms = await _bare_aiohttp(sink, deliveries)
        lines.append(f"bare aiohttp client           {bare:8.0f}/s   {bare_ms:.3f} ms CPU each")
        own, own_ms = await asyncio.to_thread(uvloop.run, _bare_own(sink, deliveries))  # a worker's loop is uvloop's
        lines.append(f"our bare outbound client      {own:8.0f}/s   {own_ms:.3f} ms CPU each")
        for fan_out in (1, 10, 100):
            await sink.clear()
            ours = await _ours(sink, fan_out, deliveries)
            lines.append(
                f"hookwire, fan-out {fan_out:3d}         {ours.rate:8.0f}/s   {ours.worker_ms:.3f} ms CPU each, "
                f"{ours.postgres_ms:.3f} in PostgreSQL   {ours.rate / bare:.2f}x aiohttp (bar 1.2), "
                f"{ours.rate / own:.2f}x our bare client (bar 0.3)"
            )
            if fan_out == 10:
                both = ours.worker_ms + ours.postgres_ms
                lines.append(
                    f"  CPU at fan-out 10: worker {ours.worker_ms:.3f} ms (bar 0.06), with PostgreSQL {both:.3f} ms "
                    f"(bar 0.12); beside bare aiohttp {ours.worker_ms / bare_ms:.2f}x and {both / bare_ms:.2f}x, "
                    f"beside our bare client {ours.worker_ms / own_ms:.2f}x and {both / own_ms:.2f}x"
                )
    return lines


async def _bare_aiohttp(sink: Sink, requests: int) -> tuple[float, float]:
    body = b"x" * _BODY_BYTES
    left = requests

    async def client(session: aiohttp.ClientSession) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            async with session.post(f"http://127.0.0.1:{sink.port}/", data=body) as response:
                await response.read()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=_CLIENTS)) as session:
        started, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(client(session) for _ in range(_CLIENTS)))
        seconds, used = time.perf_counter() - started, time.process_time() - cpu
    return requests / seconds, 1000 * used / requests


async def _bare_own(sink: Sink, requests: int) -> tuple[float, float]:
    policy = GuardPolicy(allow_cidrs=networks(["127.0.0.0/8"]), allow_high_ports=True)
    client = Client(policy, ThreadResolver(), ClientOptions(idle_per_origin_max=_CLIENTS))
    target = parse_target(f"http://127.0.0.1:{sink.port}/", policy)
    request = Request("POST", target, _HEADERS, b"x" * _BODY_BYTES, 15.0)
    left = requests

    async def lane() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await client.send(request)

    started, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(lane() for _ in range(_CLIENTS)))
    seconds, used = time.perf_counter() - started, time.process_time() - cpu
    await client.aclose()
    return requests / seconds, 1000 * used / requests


async def _ours(sink: Sink, fan_out: int, deliveries: int) -> Delivered:
    async with running_harness("api", "relay") as harness:
        await prepare(harness, sink, fan_out, deliveries)
        database_before = postgres_cpu_seconds(harness.postmaster)
        with harness.process("deliver") as worker:
            # Leave out the start of the interpreter.
            before = (await sink.until(1, 60)).count
            worker_before = cpu_seconds(worker.pid)
            counted = await sink.until(deliveries, 300)
            await asyncio.sleep(0.3)  # let the last settlement be counted in the processor time
            used = cpu_seconds(worker.pid) - worker_before
        database_used = postgres_cpu_seconds(harness.postmaster) - database_before
    return Delivered(
        fan_out,
        deliveries / (counted.last - counted.first),
        1000 * used / (deliveries - before),
        1000 * database_used / deliveries,
    )


async def prepare(harness: Harness, sink: Sink, fan_out: int, deliveries: int) -> None:
    """Create subscriptions and events, and wait until they are fanned out and written to disk."""
    async with httpx.AsyncClient(base_url=harness.url, trust_env=False, timeout=60) as client:
        for number in range(fan_out):
            subscription = {"topic": "bench", "callback": f"http://127.0.0.1:{sink.port}/{number}"}
            (await client.post("/subscriptions", json=subscription)).raise_for_status()
        line = json.dumps({"x": "x" * (_BODY_BYTES - 8)})
        events = deliveries // fan_out
        for start in range(0, events, 500):
            batch = "\n".join([line] * min(500, events - start))
            answer = await client.post(
                "/topics/bench/events", content=batch, headers={"content-type": "application/x-ndjson"}
            )
            answer.raise_for_status()
    connection = await asyncpg.connect(harness.database_url)
    try:
        while await connection.fetchval("SELECT count(*) FROM hookwire.outbox") > 0:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.1)
        assert await connection.fetchval("SELECT count(*) FROM hookwire.deliveries") == deliveries
        await connection.execute("VACUUM ANALYZE hookwire.deliveries")
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()
