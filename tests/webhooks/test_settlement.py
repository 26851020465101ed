"""webhooks/settlement.py: results become rows, in batches, whatever happens in between."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from db.errors import Busy, DatabaseError, OutcomeUnknown, ServerTrouble, Unavailable
from tests.waiting import poll, until
from tests.webhooks.harness import Gated, Harness, delivery_harness
from webhooks.outcome import Outcome
from webhooks.result import Result
from webhooks.retry import Decision
from webhooks.settlement import Settlement, write_results

STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
DELIVERED = Decision("delivered")
CALLBACK = "http://127.0.0.1:8000/"


@dataclass
class SettlementHarness:
    harness: Harness
    database: Gated
    settlement: Settlement
    subscription: int
    settled: list[Result] = field(default_factory=list)

    async def claim(self, *payloads: bytes, lease_seconds: float = 30.0) -> list[Any]:
        """Deliveries of a new event each, claimed."""
        await self.harness.deliver(*payloads)
        return await self.claim_due(lease_seconds)

    async def claim_due(self, lease_seconds: float = 30.0) -> list[Any]:
        rows = await self.harness.database.fetch("delivery.claim", [self.subscription], [100], lease_seconds, 0.0, None)
        return sorted(rows, key=lambda row: row["event_id"])

    def add(
        self, claimed: Any, decision: Decision = DELIVERED, outcome: Outcome | None = None, *, may_wait: bool = False
    ) -> None:
        result = Result(
            claimed["event_id"], self.subscription, claimed["fence"], claimed["version"], STARTED,
            outcome or Outcome("delivered", 204), decision, may_wait=may_wait,
        )  # fmt: skip
        self.settlement.add(result)

    async def until_settled(self, results: int) -> None:
        async def enough() -> bool:
            return len(self.settled) >= results

        await until(enough)


@asynccontextmanager
async def settling(
    database_url: str, gather_seconds: float = 0.0, few_seconds: float = 0.0
) -> AsyncIterator[SettlementHarness]:
    settled: list[Result] = []

    def on_settled(results: Sequence[Result]) -> None:
        settled.extend(results)

    async with delivery_harness(database_url) as harness:
        database = Gated(harness.database)
        settlement = Settlement(database, "w", on_settled, gather_seconds=gather_seconds, few_seconds=few_seconds)
        subscription = await harness.subscribe(CALLBACK)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(settlement.run())
            try:
                yield SettlementHarness(harness, database, settlement, subscription, settled)
            finally:
                settlement.stop()


async def test_each_decision_leaves_its_rows(database_url: str) -> None:
    """WH-P07: attempt, delivery and dead letter in one statement."""
    async with settling(database_url) as on:
        done, again, dead = await on.claim(b"1", b"2", b"3")
        on.add(done)
        on.add(again, Decision("retry", 100.0), Outcome("timeout", None, "too slow"))
        on.add(dead, Decision("dead", dead_kind="exhausted"), Outcome("server_error", 500, "no"))
        await on.until_settled(3)
        assert await on.harness.attempts(
            "event_id", "number", "started_at", "outcome", "status", "decision", "detail"
        ) == [
            (done["event_id"], 1, STARTED, "delivered", 204, "delivered", None),
            (again["event_id"], 1, STARTED, "timeout", None, "retry", "too slow"),
            (dead["event_id"], 1, STARTED, "server_error", 500, "dead", "no"),
        ]
        assert await on.harness.deliveries() == [(again["event_id"], on.subscription, 1, False)]
        due = await on.harness.sql.fetchval("SELECT due_at > now() + interval '90 s' FROM hookwire.deliveries")
        assert (due, await on.harness.dead_letters()) == (True, [(dead["event_id"], "exhausted", 1, 500)])


async def test_results_that_gather_during_a_write_go_out_together(database_url: str) -> None:
    async with settling(database_url) as on:
        claimed = await on.claim(*(b"%d" % n for n in range(50)))
        on.database.gates["delivery.settle"] = asyncio.Event()
        on.add(claimed[0])
        await until(lambda: passed(on, 1))
        for one in claimed[1:]:
            on.add(one)
        on.database.gates["delivery.settle"].set()
        await on.until_settled(50)
        assert on.database.passed["delivery.settle"] == 2


async def test_results_that_may_wait_go_out_with_the_first_that_may_not(database_url: str) -> None:
    """One commit stores several results at a low rate, too (ADR 55)."""
    async with settling(database_url, gather_seconds=3600.0) as on:
        first, second, failed = await on.claim(b"1", b"2", b"3")
        on.add(first, may_wait=True)
        await asyncio.sleep(0)
        on.add(second, may_wait=True)
        await asyncio.sleep(0)
        on.add(failed, Decision("retry", 100.0), Outcome("timeout", None, "too slow"))
        await on.until_settled(3)
        assert on.database.passed["delivery.settle"] == 1


async def test_results_that_may_wait_are_stored_a_moment_later(database_url: str) -> None:
    async with settling(database_url, gather_seconds=0.01) as on:
        (only,) = await on.claim(b"1")
        on.add(only, may_wait=True)
        await on.until_settled(1)
        assert await on.harness.deliveries() == []


async def test_a_stop_stores_the_results_that_wait(database_url: str) -> None:
    async with settling(database_url, gather_seconds=3600.0) as on:
        (only,) = await on.claim(b"1")
        on.add(only, may_wait=True)
        on.settlement.stop()
        await on.until_settled(1)
        assert await on.harness.deliveries() == []


async def test_few_results_after_others_wait_until_there_are_five(database_url: str) -> None:
    """GR-04: one commit stores five at 20 a second, too, and no more than five wait (ADR 96)."""
    async with settling(database_url, few_seconds=3600.0) as on:
        first, *others = await on.claim(*(b"%d" % n for n in range(6)))
        on.add(first, may_wait=True)
        await on.until_settled(1)  # it follows nothing, so that it does not wait
        for one in others:
            on.add(one, may_wait=True)
            await poll()
        await on.until_settled(6)
        assert on.database.passed["delivery.settle"] == 2


@pytest.mark.parametrize("how", ["a result that may not wait", "a stop"])
async def test_few_results_after_others_are_stored_with(how: str, database_url: str) -> None:
    """GR-04 (ADR 96)."""
    async with settling(database_url, few_seconds=3600.0) as on:
        first, second, third = await on.claim(b"1", b"2", b"3")
        on.add(first, may_wait=True)
        await on.until_settled(1)
        on.add(second, may_wait=True)
        await poll()
        on.add(third, may_wait=how != "a result that may not wait")
        if how == "a stop":
            on.settlement.stop()
        await on.until_settled(3)
        assert (await on.harness.deliveries(), on.database.passed["delivery.settle"]) == ([], 2)


async def test_few_results_after_others_are_stored_at_the_end_of_their_time(database_url: str) -> None:
    """GR-04 (ADR 96)."""
    async with settling(database_url, few_seconds=0.05) as on:
        for number in (b"1", b"2", b"3"):
            (one,) = await on.claim(number)
            on.add(one, may_wait=True)
            await on.until_settled(int(number))
        assert await on.harness.deliveries() == []


async def passed(on: SettlementHarness, times: int) -> bool:
    return on.database.passed["delivery.settle"] >= times


async def test_a_result_of_an_earlier_claim_changes_nothing(database_url: str) -> None:
    """WH-I03."""
    async with settling(database_url) as on:
        (first,) = await on.claim(b"1", lease_seconds=0.0)
        (second,) = await on.claim_due()
        on.add(first, Decision("dead", dead_kind="exhausted"))
        await on.until_settled(1)
        assert (await on.harness.deliveries(), await on.harness.dead_letters()) == (
            [(second["event_id"], on.subscription, 2, True)],
            [],
        )


async def test_two_results_of_one_delivery_in_one_batch_are_one_attempt(database_url: str) -> None:
    """WH-I03: made under two claims of the same worker; only the later claim's counts."""
    async with settling(database_url) as on:
        (first,) = await on.claim(b"1", lease_seconds=0.0)
        (second,) = await on.claim_due()
        on.add(first, Decision("retry", 5.0), Outcome("timeout", None))
        on.add(second)
        await on.until_settled(2)
        assert await on.harness.attempts("number", "outcome", "decision") == [(2, "delivered", "delivered")]
        assert (await on.harness.deliveries(), on.database.passed["delivery.settle"]) == ([], 1)


