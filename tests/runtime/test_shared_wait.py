"""runtime/shared_wait.py: each item that a query finds wakes one waiter, also while somebody takes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from typing_extensions import override

from runtime.shared_wait import SharedWait

_KEY = ("queue", None)
_LONG_SECONDS = 60.0


class Items(SharedWait):
    """A wait for items that lie there until somebody takes them."""

    name = "items"

    def __init__(self) -> None:
        super().__init__()
        self.lying = 0
        self.woken = 0

    @override
    async def _ask(self) -> bool:
        self._wake_for(_KEY, self.lying)
        return self.lying > 0

    async def take(self, may_take: asyncio.Event) -> None:
        """Wait for an item, and take it once that is allowed."""
        async with self._waiting(_KEY, _LONG_SECONDS) as is_woken:
            assert is_woken
            self.woken += 1
            await may_take.wait()
            self.lying -= 1

    async def ask(self) -> None:
        """Run the query, and let each waiter that it wakes begin."""
        await self._ask()
        for _ in range(5):
            await asyncio.sleep(0)


@asynccontextmanager
async def takers(items: Items, count: int, may_take: asyncio.Event) -> AsyncIterator[list[asyncio.Task[None]]]:
    """So many waiters, which wait already."""
    tasks = [asyncio.create_task(items.take(may_take)) for _ in range(count)]
    await asyncio.sleep(0)
    yield tasks
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_an_item_that_somebody_takes_wakes_nobody_else() -> None:
    items, may_take = Items(), asyncio.Event()
    async with takers(items, 3, may_take):
        items.lying = 1
        await items.ask()
        await items.ask()
        assert items.woken == 1

        items.lying = 2
        await items.ask()
        assert items.woken == 2


async def test_an_item_that_its_waiter_did_not_take_wakes_the_next_one() -> None:
    items, may_take = Items(), asyncio.Event()
    async with takers(items, 2, may_take) as tasks:
        items.lying = 1
        await items.ask()
        tasks[0].cancel()
        await asyncio.wait(tasks[:1])
        await items.ask()
        assert items.woken == 2


async def test_a_wait_ends_at_a_stop_and_when_its_time_is_over() -> None:
    items = Items()
    async with items._waiting(_KEY, 0.001) as is_woken:
        assert not is_woken

    async def stopped() -> bool:
        async with items._waiting(_KEY, _LONG_SECONDS) as is_woken:
            return is_woken

    waiting = asyncio.create_task(stopped())
    await asyncio.sleep(0)
    items.stop()
    assert not await waiting


@pytest.mark.parametrize("found", [0, 1])
async def test_a_waiter_that_is_told_of_a_new_item_counts_as_one_that_takes_it(found: int) -> None:
    """The query may see the same item that this process has just announced."""
    items, may_take = Items(), asyncio.Event()
    async with takers(items, 2, may_take):
        items._wake(_KEY, 1)
        items.lying = found
        await items.ask()
        assert items.woken == 1
