"""Ledger: fold the records of publishing and purging into counts and checksums for each hour.

::

    events, up to an id below which none can appear --+
                                                      +--> cells: sink, topic, hour --> `hookwire doctor --ledger`
    entries, one for each batch that left the outbox -+

Any number of processes may fold: each batch is one statement, and its rows are claimed by it.
"""

from __future__ import annotations

from collections.abc import Callable

from app.maintenance.entry_walk import EntryWalk
from db.pool import Database

__all__ = ["Ledger"]

_IDS = 20_000  # of events, in one statement
_ENTRIES = 20  # of a few thousand ids each, in one statement


class Ledger:
    """Folds the ledger, and deletes hours that are no longer kept (``hookwire.ledger_kept``)."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._entries = EntryWalk(database, "ledger.fold_entries", _ENTRIES, 0)

    async def fold(self, is_stopping: Callable[[], bool] = lambda: False) -> None:
        """Fold the waiting entries, then set the next mark: a later round folds its events."""
        await self._entries.run(is_stopping)
        while not is_stopping() and await self._database.fetchval("ledger.fold_events", _IDS) == _IDS:
            continue
        await self._mark()
        await self._database.execute("ledger.purge")

    async def _mark(self) -> None:
        horizon = await self._database.fetchrow("ledger.horizon")
        assert horizon is not None, "the sequence has one row"
        # Drawn in a separate statement, after the id was read: see relay.outbox.
        xid = await self._database.fetchval("outbox.draw_xid")
        await self._database.execute("ledger.mark", horizon["id"], horizon["at"], xid)
