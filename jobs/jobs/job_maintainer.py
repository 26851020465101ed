"""Maintainer of jobs: handles due dates, deadlines, expired leases and schedules.

It runs when the due poller has found something. Any number of them may run: rows that another one has locked are
skipped. One transaction enqueues the job of a tick and stores the schedule's next time.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import structlog

from db.errors import DatabaseError, Refused
from db.pool import Database, Row
from jobs.jobs.cron import Cron, CronError
from runtime.periodic import Periodic

__all__ = ["JobMaintainer", "JobMaintainerOptions", "due_ticks"]

_log = structlog.get_logger(__name__)
_TICKS_MAX = 100
_MISSED = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class JobMaintainerOptions:
    """Intervals and batch sizes of the maintainer."""

    poll_seconds: float = 300.0
    batch: int = 500
    purge_seconds: float = 3_600.0
    purge_batch: int = 5_000


class JobMaintainer(Periodic):
    """Maintain in rounds. ``on_kept`` gets the counts of each pass that did something."""

    name = "job_maintainer"
    expected: ClassVar = (DatabaseError,)
    failure = "job_maintainer_failed"

    def __init__(
        self,
        database: Database,
        on_kept: Callable[[Mapping[str, int]], None] = lambda _: None,
        options: JobMaintainerOptions | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._options = options or JobMaintainerOptions()
        super().__init__(self._options.poll_seconds)
        self._database = database
        self._on_kept = on_kept
        self._clock = clock
        self._purge_at = time.monotonic() + 60

    async def once(self) -> None:
        """Fire schedules, handle due jobs even if that failed, then purge if ``purge_seconds`` have passed."""
        try:
            await self.fire()
        except DatabaseError as error:
            self.failed(error)
        await self.keep()
        await self._purge()

    async def keep(self) -> Counter[str]:
        """Handle due jobs in passes until a pass finds nothing; return the counts by action."""
        total: Counter[str] = Counter()
        while not self._is_stopping:
            row = await self._database.fetchrow("job.keep", self._options.batch)
            assert row is not None, "the function returns one row"
            done = {name: count for name, count in row.items() if count}
            if not done:
                break
            total.update(done)
            self._on_kept(done)
        if total:
            _log.info("jobs_kept", **total)
        return total

    async def fire(self) -> int:
        """Enqueue the jobs of due schedules; return the number of jobs."""
        fired = 0
        while not self._is_stopping:
            due = await self._database.fetch("job.schedules_due", self._options.batch)
            fired += sum([await self._fire(row) for row in due])
            if len(due) < self._options.batch:
                break
        return fired

    async def _fire(self, row: Row) -> int:
        try:
            ticks, following = due_ticks(
                Cron.parse(row["cron"], row["zone"]), row["next_at"], self._clock(), row["missed"]
            )
        except CronError as error:  # such as a zone that this machine does not know: try again tomorrow
            _log.error("schedule_invalid", schedule=row["name"], error=str(error))
            ticks, following = [], self._clock() + timedelta(days=1)
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
        self._purge_at = time.monotonic() + self._options.purge_seconds
        await self._database.execute("job.refresh_local")
        await self._database.execute("job.purge_rates")
        for row in await self._database.fetch("job.archived_kinds"):
            while not self._is_stopping:
                batch = self._options.purge_batch
                if await self._database.execute("job.purge_archive", row["kind"], batch) < batch:
                    break


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
