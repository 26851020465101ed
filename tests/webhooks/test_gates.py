"""Rate limits and breakers on a real database, for all workers together (WH-I06, WH-I07, WH-I09)."""

import asyncio
import time
from typing import Any

import asyncpg
import pytest

from tests.hostile.server import Conversation, Script, answer, hostile_server
from tests.waiting import until
from tests.webhooks.harness import Harness, delivery_harness
from webhooks.breaker import BreakerOptions

OK = answer(204)
CALLBACK = "http://127.0.0.1:8000/"


async def limited(harness: Harness, callback: str, **columns: Any) -> int:
    """A subscription with a rate limit, as the API makes it."""
    subscription = await harness.subscribe(callback, **columns)
    await harness.database.execute("throttle.ensure", subscription)
    return subscription


async def claim(harness: Harness, subscription: int, most: int = 100) -> tuple[int, float | None]:
    """How many a claim gets, and after how many seconds another one is worth its while."""
    rows = await harness.database.fetch("delivery.claim", [subscription], [most], 15.0, 5.0, None)
    waits = [row["wait_seconds"] for row in rows if row["event_id"] is None]
    return len(rows) - len(waits), waits[0] if waits else None


async def pass_time(harness: Harness, seconds: float) -> None:
    """For the gates."""
    await harness.sql.execute(
        "UPDATE hookwire.delivery_gates SET refilled_at = refilled_at - make_interval(secs => $1),"
        " open_until = open_until - make_interval(secs => $1),"
        " failing_since = failing_since - make_interval(secs => $1)",
        seconds,
    )


# --- rate limits -------------------------------------------------------------------------------------------------


async def test_a_claim_gets_as_many_as_there_are_tokens_and_is_told_when_there_is_one_more(
    database_url_both: str,
) -> None:
    """WH-I06: a burst, then the rate; what is above it waits and is still there."""
    async with delivery_harness(database_url_both) as harness:
        subscription = await limited(harness, CALLBACK, rate_per_second=0.5, rate_burst=3)
        await harness.deliver(*[b"{}"] * 10)
        first, second = await claim(harness, subscription), await claim(harness, subscription)
        await pass_time(harness, 4.0)
        third = await claim(harness, subscription)
        assert [count for count, _ in (first, second, third)] == [3, 0, 2]
        assert all(wait is not None and 0 < wait <= 2 for _, wait in (first, second, third))
        assert len(await harness.deliveries(subscription)) == 10


async def test_tokens_never_pile_up_above_the_burst(database_url: str) -> None:
    async with delivery_harness(database_url) as harness:
        subscription = await limited(harness, CALLBACK, rate_per_second=0.5, rate_burst=3)
        await harness.deliver(*[b"{}"] * 10)
        await pass_time(harness, 10_000.0)
        assert (await claim(harness, subscription))[0] == 3


async def test_two_workers_share_one_bucket(database_url: str) -> None:
    """WH-I06: fleet-wide; while one claims, the other is told to come again."""
    async with delivery_harness(database_url) as harness:
        subscription = await limited(harness, CALLBACK, rate_per_second=0.001, rate_burst=5)
        await harness.deliver(*[b"{}"] * 10)
        found = await asyncio.gather(*(claim(harness, subscription, 4) for _ in range(8)))
        while sum(count for count, _ in found) < 5:
            found.append(await claim(harness, subscription, 4))
        assert sum(count for count, _ in [*found, await claim(harness, subscription)]) == 5


async def test_a_claim_that_gets_nothing_to_send_uses_up_no_tokens(database_url: str) -> None:
    async with delivery_harness(database_url) as harness:
        subscription = await limited(harness, CALLBACK, rate_per_second=0.001, rate_burst=2)
        empty = [await claim(harness, subscription) for _ in range(5)]
        await harness.deliver(b"{}", b"{}")
        assert (empty, (await claim(harness, subscription))[0]) == ([(0, None)] * 5, 2)


async def test_deliveries_above_the_rate_are_delayed_and_not_dropped(database_url: str) -> None:
    """WH-I06: two workers; another subscription is not held up."""
    async with delivery_harness(database_url) as harness, hostile_server() as server, hostile_server() as other:
        await limited(harness, server.url("/ok"), rate_per_second=20.0, rate_burst=5)
        await harness.subscribe(other.url("/ok"))
        await harness.deliver(*(b"%d" % n for n in range(25)))
        started = time.monotonic()
        async with harness.working(), harness.working(name="w2"):
            await harness.drained()
        took = time.monotonic() - started
        assert (len(server.requests), len(other.requests)) == (25, 25)
        assert (took >= 19 / 20, await harness.dead_letters()) == (True, [])


# --- breakers ----------------------------------------------------------------------------------------------------


def failing_until(recovered: asyncio.Event) -> Script:
    async def script(conversation: Conversation) -> None:
        while True:
            await conversation.read_request()
            await conversation.send(OK if recovered.is_set() else answer(500))

    return script


async def gate(harness: Harness) -> tuple[int, float] | None:
    """Trips, and how many seconds it is still open."""
    row = await harness.sql.fetchrow(
        "SELECT trips, extract(epoch FROM open_until - now())::float FROM hookwire.delivery_gates"
    )
    return None if row is None else tuple(row)


