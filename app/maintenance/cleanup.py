"""Upkeep: partitions made far ahead (RR-05), idempotency keys forgotten in time, deliveries of ended subscriptions
cancelled, the ledger folded. Any number of processes may run it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from app.maintenance.ledger import Ledger
from db.errors import DatabaseError
from db.pool import Database
from runtime.pause import pause

__all__ = ["Upkeep"]

_log = structlog.get_logger(__name__)
_BATCH = 5_000


class Upkeep:
    """Runs every ``interval_seconds``; its statements may run anywhere at once."""

    name = "upkeep"

    def __init__(self, database: Database, idempotency_seconds: int, interval_seconds: float = 60.0) -> None:
        self._database = database
        self._ledger = Ledger(database)
        self._idempotency_seconds = idempotency_seconds
        self._interval_seconds = interval_seconds
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """End after the current round."""
        self._stopping.set()

    async def run(self) -> None:
        """Round after round until stopped."""
        while not self._stopping.is_set():
            try:
                await self.once()
            except DatabaseError as error:
                _log.warning("upkeep_failed", error=str(error))
            await pause(self._stopping, self._interval_seconds)

    async def once(self) -> int:
        """One round; returns how many partitions were made."""
        made = int(await self._database.fetchval("event.ensure_partitions"))
        if made:
            _log.info("partitions_made", partitions=made)
        await self._in_batches(
            lambda: self._database.execute("event.purge_idempotency_keys", self._idempotency_seconds)
        )
        await self._database.execute("pull.end_unasked")
        ended = [row["id"] for row in await self._database.fetch("delivery.ended_subscriptions")]
        if ended:
            await self._in_batches(lambda: self._database.fetchval("delivery.cancel_ended", ended, _BATCH))
        await self._ledger.fold(self._stopping.is_set)
        return made

    async def _in_batches(self, batch: Callable[[], Awaitable[int]]) -> None:
        while not self._stopping.is_set() and await batch() == _BATCH:
            continue
