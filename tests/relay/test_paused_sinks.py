"""A paused sink on a real PostgreSQL: what its claims return, and what a new leader sends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from db.pool import Row
from relay.holds.hold import DueTopic, Hold, Holds
from relay.outbox import Outbox
from relay.sink import SHARDS
from tests.relay.harness import INCARNATION, FaultyDatabase, Harness, all_carried, relay_harness, relay_of, running
from tests.relay.memory import MemoryBroker, MemorySink
from tests.waiting import until

MEBIBYTE = 1024 * 1024


@pytest.fixture
async def harness(database_url_both: str) -> AsyncIterator[Harness]:
    async with relay_harness(database_url_both) as opened:
        yield opened


async def turn(harness: Harness, verb: str) -> None:
    row = await harness.database.fetchrow(f"sink.{verb}", harness.sink, "ada", None)
    assert row is not None
    assert (row["paused_at"] is not None) is (verb == "pause")


async def test_nothing_is_claimed_and_no_hold_is_probed_while_a_sink_is_paused(harness: Harness) -> None:
    """CN-08: each claim reads the pause, so no process has to hear of it. Other sinks go on.

    A drain of a hold that goes on reads it with each of its batches.
    """
    ids, term = await harness.publish("a", "b"), await harness.begin_term()
    holds = Holds(harness.database, harness.sink, INCARNATION)
    for statement in (
        "INSERT INTO hookwire.holds (sink, grp, tenant, topic, key, reason, detail, attempts, probe_at)"
        " VALUES ($1, 0, 'default', 'orders', 'c', 'too_large', '', 1, now() - interval '1 s')",
        "INSERT INTO hookwire.held (sink, grp, tenant, topic, key, id, shard, layout)"
        " SELECT o.sink, 0, 'default', 'orders', 'c', o.id, o.shard, o.layout FROM hookwire.outbox o"
        " WHERE o.sink = $1 ORDER BY o.id LIMIT 1",
    ):
        await harness.connection.execute(statement, harness.sink)
    due, hold = DueTopic("default", "orders", is_whole=False), Hold("default", "orders", "c")
    found: dict[tuple[str, object], list[Any]] = {}
    for verb in ("pause", "resume"):
        await turn(harness, verb)
        for payload in (True, False):
            outbox = Outbox(harness.database, harness.sink, INCARNATION, payload=payload, horizon_seconds=0)
            outbox.begin(range(SHARDS))
            found[verb, payload] = [record.id for record in await outbox.claim(term, [], 9, MEBIBYTE)]
        found[verb, "due"] = [one.topic for one in await holds.due(term)]
        found[verb, "heads"] = [*await holds.heads(term, due, 9, MEBIBYTE)]
        found[verb, "held"] = [record.id for record in await holds.claim(term, hold, 9, MEBIBYTE)]

    assert found == {
        ("pause", True): [], ("pause", False): [], ("pause", "due"): [], ("pause", "heads"): [], ("pause", "held"): [],
        ("resume", True): ids, ("resume", False): ids, ("resume", "due"): ["orders"], ("resume", "heads"): [hold],
        ("resume", "held"): ids[:1],
    }  # fmt: skip


class Counting(FaultyDatabase):
    """Counts the claims."""

    claims = 0

    async def fetch_fenced(self, name: str, *args: object, **more: Any) -> Sequence[Row]:
        self.claims += name.startswith("outbox.claim")
        return await super().fetch_fenced(name, *args, **more)


async def test_a_new_leader_sends_nothing_before_the_sink_is_resumed(harness: Harness) -> None:
    """CN-08: the leader that was there stops; the next one looks several times, then sends all in order."""
    broker, database = MemoryBroker(), Counting(harness.database)
    await harness.publish("k")
    async with running(relay_of(harness, MemorySink(broker))):
        await all_carried(harness)
        await turn(harness, "pause")
    before = len(broker.log)
    await harness.publish("k", "k", "k")
    relay = relay_of(harness, MemorySink(broker), database=database)
    async with running(relay):

        async def has_looked() -> bool:
            return relay.state == "leading" and database.claims >= 3

        await until(has_looked)
        meanwhile = len(broker.log)
        await turn(harness, "resume")
        await all_carried(harness)

    ids = broker.ids()
    assert (before, meanwhile, len(ids), ids) == (1, 1, 4, sorted(ids))
