"""Waiting: workers wait for requests and callers for replies, and all of them share two questions to the database.

As many workers are woken as there are requests, the longest-waiting first.
"""

from __future__ import annotations

import structlog

from db.errors import DatabaseError
from db.pool import Database
from runtime.shared_wait import SharedWait

__all__ = ["ServiceWaiting"]

_log = structlog.get_logger(__name__)
_WORKER = "worker"
_CALLER = "caller"


class ServiceWaiting(SharedWait):
    """A service of the process. ``for_request`` and ``for_reply`` wait; ``available`` and ``over`` end waits."""

    name = "service_waiting"

    def __init__(self, database: Database, pause_seconds: tuple[float, float] = (0.02, 0.5)) -> None:
        super().__init__(pause_seconds)
        self._database = database

    async def for_request(self, service: str, seconds: float) -> bool:
        """Return True as soon as the service may have a request, False after so many seconds or at a stop."""
        return await self._wait((service, _WORKER), seconds)

    async def for_reply(self, request_id: str, seconds: float) -> bool:
        """Return True as soon as the request may be over, False after so many seconds or at a stop."""
        return await self._wait((request_id, _CALLER), seconds)

    def available(self, service: str, count: int = 1) -> None:
        """So many requests of this service are waiting."""
        self._wake((service, _WORKER), count)

    def over(self, request_id: str) -> None:
        """This request is answered, closed or given up."""
        self._wake((request_id, _CALLER))

    async def _ask(self) -> bool:
        try:
            return await self._ask_requests() | await self._ask_replies()
        except DatabaseError as error:
            _log.warning("service_waiting_failed", error=str(error))
            return False

    async def _ask_requests(self) -> bool:
        waiting = {name: len(waiters) for (name, role), waiters in self._waiters.items() if role == _WORKER}
        if not waiting:
            return False
        rows = await self._database.fetch("request.waiting_among", list(waiting), list(waiting.values()))
        for row in rows:
            self.available(row["service"], row["available"])
        return any(row["available"] for row in rows)

    async def _ask_replies(self) -> bool:
        waiting = [name for name, role in self._waiters if role == _CALLER]
        if not waiting:
            return False
        rows = await self._database.fetch("request.over_among", waiting)
        for row in rows:
            self.over(row["id"])
        return bool(rows)
