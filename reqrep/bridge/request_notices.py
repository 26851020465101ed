"""Request notices: after a commit, tell processes elsewhere which request or service it concerns.

A notice is a line of a NOTIFY, ``waiting <number> <service>`` or ``over <request id>``. It is never sent in the
transaction that it tells of: that would slow every commit. A notice that cannot be sent loses nothing, because the
others also poll. They poll at once if the text is empty, as that of a transaction in SQL is.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import structlog

from db.errors import DatabaseError
from db.pool import Database
from runtime.periodic import Periodic

__all__ = ["OVER", "WAITING", "RequestNotices"]

OVER: Final = "over"
WAITING: Final = "waiting"
_log = structlog.get_logger(__name__)
_REST_SECONDS: Final = 0.005
_LINES_OF_TEXT: Final = 30
"""A line has at most 230 bytes, and PostgreSQL takes texts below 8,000 bytes."""
_LINES_MAX: Final = 300


class RequestNotices(Periodic):
    """Sends what has gathered, then rests, so that many commits share a notification."""

    name = "service_notices"

    def __init__(self, database: Database, rest_seconds: float = _REST_SECONDS) -> None:
        super().__init__(None)
        self._database = database
        self._rest_seconds = rest_seconds
        self._waiting: Counter[str] = Counter()
        self._over: list[str] = []

    def waiting(self, service: str) -> None:
        """Tell that one more request of the service waits for a worker."""
        self._waiting[service] += 1
        self.notify()

    def over(self, request_id: str) -> None:
        """Tell that a request was answered or closed, or has failed."""
        self._over.append(request_id)
        self.notify()

    async def once(self) -> None:
        """Send the lines that have gathered."""
        lines = [f"{WAITING} {number} {service}" for service, number in self._waiting.items()]
        lines += [f"{OVER} {request_id}" for request_id in self._over]
        self._waiting, self._over = Counter(), []
        try:
            await self._database.execute("request.notify", list(_texts(lines)) if len(lines) <= _LINES_MAX else [""])
        except DatabaseError as error:
            _log.warning("notify_failed", error=str(error))
        await asyncio.sleep(self._rest_seconds)


def _texts(lines: Sequence[str]) -> Iterator[str]:
    return ("\n".join(lines[at : at + _LINES_OF_TEXT]) for at in range(0, len(lines), _LINES_OF_TEXT))
