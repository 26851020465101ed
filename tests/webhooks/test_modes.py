"""Modes of subscriptions: at least once, at most once, ordered with a head that is parked or skipped (WH-O01..O04)."""

import asyncio
from typing import Any

import pytest

from tests.hostile.server import Conversation, Script, answer, hostile_server
from tests.waiting import lasts, until
from tests.webhooks.harness import Harness, delivery_harness

OK = answer(204)


def refusing(*bodies: bytes) -> Script:
    """Answer 500 to these bodies, 204 to others."""

    async def script(conversation: Conversation) -> None:
        while True:
            request = await conversation.read_request()
            await conversation.send(answer(500) if request.body in bodies else OK)

    return script


async def states(harness: Harness) -> list[tuple[int, str]]:
    """Open deliveries as the API shows them."""
    largest = 2**63 - 1
    rows = await harness.database.fetch(
        "delivery.list", "default", None, None, None, largest, largest, 100, 0, None, None, 0
    )
    return sorted((row["event_id"], row["state"]) for row in rows)


async def in_flight(harness: Harness) -> int:
    return int(await harness.sql.fetchval("SELECT count(*) FROM hookwire.deliveries WHERE fence IS NOT NULL"))


@pytest.mark.parametrize("mode", ["at_least_once", "at_most_once", "ordered"])
async def test_how_often_and_in_which_order_a_failing_event_is_tried(database_url: str, mode: str) -> None:
    """WH-O01: 1 fails; 2 and 3 are of its key."""
    async with delivery_harness(database_url) as harness, hostile_server(refusing(b"1")) as server:
        await harness.subscribe(server.url(), ordered=mode == "ordered", at_most_once=mode == "at_most_once")
        await harness.deliver(b"1", b"2", b"3", key="k")
        async with harness.working(schedule_seconds=(0,)):
            await harness.drained()
        tried = [request.body for request in server.requests]
        assert (sorted(tried), mode != "ordered" or tried == [b"1", b"1", b"2", b"3"]) == (
            [b"1", b"2", b"3"] if mode == "at_most_once" else [b"1", b"1", b"2", b"3"],
            True,
        )


async def test_an_exhausted_head_that_is_parked_holds_back_its_key_and_no_other(database_url: str) -> None:
    """WH-O03, WH-O02, WH-O04: neither polls nor new events move it; events without a key are in no lane."""
    async with delivery_harness(database_url) as harness, hostile_server(refusing(b"1", b"free 1")) as server:
        await harness.subscribe(server.url(), ordered=True, on_exhausted="park")
        one, two = await harness.deliver(b"1", b"2", key="k")
        (free,) = await harness.deliver(b"free 1")
        await harness.deliver(b"other", key="other")
        async with harness.working(schedule_seconds=()):
            await harness.settled(3)
            (three,) = await harness.deliver(b"3", key="k")
            await until(lambda: quiet(harness))
        assert (await states(harness), await harness.dead_letters()) == (
            sorted([(one, "parked"), (two, "pending"), (three, "pending"), (free, "dead"), (three - 1, "delivered")]),
            [(free, "exhausted", 1, 500)],
        )
        assert await harness.attempts("outcome", "decision", subscription=None) == [
            ("server_error", "park"), ("server_error", "dead"), ("delivered", "delivered"),
        ]  # fmt: skip


async def quiet(harness: Harness) -> bool:
    """Two rounds of polls have found nothing that is due."""
    found = [
        await harness.database.fetch(name)
        for name in ("delivery.due_subscriptions", "delivery.promote_heads")
        for _ in "12"
    ]
    return not any(found)


