"""Tasks: the counts that a scaler compares. The SDK enqueues, claims and settles tasks (JB-20..JB-39).

The rules are SQL functions (``db/functions/task.sql``), so that any language can enqueue or work.
"""

from __future__ import annotations

from db.pool import Database, Row

__all__ = ["Tasks"]


class Tasks:
    """Counts tasks. All methods raise ``db.errors.DatabaseError``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def rates(self) -> Row:
        """Return the counts that a scaler compares: ``arrived``, ``completed``, ``waiting``."""
        row = await self._database.fetchrow("task.rates")
        assert row is not None, "a sequence has one row"
        return row
