"""Reaper: a message that its receiver did not settle within the lease is available again, or dead.

It runs when the due poller has found something, in bounded batches, oldest first. Any number of reapers may run: rows
that another reaper has locked are skipped. Every ``cleanup_seconds`` it removes expired temporary queues and adds rows
for queues that other programs have created in SQL. Every ``purge_seconds`` it deletes rows older than their queue's
retention.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import structlog

from db.errors import DatabaseError
from db.pool import Database
from runtime.periodic import Periodic

__all__ = ["Reaped", "Reaper", "ReaperOptions"]

_log = structlog.get_logger(__name__)
_PURGES = ("queue.purge_archive", "queue.purge_log", "queue.purge_dead")
_PAGE = 500


@dataclass(frozen=True, slots=True)
class ReaperOptions:
    """Intervals and batch sizes. ``purge_batches_max``: batches of one table in one round."""

    poll_seconds: float = 300.0
    batch: int = 1_000
    cleanup_seconds: float = 60.0
    purge_seconds: float = 3_600.0
    purge_batch: int = 5_000
    purge_batches_max: int = 200


@dataclass(frozen=True, slots=True)
class Reaped:
    """Counts of one batch."""

    returned: int
    dead: int
    promoted: int

    @property
    def total(self) -> int:
        """Return the number of messages whose state changed."""
        return self.returned + self.dead + self.promoted


class Reaper(Periodic):
    """Reap in rounds. ``on_reaped`` gets each batch that changed something."""

    name = "reaper"
    expected: ClassVar = (DatabaseError,)
    failure = "reaper_failed"

    def __init__(
        self,
        database: Database,
        on_reaped: Callable[[Reaped], None] = lambda _: None,
        options: ReaperOptions | None = None,
    ) -> None:
        self._options = options or ReaperOptions()
        super().__init__(min(self._options.poll_seconds, self._options.cleanup_seconds))
        self._database = database
        self._on_reaped = on_reaped
        self._cleanup_at = 0.0
        self._purge_at = time.monotonic() + self._options.cleanup_seconds

    async def once(self) -> None:
        """Reap due messages, then check and purge the queues if their intervals have passed."""
        await self.reap()
        await self._keep_up()

    async def reap(self) -> Reaped:
        """Reap in batches until nothing is due; return the counts."""
        total = Reaped(0, 0, 0)
        while not self._is_stopping:
            row = await self._database.fetchrow("message.reap", self._options.batch)
            assert row is not None, "the function returns one row"
            batch = Reaped(row["returned"], row["dead"], row["promoted"])
            if not batch.total:
                break
            self._on_reaped(batch)
            total = Reaped(total.returned + batch.returned, total.dead + batch.dead, total.promoted + batch.promoted)
        if total.total:
            _log.info("reaped", returned=total.returned, dead=total.dead, promoted=total.promoted)
        return total

    async def _keep_up(self) -> None:
        now = time.monotonic()
        if now >= self._cleanup_at:
            self._cleanup_at = now + self._options.cleanup_seconds
            await self.keep_queues()
        if now >= self._purge_at:
            self._purge_at = now + self._options.purge_seconds
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
        for _ in range(self._options.purge_batches_max):
            count = await self._database.execute(statement, queue, days, self._options.purge_batch)
            removed += count
            if count < self._options.purge_batch or self._is_stopping:
                break
        return removed
