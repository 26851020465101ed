"""Maintainer of jobs: handles due dates, deadlines, expired leases and schedules.

It runs when the due poller has found something. Any number of them may run: rows that another one has locked are
skipped. One transaction enqueues the job of a tick and stores the schedule's next time.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import ClassVar

import structlog

from db.errors import DatabaseError, Refused
from db.pool import Database, Row
from jobs.jobs.cron import Cron, CronError
from runtime.periodic import Periodic

__all__ = ["JobMaintainer", "due_ticks"]

_log = structlog.get_logger(__name__)
_TICKS_MAX = 100
_MISSED = timedelta(seconds=60)
_POLL_SECONDS = 300.0
_BATCH = 500
_PURGE_SECONDS = 3_600.0
_PURGE_BATCH = 5_000


class JobMaintainer(Periodic):
    """Maintain in rounds. ``on_kept`` gets the counts of each pass that did something."""

    name = "job_maintainer"
    expected: ClassVar = (DatabaseError,)
    failure = "job_maintainer_failed"
    begins_later = True

    def __init__(self, database: Database, on_kept: Callable[[Mapping[str, int]], None] = lambda _: None) -> None:
        super().__init__(_POLL_SECONDS)
        self._database = database
        self._on_kept = on_kept
        self._purge_at = time.monotonic() + 60

    async def once(self) -> None:
        """Fire schedules, handle due jobs even if that failed, then purge if the interval has passed."""
        try:
            await self.fire()
        except DatabaseError as error:
            self.failed(error)
        await self.keep()
        await self._purge()

    async def keep(self) -> Counter[str]:
        """Handle due jobs in passes until a pass finds nothing; return the counts by action."""
        total = await self.passes(partial(self._database.fetchrow, "job.keep", _BATCH), self._on_kept)
        if total:
            _log.info("jobs_kept", **total)
        return total

    async def fire(self) -> int:
        """Enqueue the jobs of due schedules; return the number of jobs."""
        fired = 0
        while not self._is_stopping:
            due = await self._database.fetch("job.schedules_due", _BATCH)
            fired += sum([await self._fire(row) for row in due])
            if len(due) < _BATCH:
                break
        return fired

    async def _fire(self, row: Row) -> int:
        now = datetime.now(UTC)
        try:
            ticks, following = due_ticks(Cron.parse(row["cron"], row["zone"]), row["next_at"], now, row["missed"])
        except CronError as error:  # such as a zone that this machine does not know: try again tomorrow
            _log.error("schedule_invalid", schedule=row["name"], error=str(error))
            ticks, following = [], now + timedelta(days=1)
        try:
            return await self._enqueue(row, following, ticks)
        except Refused as error:  # such as a live job with the same uniq: go on with the next tick
            _log.error("schedule_refused", schedule=row["name"], error=error.message)
            return await self._enqueue(row, following, [])

    async def _enqueue(self, row: Row, following: datetime, ticks: Sequence[datetime]) -> int:
        count: int = await self._database.fetchval("job.fire", row["name"], row["next_at"], following, ticks)
        return count

    async def _purge(self) -> None:
        if time.monotonic() < self._purge_at:
            return
        self._purge_at = time.monotonic() + _PURGE_SECONDS
        await self._database.execute("job.refresh_local")
        await self._database.execute("job.purge_rates")
        for row in await self._database.fetch("job.archived_kinds"):
            purge = partial(self._database.execute, "job.purge_archive", row["kind"], _PURGE_BATCH)
            await self.batches(purge, _PURGE_BATCH)


def due_ticks(cron: Cron, next_at: datetime, now: datetime, missed: str) -> tuple[list[datetime], datetime]:
    """Return the ticks to enqueue now, and the time when the schedule is due next.

    ``missed`` decides about ticks that were not fired in time: ``skip``, ``coalesce`` into one, ``catch_up``.
    """
    if missed == "catch_up":
        ticks = [next_at]
        while len(ticks) < _TICKS_MAX and (following := cron.after(ticks[-1])) <= now:
            ticks.append(following)
        return ticks, cron.after(ticks[-1])
    following = cron.after(now)
    is_late = now - next_at > _MISSED
    return ([] if missed == "skip" and is_late else [next_at]), following