async def test_results_wait_for_a_database_that_is_away_and_are_written_once(database_url: str) -> None:
    """F42: also when the answer to a write was lost."""
    errors: list[DatabaseError] = [Unavailable("away"), Busy("locked"), OutcomeUnknown("lost")]
    async with settling(database_url) as on:
        (claimed,) = await on.claim(b"1")
        stuck = []
        for times, error in enumerate(errors, 1):
            on.database.failing["delivery.settle"] = error
            if times == 1:
                on.add(claimed)
            await until(lambda times=times: passed(on, times))
            stuck.append(on.settlement.is_stuck)
        on.database.failing.clear()
        await on.until_settled(1)
        assert (len(await on.harness.attempts("number")), stuck[1:], on.settlement.is_stuck) == (
            1,
            [True, True],
            False,
        )


async def test_results_wait_for_a_server_that_cannot_write_and_none_of_them_is_lost(database_url: str) -> None:
    """FC-06: a full disk and a read-only server are no fault of the results; each of them was thrown away."""
    async with settling(database_url) as on:
        claimed = await on.claim(b"1", b"2")
        name = await on.harness.sql.fetchval("SELECT current_database()")
        await on.harness.sql.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        await terminate(on)
        for one in claimed:
            on.add(one)
        await until(lambda: passed(on, 3))
        waiting = (list(on.settled), on.settlement.is_stuck)
        await on.harness.sql.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = off")
        await terminate(on)
        await on.until_settled(2)
        assert (waiting, await on.harness.attempts("outcome"), await on.harness.deliveries()) == (
            ([], True), [("delivered",), ("delivered",)], [],
        )  # fmt: skip


