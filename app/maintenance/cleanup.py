"""Clean-up: what has to be done once a minute. Any number of processes may run it.

It makes partitions far ahead. It deletes old idempotency keys, kept answers, sessions, former audiences and requests at
inbound sources. It cancels deliveries of ended subscriptions, watches incidents, and folds the ledger and the rollups.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar, Final

import structlog

from app.maintenance.incidents import Incidents
from app.maintenance.ledger import Ledger
from app.maintenance.rollups import Rollups
from db.errors import DatabaseError
from db.pool import Database
from runtime.periodic import Periodic

__all__ = ["Cleanup"]

_log = structlog.get_logger(__name__)
_BATCH = 5_000
_INBOUND_REQUEST_SECONDS: Final = 7 * 86_400
"""How long the last requests at an inbound source are kept: a refused body may be somebody's data."""


class Cleanup(Periodic):
    """Run every ``interval_seconds``; its statements may run in several processes at once."""

    name = "clean-up"
    expected: ClassVar = (DatabaseError,)
    failure = "cleanup_failed"
    begins_later = True

    def __init__(self, database: Database, idempotency_seconds: int, interval_seconds: float = 60.0) -> None:
        super().__init__(interval_seconds)
        self._database = database
        self._ledger = Ledger(database)
        self._incidents = Incidents(database)
        self._rollups = Rollups(database)
        self._idempotency_seconds = idempotency_seconds

    async def once(self) -> int:
        """Run one round; return how many partitions were made."""
        made = int(await self._database.fetchval("event.ensure_partitions"))
        if made:
            _log.info("partitions_made", partitions=made)
        await self._in_batches(
            lambda: self._database.execute("event.purge_idempotency_keys", self._idempotency_seconds)
        )
        await self._in_batches(lambda: self._database.execute("event.purge_delivery_ids", self._idempotency_seconds))
        await self._in_batches(lambda: self._database.execute("inbound.purge_requests", _INBOUND_REQUEST_SECONDS))
        await self._in_batches(lambda: self._database.execute("answer.purge", self._idempotency_seconds))
        await self._in_batches(lambda: self._database.execute("sign_in.purge"))
        await self._database.execute("pull.expire_idle")
        await self._database.execute("delivery.forget_former_audiences")
        ended = [row["id"] for row in await self._database.fetch("delivery.ended_subscriptions")]
        if ended:
            await self._in_batches(lambda: self._database.fetchval("delivery.cancel_ended", ended, _BATCH))
        await self._incidents.watch(lambda: self._is_stopping)
        await self._ledger.fold(lambda: self._is_stopping)
        await self._rollups.fold(lambda: self._is_stopping)
        return made

    async def _in_batches(self, batch: Callable[[], Awaitable[int]]) -> None:
        while not self._is_stopping and await batch() == _BATCH:
            continue
