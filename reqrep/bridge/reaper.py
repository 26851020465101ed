"""The reaper ends expired leases of requests, expires requests and deletes old ones.

It runs when the due poller finds due requests, in bounded batches, the longest due first. Several reapers may run at
once: each skips rows that another has locked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar

import structlog

from db.errors import DatabaseError
from db.pool import Database
from runtime.periodic import Periodic

__all__ = ["RequestReaper"]

_log = structlog.get_logger(__name__)
_BATCH = 500
_ADOPT_SECONDS = 60.0
_PURGE_SECONDS = 3_600.0
_PURGE_BATCH = 5_000


class RequestReaper(Periodic):
    """Reaps periodically. ``on_reaped`` gets the counts of each batch that changed requests.

    ``archive_days``: days for which the archive of closed requests is kept; 0 keeps it for ever.
    """

    name = "request_reaper"
    expected: ClassVar = (DatabaseError,)
    failure = "request_reaper_failed"
    begins_later = True

    def __init__(
        self, database: Database, archive_days: int, on_reaped: Callable[[Mapping[str, int]], None] = lambda _: None
    ) -> None:
        super().__init__(_ADOPT_SECONDS)
        self._database = database
        self._archive_days = archive_days
        self._on_reaped = on_reaped
        self._adopt_at = 0.0
        self._purge_at = time.monotonic() + _ADOPT_SECONDS

    async def once(self) -> None:
        """Reap due requests. Once per minute register services that SQL callers used first; purge once per hour."""
        await self.reap()
        now = time.monotonic()
        if now >= self._adopt_at:
            self._adopt_at = now + _ADOPT_SECONDS
            await self._database.execute("service.adopt")
        if now >= self._purge_at:
            self._purge_at = now + _PURGE_SECONDS
            await self.purge()

    async def reap(self) -> None:
        """Reap batches until nothing is due."""
        await self.passes(partial(self._database.fetchrow, "request.reap", _BATCH), self._tell)

    def _tell(self, done: Mapping[str, int]) -> None:
        self._on_reaped(done)
        _log.info("requests_reaped", **done)

    async def purge(self) -> None:
        """Delete old keys of requests and old rows of the archive."""
        await self._purge("request.purge_keys")
        if self._archive_days:
            await self._purge("request.purge_archive", self._archive_days)

    async def _purge(self, statement: str, *more: object) -> None:
        await self.batches(partial(self._database.execute, statement, _PURGE_BATCH, *more), _PURGE_BATCH)
