"""A million dead letters of three causes: one cause is sent again beside live events.

Ten live subscribers get events at a fixed rate. The replay runs and is paused by turns, so that both latencies are
measured under the same load of the machine. The ordered subscriber that had failed is well again. It has a hundred
keys. Printed are the arrivals of the cured cause and of the others, and the keys whose order was not kept. The p99 of
all live deliveries while the replay ran is printed beside the p99 of all while it was paused.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import chain, pairwise

import asyncpg
import httpx

from benchmarks.harness import Sink, running_harness, running_sink
from benchmarks.isolation import offer, subscribe

_CAUSES = 3
_CURED = "cause 3"
_KEYS = 100
_LIVE = 10
_LETTERS = """
WITH i AS (
    INSERT INTO hookwire.incidents (tenant, subscription_id, sink, fingerprint, outcome, status, excerpt)
    SELECT 'default', s.id, 'webhooks', 'cause ' || n, 'server_error', 500, 'cause ' || n
    FROM hookwire.subscriptions s, generate_series(1, 3) n WHERE s.topic = 'failed'
    RETURNING id, fingerprint, subscription_id
), e AS (
    INSERT INTO hookwire.events (id, accepted_at, ordered, tenant, topic, key, headers, sinks, payload)
    SELECT n, now(), true, 'default', 'failed', 'k' || n % $2::bigint, '{}', '{webhooks}', convert_to(n::text, 'UTF8')
    FROM generate_series($1::bigint, $3::bigint) n RETURNING id
)
INSERT INTO hookwire.dead_letters
    (event_id, subscription_id, tenant, kind, attempts, last_outcome, last_status, incident_id)
