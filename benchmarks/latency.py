"""The time from POST to the receiver's first byte, at half load, and for one event after an idle time.

The load generator offers a fixed rate. Every body begins with its send time, which the sink subtracts. Half load is
half of the rate at which the same run publishes and delivers at the same time.
"""

from __future__ import annotations

import asyncio
import time

import httpx

from benchmarks.harness import Harness, Sink, running_harness, running_sink
from benchmarks.load import drive


def _post(port: int, key: int) -> bytes:
    body = f"t={time.time():018.7f} ".encode().ljust(600, b"x")
    head = f"POST /topics/bench/events?key=k{key % 1000} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n"
    return head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body


async def run(seconds: float = 8.0, idle_seconds: float = 15.0) -> list[str]:
    """Run all; return the lines to print."""
    async with running_sink() as sink, running_harness() as harness:
        async with httpx.AsyncClient(base_url=harness.url, trust_env=False) as client:
            subscription = {"topic": "bench", "callback": f"http://127.0.0.1:{sink.port}/"}
            (await client.post("/subscriptions", json=subscription)).raise_for_status()
        full = await _full_load(harness, sink, seconds / 2)
        await sink.clear()
        sent = await offer(harness, full / 2, seconds)
        half = await sink.until(sent, 60)
        await asyncio.sleep(idle_seconds)
        await sink.clear()
        await offer(harness, 1, 1)
        first = await sink.until(1, 10)
    return [
        f"published and delivered at once   {full:6.0f}/s",
        f"POST to received at half load     p50 {half.p50:.1f} ms (bar 10), p99 {half.p99:.1f} ms (bar 50)",
        f"first event after {idle_seconds:.0f} idle seconds  {first.p50:.1f} ms (bar 20)",
    ]


async def _full_load(harness: Harness, sink: Sink, seconds: float) -> float:
    started = time.perf_counter()
    load = await drive("127.0.0.1", harness.port, [_post(harness.port, n) for n in range(1000)], 32, seconds)
    await sink.until(len(load.latencies), 60)
    return len(load.latencies) / (time.perf_counter() - started)


async def offer(harness: Harness, rate: float, seconds: float) -> int:
    """Send at a fixed rate over 32 connections, regardless of the answers; return the number of requests."""
    connections = [await asyncio.open_connection("127.0.0.1", harness.port) for _ in range(32 if rate > 1 else 1)]
    drains = [asyncio.ensure_future(reader.read(-1)) for reader, _ in connections]
    started, sent = time.perf_counter(), 0
    while sent < max(int(rate * seconds), 1):
        due = min(int((time.perf_counter() - started) * rate) + 1, max(int(rate * seconds), 1))
        for number in range(sent, due):
            connections[number % len(connections)][1].write(_post(harness.port, number))
        sent = due
        await asyncio.sleep(0.002)
    await asyncio.sleep(1)
    for _, writer in connections:
        writer.close()
    await asyncio.gather(*drains, return_exceptions=True)
    return sent
