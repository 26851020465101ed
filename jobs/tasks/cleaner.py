"""Cleaner: notifies workers again of tasks that none has claimed; recovers tasks of crashed workers.

It runs when the due poller has found something. Any number of cleaners may run; one pass at a time is active. A pass is
one transaction, so a pass that is killed changes nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import structlog

from db.errors import DatabaseError
from db.pool import Database
from runtime.periodic import Periodic

__all__ = ["Cleaner", "CleanerOptions"]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CleanerOptions:
    """Intervals, ages and batch sizes. ``archive_days`` and ``dead_days`` of 0 keep the rows for ever."""

    archive_days: int = 365
    dead_days: int = 90
    poll_seconds: float = 300.0
    batch: int = 500
    purge_seconds: float = 3_600.0
    purge_batch: int = 5_000


class Cleaner(Periodic):
    """Clean in rounds. ``on_cleaned`` gets the counts of each pass that did something."""

    name = "task_cleaner"
    expected: ClassVar = (DatabaseError,)
    failure = "task_cleaner_failed"

    def __init__(
        self,
        database: Database,
        options: CleanerOptions | None = None,
        on_cleaned: Callable[[Mapping[str, int]], None] = lambda _: None,
    ) -> None:
        self._options = options or CleanerOptions()
        super().__init__(self._options.poll_seconds)
        self._database = database
        self._on_cleaned = on_cleaned
        self._purge_at = time.monotonic() + 60

    async def once(self) -> None:
        """Clean due tasks, then purge if the interval has passed."""
        await self.clean()
        await self._purge()

    async def clean(self) -> Counter[str]:
        """Clean in passes until a pass finds nothing; return the counts by action."""
        total: Counter[str] = Counter()
        while not self._is_stopping:
            row = await self._database.fetchrow("task.clean", self._options.batch)
            assert row is not None, "the function returns one row"
            done = {name: count for name, count in row.items() if count}
            if not done:
                break
            total.update(done)
            self._on_cleaned(done)
        if total:
            _log.info("tasks_cleaned", **total)
        return total

    async def _purge(self) -> None:
        if time.monotonic() < self._purge_at:
            return
        self._purge_at = time.monotonic() + self._options.purge_seconds
        ages = {"task.purge_archive": self._options.archive_days, "task.purge_old_dead": self._options.dead_days}
        for statement, days in ages.items():
            while days and not self._is_stopping:
                if await self._database.execute(statement, days, self._options.purge_batch) < self._options.purge_batch:
                    break
