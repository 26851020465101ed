"""Wake-up: NOTIFY of the database shortens the wait of an idle worker; polling finds everything without it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from hookwire.jobs.failure import passes
from hookwire.jobs.primary import following

__all__ = ["listen"]

_CHANNEL: Final = "hookwire_jobs"
_CONNECTIONS_MIN: Final = 3
_RETRY_SECONDS: Final = 1.0


async def listen(pool: Any, payload: str, wake: Callable[[], None]) -> None:
    """Call ``wake`` at each notification with this payload, until cancelled. Listen again where the connection ends.

    It keeps a connection of an asyncpg pool. Return at once where the pool has fewer than three, and for a pool of
    another driver: MariaDB and MySQL have no notifications.
    """
    if not hasattr(pool, "get_max_size") or pool.get_max_size() < _CONNECTIONS_MIN:
        return
    while True:
        try:
            async with following(pool), pool.acquire() as connection:
                await _listen(connection, payload, wake)
        except Exception as error:
            if not passes(error):
                raise
        await asyncio.sleep(_RETRY_SECONDS)


async def _listen(connection: Any, payload: str, wake: Callable[[], None]) -> None:
    """Listen until the connection ends."""
    ended = asyncio.Event()

    def heard(*notification: Any) -> None:
        if notification[-1] == payload:
            wake()

    def end(_: Any) -> None:
        ended.set()

    connection.add_termination_listener(end)
    try:
        await connection.add_listener(_CHANNEL, heard)
        wake()  # for jobs that were committed before
        await ended.wait()
    finally:
        if not ended.is_set():  # the pool has taken back a connection that ended
            connection.remove_termination_listener(end)
            await connection.remove_listener(_CHANNEL, heard)
