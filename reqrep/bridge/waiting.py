"""Waiting: workers wait for requests and callers for replies, and all of them share two questions to the database.

What happens in this process, or a NOTIFY, ends a wait at once. Everything else is found by one statement for all
services and one for all requests that are waited for, asked every 20 to 500 ms while somebody waits, and never when
nobody does. As many workers are woken as there are requests, the longest-waiting first.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque

import structlog

from db.errors import DatabaseError
from db.pool import Database
from runtime.pause import pause

__all__ = ["ServiceWaiting"]

_log = structlog.get_logger(__name__)
_Waiters = dict[str, deque[asyncio.Future[None]]]


class ServiceWaiting:
    """A service of the process. ``for_request`` and ``for_reply`` wait; ``available`` and ``over`` end waits."""

    name = "service_waiting"

    def __init__(self, database: Database, pause_seconds: tuple[float, float] = (0.02, 0.5)) -> None:
        self._database = database
        self._pause_seconds = pause_seconds
        self._workers: _Waiters = {}
        self._callers: _Waiters = {}
        self._begun = asyncio.Event()
        self._again = asyncio.Event()
        self._stopping = False

    async def for_request(self, service: str, seconds: float) -> bool:
        """Return True as soon as the service may have a request, False after so many seconds or at a stop."""
        return await self._wait(self._workers, service, seconds)

    async def for_reply(self, request_id: str, seconds: float) -> bool:
        """Return True as soon as the request may be over, False after so many seconds or at a stop."""
        return await self._wait(self._callers, request_id, seconds)

    def available(self, service: str, count: int = 1) -> None:
        """So many requests of this service are waiting."""
        waiting = self._workers.get(service, ())
        for waiter in [waiter for waiter in waiting if not waiter.done()][:count]:
            waiter.set_result(None)

    def over(self, request_id: str) -> None:
        """This request is answered, closed or given up."""
        for waiter in self._callers.get(request_id, ()):
            if not waiter.done():
                waiter.set_result(None)

    def notify(self) -> None:
        """Ask at once: something has changed somewhere."""
        self._again.set()

    def stop(self) -> None:
        """End every wait."""
        self._stopping = True
        self._begun.set()
        self._again.set()
        for service in self._workers:
            self.available(service, len(self._workers[service]))
        for request_id in self._callers:
            self.over(request_id)

    async def run(self) -> None:
        """Ask while somebody waits, until stopped."""
        shortest, longest = self._pause_seconds
        seconds = shortest
        while not self._stopping:
            if not self._workers and not self._callers:
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

    async def _wait(self, waiters: _Waiters, what: str, seconds: float) -> bool:
        if self._stopping or seconds <= 0:
            return False
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters.setdefault(what, deque()).append(waiter)
        self._begun.set()
        try:
            async with asyncio.timeout(seconds):
                await waiter
        except TimeoutError:
            return False
        finally:
            waiters[what].remove(waiter)
            if not waiters[what]:
                del waiters[what]
        return not self._stopping

    async def _ask(self) -> bool:
        try:
            return await self._ask_requests() | await self._ask_replies()
        except DatabaseError as error:
            _log.warning("service_waiting_failed", error=str(error))
            return False

    async def _ask_requests(self) -> bool:
        waiting = {service: len(waiters) for service, waiters in self._workers.items()}
        if not waiting:
            return False
        rows = await self._database.fetch("request.waiting_among", list(waiting), list(waiting.values()))
        for row in rows:
            self.available(row["service"], row["available"])
        return any(row["available"] for row in rows)

    async def _ask_replies(self) -> bool:
        waiting = list(self._callers)
        if not waiting:
            return False
        rows = await self._database.fetch("request.over_among", waiting)
        for row in rows:
            self.over(row["id"])
        return bool(rows)
