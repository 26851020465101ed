"""Replay: a background task walks over events or dead letters and makes deliveries of them again. It also deletes dead
letters, gives up deliveries and cancels jobs.

::

               create            nothing left
    (dry run) -------> running -------------> done
                        ^   |
                 resume |   | pause           cancel, from running or paused
                        |   v                ------------------------------> cancelled
                        paused

Each step is one statement that makes its changes and moves the replay's cursor. So any process can continue a replay
after its last step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import structlog

from db.errors import DatabaseError
from db.pool import Database
from runtime.periodic import Periodic

__all__ = ["Replayer"]

_log = structlog.get_logger(__name__)
_RECORDS = 500  # in one step
_STEPS: Mapping[str, tuple[str, int]] = {
    "send": ("replay.step", _RECORDS), "purge": ("bulk.purge", 2_000), "give_up": ("bulk.give_up", 2_000),
    "cancel": ("bulk.cancel", 200),
}  # fmt: skip
"""The statement of each act, and how many records it examines in one step."""


class Replayer(Periodic):
    """Carry replays on; ``on_due`` gets the subscriptions that have new deliveries.

    ``poll_seconds``: the pause between two queries for a due replay.
    """

    name = "replayer"
    expected: ClassVar = (DatabaseError,)

    def __init__(self, database: Database, on_due: Callable[[Sequence[int]], None], poll_seconds: float = 2.0) -> None:
        super().__init__(poll_seconds)
        self._database = database
        self._on_due = on_due

    async def once(self) -> None:
        """Take steps until no replay is due."""
        while not self._is_stopping and await self.step():
            continue

    def failed(self, error: Exception) -> None:
        """Report that the database does not answer."""
        _log.warning("replay_waits", error=str(error))

    async def step(self) -> bool:
        """Take one step of the replay that is due; return False when none is due."""
        act = await self._database.fetchval("bulk.due")
        if act is None:
            return False
        row = await self._database.fetchrow(*_STEPS[act])
        if row is None or row["id"] is None:
            return False
        self._on_due(row["subscriptions"])
        return True
