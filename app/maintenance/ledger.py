"""Ledger: fold the records of publishing and purging into counts and checksums for each hour (PL-A01..A05).

::

    events, up to an id below which none can appear --+
                                                      +--> cells: sink, topic, hour --> `hookwire doctor --ledger`
    entries, one for each batch that left the outbox -+

Any number of processes may fold: each batch is one statement, and its rows are claimed by it.

Entries are folded by number, and a round does not read below the end of the last round but one. Under a held snapshot
every folded entry is still there and would be read past (RR-07). The next round finds an entry that commits late,
because no statement that writes one runs for so long. An hourly round also reads from the beginning.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from db.pool import Database

__all__ = ["Ledger"]

_IDS = 20_000  # of events, in one statement
_ENTRIES = 20  # of a few thousand ids each, in one statement
_WHOLE_SECONDS = 3_600.0  # between two rounds that read all entries


class Ledger:
    """Folds the ledger. ``retention_seconds``: how long an hour's cells are kept, by default 400 days."""

    def __init__(self, database: Database, retention_seconds: int = 400 * 86_400) -> None:
        self._database = database
        self._retention_seconds = retention_seconds
        self._ends = (0, 0)
        self._whole_at = 0.0

    async def fold(self, is_stopping: Callable[[], bool] = lambda: False) -> None:
        """Fold the waiting entries, then set the next mark: a later round folds its events."""
        await self._fold_entries(is_stopping)
        while not is_stopping() and await self._database.fetchval("ledger.fold_events", _IDS) == _IDS:
            continue
        await self._mark()
        await self._database.execute("ledger.purge", self._retention_seconds)

    async def _fold_entries(self, is_stopping: Callable[[], bool]) -> None:
        before_last, last = self._ends
        if (now := time.monotonic()) >= self._whole_at:
            before_last, self._whole_at = 0, now + _WHOLE_SECONDS
        after, entries = before_last, _ENTRIES
        while entries == _ENTRIES and not is_stopping():
            row = await self._database.fetchrow("ledger.fold_entries", _ENTRIES, after)
            assert row is not None, "an aggregate has one row"
            entries, after = row["entries"], row["last"] or after
        self._ends = (last, max(last, after))

    async def _mark(self) -> None:
        horizon = await self._database.fetchrow("ledger.horizon")
        assert horizon is not None, "the sequence has one row"
        # Drawn in a separate statement, after the id was read: see relay.outbox.
        xid = await self._database.fetchval("outbox.draw_xid")
        await self._database.execute("ledger.mark", horizon["id"], horizon["at"], xid)
