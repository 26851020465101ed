"""The two halves of the relay, each alone: the database without a broker, and the producer without a database."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime

from benchmarks.clock import Clock
from benchmarks.drain import PAYLOAD, Bench, Costs, Mode
from relay.election.port import Election
from relay.kafka.sink import KafkaOptions, KafkaSink
from relay.record import Record
from relay.sink import SHARDS, Batch, Features, Receipt, Sink, Term

__all__ = ["nowhere", "producing"]

_GROUPS = 4


class Nowhere:
    """A sink that confirms at once and stores nothing, with the Kafka sink's features in idempotent mode."""

    def __init__(self) -> None:
        self.name = "kafka"
        self.features = Features(window="batch", batch_records_max=2_000, overlap=2)

    async def open(self, term: Term) -> int | None:
        """Open nothing."""
        return None

    async def send(self, batch: Batch) -> Receipt:
        """Confirm all records."""
        return Receipt(batch.records)

    async def close(self) -> None:
        """Close nothing."""


def nowhere(election: Election, group: int) -> Sink:
    """Build a sink that leaves only the database's side: claims and purges."""
    return Nowhere()


async def producing(bench: Bench, mode: Mode, events: int, keys: int) -> Costs:
    """Measure the producer's side alone: Kafka sinks of four groups, each with two batches in flight, as in a relay."""
    topic = await bench.topic()
    shares = _shares(topic, events, keys)
    incarnation = secrets.token_hex(4)
    sinks = [KafkaSink(KafkaOptions(bench.bootstrap, incarnation, mode)) for _ in shares]
    for group, sink in enumerate(sinks):
        await sink.open(_term(group))
    clock = bench.clock(events)
    await clock.start()
    async with asyncio.TaskGroup() as tasks:
        for group, (sink, records) in enumerate(zip(sinks, shares, strict=True)):
            tasks.create_task(_send(sink, _term(group), records, clock))
    costs = await clock.stopped()
    for sink in sinks:
        await sink.close()
    return costs


def _term(group: int) -> Term:
    return Term("kafka", group, 1, 1, 0, _GROUPS)


def _shares(topic: str, events: int, keys: int) -> list[list[Record]]:
    """Return records like those of the database, by the group of their key."""
    shares: list[list[Record]] = [[] for _ in range(_GROUPS)]
    now = datetime.now(UTC)
    shards = [hashlib.sha256(f"{topic}\0key {n}".encode()).digest()[0] % SHARDS for n in range(keys)]
    for number in range(1, events + 1):
        shard = shards[number % keys]
        shares[shard % _GROUPS].append(
            Record(
                id=number, shard=shard, event_id=f"evt_abcdefgh_{number}", tenant="default", topic=topic,
                key=f"key {number % keys}", sequence=number, content_type=None, headers={}, payload=PAYLOAD,
                accepted_at=now,
            )
        )  # fmt: skip
    return shares


async def _send(sink: KafkaSink, term: Term, records: Sequence[Record], clock: Clock) -> None:
    size = sink.features.batch_records_max
    in_flight: deque[asyncio.Task[Receipt]] = deque()
    for number, start in enumerate(range(0, len(records), size), 1):
        if len(in_flight) == sink.features.overlap:
            clock.acknowledged(len((await in_flight.popleft()).acknowledged))
        batch = Batch(term, records[start : start + size], number if sink.features.manifests else None)
        in_flight.append(asyncio.ensure_future(sink.send(batch)))
    for sending in in_flight:
        clock.acknowledged(len((await sending).acknowledged))