async def opened(harness: Harness, trips: int = 1) -> bool:
    found = await gate(harness)
    return found is not None and found[0] >= trips


async def test_a_failing_subscription_is_left_alone_then_probed_by_one_delivery(database_url: str) -> None:
    """WH-I07: what it is owed waits and uses up no attempts; the other subscription goes on."""
    recovered = asyncio.Event()
    options = BreakerOptions(open_seconds=3600, open_seconds_max=10_000)
    async with (
        delivery_harness(database_url) as harness,
        hostile_server(failing_until(recovered)) as server,
        hostile_server() as other,
    ):
        subscription = await harness.subscribe(server.url())
        await harness.subscribe(other.url("/ok"))
        await harness.deliver(*(b"%d" % n for n in range(40)))
        async with harness.working(breaker=options, slots={"per_subscription": 5}, schedule_seconds=(0,) * 20):
            await until(lambda: opened(harness))
            await harness.settled(40)
            before = len(server.requests)
            seconds = (await gate(harness) or (0, 0.0))[1]
            await pass_time(harness, 3601.0)
            await until(lambda: opened(harness, 2))
            probes = len(server.requests) - before
            doubled = (await gate(harness) or (0, 0.0))[1]
            recovered.set()
            await pass_time(harness, 10_000.0)
            await harness.drained()
        attempts = await harness.attempts("count(*) OVER ()", subscription=subscription)
        assert (before < 40, probes, 3500 < seconds <= 3600, 7000 < doubled <= 7200) == (True, 1, True, True)
        assert (attempts[0][0], await harness.dead_letters(), await gate(harness)) == (len(server.requests), [], None)


async def test_an_open_breaker_is_passed_by_one_claim_of_all(database_url: str) -> None:
    """WH-I07: half-open is one probe in the whole fleet, for as long as its lease."""
    async with delivery_harness(database_url) as harness:
        subscription = await harness.subscribe(CALLBACK)
        await harness.deliver(*[b"{}"] * 10)
        await harness.database.fetchrow("throttle.trip", subscription, 30.0, 600.0, None, False)
        shut = await claim(harness, subscription)
        due = await harness.database.fetch("delivery.due_subscriptions")
        await pass_time(harness, 31.0)
        found = await asyncio.gather(*(claim(harness, subscription) for _ in range(6)))
        found.append(await claim(harness, subscription))
        assert (shut[0], 29 < (shut[1] or 0) <= 30, due, sum(count for count, _ in found)) == (0, True, [], 1)


async def test_workers_that_all_find_that_it_has_to_open_open_it_once(database_url: str) -> None:
    """WH-I07: the first time is not the longer, the more workers there are; a failed probe doubles it."""
    async with delivery_harness(database_url) as harness:
        subscription = await harness.subscribe(CALLBACK)
        for _ in range(6):
            await harness.database.fetchrow("throttle.trip", subscription, 30.0, 600.0, None, False)
        first = await gate(harness)
        await harness.database.fetchrow("throttle.trip", subscription, 30.0, 600.0, None, True)
        again = await gate(harness)
        assert [(trips, round(seconds)) for trips, seconds in filter(None, (first, again))] == [(1, 30), (2, 60)]


async def test_a_closed_breaker_keeps_the_gate_of_a_rate_limit(database_url: str) -> None:
    async with delivery_harness(database_url) as harness:
        subscription = await limited(harness, CALLBACK, rate_per_second=1.0)
        await harness.database.fetchrow("throttle.trip", subscription, 30.0, 600.0, None, False)
        await harness.database.fetchval("throttle.close", [subscription])
        assert await gate(harness) == (0, None)


@pytest.mark.parametrize(
    ("protocol", "state"),
    [("webhook", ("disabled", "failing since ")), ("websub", ("active", ""))],
)
async def test_who_has_failed_for_long_is_disabled_with_the_reason_but_never_websub_s(
    database_url: str, protocol: str, state: tuple[str, str]
) -> None:
    """DL-9, WH-I09, WH-R15."""
    async with delivery_harness(database_url) as harness:
        make = harness.subscribe if protocol == "webhook" else harness.subscribe_websub
        subscription = await make(CALLBACK)
        await harness.database.fetchrow("throttle.trip", subscription, 30.0, 600.0, 1000.0, False)
        young = await harness.subscription(subscription)
        await pass_time(harness, 1001.0)
        await harness.database.fetchrow("throttle.trip", subscription, 30.0, 600.0, 1000.0, True)
        found, reason = await harness.subscription(subscription)
        assert (young, (found, (reason or "")[:14])) == (("active", None), state)


async def test_a_gate_goes_with_its_subscription(database_url: str) -> None:
    async with delivery_harness(database_url) as harness:
        subscription = await limited(harness, CALLBACK, rate_per_second=1.0)
        await harness.database.execute("subscription.forget_secrets", subscription)
        assert await gate(harness) is None


async def test_a_rate_is_above_zero(database_url: str) -> None:
    async with delivery_harness(database_url) as harness:
        with pytest.raises(asyncpg.CheckViolationError):
            await harness.subscribe(CALLBACK, rate_per_second=0.0)
