"""The core of the workers that lease work, on a source in memory (JB-62, JB-64, JB-78)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from hookwire.jobs.leasing.leasing import LeaseOptions, Leasing
from hookwire.jobs.leasing.settlement import Batching
from tests.waiting import WAIT_SECONDS, until

AWAY = ConnectionError("away")
REFUSED = ValueError("refused")


@dataclass(eq=False)
class Work:
    number: int
    attempt: int = 1


class Memory:
    """Work in a list. Each settlement of ``bad`` raises ``error``."""

    def __init__(self, count: int, bad: int = 0, error: Exception | None = None) -> None:
        self.left = [Work(number) for number in range(count, 0, -1)]
        self.asked: list[int] = []
        self.done: list[list[int]] = []
        self.failed: list[tuple[int, str]] = []
        self.released: list[int] = []
        self.extended = 0
        self.late: set[int] = set()
        self.over: set[int] = set()
        self.tries = 0
        self.may_settle = asyncio.Event()
        self.may_settle.set()
        self._bad = bad
        self._error = error

    async def claim(self, most: int) -> list[Work]:
        self.asked.append(most)
        return [self.left.pop() for _ in range(min(most, len(self.left)))]

    async def succeed(self, done: Sequence[tuple[Work, Any]]) -> list[Work]:
        await self.may_settle.wait()
        self._try(*(work for work, _ in done))
        self.done.append([work.number for work, _ in done])
        return [work for work, _ in done if work.number in self.late]

    async def fail(self, work: Work, error: BaseException) -> bool:
        self._try(work)
        self.failed.append((work.number, str(error)))
        return work.number not in self.late

    async def release(self, held: Sequence[Work]) -> None:
        self.released += [work.number for work in held]

    async def extend(self, held: Sequence[Work]) -> list[Work]:
        self.extended += len(held)
        return [work for work in held if work.number in self.over]

    async def listen(self, wake: Callable[[], None]) -> None:
        """Nothing tells of work."""

    def _try(self, *works: Work) -> None:
        if self._error is not None and any(work.number == self._bad for work in works):
            self.tries += 1
            raise self._error


class Told:
    """What a worker has reported."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int | None]] = []

    def __call__(self, event: str, work: Any, _reason: str) -> None:
        self.events.append((event, work.number if work is not None else None))


async def returns(_: Work) -> None:
    """Handle the work."""


async def raises(_: Work) -> None:
    raise ZeroDivisionError("no")


def leasing(source: Memory, handler: Any, told: Any = None, **options: Any) -> Leasing[Work]:
    given = {"slots": 1, "lease_seconds": 3_600.0, "idle_seconds": 3_600.0, "held_max": 1, **options}
    return Leasing(source, handler, LeaseOptions(**given), told or Told())


