"""runtime/wake.py: notifications, polls and pauses."""

from __future__ import annotations

import asyncio

from runtime.wake import Wake


async def test_a_notification_that_came_before_the_wait_ends_it() -> None:
    wake = Wake(poll_seconds_min=60.0)
    wake.notify()
    assert await wake.wait()


async def test_a_poll_ends_the_wait_without_a_notification() -> None:
    """RO-09: work that is found by a poll, not by a notification, makes the waiter poll fast."""
    wake = Wake(poll_seconds_min=60.0)
    wake.poll()
    assert not await wake.wait()


async def test_a_notification_counts_once() -> None:
    wake = Wake(poll_seconds_min=0.001)
    wake.notify()
    assert [await wake.wait(), await wake.wait()] == [True, False]


async def test_the_pause_grows_until_there_is_work() -> None:
    """RO-09: the fourth pause would last for minutes, because another service polls too."""
    wake = Wake(0.001, 0.004, is_watched=True)
    wake.busy()
    for _ in range(3):
        await wake.wait()
    waiting = asyncio.create_task(wake.wait())
    done, _ = await asyncio.wait([waiting], timeout=0.1)
    wake.notify()
    await waiting
    wake.busy()
    assert (done, await wake.wait()) == (set(), False)


async def test_without_work_a_watched_waiter_waits_for_the_service_that_polls() -> None:
    wake = Wake(0.001, 0.004, is_watched=True)
    waiting = asyncio.create_task(wake.wait())
    done, _ = await asyncio.wait([waiting], timeout=0.1)
    wake.notify()
    assert (done, await waiting) == (set(), True)
