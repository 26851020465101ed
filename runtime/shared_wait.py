"""Shared wait: any number of waiters share one query of the database.

A change in this process ends a wait at once. A query finds every other change. It runs every 20 to 500 ms while a task
waits, and never otherwise; a NOTIFY lets it run at once.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections import deque
from typing import Any

from runtime.pause import pause

__all__ = ["SharedWait", "WaitKey"]

WaitKey = tuple[str, str | None]
_QUERY_SHARE = 20
_NOTIFIED_SHARE = 4
_NOTIFIED_REST_SECONDS_MAX = 1.0
_REST_SECONDS_MAX = 5.0


class SharedWait(ABC):
    """A service. A subclass runs the query in :meth:`_ask`, and calls :meth:`_wake` for each key that it found."""

    def __init__(self, pause_seconds: tuple[float, float] = (0.02, 0.5)) -> None:
        self._pause_seconds = pause_seconds
        self._waiters: dict[WaitKey, deque[asyncio.Future[Any]]] = {}
        self._begun = asyncio.Event()
        self._again = asyncio.Event()
        self._stopping = False

    def notify(self) -> None:
        """Run the query at once, because something has changed."""
        self._again.set()

    def stop(self) -> None:
        """End every wait."""
        self._stopping = True
        self._begun.set()
        self._again.set()
        for key in self._waiters:
            self._wake(key)

    async def run(self) -> None:
        """Run the query again and again while a task waits, until stopped."""
        shortest, longest = self._pause_seconds
        seconds = shortest
        while not self._stopping:
            if not self._waiters:
                self._begun.clear()
                seconds = shortest
                await self._begun.wait()
                continue
            began = time.monotonic()
            found = await self._ask()
            taken = time.monotonic() - began
            seconds = shortest if found else min(seconds * 1.5, longest)
            # The query is slow where an old snapshot keeps dead rows. It may take a twentieth of the time, or a fifth
            # where notifications come. A query that the database did not answer is no measure, so the rest is bounded.
            least_seconds = min(_NOTIFIED_SHARE * taken, _NOTIFIED_REST_SECONDS_MAX)
            rest_seconds = min(_QUERY_SHARE * taken, _REST_SECONDS_MAX)
            await asyncio.sleep(least_seconds)
            await pause(self._again, max(seconds, rest_seconds) - least_seconds)
            self._again.clear()

    async def _wait(self, key: WaitKey, seconds: float, waiter: asyncio.Future[Any] | None = None) -> bool:
        """Return True as soon as the key is woken, False after so many seconds or at a stop. ``waiter`` gets the result
        of the wake-up.
        """
        if self._stopping or seconds <= 0:
            return False
        waiter = asyncio.get_running_loop().create_future() if waiter is None else waiter
        self._waiters.setdefault(key, deque()).append(waiter)
        self._begun.set()
        try:
            async with asyncio.timeout(seconds):
                await waiter
        except TimeoutError:
            return False
        finally:
            self._leave(key, waiter)
        return not self._stopping

    def _wake(self, key: WaitKey, count: int | None = None, result: object = None) -> int:
        """End this many waits for the key, the oldest first; None: all. Return how many there were."""
        waiters = [waiter for waiter in self._waiters.get(key, ()) if not waiter.done()][:count]
        for waiter in waiters:
            waiter.set_result(result)
        return len(waiters)

    def _reserve(self, key: WaitKey) -> asyncio.Future[Any] | None:
        """Return the oldest wait for the key, which nothing else wakes until its result is set or it is put back."""
        waiter = next((waiter for waiter in self._waiters.get(key, ()) if not waiter.done()), None)
        if waiter is not None:
            self._leave(key, waiter)
        return waiter

    def _put_back(self, key: WaitKey, waiter: asyncio.Future[Any]) -> None:
        """Let a reserved wait go on as the oldest one."""
        if waiter.done():
            return
        if self._stopping:
            waiter.set_result(None)
            return
        self._waiters.setdefault(key, deque()).appendleft(waiter)
        self._begun.set()

    def _leave(self, key: WaitKey, waiter: asyncio.Future[Any]) -> None:
        waiters = self._waiters.get(key)
        if waiters is not None and waiter in waiters:
            waiters.remove(waiter)
            if not waiters:
                del self._waiters[key]

    @abstractmethod
    async def _ask(self) -> bool:
        """Run one query for all waiters and wake those with a result; return whether anything was found."""