async def run(worker: Leasing[Work]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        await worker.run()


@pytest.mark.parametrize(("handler", "counts"), [(returns, (1, 0)), (raises, (0, 1))])
@pytest.mark.parametrize(("error", "event"), [(AWAY, "outcome_lost"), (REFUSED, "settle_refused")], ids=str)
async def test_work_that_cannot_be_settled_does_not_end_the_worker(
    error: Exception, event: str, handler: Any, counts: tuple[int, int]
) -> None:
    """The database is away for longer than the lease, or refuses. Then it does the next piece of work."""
    source, told = Memory(2, 1, error), Told()
    worker = leasing(source, handler, told, lease_seconds=0.1, count=1)
    await run(worker)

    assert ((worker.tally.done, worker.tally.failed), (event, 1) in told.events) == (counts, True)


async def test_a_refused_settlement_is_not_repeated() -> None:
    """The attempt fails instead. No other try of the same settlement succeeds, so the lease is not waited for."""
    source = Memory(2, 1, REFUSED)
    await run(leasing(source, returns, count=1))

    assert (source.tries, source.done, source.failed) == (2, [[2]], [])


async def test_results_share_a_settlement_and_a_refused_one_fails_alone() -> None:
    source = Memory(3, 2, REFUSED)
    worker = leasing(source, returns, slots=3, held_max=3, flush_seconds=3_600.0)
    running = asyncio.ensure_future(run(worker))
    await until(lambda: source.tries == 3)
    worker.stop()
    await running

    assert (sorted(source.done), worker.tally.done, source.failed) == ([[1], [3]], 2, [])


@pytest.mark.parametrize(("held_max", "asked"), [(1, 1), (2, 2)])
async def test_no_more_is_claimed_than_may_be_held(held_max: int, asked: int) -> None:
    """The first settlement has not returned yet."""
    source = Memory(2)
    source.may_settle.clear()
    ended = list[int]()

    async def handler(work: Work) -> None:
        ended.append(work.number)

    worker = leasing(source, handler, held_max=held_max, count=2)
    running = asyncio.ensure_future(run(worker))
    await until(lambda: len(ended) == asked)
    claims = len(source.asked)
    source.may_settle.set()
    await running

    assert (claims, worker.tally.done, worker.tally.ended) == (asked, 2, 2)


async def test_a_claim_that_finds_nothing_makes_room_for_the_next() -> None:
    """Two notifications of the same task wait for the only slot; nothing else happens that could wake them."""
    source, asked, may_claim = Memory(0), list[int](), asyncio.Event()
    worker = leasing(source, returns)

    async def claim() -> list[Work]:
        asked.append(1)
        await may_claim.wait()
        return []

    running = asyncio.ensure_future(run(worker))
    await until(lambda: source.asked)
    taking = [asyncio.ensure_future(worker.take(claim)) for _ in range(3)]
    await until(lambda: asked)
    may_claim.set()
    await until(lambda: len(asked) == 3)
    worker.stop()
    await asyncio.gather(running, *taking)

    assert len(asked) == 3


@pytest.mark.parametrize("handler", [returns, raises])
async def test_work_that_is_settled_late_is_counted_and_reported(handler: Any) -> None:
    source, told = Memory(1), Told()
    source.late.add(1)
    worker = leasing(source, handler, told, count=1)
    await run(worker)

    assert (worker.tally.stale, worker.tally.done + worker.tally.failed) == (1, 0)
    assert ("settled_late", 1) in told.events


async def test_a_stop_returns_what_does_not_end_in_the_grace() -> None:
    source, begun = Memory(2), asyncio.Event()

    async def handler(_: Work) -> None:
        begun.set()
        await asyncio.Event().wait()

    worker = leasing(source, handler, slots=2, held_max=2, grace_seconds=0.0)
    running = asyncio.ensure_future(run(worker))
    await begun.wait()
    worker.stop()
    await running

    assert (sorted(source.released), worker.tally.released) == ([1, 2], 2)


async def test_a_worker_that_is_cancelled_returns_its_work() -> None:
    source, begun = Memory(1), asyncio.Event()

    async def handler(_: Work) -> None:
        begun.set()
        await asyncio.Event().wait()

    running = asyncio.ensure_future(run(leasing(source, handler)))
    await begun.wait()
    running.cancel()
    await asyncio.wait([running])

    assert (running.cancelled(), source.released) == (True, [1])


async def test_the_heartbeat_extends_what_is_held_and_cancels_what_is_over() -> None:
    source = Memory(1)
    source.over.add(1)

    async def handler(_: Work) -> None:
        await asyncio.Event().wait()

    worker = leasing(source, handler, lease_seconds=0.05)
    running = asyncio.ensure_future(run(worker))
    await until(lambda: source.released)
    worker.stop()
    await running

    assert (source.released, source.extended >= 1) == ([1], True)


async def test_a_programming_error_of_a_source_ends_the_worker() -> None:
    """It is no error that another try may heal."""
    source = Memory(1, 1, KeyError("a bug"))
    with pytest.raises(ExceptionGroup, match="unhandled errors"):
        await run(leasing(source, returns))


async def test_batching_waits_only_while_more_is_expected_and_there_is_not_enough() -> None:
    batching = Batching(3_600.0, 2)
    async with asyncio.timeout(WAIT_SECONDS):
        await batching.gather(1, are_more_expected=False)
        await batching.gather(2, are_more_expected=True)
