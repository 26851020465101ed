"""Cleaner: notifies workers again of tasks that none has claimed; recovers tasks of crashed workers.

It runs when the due poller has found something. Any number of cleaners may run; one pass at a time is active. A pass is
one transaction, so a pass that is killed changes nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar

import structlog

from db.errors import DatabaseError
from db.pool import Database
from runtime.periodic import Periodic

__all__ = ["Cleaner"]

_log = structlog.get_logger(__name__)
_POLL_SECONDS = 300.0
_BATCH = 500
_PURGE_SECONDS = 3_600.0
_PURGE_BATCH = 5_000


class Cleaner(Periodic):
    """Clean in rounds. ``on_cleaned`` gets the counts of each pass that did something.

    ``archive_days`` and ``dead_days`` of 0 keep the rows for ever.
    """

    name = "task_cleaner"
    expected: ClassVar = (DatabaseError,)
    failure = "task_cleaner_failed"
    begins_later = True

    def __init__(
        self,
        database: Database,
        archive_days: int = 365,
        dead_days: int = 90,
        on_cleaned: Callable[[Mapping[str, int]], None] = lambda _: None,
    ) -> None:
        super().__init__(_POLL_SECONDS)
        self._database = database
        self._ages = {"task.purge_archive": archive_days, "task.purge_old_dead": dead_days}
        self._on_cleaned = on_cleaned
        self._purge_at = time.monotonic() + 60

    async def once(self) -> None:
        """Clean due tasks, then purge if the interval has passed."""
        await self.clean()
        await self._purge()

    async def clean(self) -> Counter[str]:
        """Clean in passes until a pass finds nothing; return the counts by action."""
        total = await self.passes(partial(self._database.fetchrow, "task.clean", _BATCH), self._on_cleaned)
        if total:
            _log.info("tasks_cleaned", **total)
        return total

    async def _purge(self) -> None:
        if time.monotonic() < self._purge_at:
            return
        self._purge_at = time.monotonic() + _PURGE_SECONDS
        for statement, days in self._ages.items():
            if days:
                await self.batches(partial(self._database.execute, statement, days, _PURGE_BATCH), _PURGE_BATCH)
