"""Large answers: what eight clients cost the others, and the memory of the service, at each route with users' contents.

    python -m benchmarks.answers --items 150 --clients 8

Each client of a list fetches all items of 1 MB, page by page. The clients of a claim share as many for each. Beside
them, a process of its own asks /healthz. Each line has the p99 of /healthz beside that of the idle service (bar: 10
times). It also has the growth of the service's memory (bar: 64 MiB), the largest answer, and the time of the whole.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import httpx

from benchmarks.harness import Harness, running_harness

_P99_BAR = 10.0
_GROWTH_BAR_MIB = 64
_IDLE_SECONDS = 5.0
_MIB = 1024 * 1024
_TEXT = "(SELECT string_agg(md5(n::text || i), '') FROM generate_series(1, 31250) AS i)"  # 1 MB that compresses badly
_COLUMNS = "queue, created_at, priority, headers, payload"
_ENQUEUE = "SELECT hookwire.enqueue('k', jsonb_build_object('blob', body))"
_NO_JOBS = "DELETE FROM hookwire.jobs"
_SUBMIT = "SELECT hookwire.submit('q', body)"
_EMPTY = "DELETE FROM hookwire.messages"
_VALUES = "'q', now(), 0, '{}', body::bytea"


@dataclass(frozen=True)
class Route:
    """How the items are made, how they are fetched, and how a claim's items become free again."""

    fill: str
    path: str
    asked: dict[str, Any] | None = None
    empty: str = "SELECT"


_ROUTES = {
    "claim jobs": Route(_ENQUEUE, "/jobs/claim", {"max": 100, "lease_seconds": 60}, _NO_JOBS),
    "list jobs": Route(_ENQUEUE, "/jobs?limit=500", empty=_NO_JOBS),
    "receive": Route(_SUBMIT, "/queues/q/receive", {"max": 500}, _EMPTY),
    "browse": Route(_SUBMIT, "/queues/q/messages?limit=500", empty=_EMPTY),
    "dead messages": Route(
        f"INSERT INTO hookwire.dead_messages (id, died_at, deliveries, reason, {_COLUMNS})"
        f" SELECT n, now(), 1, 'r', {_VALUES}",
        "/queues/q/dead?limit=500",
    ),
    "archive": Route(
        f"INSERT INTO hookwire.message_archive (id, claimed_at, accepted_at, deliveries, {_COLUMNS})"
        f" SELECT n, now(), now(), 1, {_VALUES}",
        "/queues/q/archive?limit=500",
    ),
    "claim requests": Route("SELECT hookwire.request('s', body)", "/services/s/claim", {"max": 100}),
    "tasks": Route("SELECT hookwire.enqueue_task('k', to_jsonb(body))", "/tasks?limit=500"),
    "dead tasks": Route(
        "INSERT INTO hookwire.dead_tasks (id, kind, description, reason, attempts, created_at)"
        " SELECT n::text, 'k', body, 'r', 1, now()",
        "/tasks/dead?limit=500",
    ),
    "dequeue": Route(
        "SELECT hookwire.publish('t', body)", "/subscriptions/{pull}/dequeue", {"max": 500, "wait_seconds": 2}
    ),
}  # fmt: skip


