"""The SDK's client and receiver beside what a program would write by hand, and the time of their imports.

One run measures three pairs in turn. The POSTs of a bare HTTP client are beside ``AsyncHookwire.publish``, both with 32
tasks. Plain ndjson of 1,000 events a request is beside ``publish_many`` of 1,000, each event with its idempotency key.
An ASGI application that only answers is beside one with a receiver. The HTTP library is httpx2 where it is installed.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.harness import running_harness
from hookwire import AsyncHookwire, Event
from hookwire.client.transport import installed_library
from hookwire.receive.asgi import Receiver
from hookwire.testing import Event as Received
from hookwire.testing import deliver_async, sign

_TASKS = 32
_LINES = 1_000
_ROUNDS = 3
_DATA = {"x": "x" * 592}
_BODY = json.dumps(_DATA, separators=(",", ":")).encode()
_SECRET = "whsec_AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="
_Act = Callable[[int], Awaitable[object]]


async def _rate(act: _Act, tasks: int, seconds: float) -> float:
    """Return how often a second ``act`` is done by so many tasks."""
    started, count = time.perf_counter(), 0

    async def work() -> None:
        nonlocal count
        while time.perf_counter() - started < seconds:
            count += 1
            await act(count)

    async with asyncio.TaskGroup() as group:
        for _ in range(tasks):
            group.create_task(work())
    return count / (time.perf_counter() - started)


async def _pair(bare: _Act, ours: _Act, tasks: int, seconds: float) -> tuple[float, float]:
    """Return both rates, each the best of some rounds that take turns."""
    rates = [(await _rate(bare, tasks, seconds), await _rate(ours, tasks, seconds)) for _ in range(_ROUNDS)]
    return max(rate for rate, _ in rates), max(rate for _, rate in rates)


async def _publishing(url: str, seconds: float) -> tuple[tuple[float, float], tuple[float, float]]:
    library = installed_library()
    limits = library.Limits(max_connections=100, max_keepalive_connections=_TASKS)
    async with library.AsyncClient(base_url=url, limits=limits) as client, AsyncHookwire(url) as hub:

        async def bare(number: int) -> None:
            headers = {"Content-Type": "application/json", "Idempotency-Key": f"{time.time_ns()}-{number}"}
            answer = await client.post(f"/topics/bench/events?key=k{number % 1000}", content=_BODY, headers=headers)
            assert answer.json()["id"], "every publish is acknowledged"

        async def ours(number: int) -> None:
            await hub.publish("bench", _DATA, key=f"k{number % 1000}")

        async def plain(number: int) -> None:
            headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": f"{time.time_ns()}-{number}"}
            lines = b"\n".join(json.dumps(_DATA, separators=(",", ":")).encode() for _ in range(_LINES))
            answer = await client.post("/topics/bench/batch", content=lines, headers=headers, timeout=30)
            assert len(answer.json()) == _LINES, "every line is acknowledged"

        async def many(_: int) -> None:
            outcomes = await hub.publish_many([Event("bench", _DATA) for _ in range(_LINES)])
            assert all(one.outcome == "stored" for one in outcomes)

        one_by_one = await _pair(bare, ours, _TASKS, seconds)
        return one_by_one, await _pair(plain, many, 1, seconds)


async def _receiving(seconds: float) -> tuple[float, float]:
    event = Received("evt_x_1", "bench", "k", 1, None, "application/json", {}, _BODY)
    receive = Receiver(secrets=[_SECRET])
    receive.on()(_take)

    async def bare(_: int) -> None:
        sign(event, _SECRET)
        await deliver_async(_answering, event, _SECRET)

    async def ours(number: int) -> None:
        await deliver_async(receive, Received(f"evt_{number}", "bench", "k", number, None, None, {}, _BODY), _SECRET)

    return await _pair(bare, ours, 1, seconds / 3)


async def _take(_: Received) -> None:
    """Take an event."""


async def _answering(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def _import_milliseconds(statement: str) -> float:
    program = f"import time; a = time.perf_counter(); {statement}; print((time.perf_counter() - a) * 1000)"
    return min(float(subprocess.check_output([sys.executable, "-c", program])) for _ in range(5))


async def run(seconds: float = 4.0) -> list[str]:
    """Run all; return the lines to print."""
    async with running_harness() as harness:
        (bare, ours), (plain, many) = await _publishing(f"http://127.0.0.1:{harness.port}", seconds)
    answering, receiving = await _receiving(seconds)
    return [
        f"bare {installed_library().__name__} POST, {_TASKS} tasks   {bare:8.0f}/s",
        f"AsyncHookwire.publish, {_TASKS} tasks {ours:8.0f}/s   {ours / bare:.2f}x (bar 0.8)",
        f"plain ndjson of {_LINES:,}          {plain * _LINES:8.0f} events/s",
        f"publish_many of {_LINES:,}          {many * _LINES:8.0f} events/s   {many / plain:.2f}x (bar 0.8)",
        f"an ASGI application            {answering:8.0f}/s",
        f"  with a receiver              {receiving:8.0f}/s   {receiving / answering:.2f}x",
        f"import hookwire {_import_milliseconds('import hookwire'):.1f} ms, "
        f"with the client {_import_milliseconds('from hookwire import Hookwire; Hookwire()'):.1f} ms",
    ]
