"""Holds on a real PostgreSQL: what the harvester's tests do not reach."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from relay.holds.hold import DueTopic, Hold, Holds
from relay.outbox import Outbox
from relay.record import Record
from relay.sink import SHARDS, Refusal, Term
from tests.relay.harness import INCARNATION, Harness, relay_harness


@pytest.fixture
async def harness(database_url: str) -> AsyncIterator[Harness]:
    async with relay_harness(database_url) as opened:
        yield opened


async def test_the_pause_between_probes_stays_bounded_however_often_a_hold_was_tried(harness: Harness) -> None:
    holds = Holds(harness.database, harness.sink, INCARNATION)
    [record] = await _records(harness, await harness.begin_term(), *await harness.publish("a"))
    await harness.connection.execute(
        "INSERT INTO hookwire.holds (sink, tenant, topic, reason, detail, attempts, probe_at) "
        "VALUES ($1, 'default', 't', 'r', 'd', 5000, now())",
        harness.sink,
    )
    still = Refusal(record, "topic", "unroutable", "still unroutable")
    await holds.postpone(Term("kafka", 0, 1, 1, 0), DueTopic("default", "t", True), {"": still})
    pause = await harness.connection.fetchval("SELECT extract(epoch FROM probe_at - now()) FROM hookwire.holds")
    assert 299 < pause <= 300


async def test_a_held_record_whose_event_was_deleted_does_not_keep_its_hold_for_ever(harness: Harness) -> None:
    [gone, left] = await harness.publish("a", "a")
    holds = Holds(harness.database, harness.sink, INCARNATION)
    term = await harness.begin_term()
    records = await _records(harness, term, gone, left)
    await holds.place(term, [Refusal(records[0], "record", "too_large", "too large")], records[1:])
    await harness.connection.execute("DELETE FROM hookwire.events WHERE id = $1", gone)
    claimed = await holds.claim(term, Hold("default", "orders", "a"), 10, 1 << 20)
    assert ([record.id for record in claimed], [row[2] for row in await harness.held()]) == ([left], [left])


async def _records(harness: Harness, term: Term, *ids: int) -> list[Record]:
    outbox = Outbox(harness.database, harness.sink, INCARNATION, payload=True)
    outbox.begin(range(SHARDS))
    found = {record.id: record for record in await outbox.claim(term, (), 10, 1 << 20)}
    return [found[id_] for id_ in ids]