SELECT e.id, i.subscription_id, 'default', 'exhausted', 3, 'server_error', 500, i.id
FROM e JOIN i ON i.fingerprint = 'cause ' || CASE e.id / 1000 % 10 WHEN 0 THEN 3 WHEN 1 THEN 2 ELSE 1 END
"""
"""A tenth of the letters are of the third cause, a tenth of the second one."""


def cured(number: int) -> bool:
    """Return whether the letter of this event is of the cause that is cured."""
    return number // 1000 % 10 == 0


def inverted(numbers: list[int]) -> int:
    """Return the keys of which a later event arrived before an earlier one."""
    lanes: dict[int, list[int]] = {}
    for number in numbers:
        lanes.setdefault(number % _KEYS, []).append(number)
    return sum(any(later < earlier for earlier, later in pairwise(lane)) for lane in lanes.values())


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[int, list[int]]]:
    """Run the subscriber that is well again; yield its port, and the numbers that it gets."""
    numbers: list[int] = []
    serving: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
                numbers.append(int(await reader.readexactly(length)))
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], numbers
    finally:
        server.close()
        await asyncio.gather(*filter(None, serving))


async def fill(database_url: str, letters: int) -> None:
    """Insert the letters and their events; afterwards the planner knows them, as after a bad week."""
    connection = await asyncpg.connect(database_url, timeout=60)
    try:
        await connection.execute(_LETTERS, 1_000_000, _KEYS, 1_000_000 + letters - 1)
        await connection.execute("SELECT setval('hookwire.event_id', $1)", 2_000_000 + letters)
        await connection.execute("VACUUM ANALYZE hookwire.dead_letters")
        await connection.execute("VACUUM ANALYZE hookwire.events")
    finally:
        await connection.close()


async def live(client: httpx.AsyncClient, sink: Sink, seconds: float) -> list[float]:
    """Offer live events; return the latency of each delivery, in milliseconds."""
    await sink.clear()
    sent = await offer(client, "live", seconds)
    await sink.until(sent * _LIVE, 120)
    return await sink.latencies()


def p99(latencies: Iterable[float]) -> float:
    """Return the 99th percentile."""
    ordered = sorted(latencies)
    return ordered[int(len(ordered) * 0.99)]


@dataclass
class Windows:
    """Latencies of live deliveries, window by window: while the replay was paused, and beside it."""

    alone: list[list[float]] = field(default_factory=list)
    beside: list[list[float]] = field(default_factory=list)
    replay_seconds: float = 0.0

    def lines(self) -> list[str]:
        """Return the lines to print."""
        alone, beside = p99(chain(*self.alone)), p99(chain(*self.beside))
        return [
            f"live events, p99            {alone:.1f} ms alone, {beside:.1f} ms beside: {beside / alone:.2f}x (bar 2)",
            f"    windows alone           {' '.join(f'{p99(one):.1f}' for one in self.alone)} ms",
            f"    windows beside it       {' '.join(f'{p99(one):.1f}' for one in self.beside)} ms",
            f"load of the machine         {' '.join(f'{one:.1f}' for one in os.getloadavg())}",
        ]


async def by_turns(
    client: httpx.AsyncClient, sink: Sink, replay: str, seconds: float, is_done: Callable[[], bool]
) -> Windows:
    """Measure beside the running replay and while it is paused, until it is done."""
    windows = Windows()
    while not is_done() and windows.replay_seconds < 1_800:
        began = time.perf_counter()
        window = await live(client, sink, seconds)
        windows.replay_seconds += time.perf_counter() - began
        if not is_done() or not windows.beside:  # the last window is beside the replay for a part of its time only
            windows.beside.append(window)
        await client.post(f"/replays/{replay}/pause", json={"reason": "to measure"})  # a refusal: it is done
        await asyncio.sleep(1)  # its last batch is sent
        windows.alone.append(await live(client, sink, seconds))
        await client.post(f"/replays/{replay}/resume", json={"reason": "to measure"})
    return windows


async def run(letters: int, seconds: float, rate: int | None) -> list[str]:
    """Measure; return the lines to print."""
    async with (
        listening() as (port, numbers),
        running_sink() as sink,
        running_harness() as harness,
        httpx.AsyncClient(base_url=harness.url, trust_env=False, timeout=120) as client,
    ):
        await subscribe(client, sink, "live", "/", _LIVE)
        failed = {"topic": "failed", "callback": f"http://127.0.0.1:{port}/", "mode": "ordered"}
        (await client.post("/subscriptions", json=failed)).raise_for_status()
        await fill(harness.database_url, letters)
        await live(client, sink, 2)  # warms up
        items = (await client.get("/incidents")).json()["items"]
        [incident] = [one["id"] for one in items if one["excerpt"] == _CURED]
        wanted = sum(cured(number) for number in range(1_000_000, 1_000_000 + letters))
        order = {"source": "dead_letters", "incident_id": incident, "rate_per_second": rate}
        started = (await client.post("/replays", json=order)).raise_for_status()
        windows = await by_turns(client, sink, started.json()["id"], seconds, lambda: len(set(numbers)) >= wanted)
        left = {one["excerpt"]: one["dead"] for one in (await client.get("/incidents")).json()["items"]}
    arrived = Counter(cured(number) for number in set(numbers))
    twice = len(numbers) - len(set(numbers))
    return [
        f"{letters:,} dead letters of {_CAUSES} causes; one cause sent again in {windows.replay_seconds:.0f} s",
        f"of the cured cause          {arrived[True]:,} of {wanted:,} arrived, {twice} twice",
        f"of another cause            {arrived[False]} arrived; left {left}",
        f"keys out of order           {inverted(numbers)}",
        *windows.lines(),
    ]


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--letters", type=int, default=1_000_000, help="dead letters (1,000,000)")
    parser.add_argument("--seconds", type=float, default=15.0, help="how long live events are offered at a time (15)")
    parser.add_argument("--rate", type=int, default=None, help="deliveries of the replay a second (its own pace)")
    options = parser.parse_args()
    print("\n".join(asyncio.run(run(options.letters, options.seconds, options.rate))), flush=True)


if __name__ == "__main__":
    main()
