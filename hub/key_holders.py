"""KeyHolders: log the sessions that hold the lock of a key, when a publish is refused for it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Final

import structlog

from db.errors import DatabaseError
from db.pool import Row, Session

__all__ = ["KeyHolders"]

_log = structlog.get_logger(__name__)
_PAUSE_SECONDS: Final = 10.0


class KeyHolders:
    """The holders of locks of ordering keys. It asks at most once in ten seconds."""

    def __init__(self, database: Session) -> None:
        self._database = database
        self._next_at = 0.0

    async def tell(self, stripes: Collection[int]) -> None:
        """Log the sessions that hold one of these locks. Other code reports a database that does not answer."""
        now = asyncio.get_running_loop().time()
        if now < self._next_at:
            return
        self._next_at = now + _PAUSE_SECONDS
        for row in await self.find(stripes):
            _log.warning("key_busy", pid=row["pid"], role=row["role"], application=row["application"])

    async def find(self, stripes: Collection[int]) -> Sequence[Row]:
        """Return the sessions that hold one of these locks: pid, role, application; none if the database is silent."""
        try:
            return await self._database.fetch("event.key_holders", sorted(stripes))
        except DatabaseError:
            return ()
