"""webhooks/settlement.py: results become rows, in batches, whatever happens in between."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from db.errors import Busy, DatabaseError, OutcomeUnknown, ServerTrouble, Unavailable
from tests.webhooks.bench import Bench, Gated, delivery_bench, until
from webhooks.outcome import Outcome
from webhooks.result import Result
from webhooks.retry import Decision
from webhooks.settlement import Settlement, write_results

STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
DELIVERED = Decision("delivered")
CALLBACK = "http://127.0.0.1:8000/"


@dataclass
class Harness:
    bench: Bench
    database: Gated
    settlement: Settlement
    subscription: int
    settled: list[Result] = field(default_factory=list)

    async def claim(self, *payloads: bytes, lease_seconds: float = 30.0) -> list[Any]:
        """Deliveries of a new event each, claimed."""
        await self.bench.deliver(*payloads)
        return await self.claim_due(lease_seconds)

    async def claim_due(self, lease_seconds: float = 30.0) -> list[Any]:
        rows = await self.bench.database.fetch("delivery.claim", [self.subscription], [100], lease_seconds, 0.0)
        return sorted(rows, key=lambda row: row["event_id"])

    def add(self, claimed: Any, decision: Decision = DELIVERED, outcome: Outcome | None = None) -> None:
        result = Result(
            claimed["event_id"], self.subscription, claimed["fence"], claimed["version"], STARTED,
            outcome or Outcome("delivered", 204), decision,
        )  # fmt: skip
        self.settlement.add(result)

    async def until_settled(self, results: int) -> None:
        async def enough() -> bool:
            return len(self.settled) >= results

        await until(enough)


@asynccontextmanager
async def settling(database_url: str) -> AsyncIterator[Harness]:
    settled: list[Result] = []

    def on_settled(results: Sequence[Result]) -> None:
        settled.extend(results)

    async with delivery_bench(database_url) as bench:
        database = Gated(bench.database)
        settlement = Settlement(database, "w", on_settled)
        subscription = await bench.subscribe(CALLBACK)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(settlement.run())
            try:
                yield Harness(bench, database, settlement, subscription, settled)
            finally:
                settlement.stop()


async def test_each_decision_leaves_its_rows(database_url: str) -> None:
    """WH-P07: attempt, delivery and dead letter in one statement."""
    async with settling(database_url) as harness:
        done, again, dead = await harness.claim(b"1", b"2", b"3")
        harness.add(done)
        harness.add(again, Decision("retry", 100.0), Outcome("timeout", None, "too slow"))
        harness.add(dead, Decision("dead", dead_kind="exhausted"), Outcome("server_error", 500, "no"))
        await harness.until_settled(3)
        assert await harness.bench.attempts(
            "event_id", "number", "started_at", "outcome", "status", "decision", "detail"
        ) == [
            (done["event_id"], 1, STARTED, "delivered", 204, "delivered", None),
            (again["event_id"], 1, STARTED, "timeout", None, "retry", "too slow"),
            (dead["event_id"], 1, STARTED, "server_error", 500, "dead", "no"),
        ]
        assert await harness.bench.deliveries() == [(again["event_id"], harness.subscription, 1, False)]
        due = await harness.bench.sql.fetchval("SELECT due_at > now() + interval '90 s' FROM hookwire.deliveries")
        assert (due, await harness.bench.dead_letters()) == (True, [(dead["event_id"], "exhausted", 1, 500)])


async def test_results_that_gather_during_a_write_go_out_together(database_url: str) -> None:
    async with settling(database_url) as harness:
        claimed = await harness.claim(*(b"%d" % n for n in range(50)))
        harness.database.gates["delivery.settle"] = asyncio.Event()
        harness.add(claimed[0])
        await until(lambda: passed(harness, 1))
        for one in claimed[1:]:
            harness.add(one)
        harness.database.gates["delivery.settle"].set()
        await harness.until_settled(50)
        assert harness.database.passed["delivery.settle"] == 2


async def passed(harness: Harness, times: int) -> bool:
    return harness.database.passed["delivery.settle"] >= times


async def test_a_result_of_an_earlier_claim_changes_nothing(database_url: str) -> None:
    """WH-I03."""
    async with settling(database_url) as harness:
        (first,) = await harness.claim(b"1", lease_seconds=0.0)
        (second,) = await harness.claim_due()
        harness.add(first, Decision("dead", dead_kind="exhausted"))
        await harness.until_settled(1)
        assert (await harness.bench.deliveries(), await harness.bench.dead_letters()) == (
            [(second["event_id"], harness.subscription, 2, True)],
            [],
        )


async def test_two_results_of_one_delivery_in_one_batch_are_one_attempt(database_url: str) -> None:
    """WH-I03: made under two claims of the same worker; only the later claim's counts."""
    async with settling(database_url) as harness:
        (first,) = await harness.claim(b"1", lease_seconds=0.0)
        (second,) = await harness.claim_due()
        harness.add(first, Decision("retry", 5.0), Outcome("timeout", None))
        harness.add(second)
        await harness.until_settled(2)
        assert await harness.bench.attempts("number", "outcome", "decision") == [(2, "delivered", "delivered")]
        assert (await harness.bench.deliveries(), harness.database.passed["delivery.settle"]) == ([], 1)


