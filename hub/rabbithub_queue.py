"""RabbitHub's queues: hands each free consumer the oldest message of its queue (RH-27), and ends leases (RH-28).

    queue --dispatch: the delivery moves--> consumer --worker: POST--> 2xx: done
      ^                                        |
      '------ the consumer ended --------------'   any other answer: again by the schedule, from the same consumer

A consumer holds one message at a time, so that a slow or failing one delays nobody else. As long as nobody has
subscribed to a RabbitHub resource, nothing is asked of the database.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from db.errors import DatabaseError
from db.pool import Database
from relay.wake import Wake

__all__ = ["RabbitHubQueues"]

_log = structlog.get_logger(__name__)


class RabbitHubQueues:
    """The service; ``due`` is told which subscriptions have something to deliver."""

    name = "rabbithub queues"

    def __init__(self, database: Database, due: Callable[[Sequence[int]], None]) -> None:
        self._database = database
        self._due = due
        self._wake = Wake(poll_seconds_min=0.02, poll_seconds_max=0.5, is_watched=True)
        self._is_used = False
        self._stopping = False

    def look(self) -> None:
        """There are subscriptions to look after."""
        self._is_used = True
        self._wake.ring()

    def fanned_out(self) -> None:
        """Events have become deliveries, perhaps to queues."""
        if self._is_used:
            self._wake.ring()

    def stop(self) -> None:
        """Soft stop: what was handed out is the workers'."""
        self._stopping = True
        self._wake.ring()

    async def run(self) -> None:
        """Hand out until stopped. Cancelling is safe: each step is one transaction."""
        while not self._stopping:
            try:
                await self._step()
            except DatabaseError as error:
                _log.warning("rabbithub_dispatch_failed", error=str(error))
            await self._wake.wait()

    async def _step(self) -> None:
        async with self._database.transaction() as session:
            if not await session.fetchval("rabbithub.dispatch_lock"):
                return
            await session.execute("rabbithub.expire")
            await session.execute("rabbithub.take_back")
            rows = await session.fetch("rabbithub.dispatch")
        if rows:
            self._due([row["subscription_id"] for row in rows])
            self._wake.busy()
