"""The lone event: what one event without a key and with one webhook costs at a low rate.

The hub of this tree gets the same bursts as the null hub, by turns and each round in another order. With ``--before``
so does the hub of another copy of the repository. Processor time is that of the hub's process and of its PostgreSQL, in
milliseconds for each event. It includes the settlement, and what an idle hub does meanwhile. Times are from the POST to
its 202, and to the receipt. The time from the POST to the stored attempt is looked at in a burst of its own, because
looking costs processor time.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

import asyncpg
import httpx

from benchmarks.cost import STATISTICS_SECONDS, offer, wal_so_far
from benchmarks.harness import Harness, cpu_seconds, postgres_cpu_seconds, running_harness
from benchmarks.load import milliseconds
from benchmarks.peers.__main__ import program, receiver
from benchmarks.peers.burst import Burst, Load, run_burst
from benchmarks.peers.product import Product
from runtime.port import free_port

__all__ = ["main"]

_TOPIC: Final = "cost"
"""The topic of the requests that ``benchmarks.cost`` offers."""
_OURS, _BEFORE, _NULL_HUB = "this tree", "before", "null hub"
_WARM_UP: Final = Load(seconds=3.0, rate=50)
_SETTLED_SECONDS: Final = 1.0
"""After this time the last results of a burst are stored, too."""
_PATIENCE_SECONDS: Final = 30.0
_BARS: Final = {(20.0, "processor"): 0.7, (200.0, "ack p50"): 0.8}
"""At most this share of the figure before."""
_ATTEMPTS: Final = """
SELECT a.event_id, convert_from(substr(e.payload, 3, 18), 'UTF8')::double precision AS sent_at
FROM hookwire.attempts a JOIN hookwire.events e ON e.id = a.event_id WHERE a.event_id > $1
"""


@dataclass(frozen=True)
class _Cost:
    """One burst. ``hub`` and ``database`` are milliseconds of processor time for each event."""

    hub: float
    database: float
    flushes: float
    wal_bytes: float
    burst: Burst

    @property
    def processor(self) -> float:
        return self.hub + self.database


@dataclass(frozen=True)
class _Measured:
    """A product, and its hub if it is one of ours."""

    product: Product
    harness: Harness | None = None

    async def cost(self, sink: httpx.AsyncClient, load: Load) -> _Cost:
        """Offer the load; return what it cost."""
        if self.harness is None:
            before = self.product.cpu_seconds()
            burst = await run_burst(self.product, sink, load)
            return _Cost(1000 * (self.product.cpu_seconds() - before) / _events(burst), 0.0, 0.0, 0.0, burst)
        connection = await asyncpg.connect(self.harness.database_url)
        try:
            await asyncio.sleep(STATISTICS_SECONDS)
            wal, used = await wal_so_far(connection), _used(self.harness)
            burst = await run_burst(self.product, sink, load)
            await asyncio.sleep(_SETTLED_SECONDS)
            hub, database = (1000 * (now - then) for now, then in zip(_used(self.harness), used, strict=True))
            await asyncio.sleep(STATISTICS_SECONDS)
            flushes, size = (now - then for now, then in zip(await wal_so_far(connection), wal, strict=True))
        finally:
            await connection.close()
        count = _events(burst)
        return _Cost(hub / count, database / count, flushes / count, size / count, burst)


def _events(burst: Burst) -> int:
    if not burst.acknowledged:
        raise SystemExit("no event of a burst was accepted")
    return burst.acknowledged


def _used(harness: Harness) -> tuple[float, float]:
    """Return the processor time of the hub and of its database so far, in seconds."""
    return cpu_seconds(harness.pid), postgres_cpu_seconds(harness.postmaster)


# --- from POST to settled -----------------------------------------------------------------------------------------


def _request(port: int) -> bytes:
    """Return the POST of an event whose body begins with its own send time."""
    body = f"t={time.time():018.7f} ".encode().ljust(200, b"x")
    return b"POST /topics/%b/events HTTP/1.1\r\nhost: 127.0.0.1:%d\r\ncontent-length: %d\r\n\r\n%b" % (
        _TOPIC.encode(), port, len(body), body,
    )  # fmt: skip


async def _settled(harness: Harness, load: Load) -> list[float]:
    """Return the seconds from the POST of each event to the moment at which its attempt was seen, 5 ms late at most."""
    assert load.rate is not None, "a burst at a rate"
    connection = await asyncpg.connect(harness.database_url)
    try:
        first = await connection.fetchval("SELECT coalesce(max(id), 0) FROM hookwire.events")
        offering = asyncio.create_task(offer(harness.port, load.rate, load.seconds, _request))
        found: dict[int, float] = {}
        deadline = time.monotonic() + load.seconds + _PATIENCE_SECONDS
        while not offering.done() or len(found) < offering.result():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(found)} attempts were stored in time")
            # Settlements overlap, so that a lower id may follow: a hundred are read again.
            for row in await connection.fetch(_ATTEMPTS, max(first, max(found, default=first) - 100)):
                found.setdefault(row["event_id"], time.time() - row["sent_at"])
            await asyncio.sleep(0.005)
    finally:
        await connection.close()
    return list(found.values())


# --- the table ----------------------------------------------------------------------------------------------------

_COLUMNS: Final[Mapping[str, Callable[[_Cost], float | None]]] = {
    "hub ms": lambda cost: cost.hub,
    "database ms": lambda cost: cost.database,
    "processor": lambda cost: cost.processor,
    "flushes": lambda cost: cost.flushes,
    "WAL bytes": lambda cost: cost.wal_bytes,
    "ack p50": lambda cost: cost.burst.ack_p50,
    "ack p99": lambda cost: cost.burst.ack_p99,
    "received p50": lambda cost: cost.burst.received_p50,
    "received p99": lambda cost: cost.burst.received_p99,
}


def _table(rate: float, costs: Mapping[str, Sequence[_Cost]]) -> list[str]:
    """Return the lines about a rate: medians, least and most of each product, then the ratios."""
    lines = [f"{rate:g}/s, medians of {len(costs[_OURS])} rounds (least-most)"]
    for name, of_one in costs.items():
        lost = sum(cost.burst.lost + cost.burst.refused for cost in of_one)
        cells = [f"{column} {_spread(of_one, figure)}" for column, figure in _COLUMNS.items()]
        lines.append(f"  {name:9}  " + "; ".join(cells) + f"; {lost} lost or refused")
    lines += [f"  {_OURS} : {name}   " + ", ".join(_ratios(rate, costs, name)) for name in costs if name != _OURS]
    return lines


def _median(costs: Sequence[_Cost], figure: Callable[[_Cost], float | None]) -> float:
    return median([value for cost in costs if (value := figure(cost)) is not None])


def _spread(costs: Sequence[_Cost], figure: Callable[[_Cost], float | None]) -> str:
    values = [value for cost in costs if (value := figure(cost)) is not None]
    return f"{median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def _ratios(rate: float, costs: Mapping[str, Sequence[_Cost]], other: str) -> list[str]:
    """Return each figure as a share of the other product's."""
    found = []
    for column, figure in _COLUMNS.items():
        if other_value := _median(costs[other], figure):
            ratio, bar = _median(costs[_OURS], figure) / other_value, _BARS.get((rate, column))
            found.append(f"{column} {ratio:.2f}x" + (f" (bar {bar})" if bar and other == _BEFORE else ""))
    return found


