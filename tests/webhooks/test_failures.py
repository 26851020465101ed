"""Failures in a row, and the attempts a breaker is judged by, of all workers together (WH-I07, WH-I08)."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any

from tests.hostile.server import hostile_server
from tests.waiting import until
from tests.webhooks.harness import Harness, delivery_harness
from webhooks.breaker import BreakerOptions, FailureStats, has_to_open
from webhooks.outcome import Outcome
from webhooks.result import Result
from webhooks.retry import Decision
from webhooks.settlement import write_results

CALLBACK = "http://127.0.0.1:8000/"
AT = datetime(2026, 1, 2, tzinfo=UTC)
FAILED, FINE, REFUSED = Outcome("server_error", 500), Outcome("delivered", 204), Outcome("client_error", 400)
WORKERS = ("w1", "w2")
USUAL = BreakerOptions()


async def settle(
    harness: Harness, subscription: int, *outcomes: Outcome, breaker: BreakerOptions = USUAL
) -> Sequence[FailureStats]:
    """Claim as many deliveries as there are outcomes, and settle them together."""
    rows = await harness.database.fetch("delivery.claim", [subscription], [len(outcomes)], 60.0, 0.0, None)
    assert len(rows) == len(outcomes)
    results = [
        Result(
            row["event_id"], subscription, row["fence"], row["version"], AT, outcome,
            Decision("delivered") if outcome is FINE else Decision("retry", 0.0),
            failed=outcome is FAILED,
        )
        for row, outcome in zip(rows, outcomes, strict=True)
    ]  # fmt: skip
    return await write_results(harness.database, results, "w", breaker)


async def kept(harness: Harness) -> list[tuple[Any, ...]]:
    return [
        tuple(row)
        for row in await harness.sql.fetch("SELECT subscription_id, failures, failed FROM hookwire.delivery_failures")
    ]


async def test_failures_are_counted_on_from_settlement_to_settlement_until_a_success(database_url_both: str) -> None:
    """WH-I08."""
    async with delivery_harness(database_url_both) as harness:
        subscription = await harness.subscribe(CALLBACK)
        await harness.deliver(*[b"{}"] * 20)
        first = await settle(harness, subscription, FAILED, FAILED)
        second = await settle(harness, subscription, REFUSED, FAILED)
        third = await settle(harness, subscription, FAILED, FINE, FAILED)
        assert [*first, *second, *third] == [
            FailureStats(subscription, 0, 2, 2, 2, last_failed=True, is_unknown=True),
            FailureStats(subscription, 2, 4, 4, 3, last_failed=True),
            FailureStats(subscription, 4, 1, 7, 5, last_failed=True),
        ]


async def test_nothing_is_kept_of_who_does_not_fail(database_url: str) -> None:
    """The healthy pay nothing: neither a row nor a statement."""
    async with delivery_harness(database_url) as harness:
        subscription = await harness.subscribe(CALLBACK)
        await harness.deliver(*[b"{}"] * 3)
        all_stats = await settle(harness, subscription, FINE, FINE, FINE)
        assert (all_stats, await kept(harness)) == ([], [])


async def test_the_window_holds_so_many_attempts_and_no_older_ones(database_url: str) -> None:
    """WH-I07."""
    async with delivery_harness(database_url) as harness:
        subscription = await harness.subscribe(CALLBACK)
        await harness.deliver(*[b"{}"] * 40)
        options = BreakerOptions(attempts_max=3)
        await settle(harness, subscription, FAILED, breaker=options)
        (full,) = await settle(harness, subscription, FINE, FAILED, FINE, breaker=options)
        await harness.sql.execute(
            "UPDATE hookwire.delivery_failures"
            " SET settled_at = ARRAY(SELECT u - interval '1 day' FROM unnest(settled_at) u)"
        )
        (later,) = await settle(harness, subscription, FAILED, breaker=options)
        assert (full.attempts, full.failed, full.last_failed, later.attempts, later.failed) == (3, 1, False, 1, 1)


async def test_what_passes_an_open_breaker_counts_in_the_row_and_not_towards_opening_it(database_url: str) -> None:
    """WH-I07: what was on its way when it opened says nothing new; WH-I08: it is a failure all the same."""
    async with delivery_harness(database_url) as harness:
        subscription = await harness.subscribe(CALLBACK)
        await harness.deliver(*[b"{}"] * 40)
        (before,) = await settle(harness, subscription, *[FAILED] * 10)
        await harness.database.fetchrow("throttle.trip", subscription, 0.0, 600.0, None, False)
        (probe,) = await settle(harness, subscription, FAILED)
        assert (has_to_open(before, BreakerOptions()), probe) == (
            True, FailureStats(subscription, 10, 11, 0, 0, last_failed=False),
        )  # fmt: skip


async def test_two_workers_that_settle_at_once_lose_no_failure_of_each_other(database_url_both: str) -> None:
    """WH-I08: also the very first ones, when neither finds a row."""
    async with delivery_harness(database_url_both) as harness:
        subscriptions = [await harness.subscribe(CALLBACK) for _ in range(3)]
        await harness.deliver(*[b"{}"] * 40)
        for _ in range(5):
            await asyncio.gather(*(settle(harness, one, FAILED, FAILED) for one in subscriptions for _ in range(2)))
        assert sorted((one, failures) for one, failures, _ in await kept(harness)) == [
            (subscription, 20) for subscription in subscriptions
        ]


async def test_two_workers_open_a_breaker_together_that_none_would_alone(database_url: str) -> None:
    """WH-I07: six attempts of each, where ten are needed."""
    options = BreakerOptions(open_seconds=3600)
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        subscription = await harness.subscribe(server.url("/status/500"))
        for worker in WORKERS:
            await harness.deliver(*[b"{}"] * 6)
            async with harness.working(name=worker, breaker=options, schedule_seconds=(3600,)):
                await harness.settled(6 if worker == "w1" else 12)
        opened = await harness.sql.fetchval("SELECT trips FROM hookwire.delivery_gates")
        by_worker = await harness.sql.fetch("SELECT worker, count(*) FROM hookwire.attempts GROUP BY 1 ORDER BY 1")
        assert (opened, [tuple(row) for row in by_worker]) == (1, [("w1", 6), ("w2", 6)])
        assert await kept(harness) == [(subscription, 12, [])]


async def test_operators_hear_of_a_row_that_two_workers_have_made(database_url: str) -> None:
    """WH-I08: fifty failures in a row, twenty-five of each worker, are told once."""
    async with delivery_harness(database_url) as harness, hostile_server() as server, AsyncExitStack() as workers:
        await harness.subscribe(server.url("/status/500"))
        await harness.subscribe("http://127.0.0.1:65534/", topic="hookwire.operator")
        for number, worker in enumerate(WORKERS):
            await harness.deliver(*[b"{}"] * 25)
            await workers.enter_async_context(harness.working(name=worker, schedule_seconds=(3600,)))
            await harness.settled(25 * (number + 1))

        async def told() -> list[Any]:
            rows = await harness.sql.fetch("SELECT payload FROM hookwire.events WHERE topic = 'hookwire.operator'")
            return [json.loads(row["payload"]) for row in rows]

        heard = await until(told)
        assert [(one["type"], one["failures"]) for one in heard] == [("subscription.failing", 50)]


async def test_who_is_well_again_is_forgotten(database_url: str) -> None:
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        subscription = await harness.subscribe(server.url("/status/500"))
        await harness.deliver(b"{}")
        options = BreakerOptions(attempts_max=2)
        async with harness.working(breaker=options, schedule_seconds=(3600,)):
            await harness.settled(1)
        failed = await kept(harness)
        await harness.change(subscription, callback=server.url("/ok"))
        await harness.deliver(*[b"{}"] * 2)
        async with harness.working(breaker=options):
            await harness.settled(3)
            await until(lambda: nobody(harness))
        assert failed == [(subscription, 1, [True])]


async def nobody(harness: Harness) -> bool:
    return not await kept(harness)


async def test_the_row_goes_with_its_subscription(database_url: str) -> None:
    async with delivery_harness(database_url) as harness:
        subscription = await harness.subscribe(CALLBACK)
        await harness.deliver(b"{}")
        await settle(harness, subscription, FAILED)
        await harness.database.execute("subscription.forget_secrets", subscription)
        assert await kept(harness) == []