async def test_results_wait_for_a_database_that_is_away_and_are_written_once(database_url: str) -> None:
    """F42: also when the answer to a write was lost."""
    errors: list[DatabaseError] = [Unavailable("away"), Busy("locked"), OutcomeUnknown("lost")]
    async with settling(database_url) as harness:
        (claimed,) = await harness.claim(b"1")
        stuck = []
        for times, error in enumerate(errors, 1):
            harness.database.failing["delivery.settle"] = error
            if times == 1:
                harness.add(claimed)
            await until(lambda times=times: passed(harness, times))
            stuck.append(harness.settlement.is_stuck)
        harness.database.failing.clear()
        await harness.until_settled(1)
        assert (len(await harness.bench.attempts("number")), stuck[1:], harness.settlement.is_stuck) == (
            1,
            [True, True],
            False,
        )


async def test_results_wait_for_a_server_that_cannot_write_and_none_of_them_is_lost(database_url: str) -> None:
    """FC-06: a full disk and a read-only server are no fault of the results; each of them was thrown away."""
    async with settling(database_url) as harness:
        claimed = await harness.claim(b"1", b"2")
        name = await harness.bench.sql.fetchval("SELECT current_database()")
        await harness.bench.sql.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        await terminate(harness)
        for one in claimed:
            harness.add(one)
        await until(lambda: passed(harness, 3))
        waiting = (list(harness.settled), harness.settlement.is_stuck)
        await harness.bench.sql.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = off")
        await terminate(harness)
        await harness.until_settled(2)
        assert (waiting, await harness.bench.attempts("outcome"), await harness.bench.deliveries()) == (
            ([], True), [("delivered",), ("delivered",)], [],
        )  # fmt: skip


