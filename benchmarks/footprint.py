"""Memory of the one-process service, idle and while it drains a backlog, and the rate of that drain.

SQL creates the backlog while no relay runs. Then relay and delivery start in one process, with one subscription at a
counting sink.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import asyncpg
import httpx

from benchmarks.harness import Harness, Sink, running_harness, running_sink

_CHUNK = 5_000


def _rss_megabytes(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


async def run(events: int = 200_000) -> list[str]:
    """Run all; return the lines to print."""
    async with running_sink() as sink, running_harness() as harness:
        await asyncio.sleep(2)
        idle = _rss_megabytes(harness.pid)
        async with running_harness("api") as silent:
            await _subscribe(silent, sink)
            await _fill(silent, events)
            peak, seconds = await _drain(silent, sink, events)
    return [
        f"one-process service, idle           {idle:6.0f} MB (bar 150)",
        f"draining {events:,} events to a webhook {peak:6.0f} MB at most (bar 300), {events / seconds:.0f} events/s",
    ]


async def _subscribe(harness: Harness, sink: Sink) -> None:
    async with httpx.AsyncClient(base_url=harness.url, trust_env=False) as client:
        subscription = {"topic": "bench", "callback": f"http://127.0.0.1:{sink.port}/"}
        (await client.post("/subscriptions", json=subscription)).raise_for_status()


async def _fill(harness: Harness, events: int) -> None:
    connection = await asyncpg.connect(harness.database_url)
    try:
        for start in range(0, events, _CHUNK):
            count = min(_CHUNK, events - start)
            await connection.fetch(
                "SELECT FROM hookwire.publish_batch('default', $1, $2, $3, $4, $4, $5, $4, $6, true)",
                [0] * count, ["bench"] * count, [f"k{n % 1000}" for n in range(count)], [None] * count,
                [b"x" * 100] * count, [None] * count,
            )  # fmt: skip
    finally:
        await connection.close()


async def _drain(harness: Harness, sink: Sink, events: int) -> tuple[float, float]:
    peak = 0.0
    with harness.process("serve", "--role", "relay", "--role", "deliver") as worker:
        started = time.monotonic()
        while (await sink.counted()).count < events:
            peak = max(peak, _rss_megabytes(worker.pid))
            await asyncio.sleep(0.2)
        return peak, time.monotonic() - started
