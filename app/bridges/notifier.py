"""NOTIFY after commit: a process wakes the relays of other processes.

At most one notification per ``interval_seconds``, and never inside a publishing transaction: that would slow every
commit. A notification that cannot be sent loses nothing, because the others also poll.
"""

from __future__ import annotations

import asyncio

import structlog

from db.errors import DatabaseError
from db.pool import Database
from runtime.periodic import Periodic

__all__ = ["Notifier"]

_log = structlog.get_logger(__name__)


class Notifier(Periodic):
    """Notifies the relays of other processes after a commit of this process."""

    name = "notifier"

    def __init__(self, database: Database, interval_seconds: float = 0.02) -> None:
        super().__init__(None)
        self._database = database
        self._rest_seconds = interval_seconds

    async def once(self) -> None:
        """Send a notification, then rest."""
        try:
            await self._database.execute("event.notify")
        except DatabaseError as error:
            _log.warning("notify_failed", error=str(error))
        await asyncio.sleep(self._rest_seconds)
