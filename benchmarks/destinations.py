"""How far Kafka topics that refuse records delay the others, beside the same load without refusals.

    python -m benchmarks.destinations --seconds 30

Bystanders are published one by one at a fixed rate. Their age is measured when Kafka has confirmed them. Beside them
goes a second topic, with a backlog larger than a batch and then three records a second. It refuses all of them: it is
compacted and they have no key, or it is too small for them, or it does not exist. In the parts before and after, it
takes them. The bar is on the p99 of the bystanders' age: at most twice that of the same load without refusals.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

import asyncpg
from prometheus_client import CollectorRegistry

from benchmarks.drain import Bench, Mode, on_servers, opened, relaying, to_kafka
from relay.election.port import Election
from relay.metrics import RelayMetrics
from relay.sink import Batch, Receipt, Sink, Term

BACKLOG_RECORDS = 5_000
RATE = 50.0
"""Bystanders per second."""
BESIDE_EACH = 16
"""One record of the other topic for so many bystanders."""
BAR = 2.0
MODES: tuple[Mode, ...] = ("transactional", "idempotent")
MISSING = "missing.topic"
PUBLISH = "SELECT hookwire.publish($1, $2::bytea, key => $3)"
BACKLOG = "SELECT hookwire.publish($1, $2::bytea) FROM generate_series(1, $3::integer)"


@dataclass
class Seen:
    """The ages of the bystanders when they were confirmed, and how often the sinks of all groups were opened."""

    topic: str
    ages: list[float] = field(default_factory=list)
    opened: int = 0

    async def has(self, count: int) -> None:
        """Wait until so many are confirmed."""
        async with asyncio.timeout(600):
            while len(self.ages) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


class Watched:
    """A sink that tells what it does."""

    def __init__(self, sink: Sink, seen: Seen) -> None:
        self.name, self.features = sink.name, sink.features
        self._sink = sink
        self._seen = seen

    async def open(self, term: Term) -> int | None:
        """Open it, and count."""
        self._seen.opened += 1
        return await self._sink.open(term)

    async def send(self, batch: Batch) -> Receipt:
        """Send a batch, and note the ages."""
        receipt = await self._sink.send(batch)
        now, topic = datetime.now(UTC), self._seen.topic
        self._seen.ages += [(now - r.accepted_at).total_seconds() for r in receipt.acknowledged if r.topic == topic]
        return receipt

    async def close(self) -> None:
        """Close it."""
        await self._sink.close()


async def part(bench: Bench, mode: Mode, seconds: float, beside: str, payload: bytes) -> Seen:
    """Run the load once, beside another topic; return what was seen of the bystanders."""
    await bench.connection.execute("TRUNCATE hookwire.outbox, hookwire.events, hookwire.held, hookwire.holds")
    seen, kafka = Seen(await bench.topic()), to_kafka(bench, mode)

    def sink_of(election: Election, group: int) -> Sink:
        return Watched(kafka(election, group), seen)

    async with relaying(bench, sink_of, RelayMetrics(CollectorRegistry())) as ours:
        await bench.connection.execute(PUBLISH, seen.topic, b"first", "key")
        await seen.has(1)
        seen.ages.clear()
        async with asyncpg.create_pool(bench.url, min_size=1, max_size=1) as publisher:
            await publisher.execute(BACKLOG, beside, payload, BACKLOG_RECORDS)
            began_at, count = time.perf_counter(), int(seconds * RATE)
            for number in range(count):
                await asyncio.sleep(max(began_at + number / RATE - time.perf_counter(), 0))
                await publisher.execute(PUBLISH, seen.topic, b"x" * 100, f"key {number % 10}")
                if number % BESIDE_EACH == 0:
                    await publisher.execute(PUBLISH, beside, payload, None)
                ours.notify()
        await seen.has(count)
    return seen


async def compare(bench: Bench, mode: Mode, seconds: float) -> None:
    """Print the ages beside each kind of refusal, and their ratio to those of the parts around it."""
    refusing = {
        "compacted, no keys": (await bench.topic(**{"cleanup.policy": "compact"}), b"x"),
        "too large": (await bench.topic(**{"max.message.bytes": "1000"}), bytes(2_000)),
        "missing": (MISSING, b"x"),
    }
    await part(bench, mode, 2.0, await bench.topic(), b"x")  # warms up
    for name, (topic, payload) in refusing.items():
        before = await part(bench, mode, seconds, await bench.topic(), payload)
        seen = await part(bench, mode, seconds, topic, payload)
        after = await part(bench, mode, seconds, await bench.topic(), payload)
        taken = p99([*before.ages, *after.ages])
        ratio = p99(seen.ages) / taken
        p50 = statistics.median(seen.ages)
        print(
            f"{mode:14} {name:20} p50 {p50 * 1e3:5.0f} ms, p99 {p99(seen.ages) * 1e3:5.0f} ms, "
            f"without refusals {taken * 1e3:5.0f} ms: {ratio:4.2f} x "
            f"(bar {BAR:g}: {'met' if ratio <= BAR else 'missed'}), opened {seen.opened} times by its groups",
            flush=True,
        )


def p99(ages: list[float]) -> float:
    """Return the 99th percentile."""
    return statistics.quantiles(ages, n=100, method="inclusive")[98]


async def run(options: argparse.Namespace, server_url: str, bootstrap: str, postmaster: int | None) -> None:
    """Run both modes on these servers."""
    async with opened(server_url, bootstrap, postmaster) as bench:
        await bench.connection.execute("UPDATE hookwire.sinks SET configured = name = 'kafka'")
        await bench.connection.execute(
            "INSERT INTO hookwire.topics (name, kafka_topic) VALUES ($1, 'no kafka topic is called so!')", MISSING
        )
        for mode in MODES:
            await compare(bench, mode, options.seconds)


def main() -> None:
    """Run on own servers, or on those that the environment names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    on_servers(lambda *servers: run(options, *servers))


if __name__ == "__main__":
    main()