async def terminate(harness: Harness) -> None:
    """End the pool's sessions: the next ones begin with the database's new settings."""
    await harness.bench.sql.execute(
        "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )


@pytest.mark.parametrize("meanwhile", ["claimed", "dead letter"])
async def test_a_success_that_is_written_late_is_no_dead_letter_where_nothing_is_sent_twice(
    meanwhile: str, database_url: str
) -> None:
    """FC-06: while the settlement failed the lease ended, and another worker took the delivery for lost."""
    lost = Outcome("unknown", None, "its worker ended before the outcome was on record; it may have arrived")
    async with settling(database_url) as harness:
        await harness.bench.sql.execute("UPDATE hookwire.subscriptions SET at_most_once = true")
        (first,) = await harness.claim(b"1", lease_seconds=0.0)
        harness.database.failing["delivery.settle"] = ServerTrouble("53100", "No space left on device")
        harness.add(first)
        await until(lambda: passed(harness, 1))
        (second,) = await harness.claim_due()
        result = Result(
            second["event_id"], harness.subscription, second["fence"], second["version"], STARTED, lost,
            Decision("dead", dead_kind="internal"),
        )  # fmt: skip
        if meanwhile == "dead letter":
            await write_results(harness.bench.database, [result], "other")
        harness.database.failing.clear()
        await harness.until_settled(1)
        if meanwhile == "claimed":
            await write_results(harness.bench.database, [result], "other")
        found = [await harness.bench.deliveries(), await harness.bench.dead_letters()]
        assert (found, await harness.bench.attempts("outcome", "status", "decision", "detail")) == (
            [[], []], [("delivered", 204, "delivered", None)],
        )  # fmt: skip


async def test_a_write_whose_answer_was_lost_is_repeated_without_effect(database_url: str) -> None:
    async with settling(database_url) as harness:
        (claimed,) = await harness.claim(b"1")
        harness.database.failing["subscription.pause"] = OutcomeUnknown("lost")  # after the settlement itself
        harness.add(claimed, Decision("retry", 0.0, pause_seconds=30.0), Outcome("throttled", 429))
        await until(lambda: passed(harness, 2))
        harness.database.failing.clear()
        await harness.until_settled(1)
        assert await harness.bench.deliveries() == [(claimed["event_id"], harness.subscription, 1, False)]
        assert len(await harness.bench.attempts("number")) == 1


async def test_a_refused_result_is_found_by_halving(database_url: str) -> None:
    """WH-12: the others are written."""
    async with settling(database_url) as harness:
        claimed = await harness.claim(*(b"%d" % n for n in range(9)))
        harness.database.gates["delivery.settle"] = asyncio.Event()
        for number, one in enumerate(claimed):
            text = "nul \x00" if number == 5 else None
            harness.add(one, outcome=Outcome("delivered", 204, text))
        harness.database.gates["delivery.settle"].set()
        await harness.until_settled(9)
        left = [(event, has_claim) for event, _, _, has_claim in await harness.bench.deliveries()]
        assert (left, harness.settlement.is_stuck) == ([(claimed[5]["event_id"], True)], False)


async def test_a_pause_is_never_shortened(database_url: str) -> None:
    """WH-R07."""
    async with settling(database_url) as harness:
        claimed = await harness.claim(b"1", b"2")
        for one, seconds in zip(claimed, (300.0, 10.0), strict=True):
            harness.add(one, Decision("retry", 0.0, pause_seconds=seconds), Outcome("throttled", 429))
        await harness.until_settled(2)
        assert await harness.bench.sql.fetchval(
            "SELECT paused_until > now() + interval '290 s' FROM hookwire.subscriptions"
        )


async def test_gone_ends_the_subscription_and_what_it_was_owed(database_url: str) -> None:
    """WH-R09."""
    async with settling(database_url) as harness:
        first, *rest = await harness.claim(b"1", b"2", b"3")
        decision = Decision("dead", dead_kind="gone", end_state="gone", end_reason="answered 410")
        harness.add(first, decision, Outcome("gone", 410))
        await harness.until_settled(1)
        assert await harness.bench.subscription(harness.subscription) == ("gone", "answered 410")
        assert await harness.bench.deliveries() == []
        assert [(event, kind, attempts) for event, kind, attempts, _ in await harness.bench.dead_letters()] == [
            (one["event_id"], "gone", 1) for one in (first, *rest)
        ]


async def test_an_end_that_was_cut_short_is_finished_when_it_is_repeated(database_url: str) -> None:
    async with settling(database_url) as harness:
        first, _ = await harness.claim(b"1", b"2")
        harness.database.failing["delivery.cancel_ended"] = Unavailable("away")
        harness.add(first, Decision("dead", 0.0, "gone", None, "gone", "answered 410"), Outcome("gone", 410))
        await until(lambda: passed(harness, 2))
        harness.database.failing.clear()
        await harness.until_settled(1)
        assert (await harness.bench.deliveries(), len(await harness.bench.dead_letters())) == ([], 2)


async def test_an_answer_to_an_earlier_version_ends_nothing(database_url: str) -> None:
    """WH-I10: the subscription was changed while the attempt was under way."""
    async with settling(database_url) as harness:
        (claimed,) = await harness.claim(b"1")
        await harness.bench.change(harness.subscription, callback="http://127.0.0.1:8000/new")
        harness.add(claimed, Decision("delivered", end_state="disabled", end_reason="asked_by_receiver"))
        await harness.until_settled(1)
        assert await harness.bench.subscription(harness.subscription) == ("active", None)


async def test_a_stop_writes_what_is_there(database_url: str) -> None:
    async with settling(database_url) as harness:
        claimed = await harness.claim(*(b"%d" % n for n in range(20)))
        for one in claimed:
            harness.add(one)
        bench = harness.bench
        harness.settlement.stop()
        await harness.until_settled(20)
        assert len(await bench.attempts("number")) == 20