@pytest.mark.parametrize(("verb", "decided"), [("retry_now", [b"1", b"2", b"3"]), ("dead_letter", [b"2", b"3"])])
async def test_somebody_decides_about_a_parked_head(database_url: str, verb: str, decided: list[bytes]) -> None:
    """WH-O03: it has its whole schedule again, or is dead; its key goes on in order; who said so is on record."""
    failing = [b"1"]

    async def script(conversation: Conversation) -> None:
        while True:
            request = await conversation.read_request()
            await conversation.send(answer(500) if request.body in failing else OK)

    async with delivery_harness(database_url) as harness, hostile_server(script) as server:
        subscription = await harness.subscribe(server.url(), ordered=True, on_exhausted="park")
        first, *_ = await harness.deliver(b"1", b"2", b"3", key="k")
        async with harness.working(schedule_seconds=()):
            await harness.settled()
            failing.clear()
            before = len(server.requests)
            await harness.database.fetchval(f"delivery.{verb}", "default", first, subscription, "me", "why not")
            await harness.drained()
        assert [request.body for request in server.requests[before:]] == decided
        audited = await harness.sql.fetchrow("SELECT actor, action, reason FROM hookwire.audit")
        dead = await harness.sql.fetch("SELECT detail FROM hookwire.dead_letters")
        assert (tuple(audited), [tuple(row) for row in dead]) == (
            ("me", "delivery.try" if verb == "retry_now" else "delivery.give_up", "why not"),
            [] if verb == "retry_now" else [("given up by me",)],
        )


async def test_what_is_being_sent_cannot_be_decided_about(database_url: str) -> None:
    async with delivery_harness(database_url) as harness:
        subscription = await harness.subscribe("http://127.0.0.1:1/")
        (event,) = await harness.deliver(b"1")
        await harness.database.fetch("delivery.claim", [subscription], [1], 15.0, 5.0, None)
        done: list[Any] = [
            await harness.database.fetchval(f"delivery.{verb}", "default", event, subscription, "me", None)
            for verb in ("retry_now", "dead_letter")
        ]
        assert (done, await in_flight(harness)) == ([None, None], 1)


async def test_at_most_once_means_that_a_claim_whose_worker_died_is_never_sent_again(database_url: str) -> None:
    """WH-O06: the attempt is on record before the request leaves; its outcome is unknown and it is a dead letter."""
    received: list[bytes] = []

    async def silent(conversation: Conversation) -> None:
        received.append((await conversation.read_request()).body)
        await lasts(60)

    async with delivery_harness(database_url) as harness, hostile_server(silent) as server:
        await harness.subscribe(server.url(), at_most_once=True, timeout_seconds=1.0)
        (event,) = await harness.deliver(b"1")
        async with harness.working(die=True, lease_margin_seconds=0.3):
            await until(lambda: claimed_and_sent(harness, received))
        async with harness.working():
            await harness.drained()
        assert (received, await harness.dead_letters()) == ([b"1"], [(event, "internal", 2, None)])
        assert await harness.attempts("outcome", "decision") == [("unknown", "dead")]


async def claimed_and_sent(harness: Harness, received: list[bytes]) -> bool:
    return bool(received) and await in_flight(harness) == 1


async def test_at_most_once_never_uses_a_kept_connection(database_url: str) -> None:
    """WH-O06: one that the peer has closed meanwhile would make the client send again."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        await harness.subscribe(server.url("/ok"), at_most_once=True)
        await harness.deliver(b"1", b"2", b"3")
        async with harness.working(slots={"per_subscription": 1}):
            await harness.drained()
        assert (len(server.requests), server.connections) == (3, 3)


async def test_at_most_once_gives_back_what_it_has_not_begun_to_send(database_url: str) -> None:
    """WH-O06: a soft stop loses nothing."""
    release = asyncio.Event()

    async def held(conversation: Conversation) -> None:
        while True:
            await conversation.read_request()
            await release.wait()
            await conversation.send(OK)

    async with delivery_harness(database_url) as harness, hostile_server(held) as server:
        await harness.subscribe(server.url(), at_most_once=True)
        await harness.deliver(b"1", b"2", b"3")
        async with harness.working(slots={"per_subscription": 1}) as worker:
            await server.until(lambda one: len(one.requests) == 1)
            worker.stop()
            release.set()
        assert [row[2:] for row in await harness.deliveries()] == [(0, False), (0, False)]
        async with harness.working():
            await harness.drained()
        assert (len(server.requests), await harness.dead_letters()) == (3, [])
