"""Entry walk: rounds over entries that other processes write, in their order. A statement claims those that it reads.

A round does not read below the end of the last round but one. Under a held snapshot every folded entry is still there
and would be read past. The next round finds an entry that commits late, because no statement that writes one takes so
long. An hourly round also reads from the beginning: so an entry from before a jump of the clock is found, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from db.pool import Database

__all__ = ["EntryWalk"]

_WHOLE_SECONDS: Final = 3_600.0  # between two rounds that read all entries


class EntryWalk:
    """One table's rounds. ``statement`` gets ``batch`` and a place. It returns how many entries it read, and the last
    one's place. ``first`` is a place before all others.
    """

    def __init__(self, database: Database, statement: str, batch: int, first: Any) -> None:
        self._database = database
        self._statement = statement
        self._batch = batch
        self._first = first
        self._ends = (first, first)
        self._whole_at = 0.0

    async def run(self, is_stopping: Callable[[], bool]) -> None:
        """Run one round. Raises ``db.errors.DatabaseError``."""
        before_last, last = self._ends
        if (now := time.monotonic()) >= self._whole_at:
            before_last, self._whole_at = self._first, now + _WHOLE_SECONDS
        after, entries = before_last, self._batch
        while entries == self._batch and not is_stopping():
            row = await self._database.fetchrow(self._statement, self._batch, after)
            assert row is not None, "an aggregate has one row"
            entries, after = row["entries"], row["last"] or after
        self._ends = (last, max(last, after))
