"""Incidents: states that change by themselves, and the dead letters of before.

A round takes one statement, which finds nothing to do where nothing fails. Each change and its notice for operators are
one transaction, so that a notice is published once. Any number of processes may run it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from db.pool import Database

__all__ = ["Incidents"]

_LETTERS: Final = 2_000  # in one statement
_WHOLE_SECONDS: Final = 600.0  # between two rounds that look for incidents of which nothing is left


class Incidents:
    """Watches the incidents of the installation."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._whole_at = 0.0

    async def watch(self, is_stopping: Callable[[], bool] = lambda: False) -> None:
        """Change the states that change by themselves, then group dead letters that have no incident yet.

        Raises ``db.errors.DatabaseError``.
        """
        now = time.monotonic()
        is_whole = now >= self._whole_at
        await self._database.fetchval("incident.watch", is_whole)
        if is_whole:
            self._whole_at = now + _WHOLE_SECONDS
        while not is_stopping() and await self._database.fetchval("incident.group_old", _LETTERS) == _LETTERS:
            continue
