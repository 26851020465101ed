"""Several events in one request, for subscribers that asked for it, on a real database (WH-C05, WH-C11)."""

import asyncio
import json
from typing import Any

from cloudevents.core.bindings.http import HTTPMessage, from_structured
from cloudevents.core.formats.json import JSONFormat
from standardwebhooks.webhooks import Webhook

from tests.hostile.server import Conversation, Received, Script, answer, hostile_server
from tests.webhooks.harness import Harness, delivery_harness
from webhooks.breaker import BreakerOptions

BATCH = "application/cloudevents-batch+json"
HOUR = 3600
ONE = {"total": 64, "per_subscription": 64, "per_host": 1}
"""One request after the other, and room for what is unproven."""


def members(request: Received) -> list[dict[str, Any]]:
    """The events of one request."""
    found: list[dict[str, Any]] = json.loads(request.body)
    return found


def at_most(size: int) -> Script:
    """A receiver that finds longer batches too large."""

    async def script(conversation: Conversation) -> None:
        while True:
            request = await conversation.read_request()
            await conversation.send(answer(204 if len(members(request)) <= size else 413))

    return script


async def throttled(conversation: Conversation) -> None:
    while True:
        await conversation.read_request()
        await conversation.send(answer(429))


async def batching(harness: Harness, callback: str, batch_max: int = 3, **more: Any) -> int:
    return await harness.subscribe(callback, format="batch", batch_max=batch_max, **more)


async def test_what_is_due_together_goes_together_and_no_more_than_was_asked_for(database_url: str) -> None:
    """WH-C05, WH-S02: in order, signed, and each member is what the official library reads."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        subscription = await batching(harness, server.url("/ok"))
        await harness.deliver(*(b'{"n":%d}' % n for n in range(7)), content_type="application/json")
        async with harness.working(slots=ONE):
            await harness.drained()
        events = [one for request in server.requests for one in members(request)]
        read = [from_structured(HTTPMessage({}, json.dumps(one).encode()), JSONFormat()) for one in events]
        assert [len(members(request)) for request in server.requests] == [3, 3, 1]
        assert [one.get_data() for one in read] == [{"n": n} for n in range(7)]
        assert {request.header("content-type") for request in server.requests} == {BATCH.encode()}
        assert await harness.attempts("decision", "number") == [("delivered", 1)] * 7
        for request in server.requests:
            named = {name.decode().lower(): value.decode() for name, value in request.headers}
            Webhook(harness.secrets[subscription]).verify(request.body, named)


async def test_a_batch_that_fails_is_tried_again_under_the_same_id(database_url: str) -> None:
    """WH-S05: each event of it by its own schedule; the breaker counts one request, not its events."""
    replies = [answer(500), answer(204)]

    async def script(conversation: Conversation) -> None:
        while True:
            await conversation.read_request()
            await conversation.send(replies.pop(0))

    breaker = BreakerOptions(attempts_min=3)
    async with delivery_harness(database_url) as harness, hostile_server(script) as server:
        await batching(harness, server.url("/"), 10)
        await harness.deliver(*[b"x"] * 5)
        async with harness.working(breaker=breaker, schedule_seconds=(0,)):
            await harness.drained()
        first, second = server.requests
        assert (first.header("webhook-id"), first.body) == (second.header("webhook-id"), second.body)
        assert await harness.attempts("number", "decision") == [(1, "retry"), (2, "delivered")] * 5


async def test_a_batch_that_is_too_large_is_halved_and_loses_nothing(database_url: str) -> None:
    """DL-6: 413 says something of the batch; of an event only when it is alone."""
    async with delivery_harness(database_url) as harness, hostile_server(at_most(2)) as server:
        await batching(harness, server.url("/"), 8)
        await harness.deliver(*(b"%d" % n for n in range(8)))
        async with harness.working(slots=ONE):
            await harness.drained()
        assert [len(members(request)) for request in server.requests] == [8, 4, 2, 2, 2, 2]
        assert (await harness.dead_letters(), await harness.attempts("number", "decision")) == (
            [],
            [(1, "delivered")] * 8,
        )


async def test_an_event_that_is_too_large_alone_is_a_dead_letter(database_url: str) -> None:
    async with delivery_harness(database_url) as harness, hostile_server(at_most(0)) as server:
        await batching(harness, server.url("/"), 8)
        await harness.deliver(b"1", b"2")
        async with harness.working():
            await harness.drained()
        assert [(kind, status) for _, kind, _, status in await harness.dead_letters()] == [("declined", 413)] * 2


async def test_a_429_rests_the_subscription_once(database_url: str) -> None:
    """WH-R07: what is owed waits, each event of the batch."""
    async with delivery_harness(database_url) as harness, hostile_server(throttled) as server:
        subscription = await batching(harness, server.url("/"), 8)
        await harness.deliver(*[b"x"] * 4)
        async with harness.working(schedule_seconds=(HOUR,)):
            await harness.settled(4)
        paused = await harness.sql.fetchval(
            "SELECT paused_until > now() + interval '50 seconds' FROM hookwire.subscriptions WHERE id = $1",
            subscription,
        )
        assert (paused, len(server.requests), len(await harness.deliveries())) == (True, 1, 4)


async def test_a_format_that_we_do_not_read_goes_alone(database_url: str) -> None:
    """WH-C06: it cannot be a member of a JSON array."""
    avro = "application/cloudevents+avro"
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        await batching(harness, server.url("/ok"), 8)
        for payload, content_type in ((b"1", "text/plain"), (b"\x00avro", avro), (b"2", "text/plain")):
            await harness.publish(payload, content_type=content_type)
        await harness.fan_out()
        async with harness.working(slots=ONE):
            await harness.drained()
        assert [(one.header("content-type"), one.body == b"\x00avro") for one in server.requests] == [
            (BATCH.encode(), False), (avro.encode(), True), (BATCH.encode(), False),
        ]  # fmt: skip


async def test_an_ordered_subscription_has_one_event_of_a_key_in_a_batch(database_url: str) -> None:
    """WH-O02."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        await batching(harness, server.url("/ok"), 8, ordered=True)
        for key in "ab":
            await harness.publish(b"1", b"2", b"3", key=key)
        await harness.fan_out()
        async with asyncio.timeout(60), harness.working(poll_seconds=0.05):
            await harness.drained()
        keys = [[one["partitionkey"] for one in members(request)] for request in server.requests]
        assert all(len(set(batch)) == len(batch) for batch in keys)
        assert sorted(key for batch in keys for key in batch) == ["a"] * 3 + ["b"] * 3
