"""runtime/cancellation.py: who was asked to end, and who was not."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from runtime.cancellation import TaskGroup, end_if_cancelled


async def broken() -> None:
    await asyncio.sleep(0)
    raise ConnectionError("the broker is away")


async def leaving() -> None:
    """A group whose task fails while the group is being left."""
    async with TaskGroup() as tasks:
        tasks.create_task(broken())


async def inside() -> None:
    """A group whose task fails while its body runs."""
    async with TaskGroup() as tasks:
        tasks.create_task(broken())
        await asyncio.Event().wait()


@pytest.mark.parametrize("work", [leaving, inside])
async def test_a_task_that_failed_is_no_cancellation_of_its_group_s_owner(work: Callable[[], Awaitable[None]]) -> None:
    """RO-04: else a relay that was fenced ends for good, in the belief that it was asked to."""
    for _ in range(3):
        with pytest.raises(ExceptionGroup) as failed:
            await work()
        assert [str(error) for error in failed.value.exceptions] == ["the broker is away"]
        end_if_cancelled()


@pytest.mark.parametrize("work", [leaving, inside])
async def test_a_cancellation_at_the_moment_of_a_failure_is_not_lost(work: Callable[[], Awaitable[None]]) -> None:
    asked: list[bool] = []

    async def owner() -> None:
        try:
            await work()
        except ExceptionGroup:
            end_if_cancelled()
            asked.append(False)

    task = asyncio.create_task(owner())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert (task.cancelled(), asked) == (True, [])
