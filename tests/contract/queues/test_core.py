"""What a queue of the SDK does in PostgreSQL, MariaDB and MySQL alike: one suite for each database and driver."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hookwire.jobs import Message
from tests.contract.queues.places import Place, done
from tests.waiting import lasts


def bodies(messages: list[Message]) -> list[str]:
    return [message.payload.decode() for message in messages]


async def test_the_walk_through_of_the_article(place: Place) -> None:
    """GM-03, JT-01: 4, accept one 3, reject two 3, accept two 1, ask for two and get one 0."""
    await place.prepare()
    counts = []
    await place.submit("1", "2", "3", "4")
    counts.append(await place.count())
    await place.accept(await place.receive())
    counts.append(await place.count())
    await place.reject(await place.receive(2))
    counts.append(await place.count())
    await place.accept(await place.receive(2))
    counts.append(await place.count())
    last = await place.receive(2)
    await place.accept(last)
    counts.append(await place.count())

    assert (counts, bodies(last)) == ([4, 3, 3, 1, 0], ["4"])


async def test_a_message_keeps_its_contents(place: Place) -> None:
    """JB-02, JB-11: also those of a batch, in its order."""
    await place.prepare()
    await place.begin(place.sql)
    ids = await done(place.queue.submit_many(place.sql, [{"n": 1}, "two", b"\xff\x00'"]))
    await place.run(place.sql, "COMMIT")
    await place.submit(b"4", type="t", key="k", headers={"h": "1"})
    first, two, raw, four = await place.receive(9)

    assert [one.id for one in (first, two, raw)] == ids
    assert (first.json(), first.content_type, two.payload, raw.payload) == (
        {"n": 1}, "application/json", b"two", b"\xff\x00'",
    )  # fmt: skip
    assert (four.type, four.key, four.headers, four.attempts) == ("t", "k", {"h": "1"}, 1)
    assert first.leased_until > first.created_at


async def test_nobody_waits_for_a_submitter_that_idles_in_its_transaction(place: Place) -> None:
    """JB-02, RR-04: its message at the head is unseen, those behind it are received, settled and returned."""
    await place.prepare()
    other = await place.connect()
    await place.begin(other)
    await done(place.queue.submit(other, "idle"))
    await place.submit("accepted", "rejected")
    async with asyncio.timeout(20):
        received = await place.receive(9)
        await place.accept(received[:1])
        await place.reject(received[1:])
        again = await place.receive(9, in_order=False)
    await place.run(other, "COMMIT")

    assert (bodies(received), bodies(again), bodies(await place.receive(9))) == (
        ["accepted", "rejected"], ["rejected"], ["idle"],
    )  # fmt: skip


@pytest.mark.parametrize("in_order", [True, False])
async def test_receivers_share_the_messages(place: Place, in_order: bool) -> None:
    """JT-02, JB-03, JB-04: each message once, each batch in order and with a claim of its own."""
    await place.prepare()
    await place.begin(place.sql)
    await done(place.queue.submit_many(place.sql, ["x"] * 1000))
    await place.run(place.sql, "COMMIT")
    batches: list[list[Message]] = []

    async def drain(connection: Any) -> None:
        while await done(place.queue.count(connection)):
            batches.append(await done(place.queue.receive(connection, 30, in_order=in_order)))

    await asyncio.gather(*[drain(await place.connect()) for _ in range(4)])
    ids = [[message.id for message in batch] for batch in batches if batch]
    claims = [{message.claim for message in batch} for batch in batches if batch]

    assert (sum(map(len, ids)), len({one for batch in ids for one in batch})) == (1000, 1000)
    assert all(batch == sorted(batch) for batch in ids)
    assert (len(set.union(*claims)), {len(claim) for claim in claims}) == (len(batches) - batches.count([]), {1})


async def test_a_stale_claim_changes_nothing(place: Place) -> None:
    """JB-60, JT-07: the verbs name the messages that were still held."""
    await place.prepare()
    await place.submit("1", "2")
    [first, second] = await place.receive(2)
    accepted = [await place.accept([first]), await place.accept([first, second]), await place.accept([second])]
    stale = [await place.reject([first]), await done(place.queue.extend(place.sql, [second], 60))]

    assert (accepted, stale) == ([[first.id], [second.id], []], [[], []])


async def test_a_rejected_message_keeps_its_place_or_waits_or_is_dead(place: Place) -> None:
    """JB-06."""
    await place.prepare()
    await place.submit("1", "2", "3")
    await place.reject(await place.receive(), counts=False)
    [again] = await place.receive()
    await place.reject([again], delay_seconds=3600)
    await place.reject(await place.receive(), dead=True, reason="bad")
    rest = await place.receive(9)

    assert (again.payload, again.attempts, bodies(rest), await place.count()) == (b"1", 1, ["3"], 0)


async def test_a_reason_that_the_database_cannot_store_is_cleaned(place: Place) -> None:
    """GB-06: a worker hands on the text of any error."""
    await place.prepare()
    await place.submit("1")
    held = await place.receive()

    assert await place.reject(held, dead=True, reason="b\0a\ud800d") == [held[0].id]


async def test_what_was_not_settled_returns_until_it_is_dead(place: Place) -> None:
    """JB-08, JB-61, JT-08: a worker dies after each receive; the second delivery is the last."""
    await place.prepare(deliveries_max=2)
    await place.submit("poison")
    await place.submit("delayed", delay_seconds=0.01)
    found = []
    for _ in range(4):
        await lasts(0.06)
        await done(place.queue.reap(place.sql, 100))
        received = await place.receive(9, lease_seconds=0.05)
        found.append(bodies(received))
        await place.accept([one for one in received if one.payload == b"delayed"])

    assert (found, await place.count()) == ([["poison", "delayed"], ["poison"], [], []], 0)


async def test_settling_belongs_to_the_open_transaction(place: Place) -> None:
    """JB-67, JB-05: rolled back, the message is still held; with an archive too."""
    await place.prepare(archive=True)
    await place.submit("x")
    received = await place.receive()
    await place.begin(place.sql)
    accepted = await place.accept(received)
    await place.run(place.sql, "ROLLBACK")

    assert (accepted, await place.accept(received)) == ([received[0].id], [received[0].id])


async def test_a_filter_leaves_the_others(place: Place) -> None:
    """JB-17."""
    await place.prepare()
    await place.submit("1", "3", type="a")
    await place.submit("2", type="b")
    chosen = await place.receive(9, filter={"type": "b"})

    assert (bodies(chosen), bodies(await place.receive(9))) == (["2"], ["1", "3"])


async def test_browsing_takes_nothing(place: Place) -> None:
    """JB-14."""
    await place.prepare()
    ids = await place.submit("1", "2", "3")
    seen = await done(place.queue.browse(place.sql, 9, after_id=ids[0]))

    assert (bodies(seen), await place.accept(seen), await place.count()) == (["2", "3"], [], 3)


async def test_an_extended_lease_does_not_end(place: Place) -> None:
    """JB-62."""
    await place.prepare()
    await place.submit("x")
    held = await place.receive(lease_seconds=0.05)
    await done(place.queue.extend(place.sql, held, 60))
    await lasts(0.06)
    await done(place.queue.reap(place.sql))

    assert (await place.receive(), await place.accept(held)) == ([], [held[0].id])
