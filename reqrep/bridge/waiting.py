"""Workers wait for requests and callers wait for replies; all waits of a process share two queries.

At most as many workers wake up as requests wait, the longest-waiting worker first.
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
    """A background service: ``for_request`` and ``for_reply`` wait, ``available`` and ``over`` end waits."""

    name = "service_waiting"

    def __init__(self, database: Database, pause_seconds: tuple[float, float] = (0.02, 0.5)) -> None:
        super().__init__(pause_seconds)
        self._database = database

    async def for_request(self, service: str, seconds: float) -> bool:
        """Return True as soon as the service may have a request, False after the time or when hookwire stops."""
        return await self._wait((service, _WORKER), seconds)

    async def for_reply(self, request_id: str, seconds: float) -> bool:
        """Return True as soon as the request may be over, False after the time or when hookwire stops."""
        return await self._wait((request_id, _CALLER), seconds)

    def available(self, service: str, count: int = 1) -> None:
        """Wake as many workers of a service as it has waiting requests."""
        self._wake((service, _WORKER), count)

    def over(self, request_id: str) -> None:
        """Wake the callers of a request that was answered or closed, or has failed."""
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
