"""Notifications of tasks for a worker by PostgreSQL's NOTIFY. Those by AMQP come from ``relay``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from db.direct import Direct
from db.errors import DatabaseError

__all__ = ["from_notify"]

_CHANNEL = "hookwire_tasks"
_PAUSE_SECONDS = 1.0


async def _nothing() -> None:
    """Acknowledge nothing: NOTIFY has no acknowledgements."""


async def from_notify(
    connect: Callable[[], Awaitable[Direct]], notified: Callable[[str, Callable[[], Awaitable[None]]], None]
) -> None:
    """Pass notifications to ``notified``, on a connection of their own, until cancelled. Connect again after a loss.

    They hold no id, and every worker gets them.
    """
    while True:
        try:
            async with aclosing(await connect()) as connection:
                await connection.listen(_CHANNEL, lambda _: notified("", _nothing))
                notified("", _nothing)  # tasks that were committed before LISTEN
                await connection.lost.wait()
        except DatabaseError:
            pass  # the worker polls meanwhile, and reports the error
        await asyncio.sleep(_PAUSE_SECONDS)
