"""The time from POST to the receiver's first byte, at half load, and for one event after an idle time.

The load generator offers a fixed rate. Every body begins with its send time, which the sink subtracts. Half load is
half of the rate at which the same run publishes and delivers at the same time.
"""

from __future__ import annotations

import asyncio
import random
import time

import httpx

from benchmarks.cost import offer
from benchmarks.harness import Harness, Sink, running_harness, running_sink
from benchmarks.load import drive


def keyed(port: int) -> bytes:
    """Return a POST of an event with one of 1,000 keys, whose body begins with its own send time."""
    body = f"t={time.time():018.7f} ".encode().ljust(600, b"x")
    head = f"POST /topics/bench/events?key=k{random.randrange(1000)} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n"
    return head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body


async def run(seconds: float = 8.0, idle_seconds: float = 15.0) -> list[str]:
    """Run all; return the lines to print."""
    async with running_sink() as sink, running_harness() as harness:
        async with httpx.AsyncClient(base_url=harness.url, trust_env=False) as client:
            subscription = {"topic": "bench", "callback": f"http://127.0.0.1:{sink.port}/"}
            (await client.post("/subscriptions", json=subscription)).raise_for_status()
        full = await _full_load(harness, sink, seconds / 2)
        await sink.clear()
        sent = await offer(harness.port, full / 2, seconds, keyed)
        half = await sink.until(sent, 60)
        await asyncio.sleep(idle_seconds)
        await sink.clear()
        await offer(harness.port, 1, 1, keyed)
        first = await sink.until(1, 10)
    return [
        f"published and delivered at once   {full:6.0f}/s",
        f"POST to received at half load     p50 {half.p50:.1f} ms (bar 10), p99 {half.p99:.1f} ms (bar 50)",
        f"first event after {idle_seconds:.0f} idle seconds  {first.p50:.1f} ms (bar 20)",
    ]


async def _full_load(harness: Harness, sink: Sink, seconds: float) -> float:
    started = time.perf_counter()
    load = await drive("127.0.0.1", harness.port, [keyed(harness.port) for _ in range(1000)], 32, seconds)
    await sink.until(len(load.latencies), 60)
    return len(load.latencies) / (time.perf_counter() - started)
