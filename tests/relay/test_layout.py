"""Layouts, changed while relays carry: on a real PostgreSQL, with real leases and brokers in memory (RO-05, RR-11)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import asyncpg
import pytest

from db.direct import Direct, connect_direct
from db.statements import STATEMENTS
from relay.election.lease import LeaseOptions, Leases
from relay.election.leases_table import ensure_leases
from relay.key_order import one_topic_of_each_key, refusals_by_key
from relay.layout import LayoutChange, LayoutPlan, LayoutRefused, Relayout, read_layout
from relay.sink import Batch, Features, Receipt, Refusal, Sink, SinkUnavailable, Term
from tests.relay.harness import (
    DEADLINE_SECONDS,
    INCARNATION,
    Harness,
    all_carried,
    publish,
    relay_harness,
    relay_of,
    running,
)
from tests.relay.kafka.test_batches import record
from tests.relay.memory import MemoryBroker, MemorySink
from tests.waiting import until

NUMBERED = Features(window="batch", batch_records_max=20, overlap=2, manifests=True)


@pytest.fixture
async def harness(database_url: str) -> AsyncIterator[Harness]:
    async with relay_harness(database_url, groups=2) as opened:
        yield opened


def relayout(harness: Harness, broker: MemoryBroker, said: list[str] | None = None, patience: float = 20.0) -> Relayout:
    async def connect() -> Direct:
        return await connect_direct(harness.database.options)

    def sink(_: str) -> Sink:
        return MemorySink(broker, NUMBERED)

    return Relayout(harness.database, connect, INCARNATION, sink, (said if said is not None else []).append, patience)


@asynccontextmanager
async def two_relays(harness: Harness, broker: MemoryBroker) -> AsyncIterator[None]:
    """Two processes that share the groups by leases."""
    async with AsyncExitStack() as stack:
        for owner in ("one", "two"):
            leases = Leases(
                harness.database, lambda: connect_direct(harness.database.options), [harness.sink],
                LeaseOptions(owner, poll_seconds=0.05),
            )  # fmt: skip
            heartbeat = asyncio.create_task(leases.run())
            stack.push_async_callback(asyncio.wait_for, heartbeat, DEADLINE_SECONDS)
            stack.callback(leases.stop)
            relay = relay_of(harness, lambda: MemorySink(broker, NUMBERED), election=leases.election(harness.sink))
            await stack.enter_async_context(running(relay))
        yield


async def groups_led(harness: Harness) -> list[int]:
    found = await harness.connection.fetch("SELECT grp FROM hookwire.relay_terms WHERE owner IS NOT NULL ORDER BY grp")
    return [row["grp"] for row in found]


@asynccontextmanager
async def publishing(harness: Harness, keys: Sequence[str], topics: Sequence[str]) -> AsyncIterator[list[int]]:
    """Publish all the while; the ids, in commit order of one writer."""
    ids: list[int] = []
    stopping = asyncio.Event()

    async def write() -> None:
        connection = await asyncpg.connect(harness.url)
        number = 0
        while not stopping.is_set():
            ids.extend(await publish(connection, [keys[number % len(keys)]], topics[number % len(topics)]))
            number += 1
        await connection.close()

    writer = asyncio.create_task(write())
    try:
        yield ids
    finally:
        stopping.set()
        await writer


async def test_the_number_of_groups_changes_while_two_relays_carry_and_a_writer_publishes(harness: Harness) -> None:
    """RO-05, RR-11, I1, I3, I4: more groups, then fewer; nothing is lost, repeated or out of order."""
    broker, said = MemoryBroker(), []
    change = relayout(harness, broker, said)
    async with two_relays(harness, broker), publishing(harness, ["a", "b", "c", "d", "e"], ["orders"]) as ids:
        await until(lambda: len(broker.log) > 50)
        for count in (5, 1):
            await change.run(LayoutChange({"kafka": count}), "me", None)
            await until(lambda: groups_led_are(harness, count))  # noqa: B023 - called at once
            seen = len(broker.log)
            await until(lambda: len(broker.log) > seen + 50)  # noqa: B023 - called at once
    async with two_relays(harness, broker):
        await all_carried(harness)
    assert sorted(broker.ids()) == ids
    assert [broker.ids(key) for key in "abcde"] == [sorted(broker.ids(key)) for key in "abcde"]
    assert (await read_layout(harness.database)).groups == {"kafka": 1}
    assert any(line.startswith("fencing kafka, group 4 of 5") for line in said)


async def groups_led_are(harness: Harness, count: int) -> bool:
    return await groups_led(harness) == list(range(count))


async def test_holds_move_to_the_groups_that_their_records_belong_to(harness: Harness) -> None:
    """RR-11, RO-08: a topic is held by each group for its own keys, and drained by it."""
    broker = MemoryBroker()
    broker.missing.add("orders")
    ids = await harness.publish(*(f"key {number}" for number in range(12)))
    async with two_relays(harness, broker):
        await until(lambda: held_are(harness, 12))
    await relayout(harness, broker).run(LayoutChange({"kafka": 7}), "me", None)
    rows = await harness.connection.fetch("SELECT DISTINCT grp, shard % 7 AS mine FROM hookwire.held ORDER BY grp")
    holds = await harness.connection.fetch("SELECT grp FROM hookwire.holds ORDER BY grp")
    broker.missing.clear()
    await harness.probe_now()
    async with two_relays(harness, broker):
        await all_carried(harness)
    assert ([row["grp"] for row in rows], sorted(broker.ids())) == ([row["mine"] for row in rows], ids)
    assert [row["grp"] for row in holds] == [row["grp"] for row in rows]


async def held_are(harness: Harness, count: int) -> bool:
    return len(await harness.held()) == count


async def test_a_producer_that_cannot_be_fenced_leaves_the_layout_as_it_was(harness: Harness) -> None:
    broker = MemoryBroker()
    broker.down = True
    change = relayout(harness, broker, patience=0.3)
    await harness.database.execute("term.ensure", ["kafka"])
    with pytest.raises(SinkUnavailable, match="kafka/0 can't be fenced"):
        await change.run(LayoutChange({"kafka": 3}), "me", None)
    rows = await harness.connection.fetch("SELECT grp, is_open FROM hookwire.relay_terms ORDER BY grp")
    present = await read_layout(harness.database)
    assert ([tuple(row) for row in rows], present.groups) == ([(0, True), (1, True)], {"kafka": 2})


async def test_seats_that_a_killed_change_left_closed_are_opened_by_the_next(harness: Harness) -> None:
    await harness.database.execute("term.ensure", ["kafka"])
    await harness.connection.execute("UPDATE hookwire.relay_terms SET is_open = false")
    said: list[str] = []
    plan = await relayout(harness, MemoryBroker(), said).run(LayoutChange({"kafka": 2}), "me", None)
    closed = await harness.connection.fetchval("SELECT count(*) FROM hookwire.relay_terms WHERE NOT is_open")
    assert (plan.sinks, closed) == ([], 0)
    assert said == ["an earlier change was cut off: 2 leases of layout 1 are open again"]


async def test_a_relay_that_starts_meanwhile_makes_no_seat_of_the_layout_before(harness: Harness) -> None:
    """RR-11: two leaders would have the shards of such a lease."""
    await ensure_leases(harness.database, ["kafka"])
    async with harness.connection.transaction():
        number = await harness.connection.fetchval(STATEMENTS["layout.add"], '{"kafka": 1}', "topic_key")
        await harness.connection.execute(STATEMENTS["layout.ensure_leases"], ["kafka"], number)
        starting = asyncio.ensure_future(ensure_leases(harness.database, ["kafka"]))
        await until(lambda: is_waiting(harness))
    await starting
    leases = await harness.connection.fetch("SELECT grp, layout FROM hookwire.relay_terms ORDER BY grp")
    assert [tuple(lease) for lease in leases] == [(0, number)]


async def is_waiting(harness: Harness) -> bool:
    found = await harness.connection.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)")
    return bool(found)


async def test_two_changes_at_a_time_are_one_too_many(harness: Harness) -> None:
    await harness.connection.execute("SELECT pg_advisory_lock(1215262571, -5)")
    with pytest.raises(LayoutRefused, match="another process"):
        await relayout(harness, MemoryBroker()).run(LayoutChange({"kafka": 3}), "me", None)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (LayoutChange({"kafka": 0}), "kafka=0: a sink has 1 to 64 groups"),
        (LayoutChange({"kafka": 65}), "kafka=65: a sink has 1 to 64 groups"),
        (LayoutChange({"pigeon": 2}), "pigeon: this installation has no such sink; it has kafka"),
    ],
    ids=["none", "too many", "unknown"],
)
async def test_what_cannot_be_is_refused(harness: Harness, change: LayoutChange, says: str) -> None:
    with pytest.raises(LayoutRefused, match=says):
        await relayout(harness, MemoryBroker()).plan(change)


# --- the order scope ----------------------------------------------------------------------------------------------


async def by_key(harness: Harness, broker: MemoryBroker) -> LayoutPlan:
    return await relayout(harness, broker).run(LayoutChange({}, "key"), "me", None)


async def test_with_order_scope_key_a_key_is_one_lane_through_all_topics(harness: Harness) -> None:
    """RG-10, RO-03: whatever waits is hashed anew; of a key no two topics are ever in one batch."""
    broker, keys, topics = MemoryBroker(), ["a", "b", "c"], ["orders", "bills", "news", "x"]
    waiting = [(await harness.publish(key, topic=topic))[0] for topic in topics for key in keys]
    await by_key(harness, broker)
    shards = await harness.connection.fetch(
        "SELECT DISTINCT e.key, o.shard FROM hookwire.outbox o JOIN hookwire.events e USING (id)"
    )
    async with two_relays(harness, broker), publishing(harness, keys, topics) as ids:
        await until(lambda: len(broker.log) > 100)
    async with two_relays(harness, broker):
        await all_carried(harness)
    assert len(shards) == len(keys)
    assert [broker.ids(key) for key in keys] == [sorted(broker.ids(key)) for key in keys]
    assert sorted(broker.ids()) == [*waiting, *ids]


async def test_with_order_scope_key_poison_in_one_topic_holds_the_key_in_all(harness: Harness) -> None:
    """RG-10, RO-08."""
    broker = MemoryBroker()
    broker.record_bytes_max = 10
    await by_key(harness, broker)
    await harness.publish("sick", topic="orders", payload=bytes(20))
    [follower] = await harness.publish("sick", topic="bills")
    hour = await harness.connection.fetchval(
        "SELECT date_trunc('hour', accepted_at, 'UTC') FROM hookwire.events LIMIT 1"
    )
    well = await harness.publish("well", topic="bills")
    async with two_relays(harness, broker):
        await until(lambda: held_are(harness, 2))
        await until(lambda: broker.ids() == well)
        told = await harness.connection.fetch(STATEMENTS["event.sink_states"], "default", follower)
        judged = await harness.connection.fetch(
            STATEMENTS["lake.accepted"], "", "bills", hour, follower & 3, follower - 1, follower, 10
        )
        held, broker.record_bytes_max = await harness.holds(), None
        await harness.probe_now()
        await all_carried(harness)
    assert (held, broker.ids("sick")) == ([("orders", "sick")], sorted(broker.ids("sick")))
    assert [(row["state"], bool(row["reason"])) for row in told] == [("held", True)]
    assert [row["state"] for row in judged] == ["waiting"]


async def test_with_order_scope_key_a_dead_letter_names_its_own_topic(harness: Harness) -> None:
    """RG-10, RO-08: not that of the record behind which it waited."""
    broker = MemoryBroker()
    broker.record_bytes_max = 10
    await by_key(harness, broker)
    await harness.publish("sick", topic="orders", payload=bytes(20))
    await harness.publish("sick", topic="bills")
    async with two_relays(harness, broker):
        await until(lambda: held_are(harness, 2))
    hold = await harness.connection.fetchval("SELECT id FROM hookwire.holds")
    await harness.database.fetchrow("hold.skip", "default", hold, "alice", "too big", 10, "hold.purge", True)
    dead = await harness.connection.fetch("SELECT topic, reason FROM hookwire.relay_dead_letters ORDER BY event_id")
    assert [tuple(row) for row in dead] == [("orders", "too_large"), ("bills", "purged_with_key")]


async def test_with_order_scope_key_a_key_that_waits_with_its_topic_waits_in_all(harness: Harness) -> None:
    """RG-10: the topic is held whole because of a record without a key."""
    broker = MemoryBroker()
    broker.missing.add("orders")
    await relayout(harness, broker).run(LayoutChange({"kafka": 1}, "key"), "me", None)
    async with two_relays(harness, broker):
        await harness.publish(None, topic="orders")
        await until(lambda: held_are(harness, 1))
        waiting = [(await harness.publish("k", topic=topic))[0] for topic in ("orders", "bills")]
        await until(lambda: nothing_is_owed(harness))
        held = await harness.holds()
        broker.missing.clear()
        await harness.probe_now()
        await all_carried(harness)
    assert (held, broker.ids("k")) == ([("orders", ""), ("orders", "k")], waiting)


async def nothing_is_owed(harness: Harness) -> bool:
    return not await harness.owed()


async def test_the_order_scope_does_not_change_while_records_are_held(harness: Harness) -> None:
    await harness.connection.execute(
        "INSERT INTO hookwire.holds (sink, tenant, topic, key, reason, detail, probe_at)"
        " VALUES ('kafka', 'default', 't', 'k', 'x', '', now())"
    )
    with pytest.raises(LayoutRefused, match="hookwire deadletters list"):
        await by_key(harness, MemoryBroker())


async def test_publishers_whose_transaction_began_before_the_change_use_the_new_rule(harness: Harness) -> None:
    """RR-11: a snapshot of before the change, as REPEATABLE READ keeps it, still sees the new hash."""
    writer = await asyncpg.connect(harness.url)
    await writer.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM hookwire.topics")
    await by_key(harness, MemoryBroker())
    await publish(writer, ["k"], "orders")
    await publish(writer, ["k"], "bills")
    await writer.execute("COMMIT")
    await writer.close()
    assert await harness.connection.fetchval("SELECT count(DISTINCT shard) FROM hookwire.outbox") == 1


def test_of_each_key_only_what_comes_before_its_first_change_of_topic_is_taken() -> None:
    """RG-10."""
    records = [
        record(1, topic="a", key="k"), record(2, topic="b", key="l"), record(3, topic="b", key="k"),
        record(4, topic="a", key="k"), record(5, topic="b", key="l"), record(6, topic="c", key=None),
    ]  # fmt: skip
    assert [one.id for one in one_topic_of_each_key(records)] == [1, 2, 5, 6]


def test_a_topic_that_takes_nothing_holds_every_key_that_stands_before_it() -> None:
    records = [record(1, topic="a", key="k"), record(2, topic="a", key="l"), record(3, topic="b", key="m")]
    receipt = Receipt([records[2]], [Refusal(records[0], "topic", "absent", "")])
    batch = Batch(Term("kafka", 0, 1, 1, 0, order_scope="key"), records)
    assert [refusal.record.id for refusal in refusals_by_key(batch, receipt)] == [1, 2]