# --- the run ------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _hub(name: str, tree: Path, sink_port: int) -> AsyncIterator[_Measured]:
    """Run a hub with one webhook."""
    async with running_harness(tree=str(tree.resolve())) as harness:
        async with httpx.AsyncClient(base_url=harness.url, trust_env=False) as client:
            subscription = {"topic": _TOPIC, "callback": f"http://127.0.0.1:{sink_port}/"}
            (await client.post("/subscriptions", json=subscription)).raise_for_status()
        product = Product(name, f"{harness.url}/topics/{_TOPIC}/events", [harness.pid])
        yield _Measured(product, harness)


@asynccontextmanager
async def _all(before: Path | None, sink_port: int) -> AsyncIterator[list[_Measured]]:
    async with AsyncExitStack() as stack:
        trees = {_OURS: Path(__file__).parents[1]} | ({} if before is None else {_BEFORE: before})
        hubs = [await stack.enter_async_context(_hub(name, tree, sink_port)) for name, tree in trees.items()]
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="hookwire-bench-"))
        port = free_port()
        arguments = str(port), str(Path(folder) / "log"), f"http://127.0.0.1:{sink_port}/"
        pid = stack.enter_context(program("null_hub", *arguments))
        yield [*hubs, _Measured(Product(_NULL_HUB, f"http://127.0.0.1:{port}/", [pid]))]


async def _at(rate: float, measured: Sequence[_Measured], sink: httpx.AsyncClient, options: argparse.Namespace) -> None:
    """Measure at a rate, and print."""
    load = Load(options.seconds, rate)
    costs: dict[str, list[_Cost]] = {one.product.name: [] for one in measured}
    for _ in range(options.rounds):
        for one in random.sample(measured, len(measured)):
            costs[one.product.name].append(await one.cost(sink, load))
    print("\n".join(_table(rate, costs)), flush=True)
    for one in measured:
        if one.harness is not None:
            found = await _settled(one.harness, load)
            print(f"  {one.product.name:9}  POST to the stored attempt p50 {milliseconds(found, 0.5):.0f} ms, "
                  f"p99 {milliseconds(found, 0.99):.0f} ms", flush=True)  # fmt: skip


async def run(options: argparse.Namespace) -> None:
    """Start the hubs, and measure at each rate."""
    sink_port = free_port()
    async with receiver(sink_port) as sink, _all(options.before, sink_port) as measured:
        for one in measured:
            await run_burst(one.product, sink, _WARM_UP)
        for rate in options.rates:
            await _at(rate, measured, sink, options)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.lone_event", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--before", type=Path, metavar="TREE", help="a copy of the repository with the code of before")
    parser.add_argument(
        "--rates", type=float, nargs="*", default=(20.0, 200.0), help="events a second (default 20 200)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="bursts of each at each rate (default 5)")
    parser.add_argument("--seconds", type=float, default=24.0, help="how long a burst lasts (default 24)")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
