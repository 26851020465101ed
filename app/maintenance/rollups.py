"""Rollups: fold the entries of settlements into the attempts of each minute, hour and day.

Any number of processes may fold: each batch is one statement, and its entries are claimed by it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from app.maintenance.entry_walk import EntryWalk
from app.verdict.grain import KEPT
from db.pool import Database

__all__ = ["Rollups"]

_ENTRIES: Final = 100  # of up to 1,000 attempts each, in one statement
_PURGED: Final = 5_000  # in one statement


class Rollups:
    """Folds the attempts of all subscriptions, and deletes minutes after 2 days, hours after 60, days after 400."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._entries = EntryWalk(database, "rollup.fold", _ENTRIES, datetime.fromtimestamp(0, UTC))

    async def fold(self, is_stopping: Callable[[], bool] = lambda: False) -> None:
        """Fold the waiting entries, then delete what is old. Raises ``db.errors.DatabaseError``."""
        await self._entries.run(is_stopping)
        for grain, kept in KEPT.items():
            while not is_stopping() and await self._database.execute("rollup.purge", grain, kept.days) == _PURGED:
                continue
