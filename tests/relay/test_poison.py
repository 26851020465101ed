"""What follows when a broker refuses a record for good: the policies, and the verbs of people (RO-08)."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from relay.holds.hold import Holds, Policy
from relay.outbox import Outbox
from relay.sink import Batch, Receipt, Refusal
from tests.relay.harness import Harness, all_carried, relay_harness, relay_of, running
from tests.relay.memory import MemoryBroker, MemorySink
from tests.waiting import until


@pytest.fixture
async def harness(database_url: str) -> AsyncIterator[Harness]:
    async with relay_harness(database_url) as harness:
        yield harness


class Choosy(MemorySink):
    """Refuses the records whose payload is poison, as they come to their key's turn."""

    poison = True

    async def send(self, batch: Batch) -> Receipt:
        refused: list[Refusal] = []
        sent = []
        keys = set()
        for record in batch.records:
            if record.key in keys:
                continue
            if self.poison and record.payload == b"poison":
                refused.append(Refusal(record, "record", "too_large", "for this broker"))
                keys.add(record.key)
            else:
                sent.append(record)
        receipt = await super().send(Batch(batch.term, sent, batch.number))
        return Receipt(receipt.acknowledged, refused)


class Measured(Choosy):
    """Notes the size of the largest probe while everything is refused."""

    largest = 0

    async def send(self, batch: Batch) -> Receipt:
        if batch.is_probe and self.poison:
            self.largest = max(self.largest, len(batch.records))
        return await super().send(batch)


async def policy(harness: Harness, chosen: Policy | None) -> None:
    await harness.connection.execute(
        "INSERT INTO hookwire.topics (name, on_refused) VALUES ('orders', $1)"
        " ON CONFLICT (tenant, name) DO UPDATE SET on_refused = excluded.on_refused",
        chosen,
    )


def arrived(broker: MemoryBroker) -> list[int]:
    return [kept.record.id for kept in broker.log]


async def dead(harness: Harness) -> list[tuple[str, int, str | None, str]]:
    rows = await harness.connection.fetch(
        "SELECT sink, event_id, key, reason FROM hookwire.relay_dead_letters ORDER BY 2"
    )
    return [tuple(row) for row in rows]


async def poisoned(harness: Harness) -> list[int]:
    """a, poison of a, a, b."""
    first = await harness.publish("a")
    second = await harness.publish("a", payload=b"poison")
    return [*first, *second, *await harness.publish("a", "b")]


async def test_skip_gives_up_the_record_and_its_key_goes_on(harness: Harness) -> None:
    """RO-08; the ledger counts it as dead, so nothing is missing."""
    await policy(harness, "skip")
    ids = await poisoned(harness)
    broker = MemoryBroker()
    async with running(relay_of(harness, Choosy(broker))):
        await until(lambda: len(arrived(broker)) == 3)
        await until(outbox_is_empty(harness))
    assert (sorted(arrived(broker)), await dead(harness), await harness.holds()) == (
        [ids[0], ids[2], ids[3]], [("kafka", ids[1], "a", "too_large")], [],
    )  # fmt: skip
    outcomes = await harness.connection.fetch("SELECT outcome, n FROM hookwire.ledger_entries, unnest(ids) AS n")
    assert sorted(tuple(row) for row in outcomes) == sorted([
        ("dead", ids[1]), *[("sent", n) for n in (ids[0], ids[2], ids[3])],
    ])  # fmt: skip


def outbox_is_empty(harness: Harness) -> Any:
    async def empty() -> bool:
        return not await harness.owed() and not await harness.held()

    return empty


async def test_stop_lets_nothing_pass_until_the_record_is_taken(harness: Harness) -> None:
    """goharvest's way, for who wants it; what follows waits in the outbox, in order."""
    await policy(harness, "stop")
    ids = await poisoned(harness)
    broker, later = MemoryBroker(), []
    sink = Choosy(broker)
    harvester = relay_of(harness, sink)
    async with running(harvester):
        await until(lambda: "stopped at" in harvester.last_error)
        waiting = await harness.owed()
        sink.poison = False
        await until(outbox_is_empty(harness))
        later = [n for n in dict.fromkeys(arrived(broker)) if n in ids[:3]]
    assert (ids[1] in waiting, ids[2] in waiting, later, await harness.holds()) == (True, True, ids[:3], [])


async def test_a_policy_that_changes_frees_what_was_held(harness: Harness) -> None:
    ids = await poisoned(harness)
    broker = MemoryBroker()
    async with running(relay_of(harness, Choosy(broker))):
        await until(harness.held)
        await policy(harness, "skip")
        await harness.probe_now()
        await until(outbox_is_empty(harness))
    assert ([n for n in arrived(broker) if n != ids[3]], [row[1] for row in await dead(harness)]) == (
        [ids[0], ids[2]], [ids[1]],
    )  # fmt: skip


async def test_a_missing_destination_is_held_whatever_the_policy(harness: Harness) -> None:
    """A topic's events are never thrown away because its exchange is not there yet."""
    await policy(harness, "skip")
    (identity,) = await harness.publish("a")
    term = await harness.begin_term()
    holds = Holds(harness.database, "kafka", "i")
    outbox = Outbox(harness.database, "kafka", "i", payload=True)
    outbox.begin(range(64))
    (record,) = await outbox.claim(term, (), 1, 1_000)
    await holds.place(term, [Refusal(record, "topic", "missing", "")])
    assert (await harness.held(), await dead(harness)) == ([("orders", "", identity)], [])


async def test_a_backlog_of_refused_records_is_probed_by_a_few_until_one_is_taken(harness: Harness) -> None:
    """GW-01: what others publish meanwhile waits for a probe, so a probe is short."""
    keys = [f"key {n}" for n in range(300)]
    await harness.publish(*keys, payload=b"poison")
    broker = MemoryBroker()
    sink = Measured(broker)

    async def are_held() -> bool:
        return len(await harness.holds()) == len(keys)

    async with running(relay_of(harness, sink)):
        await until(are_held)
        await harness.probe_now()
        await until(lambda: sink.largest > 0)
        sink.poison = False
        await harness.probe_now()
        await all_carried(harness)
    assert (sink.largest, len(arrived(broker))) == (40, 300)


async def test_what_a_person_skips_or_takes_up_again_is_carried_by_the_leader(harness: Harness) -> None:
    """RO-08: skip one, replay it later; each is on record (who, what, why)."""
    ids = await poisoned(harness)
    broker = MemoryBroker()
    sink = Choosy(broker)
    async with running(relay_of(harness, sink)):
        await until(lambda: ids[3] in arrived(broker))
        await until(harness.held)
        hold = await harness.connection.fetchval("SELECT id FROM hookwire.holds")
        await harness.database.fetchrow("hold.skip", "default", hold, "alice", "too big", 1, "hold.skip", True)
        await until(outbox_is_empty(harness))
        skipped = await dead(harness)
        sink.poison = False
        await harness.database.fetchval("dead_letter.retry_record", "default", ids[1], "kafka", "bob", "limit raised")
        await until(lambda: ids[1] in arrived(broker))
        await until(outbox_is_empty(harness))
    audit = await harness.connection.fetch(
        "SELECT actor, action, subject, reason, records FROM hookwire.audit ORDER BY id"
    )
    assert skipped == [("kafka", ids[1], "a", "too_large")]
    assert ([tuple(row) for row in audit], await dead(harness)) == ([
        ("alice", "hold.skip", "kafka orders a", "too big", 1),
        ("bob", "dead_letter.retry", f"dead_kafka_{ids[1]}", "limit raised", 1),
    ], [])  # fmt: skip