async def terminate(on: SettlementHarness) -> None:
    """End the pool's sessions: the next ones begin with the database's new settings."""
    await on.harness.sql.execute(
        "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )


@pytest.mark.parametrize("meanwhile", ["claimed", "dead letter"])
async def test_a_success_that_is_written_late_is_no_dead_letter_where_nothing_is_sent_twice(
    meanwhile: str, database_url: str
) -> None:
    """FC-06: while the settlement failed the lease ended, and another worker took the delivery for lost."""
    lost = Outcome("unknown", None, "its worker ended before the outcome was stored; it may have arrived")
    async with settling(database_url) as on:
        await on.harness.sql.execute("UPDATE hookwire.subscriptions SET at_most_once = true")
        (first,) = await on.claim(b"1", lease_seconds=0.0)
        on.database.failing["delivery.settle"] = ServerTrouble("53100", "No space left on device")
        on.add(first)
        await until(lambda: passed(on, 1))
        (second,) = await on.claim_due()
        result = Result(
            second["event_id"], on.subscription, second["fence"], second["version"], STARTED, lost,
            Decision("dead", dead_kind="internal"),
        )  # fmt: skip
        if meanwhile == "dead letter":
            await write_results(on.harness.database, [result], "other")
        on.database.failing.clear()
        await on.until_settled(1)
        if meanwhile == "claimed":
            await write_results(on.harness.database, [result], "other")
        found = [await on.harness.deliveries(), await on.harness.dead_letters()]
        assert (found, await on.harness.attempts("outcome", "status", "decision", "detail")) == (
            [[], []], [("delivered", 204, "delivered", None)],
        )  # fmt: skip


async def test_a_write_whose_answer_was_lost_is_repeated_without_effect(database_url: str) -> None:
    async with settling(database_url) as on:
        (claimed,) = await on.claim(b"1")
        on.database.failing["subscription.pause"] = OutcomeUnknown("lost")  # after the settlement itself
        on.add(claimed, Decision("retry", 0.0, pause_seconds=30.0), Outcome("throttled", 429))
        await until(lambda: passed(on, 2))
        on.database.failing.clear()
        await on.until_settled(1)
        assert await on.harness.deliveries() == [(claimed["event_id"], on.subscription, 1, False)]
        assert len(await on.harness.attempts("number")) == 1


async def test_a_refused_result_is_found_by_halving(database_url: str) -> None:
    """WH-12: the others are written."""
    async with settling(database_url) as on:
        claimed = await on.claim(*(b"%d" % n for n in range(9)))
        on.database.gates["delivery.settle"] = asyncio.Event()
        for number, one in enumerate(claimed):
            text = "nul \x00" if number == 5 else None
            on.add(one, outcome=Outcome("delivered", 204, text))
        on.database.gates["delivery.settle"].set()
        await on.until_settled(9)
        left = [(event, has_claim) for event, _, _, has_claim in await on.harness.deliveries()]
        assert (left, on.settlement.is_stuck) == ([(claimed[5]["event_id"], True)], False)


async def test_a_pause_is_never_shortened(database_url: str) -> None:
    """WH-R07."""
    async with settling(database_url) as on:
        claimed = await on.claim(b"1", b"2")
        for one, seconds in zip(claimed, (300.0, 10.0), strict=True):
            on.add(one, Decision("retry", 0.0, pause_seconds=seconds), Outcome("throttled", 429))
        await on.until_settled(2)
        assert await on.harness.sql.fetchval(
            "SELECT paused_until > now() + interval '290 s' FROM hookwire.subscriptions"
        )


async def test_gone_ends_the_subscription_and_what_it_was_owed(database_url: str) -> None:
    """WH-R09."""
    async with settling(database_url) as on:
        first, *rest = await on.claim(b"1", b"2", b"3")
        decision = Decision("dead", dead_kind="gone", end_state="gone", end_reason="answered 410")
        on.add(first, decision, Outcome("gone", 410))
        await on.until_settled(1)
        assert await on.harness.subscription(on.subscription) == ("gone", "answered 410")
        assert await on.harness.deliveries() == []
        assert [(event, kind, attempts) for event, kind, attempts, _ in await on.harness.dead_letters()] == [
            (one["event_id"], "gone", 1) for one in (first, *rest)
        ]


async def test_an_end_that_was_cut_short_is_finished_when_it_is_repeated(database_url: str) -> None:
    async with settling(database_url) as on:
        first, _ = await on.claim(b"1", b"2")
        on.database.failing["delivery.cancel_ended"] = Unavailable("away")
        on.add(first, Decision("dead", 0.0, "gone", None, "gone", "answered 410"), Outcome("gone", 410))
        await until(lambda: passed(on, 2))
        on.database.failing.clear()
        await on.until_settled(1)
        assert (await on.harness.deliveries(), len(await on.harness.dead_letters())) == ([], 2)


async def test_an_answer_to_an_earlier_version_ends_nothing(database_url: str) -> None:
    """WH-I10: the subscription was changed while the attempt was under way."""
    async with settling(database_url) as on:
        (claimed,) = await on.claim(b"1")
        await on.harness.change(on.subscription, callback="http://127.0.0.1:8000/new")
        on.add(claimed, Decision("delivered", end_state="disabled", end_reason="asked_by_receiver"))
        await on.until_settled(1)
        assert await on.harness.subscription(on.subscription) == ("active", None)


async def test_a_stop_writes_what_is_there(database_url: str) -> None:
    async with settling(database_url) as on:
        claimed = await on.claim(*(b"%d" % n for n in range(20)))
        for one in claimed:
            on.add(one)
        harness = on.harness
        on.settlement.stop()
        await on.until_settled(20)
        assert len(await harness.attempts("number")) == 20
