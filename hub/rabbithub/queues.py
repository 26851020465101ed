"""RabbitHub's queues: hands each free consumer the oldest message of its queue (RH-27), and ends leases (RH-28).

    exchange --binding--> queue --dispatch: the delivery moves--> consumer --worker: POST--> 2xx: done
                            ^                                        |
                            '---- it failed, or the consumer ended --'   again by the schedule, by whoever is free

A consumer holds one message at a time, so that a slow or failing one delays nobody else. As long as nobody has
subscribed to a RabbitHub resource, nothing is asked of the database.
Operators are told of leases that end soon, where they want to be (RH-56).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence

import structlog

from db.errors import DatabaseError
from db.pool import Database, Row
from runtime.wake import Wake

__all__ = ["RabbitHubQueues"]

_log = structlog.get_logger(__name__)
_TELL_SECONDS = 60.0


class RabbitHubQueues:
    """The service; ``due`` is told which subscriptions have something to deliver.

    ``tell_days``: operators hear of a lease so long before it ends; 0: they don't.
    """

    name = "rabbithub queues"

    def __init__(self, database: Database, due: Callable[[Sequence[int]], None], tell_days: int = 0) -> None:
        self._database = database
        self._tell_seconds = tell_days * 86_400
        self._told_at = -_TELL_SECONDS
        self._due = due
        self._wake = Wake(poll_seconds_min=0.02, poll_seconds_max=0.5, is_watched=True)
        self._is_used = False
        self._stopping = False

    def poll_now(self) -> None:
        """There are subscriptions to look after."""
        self._is_used = True
        self._wake.notify()

    def fanned_out(self) -> None:
        """Events have become deliveries, perhaps to queues."""
        if self._is_used:
            self._wake.notify()

    def stop(self) -> None:
        """Soft stop: what was handed out is the workers'."""
        self._stopping = True
        self._wake.notify()

    async def run(self) -> None:
        """Hand out until stopped. Cancelling is safe: each step is one transaction."""
        while not self._stopping:
            try:
                await self._step()
            except DatabaseError as error:
                _log.warning("rabbithub_dispatch_failed", error=str(error))
            await self._wake.wait()

    async def _step(self) -> None:
        await self._tell()
        async with self._database.transaction() as session:
            if not await session.fetchval("rabbithub.dispatch_lock"):
                return
            await session.execute("rabbithub.expire")
            await session.execute("rabbithub.move_bound")
            await session.execute("rabbithub.take_back")
            rows = await session.fetch("rabbithub.dispatch")
        if rows:
            self._due([row["subscription_id"] for row in rows])
            self._wake.busy()

    async def _tell(self) -> None:
        if not self._tell_seconds or time.monotonic() - self._told_at < _TELL_SECONDS:
            return
        self._told_at = time.monotonic()
        async with self._database.transaction() as session:
            rows = await session.fetch("rabbithub.expiring", self._tell_seconds)
            if not rows:
                return
            await session.execute("operator.notify", json.dumps([_notice(row) for row in rows]))
        _log.warning("rabbithub_leases_end_soon", subscriptions=len(rows))


def _notice(row: Row) -> dict[str, object]:
    return {"type": "subscription.expiring", "subscription": row["id"], "lease_until": row["lease_until"].isoformat()}
