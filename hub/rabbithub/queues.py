"""RabbitHub's queues: give each free consumer the oldest message of its queue (RH-27), and end leases (RH-28).

    exchange --binding--> queue --dispatch: the delivery moves--> consumer --worker: POST--> 2xx: done
                            ^                                        |
                            '---- it failed, or the consumer ended --'   again by the schedule, by any free consumer

A consumer holds one message at a time, so that a slow or failing one delays no other. Without a subscription to a
RabbitHub resource the service does not query the database. An operator event announces leases that end soon, where that
is configured (RH-56).
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
    """The service; ``due`` gets the subscriptions that have something to deliver. ``tell_days``: the days before the
    end of a lease at which an operator event announces it; 0: never.
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
        """Begin to query the database, because subscriptions to RabbitHub resources exist."""
        self._is_used = True
        self._wake.notify()

    def fanned_out(self) -> None:
        """Query the queues now, because the fan-out has made deliveries."""
        if self._is_used:
            self._wake.notify()

    def stop(self) -> None:
        """Soft stop: workers finish the messages that were handed out."""
        self._stopping = True
        self._wake.notify()

    async def run(self) -> None:
        """Hand messages out until stopped. Cancelling is safe: each step is one transaction."""
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
