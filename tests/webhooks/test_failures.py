"""Failures in a row, and the attempts a breaker is judged by, of all workers together (WH-I07, WH-I08)."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any

from tests.hostile.server import hostile_server
from tests.webhooks.bench import Bench, delivery_bench, until
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
    bench: Bench, subscription: int, *outcomes: Outcome, breaker: BreakerOptions = USUAL
) -> Sequence[FailureStats]:
    """Claim as many deliveries as there are outcomes, and settle them together."""
    rows = await bench.database.fetch("delivery.claim", [subscription], [len(outcomes)], 60.0, 0.0)
    assert len(rows) == len(outcomes)
    results = [
        Result(
            row["event_id"], subscription, row["fence"], row["version"], AT, outcome,
            Decision("delivered") if outcome is FINE else Decision("retry", 0.0),
            failed=outcome is FAILED,
        )
        for row, outcome in zip(rows, outcomes, strict=True)
    ]  # fmt: skip
    return await write_results(bench.database, results, "w", breaker)


async def kept(bench: Bench) -> list[tuple[Any, ...]]:
    return [
        tuple(row)
        for row in await bench.sql.fetch("SELECT subscription_id, failures, failed FROM hookwire.delivery_failures")
    ]


async def test_failures_are_counted_on_from_settlement_to_settlement_until_a_success(database_url_both: str) -> None:
    """WH-I08."""
    async with delivery_bench(database_url_both) as bench:
        subscription = await bench.subscribe(CALLBACK)
        await bench.deliver(*[b"{}"] * 20)
        first = await settle(bench, subscription, FAILED, FAILED)
        second = await settle(bench, subscription, REFUSED, FAILED)
        third = await settle(bench, subscription, FAILED, FINE, FAILED)
        assert [*first, *second, *third] == [
            FailureStats(subscription, 0, 2, 2, 2, last_failed=True, is_unknown=True),
            FailureStats(subscription, 2, 4, 4, 3, last_failed=True),
            FailureStats(subscription, 4, 1, 7, 5, last_failed=True),
        ]


async def test_nothing_is_kept_of_who_does_not_fail(database_url: str) -> None:
    """The healthy pay nothing: neither a row nor a statement."""
    async with delivery_bench(database_url) as bench:
        subscription = await bench.subscribe(CALLBACK)
        await bench.deliver(*[b"{}"] * 3)
        all_stats = await settle(bench, subscription, FINE, FINE, FINE)
        assert (all_stats, await kept(bench)) == ([], [])


async def test_the_window_holds_so_many_attempts_and_no_older_ones(database_url: str) -> None:
    """WH-I07."""
    async with delivery_bench(database_url) as bench:
        subscription = await bench.subscribe(CALLBACK)
        await bench.deliver(*[b"{}"] * 40)
        options = BreakerOptions(attempts_max=3)
        await settle(bench, subscription, FAILED, breaker=options)
        (full,) = await settle(bench, subscription, FINE, FAILED, FINE, breaker=options)
        await bench.sql.execute(
            "UPDATE hookwire.delivery_failures"
            " SET settled_at = ARRAY(SELECT u - interval '1 day' FROM unnest(settled_at) u)"
        )
        (later,) = await settle(bench, subscription, FAILED, breaker=options)
        assert (full.attempts, full.failed, full.last_failed, later.attempts, later.failed) == (3, 1, False, 1, 1)


async def test_what_passes_an_open_breaker_counts_in_the_row_and_not_towards_opening_it(database_url: str) -> None:
    """WH-I07: what was on its way when it opened says nothing new; WH-I08: it is a failure all the same."""
    async with delivery_bench(database_url) as bench:
        subscription = await bench.subscribe(CALLBACK)
        await bench.deliver(*[b"{}"] * 40)
        (before,) = await settle(bench, subscription, *[FAILED] * 10)
        await bench.database.fetchrow("throttle.trip", subscription, 0.0, 600.0, None, False)
        (probe,) = await settle(bench, subscription, FAILED)
        assert (has_to_open(before, BreakerOptions()), probe) == (
            True, FailureStats(subscription, 10, 11, 0, 0, last_failed=False),
        )  # fmt: skip


async def test_two_workers_that_settle_at_once_lose_no_failure_of_each_other(database_url_both: str) -> None:
    """WH-I08: also the very first ones, when neither finds a row."""
    async with delivery_bench(database_url_both) as bench:
        subscriptions = [await bench.subscribe(CALLBACK) for _ in range(3)]
        await bench.deliver(*[b"{}"] * 40)
        for _ in range(5):
            await asyncio.gather(*(settle(bench, one, FAILED, FAILED) for one in subscriptions for _ in range(2)))
        assert sorted((one, failures) for one, failures, _ in await kept(bench)) == [
            (subscription, 20) for subscription in subscriptions
        ]


async def test_two_workers_open_a_breaker_together_that_none_would_alone(database_url: str) -> None:
    """WH-I07: six attempts of each, where ten are needed."""
    options = BreakerOptions(open_seconds=3600)
    async with delivery_bench(database_url) as bench, hostile_server() as server:
        subscription = await bench.subscribe(server.url("/status/500"))
        for worker in WORKERS:
            await bench.deliver(*[b"{}"] * 6)
            async with bench.working(name=worker, breaker=options, schedule_seconds=(3600,)):
                await bench.settled(6 if worker == "w1" else 12)
        opened = await bench.sql.fetchval("SELECT trips FROM hookwire.delivery_gates")
        by_worker = await bench.sql.fetch("SELECT worker, count(*) FROM hookwire.attempts GROUP BY 1 ORDER BY 1")
        assert (opened, [tuple(row) for row in by_worker]) == (1, [("w1", 6), ("w2", 6)])
        assert await kept(bench) == [(subscription, 12, [])]


async def test_operators_hear_of_a_row_that_two_workers_have_made(database_url: str) -> None:
    """WH-I08: fifty failures in a row, twenty-five of each worker, are told once."""
    async with delivery_bench(database_url) as bench, hostile_server() as server, AsyncExitStack() as workers:
        await bench.subscribe(server.url("/status/500"))
        await bench.subscribe("http://127.0.0.1:65534/", topic="hookwire.operator")
        for number, worker in enumerate(WORKERS):
            await bench.deliver(*[b"{}"] * 25)
            await workers.enter_async_context(bench.working(name=worker, schedule_seconds=(3600,)))
            await bench.settled(25 * (number + 1))

        async def told() -> list[Any]:
            rows = await bench.sql.fetch("SELECT payload FROM hookwire.events WHERE topic = 'hookwire.operator'")
            return [json.loads(row["payload"]) for row in rows]

        heard = await until(told)
        assert [(one["type"], one["failures"]) for one in heard] == [("subscription.failing", 50)]


async def test_who_is_well_again_is_forgotten(database_url: str) -> None:
    async with delivery_bench(database_url) as bench, hostile_server() as server:
        subscription = await bench.subscribe(server.url("/status/500"))
        await bench.deliver(b"{}")
        options = BreakerOptions(attempts_max=2)
        async with bench.working(breaker=options, schedule_seconds=(3600,)):
            await bench.settled(1)
        failed = await kept(bench)
        await bench.change(subscription, callback=server.url("/ok"))
        await bench.deliver(*[b"{}"] * 2)
        async with bench.working(breaker=options):
            await bench.settled(3)
            await until(lambda: nobody(bench))
        assert failed == [(subscription, 1, [True])]


async def nobody(bench: Bench) -> bool:
    return not await kept(bench)


async def test_the_row_goes_with_its_subscription(database_url: str) -> None:
    async with delivery_bench(database_url) as bench:
        subscription = await bench.subscribe(CALLBACK)
        await bench.deliver(b"{}")
        await settle(bench, subscription, FAILED)
        await bench.database.execute("subscription.forget_secrets", subscription)
        assert await kept(bench) == []
