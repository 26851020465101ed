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


class _Counted(Wake):
    """Counts the polls that have woken it."""

    polls = 0

    def poll(self) -> None:
        """Count, and wake."""
        self.polls += 1
        super().poll()


async def test_a_poll_looks_where_ids_are_below_those_of_the_poll_before(harness: Harness) -> None:
    """FC-01, GR-04: the sequence was set back, also where the marks have not moved for long."""
    outbox, wake = Outbox(harness.database, harness.sink, INCARNATION, payload=True, horizon_seconds=0), _Counted()
    harvester = Harvester(
        MemorySink(MemoryBroker()), outbox, Holds(harness.database, harness.sink, INCARNATION), wake,
        RelayMetrics(CollectorRegistry()), HarvesterOptions(),
    )  # fmt: skip
    outbox.begin(range(SHARDS))
    last = await harness.connection.fetchval("SELECT nextval('hookwire.event_id')")
    origin = await harness.connection.fetchval("SELECT hookwire.origin()")

    async def is_carried() -> bool:
        await outbox.advance_low_water()
        return outbox.is_carried_through(last, origin)

    await until(is_carried)
    found = []
    harvester.pass_by(range(last + 1, last + 4), origin)
    for seen, passed_by in ((last + 3, last + 4), (last + 3, last + 5), (last + 3, last + 6)):
        harvester.on_poll(seen, origin, holds_are_due=False)
        found.append(wake.polls)
        harvester.pass_by([passed_by], origin)  # also while the next poll is under way
    assert found == [0, 0, 1]
