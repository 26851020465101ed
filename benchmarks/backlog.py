"""Backlog: whether a large backlog, or dead rows under an old snapshot, make an event more expensive (RR-07, RP-03).

    python -m benchmarks.backlog --sizes 10000 10000000
    python -m benchmarks.backlog --held-minutes 30

The first part drains backlogs of several sizes in idempotent mode, smallest first. It prints the costs, and the peak
memory of this process, which holds relay and benchmark.

In the second part two databases of one server carry the same events, each with a relay of its own. In one database an
open snapshot keeps the rows that the relay deletes, as a backup or a forgotten report does. Each relay carries as many
records as arrive in the given minutes at 2,000 per second. It works as fast as it can, because only the dead rows
matter. Then samples are taken in turns, each filled after a checkpoint, and compared in pairs. So both samples of a
pair have the same events, the same caches and the same load of the machine. Autovacuum is on. Under the snapshot it
reads the dead rows repeatedly without effect. This is a cost of the snapshot, so the figures include it.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import asyncpg

from benchmarks.drain import Bench, ClockedMetrics, Costs, drain, fill, line, on_servers, opened, relaying, to_kafka
from benchmarks.harness import peak_bytes

_KEYS = 1_000
_RATE = 2_000
_SAMPLE = 100_000
_MEGABYTE = 1e6
_KEPT = """
SELECT n_dead_tup AS dead, autovacuum_count AS vacuums
FROM pg_stat_user_tables WHERE schemaname = 'hookwire' AND relname = 'outbox'
"""


async def sizes(bench: Bench, wanted: list[int], rounds: int) -> None:
    """Drain backlogs of these sizes."""
    processor: list[float] = []
    for size in sorted(wanted):
        rows = [await drain(bench, to_kafka(bench, "idempotent"), size, _KEYS) for _ in range(rounds)]
        processor.append(_processor(rows))
        peak = peak_bytes(os.getpid()) / _MEGABYTE
        print(f"{line(f'backlog of {size:,}', rows)}, {peak:.0f} MB at most (bar 150)", flush=True)
    print(f"  processor time of an event, largest / smallest backlog: {processor[-1] / processor[0]:.2f} (bar 1.2)")


@asynccontextmanager
async def carrying(bench: Bench) -> AsyncIterator[Callable[[int], Awaitable[Costs]]]:
    """Run a relay. Yield a function that fills a number of events, lets the relay carry them and returns the costs."""
    await bench.connection.execute("TRUNCATE hookwire.outbox, hookwire.events, hookwire.ledger_entries")
    topic = await bench.topic()
    metrics = ClockedMetrics(bench.clock(0))
    async with relaying(bench, to_kafka(bench, "idempotent"), metrics) as ours:

        async def carried(events: int) -> Costs:
            metrics.clock = clock = bench.clock(events)
            await bench.connection.execute("CHECKPOINT")
            await fill(bench, topic, events, _KEYS)
            await clock.start()
            ours.notify()
            await clock.done.wait()
            costs = await clock.stopped()
            await bench.emptied()  # this query reads every dead row, so it is not metered
            return costs

        yield carried


async def held(free: Bench, kept: Bench, minutes: float, rounds: int) -> None:
    """Hold a snapshot in one of two databases, then compare pairs of samples; the order within a pair alternates."""
    reader = await asyncpg.connect(kept.url)
    async with carrying(free) as of_free, carrying(kept) as of_kept:
        await reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM hookwire.outbox")
        dead = int(minutes * 60 * _RATE)
        for start in range(0, dead, _SAMPLE):
            for carried in (of_free, of_kept):
                await carried(min(_SAMPLE, dead - start))
        without: list[Costs] = []
        under: list[Costs] = []
        for number in range(rounds):
            turns = [(of_free, without), (of_kept, under)]
            for carried, found in turns if number % 2 == 0 else reversed(turns):
                found.append(await carried(_SAMPLE))
        tables = [await bench.connection.fetch(_KEPT) for bench in (free, kept)]
    await reader.close()
    for name, found, [table] in (("no snapshot", without, tables[0]), ("a snapshot held", under, tables[1])):
        print(line(name, found, f"{table['dead']:,} dead rows, {table['vacuums']} autovacuums"))
    pairs = list(zip(without, under, strict=True))
    rate = statistics.median(b.rate / a.rate for a, b in pairs)
    processor = statistics.median(_processor([b]) / _processor([a]) for a, b in pairs)
    print(f"  under the snapshot, as after {minutes:g} minutes at {_RATE}/s: rate {rate:.2f} (bar 0.95), ", end="")
    print(f"processor time of an event {processor:.2f} (bar 1.05), medians of {rounds} pairs", flush=True)


def _processor(rows: list[Costs]) -> float:
    """Return the processor time of an event, in microseconds, of relay and PostgreSQL."""
    return statistics.median(row.relay_microseconds + row.postgres_microseconds for row in rows)


async def run(options: argparse.Namespace, server_url: str, bootstrap: str, postmaster: int | None) -> None:
    """Run both parts on these servers."""
    async with opened(server_url, bootstrap, postmaster) as bench:
        if options.sizes:
            await sizes(bench, options.sizes, options.rounds)
        if options.held_minutes:
            async with opened(server_url, bootstrap, postmaster) as other:
                await held(bench, other, options.held_minutes, options.rounds)


def main() -> None:
    """Run on own servers, or on those that the environment names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--held-minutes", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    on_servers(lambda *servers: run(options, *servers))


if __name__ == "__main__":
    main()
