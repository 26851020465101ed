"""The SDK's client and receiver beside what a program would write by hand, and the time of their imports.

One run measures three pairs. The POSTs of a bare HTTP client are beside ``AsyncHookwire.publish``, both with 32 tasks.
Plain ndjson of 1,000 events a request is beside ``publish_many`` of 1,000, each event with its idempotency key. An ASGI
application that only answers is beside one with a receiver. The HTTP library is httpx2 where it is installed.

The two of a pair take turns, and each begins every second round. A ratio is the median of the rounds' ratios, so what
else the machine does in the meantime meets both. The processor time of an act is printed beside: of the client, the hub
and PostgreSQL. It says what an act costs, also while others use the processors.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from benchmarks.harness import Harness, cpu_seconds, postgres_cpu_seconds, running_harness
from hookwire import AsyncHookwire, Event
from hookwire.client.transport import installed_library
from hookwire.receive.asgi import Receiver
from hookwire.testing import Event as Received
from hookwire.testing import deliver_async, sign

_TASKS = 32
_LINES = 1_000
_ROUNDS = 5
_DATA = {"x": "x" * 592}
_BODY = json.dumps(_DATA, separators=(",", ":")).encode()
_SECRET = "whsec_AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="
_Act = Callable[[int], Awaitable[object]]
_Spent = Callable[[], tuple[float, ...]]


@dataclass(slots=True)
class _Side:
    """One of a pair: its acts a second in each round, and the processor seconds of each process in all rounds."""

    act: _Act
    rates: list[float] = field(default_factory=list)
    count: int = 0
    seconds: list[float] = field(default_factory=list)

    async def go(self, tasks: int, seconds: float, spent: _Spent) -> None:
        """Do a round."""
        before, began, count = spent(), time.perf_counter(), 0

        async def work() -> None:
            nonlocal count
            while time.perf_counter() - began < seconds:
                count += 1
                await self.act(self.count + count)

        async with asyncio.TaskGroup() as group:
            for _ in range(tasks):
                group.create_task(work())
        self.rates.append(count / (time.perf_counter() - began))
        self.count += count
        used = [after - once for after, once in zip(spent(), before, strict=True)]
        self.seconds = [a + b for a, b in zip(self.seconds or [0.0] * len(used), used, strict=True)]

    def each_ms(self) -> list[float]:
        """Return the processor time of an act, in milliseconds, for each process."""
        return [1_000 * seconds / self.count for seconds in self.seconds]


@dataclass(frozen=True, slots=True)
class _Pair:
    """What is written by hand, and ours."""

    bare: _Side
    ours: _Side

    @property
    def ratio(self) -> float:
        """Return the median of the rounds' ratios."""
        return median(self._ratios())

    @property
    def of_processor_time(self) -> float:
        """Return what an act by hand costs in all processes, as a share of what ours costs."""
        return sum(self.bare.each_ms()) / sum(self.ours.each_ms())

    def lines(self, bare: str, ours: str, each: int, unit: str, bar: str = "") -> list[str]:
        """Return what to print. An act is of ``each`` things."""
        low, high = min(self._ratios()), max(self._ratios())
        return [
            f"{bare:<34} {median(self.bare.rates) * each:8.0f} {unit}   {_costs(self.bare)}",
            f"{ours:<34} {median(self.ours.rates) * each:8.0f} {unit}   {_costs(self.ours)}",
            f"  {self.ratio:.2f}x{bar}, {low:.2f} to {high:.2f} in {len(self.ours.rates)} rounds; "
            f"{self.of_processor_time:.2f}x by processor time",
        ]

    def _ratios(self) -> list[float]:
        return [ours / bare for ours, bare in zip(self.ours.rates, self.bare.rates, strict=True)]


def _costs(side: _Side) -> str:
    names = ("client", "hub", "PostgreSQL")
    return ", ".join(f"{name} {ms:.3g} ms" for name, ms in zip(names, side.each_ms(), strict=False)) + " an act"


async def _pair(bare: _Act, ours: _Act, tasks: int, seconds: float, spent: _Spent) -> _Pair:
    """Measure both in rounds that take turns, after one that is not counted."""
    for act in (bare, ours):
        await _Side(act).go(tasks, seconds / 4, spent)
    pair = _Pair(_Side(bare), _Side(ours))
    for number in range(_ROUNDS):
        for side in (pair.bare, pair.ours) if number % 2 == 0 else (pair.ours, pair.bare):
            await side.go(tasks, seconds, spent)
    return pair


def _spent_with(harness: Harness) -> tuple[float, ...]:
    return time.process_time(), cpu_seconds(harness.pid), postgres_cpu_seconds(harness.postmaster)


async def _publishing(harness: Harness, seconds: float) -> tuple[_Pair, _Pair]:
    url = f"http://127.0.0.1:{harness.port}"
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

        def spent() -> tuple[float, ...]:
            return _spent_with(harness)

        one_by_one = await _pair(bare, ours, _TASKS, seconds, spent)
        return one_by_one, await _pair(plain, many, 1, seconds, spent)


async def _receiving(seconds: float) -> _Pair:
    event = Received("evt_x_1", "bench", "k", 1, None, "application/json", {}, _BODY)
    receive = Receiver(secrets=[_SECRET])
    receive.on()(_take)

    async def bare(_: int) -> None:
        sign(event, _SECRET)
        await deliver_async(_answering, event, _SECRET)

    async def ours(number: int) -> None:
        await deliver_async(receive, Received(f"evt_{number}", "bench", "k", number, None, None, {}, _BODY), _SECRET)

    return await _pair(bare, ours, 1, seconds / 3, lambda: (time.process_time(),))


async def _take(_: Received) -> None:
    """Take an event."""


async def _answering(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def _import_milliseconds(statement: str) -> float:
    program = f"import time; a = time.perf_counter(); {statement}; print((time.perf_counter() - a) * 1000)"
    return min(float(subprocess.check_output([sys.executable, "-c", program])) for _ in range(5))


async def run(seconds: float = 2.5) -> list[str]:
    """Run all; return the lines to print."""
    async with running_harness() as harness:
        one, many = await _publishing(harness, seconds)
    receiving = await _receiving(seconds)
    library, bar = installed_library().__name__, " (bar 0.8)"
    return [
        *one.lines(f"bare {library} POST, {_TASKS} tasks", f"AsyncHookwire.publish, {_TASKS} tasks", 1, "/s", bar),
        *many.lines(f"plain ndjson of {_LINES:,}", f"publish_many of {_LINES:,}", _LINES, "events/s", bar),
        *receiving.lines("an ASGI application", "  with a receiver", 1, "/s"),
        f"import hookwire {_import_milliseconds('import hookwire'):.1f} ms, "
        f"with the client {_import_milliseconds('from hookwire import Hookwire; Hookwire()'):.1f} ms",
    ]
