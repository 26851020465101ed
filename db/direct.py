"""A connection outside the pool, for the state of one session: LISTEN and session locks (RR-15)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import asyncpg

from db.bound import Bound, connecting, translated
from db.errors import DatabaseError
from db.pool import PoolOptions

__all__ = ["Direct", "connect_direct"]


class Direct(Bound):
    """Named statements on a separate connection, with notifications. Close it with :meth:`aclose`."""

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self.lost = asyncio.Event()
        connection.add_termination_listener(lambda _connection: self.lost.set())

    async def listen(self, channel: str, callback: Callable[[], None]) -> None:
        """Call ``callback`` without arguments at every notification of the channel, while the connection lives."""
        with translated(sent=True):
            await self._connection.add_listener(channel, lambda *_notification: callback())

    async def aclose(self) -> None:
        """Close within two seconds. The server then releases everything that the session held."""
        try:
            with translated(sent=False):
                await self._connection.close(timeout=2)
        except (DatabaseError, asyncpg.InterfaceError):
            self._connection.terminate()


async def connect_direct(options: PoolOptions) -> Direct:
    """Open the connection; raise :class:`db.errors.Unavailable` when the server cannot be reached."""
    with connecting():
        connection = await asyncpg.connect(
            options.url,
            timeout=options.connect_seconds,
            command_timeout=options.statement_seconds + 1,
            server_settings=options.server_settings(),
        )
    return Direct(connection)
