"""relay/harvester.py: small batches of a sink for which each batch costs much."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from db.pool import Database
from relay.metrics import RelayMetrics
from relay.sink import Features
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
