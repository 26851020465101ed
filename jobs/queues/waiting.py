"""Waiting: receivers that wait for messages share one query of the database (JB-65).

As many receivers are woken as there are messages; the receiver that has waited longest is first.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from db.errors import DatabaseError
from db.pool import Database
from runtime.shared_wait import SharedWait

__all__ = ["Waiting"]

_log = structlog.get_logger(__name__)


class Waiting(SharedWait):
    """A service. Receivers call ``wait``; a submission in this process calls ``available``."""

    name = "queue_waiting"

    def __init__(self, database: Database, pause_seconds: tuple[float, float] = (0.02, 0.5)) -> None:
        super().__init__(pause_seconds)
        self._database = database

    async def wait(self, queue: str, seconds: float, consumer: str | None = None) -> bool:
        """Return True as soon as a message may be available, False after ``seconds`` or at a stop."""
        return await self._wait((queue, consumer), seconds)

    def available(self, queue: str, count: int = 1, consumer: str | None = None) -> None:
        """Wake ``count`` waiters of this queue, because messages have become available."""
        self._wake((queue, consumer), count)

    async def _ask(self) -> bool:
        moves = {queue: len(waiters) for (queue, consumer), waiters in self._waiters.items() if consumer is None}
        copies = [(queue, consumer) for queue, consumer in self._waiters if consumer is not None]
        try:
            return await self._ask_moves(moves) | await self._ask_copies(copies)
        except DatabaseError as error:
            _log.warning("queue_waiting_failed", error=str(error))
            return False

    async def _ask_moves(self, waiting: Mapping[str, int]) -> bool:
        if not waiting:
            return False
        rows = await self._database.fetch("message.available_among", list(waiting), list(waiting.values()))
        for row in rows:
            self.available(row["queue"], row["available"])
        return any(row["available"] for row in rows)

    async def _ask_copies(self, waiting: list[tuple[str, str]]) -> bool:
        if not waiting:
            return False
        names = [consumer for _, consumer in waiting]
        rows = await self._database.fetch("consumer.behind_among", [queue for queue, _ in waiting], names)
        for row in rows:
            self.available(row["queue"], 1, row["name"])
        return bool(rows)
