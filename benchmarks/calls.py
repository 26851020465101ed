"""Calls: the time and the processor time of an HTTP call to a service, beside those of an event to its webhook.

A caller waits in its POST for the reply; workers wait in theirs for a request. In the second part the workers wait at
another hub on the same database. The yardstick is the time from an event's POST to its arrival at the callback, at the
same rate in the same run.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx

from app.chaos.client import ChaosClient
from benchmarks.cost import offer
from benchmarks.harness import Harness, Sink, cpu_seconds, postgres_cpu_seconds, running_harness, running_sink
from benchmarks.latency import keyed

BAR_RATIO = 2.0
ACROSS_BAR_RATIO = 3.0
_JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Offered:
    """What was offered: seconds of each call or event, and milliseconds of processor time for one."""

    seconds: Sequence[float]
    processor_ms: float


async def run(rate: int = 100, seconds: float = 8.0, workers: int = 8) -> list[str]:
    """Run each twice; return the lines to print."""
    found: dict[str, list[Offered]] = {"event": [], "one": [], "across": []}
    async with (
        running_sink() as sink, running_harness() as harness,
        running_harness("api", database_url=harness.database_url) as other,
    ):  # fmt: skip
        async with httpx.AsyncClient(base_url=harness.url, trust_env=False) as client:
            subscription = {"topic": "bench", "callback": f"http://127.0.0.1:{sink.port}/"}
            (await client.post("/subscriptions", json=subscription)).raise_for_status()
        for _ in range(2):
            found["event"].append(await _events(harness, sink, rate, seconds))
            for name, hub in (("one", harness), ("across", other)):
                async with _working(hub.port, workers):
                    found[name].append(await _calls(harness, [harness.pid, other.pid], rate, seconds))
    webhook = statistics.mean(_p50(one) for one in found["event"])
    return [
        f"{rate}/s: an event's POST to its webhook        p50 {webhook:5.1f} ms, {_processor(found['event'])}",
        *_lines(f"{rate}/s: a call, caller and worker at one hub  ", found["one"], webhook, BAR_RATIO),
        *_lines(f"{rate}/s: a call, the worker at another hub     ", found["across"], webhook, ACROSS_BAR_RATIO),
    ]


def _p50(offered: Offered) -> float:
    return 1000 * statistics.median(offered.seconds)


def _processor(found: Sequence[Offered]) -> str:
    return f"{statistics.mean(one.processor_ms for one in found):.2f} ms of processor time"


def _lines(what: str, found: Sequence[Offered], webhook: float, bar: float) -> list[str]:
    calls = [1000 * taken for one in found for taken in one.seconds]
    p50, p99 = statistics.median(calls), statistics.quantiles(calls, n=100)[98]
    return [
        f"{what} p50 {p50:5.1f} ms, p99 {p99:.1f} ms, {_processor(found)}, {len(calls)} calls",
        f"    ratio of the p50 {p50 / webhook:5.2f}   (bar {bar:.1f})",
    ]


def _processor_seconds(harness: Harness, pids: Sequence[int]) -> float:
    return postgres_cpu_seconds(harness.postmaster) + sum(map(cpu_seconds, pids))


async def _events(harness: Harness, sink: Sink, rate: int, seconds: float) -> Offered:
    await sink.clear()
    used = _processor_seconds(harness, [harness.pid])
    sent = await offer(harness.port, rate, seconds, keyed)
    await sink.until(sent, 60)
    used = _processor_seconds(harness, [harness.pid]) - used
    return Offered([one / 1000 for one in await sink.latencies()], 1000 * used / sent)


async def _calls(harness: Harness, pids: Sequence[int], rate: int, seconds: float) -> Offered:
    """Call at a fixed rate, regardless of the answers."""
    idle: list[ChaosClient] = []
    taken: list[float] = []

    async def call(client: ChaosClient) -> None:
        began = time.perf_counter()
        answer = await client.request("POST", "/services/bench", b"x" * 600)
        if answer.status == httpx.codes.OK:
            taken.append(time.perf_counter() - began)
        idle.append(client)

    used, started = _processor_seconds(harness, pids), time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, started + number / rate - time.perf_counter()))
            group.create_task(call(idle.pop() if idle else ChaosClient(harness.port, 30.0)))
    used = _processor_seconds(harness, pids) - used
    for client in idle:
        client.close()
    return Offered(taken, 1000 * used / int(rate * seconds))


@asynccontextmanager
async def _working(port: int, workers: int) -> AsyncIterator[None]:
    """Run workers at the hub of this port."""
    tasks = [asyncio.create_task(_work(port)) for _ in range(workers)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _work(port: int) -> None:
    """Work: claim one request, answer it."""
    client = ChaosClient(port, 30.0)
    asked = json.dumps({"wait_seconds": 20}).encode()
    try:
        while True:
            claimed = await client.request("POST", "/services/bench/claim", asked, _JSON)
            for item in json.loads(claimed.body)["items"]:
                receipt = {"Hookwire-Receipt": item["receipt"]}
                path = f"/requests/{item['request']['id']}/reply"
                await client.request("POST", path, item["request"]["payload"].encode(), receipt)
    finally:
        client.close()
