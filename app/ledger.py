"""Ledger: folds what publishing and purging leave behind into counts and checksums for each hour (PL-A01..A05).

::

    events, up to an id below which none can appear --+
                                                      +--> cells: sink, topic, hour --> `hookwire doctor --ledger`
    entries, one for each batch that left the outbox -+

Any number of processes may fold: each batch is one statement, and its rows are claimed by it.
"""

from __future__ import annotations

from collections.abc import Callable

from db.pool import Database

__all__ = ["Ledger"]

_IDS = 20_000  # of events, in one statement
_ENTRIES = 20  # of a few thousand ids each, in one statement


class Ledger:
    """``retention_seconds``: how long an hour's cells are kept, by default 400 days."""

    def __init__(self, database: Database, retention_seconds: int = 400 * 86_400) -> None:
        self._database = database
        self._retention_seconds = retention_seconds

    async def fold(self, is_stopping: Callable[[], bool] = lambda: False) -> None:
        """Fold what is there, then note the next mark: its events are folded by a later round."""
        for statement, size in (("ledger.fold_entries", _ENTRIES), ("ledger.fold_events", _IDS)):
            while not is_stopping() and await self._database.fetchval(statement, size) == size:
                continue
        await self._mark()
        await self._database.execute("ledger.purge", self._retention_seconds)

    async def _mark(self) -> None:
        horizon = await self._database.fetchrow("ledger.horizon")
        assert horizon is not None, "the sequence has one row"
        # Drawn in a statement of its own, after the id was read: see relay.outbox.
        xid = await self._database.fetchval("outbox.draw_xid")
        await self._database.execute("ledger.mark", horizon["id"], horizon["at"], xid)
