"""Hold: the run of a backfill that this process holds under a lease, and the fence of its writes."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Final

from app.cli.failure import CommandFailed
from db.errors import DatabaseError
from db.pool import Database

__all__ = ["LEASE_SECONDS", "HoldLost", "RunHold"]

LEASE_SECONDS: Final = 60.0
"""Longer than an attempt, so that no attempt outlives the lease under which it began."""


class HoldLost(CommandFailed):
    """Another process has taken the run, or the lease ended before the database renewed it."""

    def __init__(self, replay: int) -> None:
        super().__init__(f"this process does not hold replay_{replay} any more: another one may have taken it", 3)


class RunHold:
    """One take of a run. ``asked_at``: the monotonic time before the statement that took it."""

    def __init__(self, database: Database, replay: int, fence: int, asked_at: float) -> None:
        self.replay = replay
        self.fence = fence
        self._database = database
        self._until = asked_at + LEASE_SECONDS

    def check(self, seconds: float = 0.0) -> None:
        """Raise :class:`HoldLost` unless the lease lasts for so long: call it before the first byte of an attempt."""
        if time.monotonic() >= self.latest(seconds):
            raise HoldLost(self.replay)

    def latest(self, seconds: float) -> float:
        """Return the monotonic time after which an attempt of so many seconds would outlast the lease."""
        return self._until - seconds

    async def renew(self) -> None:
        """Hold it for another lease from now on. Raises :class:`HoldLost` and ``DatabaseError``."""
        asked_at = time.monotonic()
        row = await self._database.fetchrow("backfill.renew", self.replay, self.fence, LEASE_SECONDS)
        if row is None:
            self._until = 0.0
            raise HoldLost(self.replay)
        self._until = asked_at + LEASE_SECONDS

    async def keep(self) -> None:
        """Renew until it is cancelled. Raises :class:`HoldLost`."""
        while True:
            await asyncio.sleep(LEASE_SECONDS / 6)
            with suppress(DatabaseError):  # it may answer before the lease ends
                await self.renew()

    async def leave(self, state: str, why: str | None) -> None:
        """Give it back, in this state unless somebody has paused or cancelled it."""
        await self._database.fetchval("backfill.leave", self.replay, self.fence, state, why)
        self._until = 0.0