def resident_bytes(pid: int) -> int:
    """Return the memory of a process, in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


@dataclass
class Watch:
    """Latencies of /healthz in seconds, and the largest memory."""

    latencies: list[float]
    memory: int = 0

    @property
    def p99_ms(self) -> float:
        """Return the 99th percentile, in milliseconds."""
        return 1000 * statistics.quantiles(self.latencies, n=100)[-1]


def ask(url: str) -> None:
    """Ask /healthz until the process is ended, and print each latency in seconds."""
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        while True:
            began = time.monotonic()
            client.get("/healthz").raise_for_status()
            print(time.monotonic() - began, flush=True)
            time.sleep(0.005)


@asynccontextmanager
async def watching(harness: Harness) -> AsyncIterator[Watch]:
    """Watch the service beside the block, from a process that does nothing else."""
    seen = Watch([])
    asking = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.answers", "--ask", harness.url, stdout=asyncio.subprocess.PIPE
    )
    assert asking.stdout is not None
    await asking.stdout.readline()  # the first answer is that of a new connection
    task = asyncio.create_task(read_latencies(asking.stdout, harness, seen))
    try:
        yield seen
    finally:
        asking.terminate()
        await task
        await asking.wait()


async def read_latencies(lines: asyncio.StreamReader, harness: Harness, seen: Watch) -> None:
    """Read latencies to the end, and look at the memory each time."""
    async for line in lines:
        seen.latencies.append(float(line))
        seen.memory = max(seen.memory, resident_bytes(harness.pid))


async def fetch_all(harness: Harness, path: str, asked: dict[str, Any] | None) -> tuple[int, int]:
    """Fetch all items of a route; return how many there were, and the bytes of the largest answer."""
    found = largest = 0
    after: str | None = path
    sign = b'"accepted_at"' if "dequeue" in path else b'"created_at"'
    async with httpx.AsyncClient(base_url=harness.url, trust_env=False, timeout=120) as client:
        while after is not None:
            method = "GET" if asked is None else "POST"
            async with client.stream(method, after, json=asked) as answer:
                size = items = 0
                end = b""
                async for piece in answer.aiter_raw():
                    size += len(piece)
                    items += (end + piece).count(sign)
                    end = piece[1 - len(sign) :]
                assert answer.status_code == 200, (path, answer.status_code)
            found, largest = found + items, max(largest, size)
            after = answer.links.get("next", {}).get("url") if asked is None else path if size > 100 else None
    return found, largest


async def measure(
    harness: Harness, sql: asyncpg.Connection, name: str, items: int, clients: int, idle_ms: float
) -> str:
    """Fill a route's table, let the clients fetch, and return the line to print."""
    route = _ROUTES[name]
    if name == "dequeue":
        async with httpx.AsyncClient(base_url=harness.url, trust_env=False) as client:
            made = (await client.post("/subscriptions/pull", json={"topic": "t"})).json()["id"]
        path = route.path.format(pull=made)
    else:
        path = route.path
    made_items = items if route.asked is None else items * clients
    for first in range(1, made_items + 1, 10):
        numbers = f"generate_series({first}, {min(first + 9, made_items)})"
        await sql.execute(f"{route.fill} FROM (SELECT n, {_TEXT} AS body FROM {numbers} AS n OFFSET 0) AS made")
    await asyncio.sleep(2)
    before = resident_bytes(harness.pid)
    began = time.monotonic()
    async with watching(harness) as seen:
        results = await asyncio.gather(*(fetch_all(harness, path, route.asked) for _ in range(clients)))
    seconds = time.monotonic() - began
    await sql.execute(route.empty)
    growth, ratio = (seen.memory - before) / _MIB, seen.p99_ms / idle_ms
    fetched = sum(found for found, _ in results)
    verdict = "met" if growth <= _GROWTH_BAR_MIB and ratio <= _P99_BAR else "MISSED"
    return (
        f"{name:14} {fetched:6} items  largest answer {max(size for _, size in results) / _MIB:5.1f} MiB  "
        f"{seconds:6.1f} s  /healthz p99 {seen.p99_ms:7.1f} ms ({ratio:5.1f} of idle, bar {_P99_BAR:g})  "
        f"growth {growth:6.1f} MiB (bar {_GROWTH_BAR_MIB})  {verdict}"
    )


async def run(items: int, clients: int, names: list[str]) -> None:
    """Measure each route on one service, after one that warms it up."""
    async with running_harness() as harness:
        sql = await asyncpg.connect(harness.database_url)
        try:
            async with watching(harness) as idle:
                await asyncio.sleep(_IDLE_SECONDS)
            print(f"idle: /healthz p99 {idle.p99_ms:.1f} ms, memory {resident_bytes(harness.pid) / _MIB:.0f} MiB")
            for name in names:
                print(await measure(harness, sql, name, items, clients, idle.p99_ms), flush=True)
        finally:
            await sql.close()


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=150)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--routes", nargs="*", choices=list(_ROUTES), default=list(_ROUTES))
    parser.add_argument("--ask", metavar="URL", help="only ask /healthz there, as the benchmark's second process does")
    asked = parser.parse_args()
    if asked.ask:
        ask(asked.ask)
    asyncio.run(run(asked.items, asked.clients, asked.routes))


if __name__ == "__main__":
    main()
