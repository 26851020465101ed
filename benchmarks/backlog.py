"""What waits, and what somebody's old snapshot keeps, should cost an event nothing (RR-07, RP-03).

    python -m benchmarks.backlog --sizes 10000 10000000
    python -m benchmarks.backlog --held-minutes 30

Backlogs of several sizes are drained in idempotent mode, smallest first. Beside the costs stands the most memory that
this process has held so far, which is the relay's and the benchmark's together.

Then a snapshot is held, as a backup or a forgotten report does, and as many records are relayed under it as come in so
many minutes at 2,000 a second, as fast as they go: what such minutes leave is dead rows, and how long they took does
not matter to them. The rate of the same relay, snapshot still held, is compared with its rate before.
"""

from __future__ import annotations

import argparse
import os
import statistics

import asyncpg

from benchmarks.drain import Bench, ClockedMetrics, Costs, drain, fill, line, on_servers, opened, relaying, to_kafka
from benchmarks.stage import peak_bytes

_KEYS = 1_000
_RATE = 2_000
_SAMPLE = 100_000
_MEGABYTE = 1e6


async def sizes(bench: Bench, wanted: list[int], rounds: int) -> None:
    """Drain backlogs of these sizes."""
    processor: list[float] = []
    for size in sorted(wanted):
        rows = [await drain(bench, to_kafka(bench, "idempotent"), size, _KEYS) for _ in range(rounds)]
        processor.append(_processor(rows))
        peak = peak_bytes(os.getpid()) / _MEGABYTE
        print(f"{line(f'backlog of {size:,}', rows)}, {peak:.0f} MB at most (bar 150)", flush=True)
    print(f"  processor time of an event, largest / smallest backlog: {processor[-1] / processor[0]:.2f} (bar 1.2)")


async def held(bench: Bench, minutes: float, rounds: int) -> None:
    """One relay: its rate, then many dead rows that a snapshot keeps, then its rate again."""
    await bench.connection.execute("TRUNCATE hookwire.outbox, hookwire.events, hookwire.ledger_entries")
    topic = await bench.topic()
    metrics = ClockedMetrics(bench.clock(0))
    reader = await asyncpg.connect(bench.url)
    async with relaying(bench, to_kafka(bench, "idempotent"), metrics) as ours:

        async def carried(events: int) -> Costs:
            metrics.clock = clock = bench.clock(events)
            await fill(bench, topic, events, _KEYS)
            await clock.start()
            ours.ring()
            await clock.done.wait()
            costs = await clock.stopped()
            await bench.emptied()  # reads every dead row, so outside of what is metered
            return costs

        await carried(_SAMPLE)
        before = [await carried(_SAMPLE) for _ in range(rounds)]
        await reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM hookwire.outbox")
        dead = int(minutes * 60 * _RATE)
        for start in range(0, dead, _SAMPLE):
            await carried(min(_SAMPLE, dead - start))
        after = [await carried(_SAMPLE) for _ in range(rounds)]
        kept = await bench.connection.fetchval(
            "SELECT n_dead_tup FROM pg_stat_user_tables WHERE schemaname = 'hookwire' AND relname = 'outbox'"
        )
    await reader.close()
    print(line("no snapshot held", before))
    print(line(f"held, {kept:,} dead rows", after))
    rate = statistics.median(costs.rate for costs in after) / statistics.median(costs.rate for costs in before)
    print(f"  under the snapshot, as after {minutes:g} minutes at {_RATE}/s: rate {rate:.2f} (bar 0.95), ", end="")
    print(f"processor time of an event {_processor(after) / _processor(before):.2f} (bar 1.05)", flush=True)


def _processor(rows: list[Costs]) -> float:
    """Microseconds of an event, relay and PostgreSQL."""
    return statistics.median(row.relay_microseconds + row.postgres_microseconds for row in rows)


async def run(options: argparse.Namespace, server_url: str, bootstrap: str, postmaster: int | None) -> None:
    """Both questions, on these servers."""
    async with opened(server_url, bootstrap, postmaster) as bench:
        if options.sizes:
            await sizes(bench, options.sizes, options.rounds)
        if options.held_minutes:
            await held(bench, options.held_minutes, options.rounds)


def main() -> None:
    """On servers of its own, or on those that the environment names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--held-minutes", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    on_servers(lambda *servers: run(options, *servers))


if __name__ == "__main__":
    main()
