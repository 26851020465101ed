"""The conformance suite of workers that lease stored work: each ending of a handler, beside five good pieces of work.

Adding a class of worker means adding its ``WorkerKind`` to a list.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress

import pytest
import pytest_asyncio

from tests.contract.workers.endings import ENDINGS, Act, Ending
from tests.contract.workers.harness import GOOD, Hands, Harness, Place, Seen, WorkerKind
from tests.contract.workers.stored import KINDS, opened
from tests.databases import Databases
from tests.rolled_back import ON_THE_LOOP_OF_THE_FILE
from tests.waiting import WAIT_SECONDS, poll, until

CASES = [
    pytest.param(kind, ending, id=f"{kind.name}-{ending.name}")
    for kind in KINDS
    for ending in ENDINGS
    if kind.on_loop or not ending.on_loop_only
]


@pytest.fixture(scope="module")
def url(databases18: Databases) -> Iterator[str]:
    """A database for all cases: each has a kind or queue of its own."""
    with databases18.fresh() as fresh:
        yield fresh


async def settled(harness: Harness, hands: Hands, *, stops: bool) -> Seen:
    """What became of the bad piece of work, once all were run. A worker that stops gives back what it has not begun."""
    await until(lambda: hands.bad and (stops or len(hands.good) >= GOOD))

    async def found() -> Seen | None:
        seen = await harness.bad()
        return seen if seen.state != "held" else None

    return await until(found)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(url: str) -> AsyncIterator[Place]:
    """The database with its pools, on the loop of this file."""
    async with opened(url) as place:
        yield place


@ON_THE_LOOP_OF_THE_FILE
@pytest.mark.parametrize(("kind", "ending"), CASES)
async def test_however_a_handler_ends_its_attempt_ends_and_the_worker_goes_on(
    place: Place, kind: WorkerKind, ending: Ending
) -> None:
    """GB-02, GB-03, GB-04."""
    hands = Hands(ending.act)
    async with kind.open(place, hands) as harness:
        seen = await settled(harness, hands, stops=ending.stops)
        lives = ending.stops or await harness.lives()
        harness.stop()
        async with asyncio.timeout(WAIT_SECONDS):
            await harness.ended()

    wanted = Seen("failed", 1, ending.reason, True) if kind.result in ending.fails_for else Seen("done", 1, None, False)
    part = ending.reason or ""
    if seen.reason is not None and part in seen.reason:
        seen = seen._replace(reason=ending.reason)
    assert (seen, lives) == (wanted, True)


def hangs_in_a_thread(until_set: threading.Event) -> Act:
    return until_set.wait


def hangs_on_the_loop(_: threading.Event) -> Act:
    return asyncio.Event().wait


def swallows_its_cancellation(until_set: threading.Event) -> Act:
    async def swallows() -> None:
        while not until_set.is_set():
            with suppress(asyncio.CancelledError):
                await poll()

    return swallows


HANGS = [
    *((kind, hangs_on_the_loop, "returned", 0) for kind in KINDS if kind.on_loop),
    *((kind, swallows_its_cancellation, "held", 1) for kind in KINDS if kind.on_loop),
    *((kind, hangs_in_a_thread, "held", 1) for kind in KINDS if not kind.on_loop),
]


@pytest.mark.parametrize(
    ("kind", "hang", "state", "attempts"),
    HANGS,
    ids=lambda part: getattr(part, "name", None) or getattr(part, "__name__", str(part)),
)
async def test_a_stop_has_an_end_whatever_a_handler_does(
    url: str, kind: WorkerKind, hang: Callable[[threading.Event], Act], state: str, attempts: int
) -> None:
    """GB-04, GH-03: a cancelled handler's work is returned. The lease of one that does not end ends by itself."""
    over = threading.Event()
    hands = Hands(hang(over))
    async with opened(url) as own, kind.open(own, hands) as harness:
        await until(lambda: hands.bad and len(hands.good) >= GOOD)
        harness.stop()
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await harness.ended()
            seen = await harness.bad()
        finally:
            over.set()

    assert (seen.state, seen.attempts) == (state, attempts)
