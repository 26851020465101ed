"""Calls that share a run: the store in PostgreSQL commits several of them at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from db.errors import OutcomeUnknown, Refused
from reqrep.titanic.batches import Batches

DEADLINE_SECONDS = 60


class Runs:
    """Runs that wait until they are let go; ``seen`` has their items."""

    def __init__(self, refused: str = "") -> None:
        self.seen: list[list[str]] = []
        self.go = asyncio.Event()
        self.begun = asyncio.Event()
        self._refused = refused

    async def __call__(self, items: Sequence[str]) -> list[str]:
        self.seen.append(list(items))
        self.begun.set()
        await self.go.wait()
        if self._refused in items:
            raise Refused("22023", f"{self._refused} is bad")
        return [item.upper() for item in items]


async def test_calls_that_come_while_one_runs_share_the_next_run() -> None:
    runs = Runs()
    batches: Batches[str, str] = Batches(runs, at_once=1)
    calls = [asyncio.ensure_future(batches.add(item)) for item in "abcd"]
    await runs.begun.wait()
    runs.go.set()
    async with asyncio.timeout(DEADLINE_SECONDS):
        results = [await call for call in calls]

    assert (results, sorted(item for seen in runs.seen for item in seen)) == (list("ABCD"), list("abcd"))
    assert len(runs.seen) <= 2


async def test_a_refused_item_costs_no_other() -> None:
    runs = Runs(refused="b")
    runs.go.set()
    batches: Batches[str, str] = Batches(runs, at_once=1)
    async with asyncio.timeout(DEADLINE_SECONDS):
        results = await asyncio.gather(*(batches.add(item) for item in "abc"), return_exceptions=True)

    assert [str(result) if isinstance(result, Exception) else result for result in results] == [
        "A", "b is bad (SQLSTATE 22023)", "C",
    ]  # fmt: skip


@pytest.mark.parametrize("victim", [0, 1, 2], ids=["runs", "next", "last"])
async def test_a_cancelled_call_leaves_nobody_waiting(victim: int) -> None:
    """What shared the run of a cancelled caller is told that its outcome is not known; the others go on."""
    runs = Runs()
    batches: Batches[str, str] = Batches(runs, most=1, at_once=1)
    calls = [asyncio.ensure_future(batches.add(item)) for item in "abc"]
    await runs.begun.wait()
    calls[victim].cancel()
    runs.go.set()
    async with asyncio.timeout(DEADLINE_SECONDS):
        results = await asyncio.gather(*calls, return_exceptions=True)
        later = await batches.add("d")

    expected = ["A", "B", "C"]
    assert (isinstance(results.pop(victim), asyncio.CancelledError), later) == (True, "D")
    assert results == [result for number, result in enumerate(expected) if number != victim]


async def test_calls_whose_runner_was_cancelled_hear_that_their_outcome_is_unknown() -> None:
    runs = Runs()
    batches: Batches[str, str] = Batches(runs, at_once=1)
    calls = [asyncio.ensure_future(batches.add(item)) for item in "ab"]
    await runs.begun.wait()
    calls[0].cancel()
    async with asyncio.timeout(DEADLINE_SECONDS):
        results = await asyncio.gather(*calls, return_exceptions=True)

    assert ([type(result) for result in results], runs.seen) == ([asyncio.CancelledError, OutcomeUnknown], [["a", "b"]])


async def _again(batches: Batches[str, str], turns: int) -> None:
    """A caller that asks a second time, so many turns of the loop after its first answer."""
    await batches.add("a")
    for _ in range(turns):
        await asyncio.sleep(0)
    await batches.add("b")


async def test_a_run_waits_for_the_callers_that_the_last_one_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the first of them to return would get a run of its own, and the others the next one."""
    monkeypatch.setattr("reqrep.titanic.batches._patience", lambda _: 2 * DEADLINE_SECONDS)
    runs = Runs()
    batches: Batches[str, str] = Batches(runs)
    async with asyncio.timeout(DEADLINE_SECONDS), asyncio.TaskGroup() as group:
        for turns in (0, 20, 40):
            group.create_task(_again(batches, turns))
        runs.go.set()

    assert [len(seen) for seen in runs.seen] == [3, 3]


async def test_a_run_does_not_wait_for_long_for_a_caller_that_does_not_return() -> None:
    runs = Runs()
    runs.go.set()
    batches: Batches[str, str] = Batches(runs)
    async with asyncio.timeout(DEADLINE_SECONDS):
        await asyncio.gather(*(batches.add(item) for item in "abc"))
        found = await batches.add("d")

    assert (found, runs.seen[-1]) == ("D", ["d"])
