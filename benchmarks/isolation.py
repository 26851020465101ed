"""How far bad subscribers delay others: ten live subscribers alone, beside a thousand dead ones, and beside a slow one.

Live events are offered at a fixed rate. Each body holds its send time, which the sink subtracts. A dead subscriber
accepts the request and never answers; a slow one answers after two seconds. The last part measures the memory that 500
endless answers need.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import asyncpg
import httpx

from benchmarks.harness import Counted, Harness, Sink, peak_bytes, running_harness, running_sink

_LIVE = 10
_DEAD = 1_000
_ENDLESS = 500
_RATE = 20.0
"""Live events per second, with ten deliveries each."""


@dataclass(frozen=True)
class Seen:
    """The arrivals at the live subscribers: their number, their rate per second and their latency."""

    sent: int
    counted: Counted

    @property
    def rate(self) -> float:
        """Return deliveries per second, from the first to the last."""
        return self.counted.count / max(self.counted.last - self.counted.first, 0.001)

    def line(self, name: str, alone: Seen | None = None) -> str:
        """Return the line to print."""
        counted = self.counted
        text = f"{name:40} {self.rate:5.0f}/s   p50 {counted.p50:6.1f} ms, p99 {counted.p99:6.1f} ms"
        if alone is None:
            return text
        p99, rate = counted.p99 / alone.counted.p99, self.rate / alone.rate
        return f"{text}   p99 {p99:.2f}x alone (bar 2), rate {rate:.0%} (bar 90 %)"


async def run(seconds: float = 15.0) -> list[str]:
    """Run all; return the lines to print."""
    async with running_sink() as sink:
        alone = await _live(sink, seconds)
        dead = await _live(sink, seconds, dead=_DEAD)
        neighbours = await _live(sink, seconds, dead=_DEAD, hosts=1)
        slow = await _live(sink, seconds, slow=1)
        plain, endless = await _peak(sink, "/"), await _peak(sink, "/endless")
    return [
        alone.line(f"{_LIVE} live subscribers alone"),
        dead.line(f"beside {_DEAD:,} dead ones", alone),
        neighbours.line(f"beside {_DEAD:,} dead ones on their host", alone),
        slow.line("beside one at 2 s per answer", alone),
        f"memory with {_ENDLESS} endless answers    {endless / 2**20:.0f} MiB, "
        f"{(endless - plain) / 2**20:+.0f} MiB beside plain ones (bar 64)",
    ]


async def _live(sink: Sink, seconds: float, *, dead: int = 0, hosts: int = 200, slow: int = 0) -> Seen:
    async with (
        running_harness() as harness,
        httpx.AsyncClient(base_url=harness.url, trust_env=False, timeout=30) as client,
    ):
        await subscribe(client, sink, "live", "/", _LIVE)
        await offer(client, "live", 1.0)  # warms up connections, caches and proven subscriptions
        await sink.until(int(_RATE) * _LIVE, 30)
        await _insert(harness, "dead", f":{sink.port}/dead", dead, hosts)
        await subscribe(client, sink, "live", "/slow", slow)
        for _ in range(10 if dead else 0):
            (await client.post("/topics/dead/events", content=b"x")).raise_for_status()
        await sink.clear()
        sent = await offer(client, "live", seconds)
        return Seen(sent, await sink.until(sent * _LIVE, 120))


async def subscribe(client: httpx.AsyncClient, sink: Sink, topic: str, path: str, count: int) -> None:
    """Make so many subscriptions of the sink to a topic."""
    for _ in range(count):
        subscription = {"topic": topic, "callback": f"http://127.0.0.1:{sink.port}{path}"}
        (await client.post("/subscriptions", json=subscription)).raise_for_status()


async def _insert(harness: Harness, topic: str, callback: str, count: int, hosts: int) -> None:
    """Insert subscriptions by SQL, because the API would take minutes.

    They have no keys. They lie on the address of the live subscribers, or on ``hosts`` other addresses of this machine.
    """
    connection = await asyncpg.connect(harness.database_url)
    try:
        await connection.execute(
            "INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state)"
            " SELECT 'sub_' || n, 'webhook', $1, 'http://127.0.0.' || $4::integer + n % $5 || $2, 'active'"
            " FROM generate_series(1, $3::integer) n",
            topic, callback, count, 1 if hosts == 1 else 2, hosts,
        )  # fmt: skip
    finally:
        await connection.close()


async def offer(client: httpx.AsyncClient, topic: str, seconds: float) -> int:
    """Publish to a topic at the fixed rate; return the number of events."""
    started, count = time.perf_counter(), int(seconds * _RATE)
    for number in range(count):
        await asyncio.sleep(max(started + number / _RATE - time.perf_counter(), 0))
        body = f"t={time.time():018.7f} ".encode().ljust(600, b"x")
        (await client.post(f"/topics/{topic}/events", content=body)).raise_for_status()
    return count


async def _peak(sink: Sink, path: str) -> int:
    """Return the worker's peak memory, in bytes, after one delivery to each of many subscribers at the same time."""
    slots = {f"delivery_slots{what}": str(_ENDLESS) for what in ("", "_per_host", "_per_subscription")}
    async with running_harness("api", "relay", **slots) as harness:
        await _insert(harness, "t", f":{sink.port}{path}", _ENDLESS, 1)
        async with httpx.AsyncClient(base_url=harness.url, trust_env=False) as client:
            (await client.post("/topics/t/events", content=b"x" * 600)).raise_for_status()
        with harness.process("deliver") as worker:
            connection = await asyncpg.connect(harness.database_url)
            try:
                async with asyncio.timeout(60):
                    while await connection.fetchval("SELECT count(*) FROM hookwire.attempts") < _ENDLESS:  # noqa: ASYNC110
                        await asyncio.sleep(0.1)
            finally:
                await connection.close()
            return peak_bytes(worker.pid)
