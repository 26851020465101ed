"""Reaper: a message that its receiver did not settle within the lease is available again, or dead.

It runs when the due poller has found something, in bounded batches, oldest first. Any number of reapers may run: rows
that another reaper has locked are skipped. Once per minute it removes expired temporary queues and adds rows for queues
that other programs have created in SQL. Once per hour it deletes rows older than their queue's retention.
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

__all__ = ["Reaper"]

_log = structlog.get_logger(__name__)
_PURGES = ("queue.purge_archive", "queue.purge_log", "queue.purge_dead")
_PAGE = 500
_BATCH = 1_000
_CLEANUP_SECONDS = 60.0
_PURGE_SECONDS = 3_600.0
_PURGE_BATCH = 5_000
_PURGE_BATCHES_MAX = 200
"""Of one table in one round."""


class Reaper(Periodic):
    """Reap in rounds. ``on_reaped`` gets the counts of each batch that changed messages."""

    name = "reaper"
    expected: ClassVar = (DatabaseError,)
    failure = "reaper_failed"
    begins_later = True

    def __init__(self, database: Database, on_reaped: Callable[[Mapping[str, int]], None] = lambda _: None) -> None:
        super().__init__(_CLEANUP_SECONDS)
        self._database = database
        self._on_reaped = on_reaped
        self._cleanup_at = 0.0
        self._purge_at = time.monotonic() + _CLEANUP_SECONDS

    async def once(self) -> None:
        """Reap due messages, then check and purge the queues if their intervals have passed."""
        await self.reap()
        await self._keep_up()

    async def reap(self) -> None:
        """Reap in batches until nothing is due."""
        total = await self.passes(partial(self._database.fetchrow, "message.reap", _BATCH), self._on_reaped)
        if total:
            _log.info("reaped", returned=total["returned"], dead=total["dead"], promoted=total["promoted"])

    async def _keep_up(self) -> None:
        now = time.monotonic()
        if now >= self._cleanup_at:
            self._cleanup_at = now + _CLEANUP_SECONDS
            await self.keep_queues()
        if now >= self._purge_at:
            self._purge_at = now + _PURGE_SECONDS
            await self.purge()

    async def keep_queues(self) -> None:
        """Add rows for queues that were used before they were declared; remove expired temporary queues."""
        await self._database.execute("queue.adopt")
        for row in await self._database.fetch("queue.expired"):
            await self._database.fetch("queue.remove", row["name"], "reaper", "expired")

    async def purge(self) -> int:
        """Delete rows that are older than their queue's retention; return their number."""
        removed, after = 0, ""
        while queues := await self._database.fetch("queue.list", after, _PAGE):
            for queue in queues:
                for statement in _PURGES:
                    removed += await self._purge(statement, queue["name"], queue["retention_days"])
            after = queues[-1]["name"]
        return removed

    async def _purge(self, statement: str, queue: str, days: int) -> int:
        removed = 0
        for _ in range(_PURGE_BATCHES_MAX):
            count = await self._database.execute(statement, queue, days, _PURGE_BATCH)
            removed += count
            if count < _PURGE_BATCH or self._is_stopping:
                break
        return removed
