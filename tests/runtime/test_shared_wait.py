"""A shared wait asks at once after a notification, but rests after a slow query."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise

from typing_extensions import override

from runtime.shared_wait import SharedWait
from tests.waiting import lasts

_QUERY_SECONDS = 0.02


class SlowQuery(SharedWait):
    """Its query takes some time and finds nothing; a notification comes during each."""

    def __init__(self) -> None:
        super().__init__((60.0, 60.0))
        self.begun: list[float] = []
        self.ended: list[float] = []
        self.often = asyncio.Event()

    async def wait(self) -> None:
        await self._wait(("anything", None), 60)

    @override
    async def _ask(self) -> bool:
        self.begun.append(time.monotonic())
        await lasts(_QUERY_SECONDS)
        self.ended.append(time.monotonic())
        self.notify()
        if len(self.ended) > 3:
            self.often.set()
        return False


async def test_a_slow_query_takes_a_fifth_of_the_time_however_many_notifications_come() -> None:
    waiting = SlowQuery()
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        tasks.create_task(waiting.run())
        tasks.create_task(waiting.wait())
        await waiting.often.wait()
        waiting.stop()

    rests = [begun - ended for ended, (_, begun) in zip(waiting.ended, pairwise(waiting.begun), strict=False)]
    assert len(rests) >= 3
    assert min(rests) >= 3.5 * _QUERY_SECONDS
