"""NOTIFY after commit: an API process wakes the relays of other processes (RR-15).

At most one notification per ``interval_seconds``, and never inside a publishing transaction: that would slow every
commit. A notification that cannot be sent loses nothing, because the relays also poll.
"""

from __future__ import annotations

import asyncio

import structlog

from db.errors import DatabaseError
from db.pool import Database

__all__ = ["Notifier"]

_log = structlog.get_logger(__name__)


class Notifier:
    """Notifies the relays of other processes after a commit of this process."""

    name = "notifier"

    def __init__(self, database: Database, interval_seconds: float = 0.05) -> None:
        self._database = database
        self._interval_seconds = interval_seconds
        self._notified = asyncio.Event()
        self._stopping = False

    def notify(self) -> None:
        """Send a notification soon, because an event was committed."""
        self._notified.set()

    def stop(self) -> None:
        """Stop after the pending notification is sent."""
        self._stopping = True
        self._notified.set()

    async def run(self) -> None:
        """Send notifications until stopped."""
        while not self._stopping:
            await self._notified.wait()
            self._notified.clear()
            try:
                await self._database.execute("event.notify")
            except DatabaseError as error:
                _log.warning("notify_failed", error=str(error))
            await asyncio.sleep(self._interval_seconds)
