"""relay/harvester.py: small batches of a sink for which each batch costs much."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from db.pool import Database
from relay.metrics import RelayMetrics
from relay.sink import Batch, Features, Receipt
from tests.relay.harness import FaultyDatabase, Harness, all_carried, relay_harness, relay_of, running
from tests.relay.memory import MemoryBroker, MemorySink
from tests.waiting import until

COSTLY = Features(window="batch", batch_records_max=50, overlap=2, manifests=True, small_batch_seconds=0.02)


@pytest.fixture
async def harness(database_url: str) -> AsyncIterator[Harness]:
    async with relay_harness(database_url) as opened:
        yield opened


async def test_where_a_batch_costs_much_the_next_gathers_until_a_small_one_is_over(harness: Harness) -> None:
    """A Kafka transaction of one record costs nearly as much as one of a hundred."""
    registry, broker = CollectorRegistry(), MemoryBroker()
    broker.valve.clear()

    def in_flight() -> float | None:
        return registry.get_sample_value("hookwire_relay_in_flight", {"sink": "kafka", "group": "0"})

    async with running(relay_of(harness, MemorySink(broker, COSTLY), metrics=RelayMetrics(registry))) as run:
        first = await harness.publish("a")
        await until(lambda: in_flight() == 1)
        others = [*await harness.publish("a"), *await harness.publish("b")]
        await asyncio.wait([run], timeout=0.1)  # long enough for a second claim that must not happen
        meanwhile = in_flight()
        broker.valve.set()
        await all_carried(harness)
    assert (meanwhile, broker.ids(), broker.committed) == (1, first + others, {(1, 0): 2})


class Watched(FaultyDatabase):
    """``purged``: the ids of outbox rows that the manifests' statements purged."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.purged: list[int] = []

    async def fetchval(self, name: str, *args: object) -> Any:
        value = await super().fetchval(name, *args)
        if name == "manifest.write":
            self.purged += args[8]  # type: ignore[misc]
        return value


async def test_while_batches_follow_each_other_a_manifest_purges_the_one_before_it(harness: Harness) -> None:
    """RR-06: one round trip and one flush for both. The last batch is purged, too."""
    broker, database = MemoryBroker(), Watched(harness.database)
    ids: list[int] = []

    async def carry_one() -> None:
        ids.extend(await harness.publish("a"))
        await until(lambda: len(broker.log) == len(ids))

    async with running(relay_of(harness, MemorySink(broker, COSTLY), database=database)), asyncio.timeout(60):
        while not database.purged:
            await carry_one()
        await all_carried(harness)
    assert (broker.ids(), await harness.manifests()) == (ids, [])


class Gated(FaultyDatabase):
    """The manifests after the first wait for the gate, before they reach the server."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.gate = asyncio.Event()
        self.writes = 0

    async def fetchval(self, name: str, *args: object) -> Any:
        if name == "manifest.write":
            self.writes += 1
            if self.writes > 1:
                await self.gate.wait()
        return await super().fetchval(name, *args)


class Told(MemorySink):
    """``sent``: the ids of the records of each call, from its beginning."""

    def __init__(self, broker: MemoryBroker) -> None:
        super().__init__(broker, COSTLY)
        self.sent: list[list[int]] = []

    async def send(self, batch: Batch) -> Receipt:
        self.sent.append([record.id for record in batch.records])
        return await super().send(batch)


async def test_a_manifest_is_written_while_its_batch_is_sent(harness: Harness) -> None:
    """RR-06: a round trip and a flush less before the records are on their way. Only the commit waits for it."""
    broker, database = MemoryBroker(), Gated(harness.database)
    sink = Told(broker)
    async with running(relay_of(harness, sink, database=database)):
        first = await harness.publish("a")
        await until(lambda: broker.ids() == first)
        second = await harness.publish("a")
        try:
            await until(lambda: len(sink.sent) == 2)
            before = broker.ids()
        finally:
            database.gate.set()
        await all_carried(harness)
    assert (sink.sent, before, broker.ids(), broker.committed) == (
        [first, second], first, first + second, {(1, 0): 2},
    )  # fmt: skip


async def test_a_manifest_that_cannot_be_written_repeats_and_loses_nothing(harness: Harness) -> None:
    """RR-06, RO-03: its batch was on its way, and is sent again under the same number."""
    broker, database = MemoryBroker(), FaultyDatabase(harness.database)
    ids: list[int] = []
    async with running(relay_of(harness, MemorySink(broker, COSTLY), database=database)):
        for faults in (0, 1, 2):
            database.faults["manifest.write"] = faults
            ids += await harness.publish("a", "b")
            await all_carried(harness)
    assert (broker.ids(), broker.committed, await harness.manifests()) == (ids, {(1, 0): 3}, [])
