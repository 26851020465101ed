"""Waiting: receivers that wait for a message share one question to the database, however many they are (JB-65).

A submission through this process, or a NOTIFY, ends a wait at once. Everything else is found by one statement for all
queues that are waited for, asked every 20 to 500 ms while somebody waits, and never when nobody does. As many receivers
are woken as there are messages, the longest-waiting first.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping

import structlog

from db.errors import DatabaseError
from db.pool import Database
from runtime.pause import pause

__all__ = ["Waiting"]

_log = structlog.get_logger(__name__)
_Waiter = asyncio.Future[None]
_What = tuple[str, str | None]


class Waiting:
    """A service. ``wait`` is called by those who wait, ``available`` by those who know."""

    name = "queue_waiting"

    def __init__(self, database: Database, pause_seconds: tuple[float, float] = (0.02, 0.5)) -> None:
        self._database = database
        self._pause_seconds = pause_seconds
        self._waiters: dict[_What, deque[_Waiter]] = {}
        self._begun = asyncio.Event()
        self._again = asyncio.Event()
        self._stopping = False

    async def wait(self, queue: str, seconds: float, consumer: str | None = None) -> bool:
        """Return True as soon as there may be something to receive, False after so many seconds or at a stop."""
        if self._stopping or seconds <= 0:
            return False
        what, waiter = (queue, consumer), asyncio.get_running_loop().create_future()
        self._waiters.setdefault(what, deque()).append(waiter)
        self._begun.set()
        try:
            async with asyncio.timeout(seconds):
                await waiter
        except TimeoutError:
            return False
        finally:
            self._leave(what, waiter)
        return not self._stopping

    def available(self, queue: str, count: int = 1, consumer: str | None = None) -> None:
        """So many messages of this queue have just become available."""
        waiting = self._waiters.get((queue, consumer), ())
        for waiter in [waiter for waiter in waiting if not waiter.done()][:count]:
            waiter.set_result(None)

    def notify(self) -> None:
        """Ask at once: something was submitted somewhere."""
        self._again.set()

    def stop(self) -> None:
        """End every wait."""
        self._stopping = True
        self._begun.set()
        self._again.set()
        for waiters in self._waiters.values():
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    async def run(self) -> None:
        """Ask while somebody waits, until stopped."""
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
            seconds = shortest if found else min(seconds * 1.5, longest)
            # Where an old snapshot keeps dead rows the question is dear: it takes a twentieth of the time at most.
            await pause(self._again, max(seconds, 20 * (time.monotonic() - began)))
            self._again.clear()

    async def _ask(self) -> bool:
        moves = {queue: len(waiters) for (queue, consumer), waiters in self._waiters.items() if consumer is None}
        copies = [(queue, consumer) for queue, consumer in self._waiters if consumer is not None]
        try:
            return await self._ask_moves(moves) | await self._ask_copies(copies)
        except DatabaseError as error:
            _log.warning("queue_waiting_failed", error=str(error))
            return False

    async def _ask_moves(self, waiting: Mapping[str, int]) -> bool:
        if not waiting:
            return False
        rows = await self._database.fetch("message.available_among", list(waiting), list(waiting.values()))
        for row in rows:
            self.available(row["queue"], row["available"])
        return any(row["available"] for row in rows)

    async def _ask_copies(self, waiting: list[tuple[str, str]]) -> bool:
        if not waiting:
            return False
        names = [consumer for _, consumer in waiting]
        rows = await self._database.fetch("consumer.behind_among", [queue for queue, _ in waiting], names)
        for row in rows:
            self.available(row["queue"], 1, row["name"])
        return bool(rows)

    def _leave(self, what: _What, waiter: _Waiter) -> None:
        waiters = self._waiters[what]
        waiters.remove(waiter)
        if not waiters:
            del self._waiters[what]
