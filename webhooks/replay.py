"""Replay: a job walks over events or dead letters and makes deliveries of them again (WH-P01..P04).

::

               create            nothing left
    (dry run) -------> running -------------> done
                        ^   |
                 resume |   | pause           cancel, from running or paused
                        |   v                ------------------------------> cancelled
                        paused

Each step is one statement that moves the job's cursor with the deliveries it makes, so a job goes on behind its last
step wherever its process ended, and any process may carry it on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

from db.errors import DatabaseError
from db.pool import Database
from runtime.pause import pause

__all__ = ["Replayer"]

_log = structlog.get_logger(__name__)
_RECORDS = 500  # in one step


class Replayer:
    """Carries replays on while :meth:`run` runs; ``on_due`` is told the subscriptions that got something to do.

    ``poll_seconds``: how often the database is asked for a job that is due when nobody rings."""

    name = "replayer"

    def __init__(self, database: Database, on_due: Callable[[Sequence[int]], None], poll_seconds: float = 2.0) -> None:
        self._database = database
        self._on_due = on_due
        self._poll_seconds = poll_seconds
        self._rung = asyncio.Event()
        self._stopping = False

    def ring(self) -> None:
        """A job is due."""
        self._rung.set()

    def stop(self) -> None:
        """End after the current step."""
        self._stopping = True
        self._rung.set()

    async def run(self) -> None:
        """Step after step until stopped."""
        while not self._stopping:
            self._rung.clear()
            try:
                while not self._stopping and await self.step():
                    continue
            except DatabaseError as error:
                _log.warning("replay_waits", error=str(error))
            await pause(self._rung, self._poll_seconds)

    async def step(self) -> bool:
        """One step of the job that is due; False when none is."""
        row = await self._database.fetchrow("replay.step", _RECORDS)
        if row is None or row["id"] is None:
            return False
        self._on_due(row["subscriptions"])
        return True
