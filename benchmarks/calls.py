"""Calls: the time of an HTTP call to a service, beside that of an event to its webhook, at the same rate in one run.

A caller waits in its POST for the reply; workers wait in theirs for a request. The yardstick is the time from an
event's POST to its arrival at the callback, which needs one transaction and one request less.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time

import httpx

from app.chaos.client import ChaosClient
from benchmarks.cost import offer
from benchmarks.harness import Harness, Sink, running_harness, running_sink
from benchmarks.latency import keyed

BAR_RATIO = 2.0
_JSON = {"Content-Type": "application/json"}


async def run(rate: int = 100, seconds: float = 8.0, workers: int = 8) -> list[str]:
    """Run both twice; return the lines to print."""
    calls: list[float] = []
    webhooks: list[float] = []
    async with running_sink() as sink, running_harness() as harness:
        async with httpx.AsyncClient(base_url=harness.url, trust_env=False) as client:
            subscription = {"topic": "bench", "callback": f"http://127.0.0.1:{sink.port}/"}
            (await client.post("/subscriptions", json=subscription)).raise_for_status()
        working = [asyncio.create_task(_work(harness)) for _ in range(workers)]
        for _ in range(2):
            webhooks.append(await _events(harness, sink, rate, seconds))
            calls += await _calls(harness, rate, seconds)
        for worker in working:
            worker.cancel()
        await asyncio.gather(*working, return_exceptions=True)
    call, webhook = 1000 * statistics.median(calls), statistics.mean(webhooks)
    p99 = 1000 * statistics.quantiles(calls, n=100)[98]
    return [
        f"{rate}/s: an event's POST to its webhook        p50 {webhook:5.1f} ms",
        f"{rate}/s: a call to the reply of its worker     p50 {call:5.1f} ms, p99 {p99:.1f} ms, {len(calls)} calls",
        f"ratio of the p50                             {call / webhook:5.2f}   (bar {BAR_RATIO:.1f})",
    ]


async def _events(harness: Harness, sink: Sink, rate: int, seconds: float) -> float:
    await sink.clear()
    sent = await offer(harness.port, rate, seconds, keyed)
    return (await sink.until(sent, 60)).p50


async def _calls(harness: Harness, rate: int, seconds: float) -> list[float]:
    """Return the seconds of each call. Calls begin at a fixed rate, regardless of the answers."""
    idle: list[ChaosClient] = []
    taken: list[float] = []

    async def call(client: ChaosClient) -> None:
        began = time.perf_counter()
        answer = await client.request("POST", "/services/bench", b"x" * 600)
        if answer.status == httpx.codes.OK:
            taken.append(time.perf_counter() - began)
        idle.append(client)

    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, started + number / rate - time.perf_counter()))
            group.create_task(call(idle.pop() if idle else ChaosClient(harness.port, 30.0)))
    for client in idle:
        client.close()
    return taken


async def _work(harness: Harness) -> None:
    """Work: claim one request, answer it."""
    client = ChaosClient(harness.port, 30.0)
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
