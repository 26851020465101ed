"""Waiting for jobs: workers that wait over HTTP share one query of the database (JB-65)."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from db.errors import DatabaseError
from db.pool import Database
from runtime.shared_wait import SharedWait

__all__ = ["JobWaiting"]

_log = structlog.get_logger(__name__)
_ANY = "*"


class JobWaiting(SharedWait):
    """A service. Each waiter names its queue and its kinds."""

    name = "job_waiting"

    def __init__(self, database: Database, pause_seconds: tuple[float, float] = (0.02, 0.5)) -> None:
        super().__init__(pause_seconds)
        self._database = database

    async def wait_for(self, queue: str, kinds: Sequence[str] | None, seconds: float) -> bool:
        """Return True as soon as a job of these kinds may be available, False after ``seconds`` or at a stop."""
        return await self._wait((queue, _ANY if kinds is None else " ".join(sorted(kinds))), seconds)

    async def _ask(self) -> bool:
        queues = {queue for queue, _ in self._waiters}
        try:
            rows = await self._database.fetch("job.available", sorted(queues))
        except DatabaseError as error:
            _log.warning("job_waiting_failed", error=str(error))
            return False
        found = {row["queue"]: set(row["kinds"]) for row in rows}
        woken = [
            (queue, wanted)
            for queue, wanted in self._waiters
            if found[queue] and (wanted == _ANY or not found[queue].isdisjoint((wanted or "").split()))
        ]
        for key in woken:
            self._wake(key, 1)
        return bool(woken)
