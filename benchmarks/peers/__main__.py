"""Hookwire beside a null hub, and beside other products that run on this machine.

Each product gets the same bursts, by turns and each round in another order. Figures are medians over the rounds, with
the least and the most; of p99 the least counts, because every product shows stalls of the disk. Load tool and sink use
the same processors. `docs/how-to/compare-products.md` says how others are set up.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from statistics import median

import httpx

from benchmarks.harness import running_harness
from benchmarks.peers.burst import Burst, Load, run_burst
from benchmarks.peers.product import Product, read_products
from runtime.port import free_port

__all__ = ["main", "program", "receiver", "table"]

_TOPIC = "peers"
_NULL_HUB = "null hub"
_WARM_UP = Load(seconds=1.0)
_TRIES = 200
Bursts = Mapping[str, Sequence[Burst]]
"""The bursts of each product, by its name."""


# --- the table --------------------------------------------------------------------------------------------------


def table(load: str, bursts: Bursts) -> list[str]:
    """Return the lines about one load: a product in each, and how the first compares with the best of the others."""
    lines = [f"{load:<14} {'acks/s':>22} {'copies/s':>22} {'ack p50 ms':>18} {'received p50 ms':>18} {'p99 ms':>8} "
             f"{'cpu ms/copy':>18} {'MB':>6} {'refused':>8} {'lost':>5} {'twice':>6}"]  # fmt: skip
    lines += [_line(name, of_one) for name, of_one in bursts.items()]
    first, *names = bursts
    others = [name for name in names if name != _NULL_HUB]
    for name, of in (("best of the others", others), (_NULL_HUB, [_NULL_HUB] if _NULL_HUB in bursts else [])):
        if of:
            lines.append(f"  {first} : {name}   " + ", ".join(_ratios(bursts[first], [bursts[one] for one in of])))
    return lines


def _line(name: str, bursts: Sequence[Burst]) -> str:
    p99 = [one.received_p99 for one in bursts if one.received_p99 is not None]
    return (
        f"{name:<14} {_spread([one.ack_rate for one in bursts], 0):>22} "
        f"{_spread([one.copy_rate for one in bursts], 0):>22} {_spread([one.ack_p50 for one in bursts], 1):>18} "
        f"{_spread([one.received_p50 for one in bursts], 1):>18} {min(p99, default=float('nan')):8.1f} "
        f"{_spread([one.processor_ms for one in bursts], 2):>18} {bursts[-1].memory_bytes / 1e6:6.0f} "
        f"{sum(one.refused for one in bursts):8} {sum(one.lost for one in bursts):5} "
        f"{sum(one.twice for one in bursts):6}"
    )


def _spread(values: Sequence[float | None], digits: int) -> str:
    """Return least / median / most."""
    known = [value for value in values if value is not None]
    if not known:
        return "nothing came"
    return " / ".join([f"{value:,.{digits}f}" for value in (min(known), median(known), max(known))])


def _ratios(ours: Sequence[Burst], others: Sequence[Sequence[Burst]]) -> Iterator[str]:
    """Yield how many times better the first is, by median; below 1 it loses."""
    figures: Sequence[tuple[str, Callable[[Burst], float | None], bool]] = (
        ("copies/s", lambda one: one.copy_rate, True),
        ("ack p50", lambda one: one.ack_p50, False),
        ("received p50", lambda one: one.received_p50, False),
        ("cpu", lambda one: one.processor_ms, False),
    )
    for name, figure, more_is_better in figures:
        own, best = _median(ours, figure), [_median(one, figure) for one in others]
        known = [value for value in best if value]
        if own and known:
            yield f"{name} {own / max(known) if more_is_better else min(known) / own:.2f}x"


def _median(bursts: Sequence[Burst], figure: Callable[[Burst], float | None]) -> float | None:
    known = [value for one in bursts if (value := figure(one)) is not None]
    return median(known) if known else None


# --- what runs --------------------------------------------------------------------------------------------------


@contextmanager
def program(name: str, *arguments: str) -> Iterator[int]:
    """Run one of our programs in a process of its own; yield its id."""
    child = subprocess.Popen([sys.executable, "-m", f"benchmarks.peers.{name}", *arguments])
    try:
        yield child.pid
    finally:
        child.kill()
        child.wait()


@asynccontextmanager
async def receiver(port: int) -> AsyncIterator[httpx.AsyncClient]:
    with program("sink", str(port)):
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            await _until_it_answers(client)
            yield client


async def _until_it_answers(client: httpx.AsyncClient) -> None:
    for _ in range(_TRIES):
        try:
            (await client.get("/none")).raise_for_status()
        except httpx.ConnectError:
            await asyncio.sleep(0.05)
        else:
            return
    raise RuntimeError("the receiver does not answer")


@asynccontextmanager
async def _hookwire(callbacks: Sequence[str]) -> AsyncIterator[Product]:
    async with running_harness() as harness:
        async with httpx.AsyncClient(base_url=harness.url, trust_env=False) as client:
            for callback in callbacks:
                subscription = {"topic": _TOPIC, "callback": callback}
                (await client.post("/subscriptions", json=subscription)).raise_for_status()
        url = f"{harness.url}/topics/{_TOPIC}/events"
        yield Product("hookwire", url, [harness.pid], copies=len(callbacks))


@contextmanager
def _null_hub(callbacks: Sequence[str]) -> Iterator[Product]:
    with tempfile.TemporaryDirectory(prefix="hookwire-bench-") as folder:
        port = free_port()
        with program("null_hub", str(port), str(Path(folder) / "log"), *callbacks) as pid:
            yield Product(_NULL_HUB, f"http://127.0.0.1:{port}/", [pid], copies=len(callbacks))


# --- the run ----------------------------------------------------------------------------------------------------


async def compare(products: Sequence[Product], sink: httpx.AsyncClient, loads: Sequence[Load], rounds: int) -> None:
    """Offer each load to each product in each round, and print a table for each load."""
    for product in products:
        await run_burst(product, sink, _WARM_UP)
    for load in loads:
        bursts: dict[str, list[Burst]] = defaultdict(list, {product.name: [] for product in products})
        for _ in range(rounds):
            for product in random.sample(products, len(products)):
                bursts[product.name].append(await run_burst(product, sink, load))
        print("\n".join(table(load.name, bursts)), flush=True)


async def run(options: argparse.Namespace) -> None:
    """Start what is ours, and compare."""
    others = [] if options.products is None else read_products(options.products)
    callbacks = [f"http://127.0.0.1:{options.sink_port}/{number}" for number in range(options.copies)]
    loads = [Load(options.seconds, rate, size=options.size) for rate in options.rates]
    if not options.no_full_rate:
        loads.insert(0, Load(options.seconds, None, options.clients, options.size))
    async with receiver(options.sink_port) as sink, _hookwire(callbacks) as hookwire:
        with _null_hub(callbacks) as null_hub:
            await compare([hookwire, *others, null_hub], sink, loads, options.rounds)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("products", type=Path, nargs="?", help="a TOML file of other products that run (default: none)")
    parser.add_argument("--rounds", type=int, default=5, help="bursts of each product for each load (default 5)")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long a burst lasts (default 10)")
    parser.add_argument(
        "--rates", type=float, nargs="*", default=(20, 200, 1000), help="events a second (default 20 200 1000)"
    )
    parser.add_argument("--clients", type=int, default=32, help="clients at full rate (default 32)")
    parser.add_argument("--no-full-rate", action="store_true", help="leave out the bursts at full rate")
    parser.add_argument(
        "--copies", type=int, default=1, help="webhooks of an event (default 1); the others' is in the file"
    )
    parser.add_argument("--size", type=int, default=200, help="bytes of an event (default 200)")
    parser.add_argument("--sink-port", type=int, default=9911, help="where the webhooks are received (default 9911)")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
