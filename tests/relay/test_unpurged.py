"""relay/unpurged.py: acknowledged batches wait for the next manifest, and none is lost from memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from unittest.mock import AsyncMock

import pytest
from prometheus_client import CollectorRegistry

import relay.unpurged
from db.errors import HeldBack, Unavailable
from relay.election.port import LeadershipLost
from relay.holds.hold import Holds
from relay.metrics import RelayMetrics
from relay.outbox import Outbox
from relay.record import Record
from relay.sink import SHARDS, Batch, Term
from relay.unpurged import Acknowledged, Unpurged
from runtime.cancellation import TaskGroup
from tests.relay.harness import INCARNATION, FaultyDatabase, Harness, relay_harness
from tests.relay.memory import MemoryBroker, MemorySink


@dataclass
class Place:
    """One record is sent, under a manifest; its purge waits in ``waiting``."""

    harness: Harness
    database: FaultyDatabase
    registry: CollectorRegistry
    unpurged: Unpurged
    term: Term
    batch: Batch
    waiting: asyncio.Task[None]

    @property
    def failures(self) -> float | None:
        return self.registry.get_sample_value(
            "hookwire_relay_purge_failures_total", {"sink": "kafka", "group": "0"}
        )  # fmt: skip


@pytest.fixture
async def place(
    database_url: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> AsyncIterator[Place]:
    monkeypatch.setattr(relay.unpurged, "_NEXT_MANIFEST_SECONDS", getattr(request, "param", 60.0))
    async with relay_harness(database_url) as harness:
        await harness.publish("a")
        database, registry = FaultyDatabase(harness.database), CollectorRegistry()
        outbox, term = Outbox(database, "kafka", INCARNATION, payload=True), await harness.begin_term()
        outbox.begin(range(SHARDS))
        unpurged = Unpurged(
            MemorySink(MemoryBroker()), outbox, Holds(database, "kafka", INCARNATION), RelayMetrics(registry)
        )
        records: list[Record] = await outbox.claim(term, (), 10, 1_000)
        batch = await unpurged.write_manifest(term, records)
        waiting = asyncio.create_task(unpurged.purge_soon(Acknowledged(batch, records)))
        await asyncio.sleep(0)
        yield Place(harness, database, registry, unpurged, term, batch, waiting)
        waiting.cancel()
        await asyncio.wait([waiting])


async def test_a_waiting_batch_is_purged_by_the_next_manifest(place: Place) -> None:
    following = await place.unpurged.write_manifest(place.term, [])
    await place.waiting
    assert (await place.harness.owed(), await place.harness.manifests()) == ([], [following.number])


@pytest.mark.parametrize("place", [0.01], indirect=True)
async def test_a_batch_that_none_follows_is_purged_alone(place: Place) -> None:
    await place.waiting
    assert (await place.harness.owed(), await place.harness.manifests()) == ([], [])


@pytest.mark.parametrize("place", [0.5], indirect=True)
async def test_a_batch_waits_for_a_manifest_that_is_being_written(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is purged once, although its own wait is over first."""
    write, gate = place.unpurged._outbox.write_manifest, asyncio.Event()

    async def held_up(*args: Any) -> Batch:
        await gate.wait()
        return await write(*args)

    monkeypatch.setattr(place.unpurged._outbox, "write_manifest", held_up)
    place.database.faults["manifest.purge"] = 1
    writing = asyncio.create_task(place.unpurged.write_manifest(place.term, []))
    done, _ = await asyncio.wait([place.waiting], timeout=1.0)  # longer than its own wait
    gate.set()
    await asyncio.gather(writing, place.waiting)
    assert (done, await place.harness.owed(), place.failures) == (set(), [], None)


async def test_a_batch_whose_manifest_fails_is_purged_in_the_sink_s_next_life(place: Place) -> None:
    """RO-03: it was acknowledged, so it must not be sent again."""
    place.database.faults["manifest.write"] = 1
    with pytest.raises(Unavailable):
        await place.unpurged.write_manifest(place.term, [])
    place.waiting.cancel()  # as the harvester's group of tasks does
    left = await place.harness.owed()
    await place.unpurged.purge_all()
    assert (len(left), place.failures, await place.harness.owed()) == (1, 1, [])


async def test_a_manifest_that_is_held_back_counts_as_no_failure(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """HA-11: its statement has purged the batches before it."""
    monkeypatch.setattr(place.database, "pass_fence", AsyncMock(side_effect=HeldBack("held back")))
    with pytest.raises(HeldBack):
        await place.unpurged.write_manifest(place.term, [])
    assert (await place.harness.owed(), place.failures) == ([], None)


async def test_after_a_take_over_no_manifest_purges_what_an_earlier_term_left(place: Place) -> None:
    """FC-01: their ids may belong to other events by now."""
    place.unpurged.forget()
    await place.unpurged.write_manifest(place.term, [])
    await place.unpurged.purge_all()
    assert await place.harness.owed() == [record.id for record in place.batch.records]


async def test_the_number_of_a_manifest_follows_from_the_one_before_it(place: Place) -> None:
    """RR-06: so its batch need not wait for it."""
    async with TaskGroup() as tasks:
        following = await place.unpurged.begin_manifest(place.term, [], tasks)
        known_early = following.number
    assert place.batch.number is not None
    assert (known_early, await place.harness.manifests()) == (place.batch.number + 1, [known_early])


async def test_manifests_are_written_one_after_the_other(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """RR-06: each number is one more than the one before it."""
    write, running, most = place.unpurged._outbox.write_manifest, 0, 0

    async def watched(*args: Any) -> Batch:
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            return await write(*args)
        finally:
            running -= 1

    monkeypatch.setattr(place.unpurged._outbox, "write_manifest", watched)
    async with TaskGroup() as tasks:
        batches = [await place.unpurged.begin_manifest(place.term, [], tasks) for _ in range(3)]
    assert (most, len({batch.number for batch in batches})) == (1, 3)


async def test_a_number_that_does_not_follow_ends_the_term(place: Place) -> None:
    """RR-06: another leader has numbered a batch, so this one must not be committed."""
    await place.harness.connection.execute(
        "UPDATE hookwire.relay_batch_numbers SET batch_no = batch_no + 1 WHERE sink = 'kafka'"
    )
    with pytest.RaisesGroup(LeadershipLost):
        async with TaskGroup() as tasks:
            await place.unpurged.begin_manifest(place.term, [], tasks)
