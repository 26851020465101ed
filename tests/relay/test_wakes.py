"""relay/harvester.py: the notifications that make it claim."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from relay.harvester import Harvester, HarvesterOptions
from relay.holds.hold import Holds
from relay.metrics import RelayMetrics
from relay.outbox import Outbox
from relay.record import Record
from relay.sink import SHARDS
from relay.sink_relay import SinkRelay
from runtime.wake import Wake
from tests.relay.harness import INCARNATION, Harness, relay_harness, running
from tests.relay.memory import MemoryBroker, MemoryElection, MemorySink
from tests.waiting import until


@pytest.fixture
async def harness(database_url: str) -> AsyncIterator[Harness]:
    async with relay_harness(database_url) as opened:
        yield opened


class _Restless(Wake):
    """Notifies all the time, as the events of other groups do."""

    async def wait(self) -> bool:
        """There always is a notification."""
        return True


async def test_rings_for_others_make_no_more_claims_than_a_trickle_does(harness: Harness) -> None:
    """RO-09: claims that find nothing keep the pause of a small batch, too; many notifications are for all groups."""
    claims: list[float] = []

    class Watched(Outbox):
        async def claim(self, *args: Any) -> list[Record]:
            claims.append(time.monotonic())
            return await super().claim(*args)

    pause = 0.04
    harvester = Harvester(
        MemorySink(MemoryBroker()), Watched(harness.database, harness.sink, INCARNATION, payload=True),
        Holds(harness.database, harness.sink, INCARNATION), _Restless(), RelayMetrics(CollectorRegistry()),
        HarvesterOptions(linger_seconds=pause),
    )  # fmt: skip
    async with running(SinkRelay(harness.sink, MemoryElection(harness.begin_term), lambda _: harvester)):
        await until(lambda: len(claims) > 8)
    assert min(later - earlier for earlier, later in pairwise(claims)) > pause / 2  # a timer may be early by its tick


@pytest.mark.parametrize(
    ("state", "shards", "is_woken"), [("leading", {1, 2}, True), ("leading", {1, 3}, False), ("standby", {1, 3}, True)]
)
async def test_a_commit_wakes_a_leader_only_for_its_own_shards(
    harness: Harness, state: str, shards: set[int], is_woken: bool
) -> None:
    """RO-09: the groups of a sink are many, and a small commit concerns one of them."""
    outbox, wake = Outbox(harness.database, harness.sink, INCARNATION, payload=True), Wake(poll_seconds_min=0.001)
    harvester = Harvester(
        MemorySink(MemoryBroker()), outbox, Holds(harness.database, harness.sink, INCARNATION), wake,
        RelayMetrics(CollectorRegistry()), HarvesterOptions(),
    )  # fmt: skip
    outbox.begin(range(0, SHARDS, 2))
    harvester.state = state
    harvester.on_commit(frozenset(shards))
    assert await wake.wait() is is_woken
