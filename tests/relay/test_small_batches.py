"""relay/harvester.py: small batches of a sink for which each batch costs much."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from prometheus_client import CollectorRegistry

from relay.memory import MemoryBroker, MemorySink
from relay.metrics import RelayMetrics
from relay.sink import Features
from tests.relay.harness import Harness, all_carried, relay_harness, relay_of, running
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
