"""Notifications of tasks for a worker, behind the port of jobs: AMQP by ``relay``, and PostgreSQL's NOTIFY."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from db.direct import Direct
from db.errors import DatabaseError
from jobs.tasks.notification import Notification
from relay.amqp.notifications import AmqpNotifications

__all__ = ["FromAmqp", "FromNotify"]

_CHANNEL = "hookwire_tasks"
_PAUSE_SECONDS = 1.0


class FromAmqp:
    """Notifications from an AMQP queue of task ids."""

    def __init__(self, queue: AmqpNotifications) -> None:
        self._queue = queue

    async def run(self, notified: Callable[[Notification], None]) -> None:
        """Pass the ids that arrive to ``notified``, until cancelled."""

        def heard(task_id: str, acknowledge: Callable[[], Any]) -> None:
            notified(Notification(task_id, cast("Callable[[], Awaitable[None]]", acknowledge)))

        await self._queue.listen(heard)


class FromNotify:
    """Notifications by NOTIFY, on a connection of its own. They hold no id, and every worker gets them."""

    def __init__(self, connect: Callable[[], Awaitable[Direct]]) -> None:
        self._connect = connect

    async def run(self, notified: Callable[[Notification], None]) -> None:
        """Pass notifications to ``notified`` until cancelled; connect again after every loss."""
        while True:
            try:
                connection = await self._connect()
                try:
                    await connection.listen(_CHANNEL, lambda: notified(Notification("")))
                    notified(Notification(""))  # tasks that were committed before LISTEN
                    await connection.lost.wait()
                finally:
                    await connection.aclose()
            except DatabaseError:
                pass  # the worker polls meanwhile, and reports the error
            await asyncio.sleep(_PAUSE_SECONDS)
