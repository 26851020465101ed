"""Slots of a worker, and the threads of plain functions: they need no server."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from hookwire.slots import WARNINGS, Ending, Slots
from hookwire.threads import Threads
from tests.waiting import WAIT_SECONDS, until

LOG = logging.getLogger("hookwire.jobs")


async def waits(_: str) -> None:
    await asyncio.Event().wait()


def slots_of(ended: Callable[[str, Ending], None]) -> Slots[str]:
    return Slots(ended, lambda event, work: LOG.warning(WARNINGS[event], f"the job {work}"))


async def test_a_slot_whose_claim_is_over_and_whose_thread_does_not_end_is_named_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """GB-04."""
    begun, over, endings = threading.Event(), threading.Event(), list[str]()
    threads = Threads("test", 1)
    slots = slots_of(lambda work, _: endings.append(work))
    slots.begin("j1", lambda _: threads.call(lambda: begun.set() or over.wait()))
    await until(begun.is_set)
    [held] = slots.work
    for _ in range(3):
        slots.cancel([held])
    over.set()
    await until(lambda: endings)
    threads.close()

    assert ([record.getMessage() for record in caplog.records], endings) == (
        ["the claim of the job j1 is over, but its handler still runs in a slot"],
        ["j1"],
    )


async def test_a_handler_that_its_own_code_cancels_was_not_cancelled_by_its_worker() -> None:
    """GB-02."""
    endings: dict[str, bool] = {}
    slots = slots_of(lambda work, ending: endings.update({work: ending.was_cancelled}))

    async def cancels_itself(_: str) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    slots.begin("own", cancels_itself)
    slots.begin("waits", waits)
    await until(lambda: endings)
    async with asyncio.timeout(WAIT_SECONDS):
        left = await slots.drain(0)

    assert (endings, left) == ({"own": False, "waits": True}, [])


async def test_a_handler_that_is_cancelled_before_its_first_step_has_ended() -> None:
    endings: dict[str, bool] = {}
    slots = slots_of(lambda work, ending: endings.update({work: ending.was_cancelled}))
    slots.begin("drained", waits)
    await slots.drain(0)
    slots.begin("over", waits)
    slots.cancel(slots.work)
    await asyncio.sleep(0)
    slots.cancel([])

    assert (endings, len(slots)) == ({"drained": True, "over": True}, 0)


async def test_a_handler_that_was_left_settles_nothing_when_it_ends_later(monkeypatch: pytest.MonkeyPatch) -> None:
    endings: list[str] = []
    over = asyncio.Event()
    monkeypatch.setattr("hookwire.slots._CANCELLED_SECONDS", 0.01)
    slots = slots_of(lambda work, _: endings.append(work))

    async def does_not_end(_: str) -> None:
        while not over.is_set():
            with suppress(asyncio.CancelledError):
                await over.wait()

    slots.begin("j1", does_not_end)
    await asyncio.sleep(0)
    left = await slots.drain(0)
    over.set()
    await until(lambda: len(asyncio.all_tasks()) == 1)

    assert (left, endings, len(slots)) == (["j1"], [], 0)


async def test_a_call_beyond_the_limit_waits_for_a_thread() -> None:
    """GB-04: and an exception that a coroutine cannot raise reaches the caller."""
    threads = Threads("test", 1)
    names = [await threads.call(lambda: threading.current_thread().name) for _ in range(3)]
    together = await asyncio.gather(*(threads.call(lambda: threading.current_thread().name) for _ in range(3)))
    with pytest.raises(RuntimeError, match="the function raised StopIteration"):
        await threads.call(next, iter(()))
    threads.close()

    assert {*names, *together} == {"test-0"}


async def test_a_call_whose_thread_cannot_be_started_is_not_run_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """GB-03: its kind; the attempt had failed, and its handler ran all the same with the next one."""

    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    runs: list[str] = []
    threads = Threads("test", 2)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        with pytest.raises(RuntimeError, match="new thread"):
            await threads.call(runs.append, "first")
    await threads.call(runs.append, "second")
    threads.close()

    assert runs == ["second"]
