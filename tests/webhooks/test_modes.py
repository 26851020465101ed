"""Modes of subscriptions: at least once, at most once, ordered with a head that is parked or skipped (WH-O01..O04)."""

import asyncio
from typing import Any

import pytest

from tests.hostile.server import Conversation, Script, answer, hostile_server
from tests.waiting import lasts, until
from tests.webhooks.bench import Bench, delivery_bench

OK = answer(204)


def refusing(*bodies: bytes) -> Script:
    """Answer 500 to these bodies, 204 to others."""

    async def script(conversation: Conversation) -> None:
        while True:
            request = await conversation.read_request()
            await conversation.send(answer(500) if request.body in bodies else OK)

    return script


async def states(bench: Bench) -> list[tuple[int, str]]:
    """Open deliveries as the API shows them."""
    largest = 2**63 - 1
    rows = await bench.database.fetch("delivery.list", "default", None, None, None, largest, largest, 100, 0)
    return sorted((row["event_id"], row["state"]) for row in rows)


async def in_flight(bench: Bench) -> int:
    return int(await bench.sql.fetchval("SELECT count(*) FROM hookwire.deliveries WHERE fence IS NOT NULL"))


@pytest.mark.parametrize("mode", ["at_least_once", "at_most_once", "ordered"])
async def test_how_often_and_in_which_order_a_failing_event_is_tried(database_url: str, mode: str) -> None:
    """WH-O01: 1 fails; 2 and 3 are of its key."""
    async with delivery_bench(database_url) as bench, hostile_server(refusing(b"1")) as server:
        await bench.subscribe(server.url(), ordered=mode == "ordered", at_most_once=mode == "at_most_once")
        await bench.deliver(b"1", b"2", b"3", key="k")
        async with bench.working(schedule_seconds=(0,)):
            await bench.drained()
        tried = [request.body for request in server.requests]
        assert (sorted(tried), mode != "ordered" or tried == [b"1", b"1", b"2", b"3"]) == (
            [b"1", b"2", b"3"] if mode == "at_most_once" else [b"1", b"1", b"2", b"3"],
            True,
        )


async def test_an_exhausted_head_that_is_parked_holds_back_its_key_and_no_other(database_url: str) -> None:
    """WH-O03, WH-O02, WH-O04: neither polls nor new events move it; events without a key are in no lane."""
    async with delivery_bench(database_url) as bench, hostile_server(refusing(b"1", b"free 1")) as server:
        await bench.subscribe(server.url(), ordered=True, on_exhausted="park")
        one, two = await bench.deliver(b"1", b"2", key="k")
        (free,) = await bench.deliver(b"free 1")
        await bench.deliver(b"other", key="other")
        async with bench.working(schedule_seconds=()):
            await bench.settled(3)
            (three,) = await bench.deliver(b"3", key="k")
            await until(lambda: quiet(bench))
        assert (await states(bench), await bench.dead_letters()) == (
            sorted([(one, "parked"), (two, "pending"), (three, "pending"), (free, "dead"), (three - 1, "delivered")]),
            [(free, "exhausted", 1, 500)],
        )
        assert await bench.attempts("outcome", "decision", subscription=None) == [
            ("server_error", "park"), ("server_error", "dead"), ("delivered", "delivered"),
        ]  # fmt: skip


async def quiet(bench: Bench) -> bool:
    """Two rounds of polls have found nothing that is due."""
    found = [
        await bench.database.fetch(name)
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

    async with delivery_bench(database_url) as bench, hostile_server(script) as server:
        subscription = await bench.subscribe(server.url(), ordered=True, on_exhausted="park")
        first, *_ = await bench.deliver(b"1", b"2", b"3", key="k")
        async with bench.working(schedule_seconds=()):
            await bench.settled()
            failing.clear()
            before = len(server.requests)
            await bench.database.fetchval(f"delivery.{verb}", "default", first, subscription, "me", "why not")
            await bench.drained()
        assert [request.body for request in server.requests[before:]] == decided
        audited = await bench.sql.fetchrow("SELECT actor, action, reason FROM hookwire.audit")
        dead = await bench.sql.fetch("SELECT detail FROM hookwire.dead_letters")
        assert (tuple(audited), [tuple(row) for row in dead]) == (
            ("me", "delivery.try" if verb == "retry_now" else "delivery.give_up", "why not"),
            [] if verb == "retry_now" else [("given up by me",)],
        )


async def test_what_is_being_sent_cannot_be_decided_about(database_url: str) -> None:
    async with delivery_bench(database_url) as bench:
        subscription = await bench.subscribe("http://127.0.0.1:1/")
        (event,) = await bench.deliver(b"1")
        await bench.database.fetch("delivery.claim", [subscription], [1], 15.0, 5.0)
        done: list[Any] = [
            await bench.database.fetchval(f"delivery.{verb}", "default", event, subscription, "me", None)
            for verb in ("retry_now", "dead_letter")
        ]
        assert (done, await in_flight(bench)) == ([None, None], 1)


async def test_at_most_once_means_that_a_claim_whose_worker_died_is_never_sent_again(database_url: str) -> None:
    """WH-O06: the attempt is on record before the request leaves; its outcome is unknown and it is a dead letter."""
    received: list[bytes] = []

    async def silent(conversation: Conversation) -> None:
        received.append((await conversation.read_request()).body)
        await lasts(60)

    async with delivery_bench(database_url) as bench, hostile_server(silent) as server:
        await bench.subscribe(server.url(), at_most_once=True, timeout_seconds=1.0)
        (event,) = await bench.deliver(b"1")
        async with bench.working(die=True, lease_margin_seconds=0.3):
            await until(lambda: claimed_and_sent(bench, received))
        async with bench.working():
            await bench.drained()
        assert (received, await bench.dead_letters()) == ([b"1"], [(event, "internal", 2, None)])
        assert await bench.attempts("outcome", "decision") == [("unknown", "dead")]


async def claimed_and_sent(bench: Bench, received: list[bytes]) -> bool:
    return bool(received) and await in_flight(bench) == 1


async def test_at_most_once_never_uses_a_kept_connection(database_url: str) -> None:
    """WH-O06: one that the peer has closed meanwhile would make the client send again."""
    async with delivery_bench(database_url) as bench, hostile_server() as server:
        await bench.subscribe(server.url("/ok"), at_most_once=True)
        await bench.deliver(b"1", b"2", b"3")
        async with bench.working(slots={"per_subscription": 1}):
            await bench.drained()
        assert (len(server.requests), server.connections) == (3, 3)


async def test_at_most_once_gives_back_what_it_has_not_begun_to_send(database_url: str) -> None:
    """WH-O06: a soft stop loses nothing."""
    release = asyncio.Event()

    async def held(conversation: Conversation) -> None:
        while True:
            await conversation.read_request()
            await release.wait()
            await conversation.send(OK)

    async with delivery_bench(database_url) as bench, hostile_server(held) as server:
        await bench.subscribe(server.url(), at_most_once=True)
        await bench.deliver(b"1", b"2", b"3")
        async with bench.working(slots={"per_subscription": 1}) as worker:
            await server.until(lambda one: len(one.requests) == 1)
            worker.stop()
            release.set()
        assert [row[2:] for row in await bench.deliveries()] == [(0, False), (0, False)]
        async with bench.working():
            await bench.drained()
        assert (len(server.requests), await bench.dead_letters()) == (3, [])
