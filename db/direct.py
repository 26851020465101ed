"""A connection outside the pool, for the state of one session: LISTEN and session locks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import asyncpg

from db.bound import Bound, translated
from db.errors import DatabaseError
from db.pooling.pool_options import PoolOptions
from db.session import open_session

__all__ = ["Direct", "connect_direct"]


class Direct(Bound):
    """Named statements on a separate connection, with notifications. Close it with :meth:`aclose`."""

    def __init__(self, connection: Any, seconds: float | None = None) -> None:
        super().__init__(connection, seconds=seconds)
        self.lost = asyncio.Event()
        self.generation: int = connection.generation
        connection.add_termination_listener(lambda _connection: self.lost.set())

    async def listen(self, channel: str, callback: Callable[[str], None]) -> None:
        """Call ``callback`` with the text of every notification of the channel, while the connection lives."""
        with translated(sent=True):
            await self._connection.add_listener(channel, lambda *notification: callback(notification[-1]))

    def end(self) -> None:
        """Close at once, because another server may have taken over. Its locks are gone."""
        self._connection.terminate()

    async def aclose(self) -> None:
        """Close within two seconds. The server then releases everything that the session held."""
        try:
            with translated(sent=False):
                await self._connection.close(timeout=2)
        except (DatabaseError, asyncpg.InterfaceError):
            self._connection.terminate()


async def connect_direct(options: PoolOptions) -> Direct:
    """Open the connection; raise :class:`db.errors.Unavailable` when the server cannot be reached."""
    direct = Direct(await open_session(options), options.dropped_after_seconds)
    options.primary.attach(direct)
    return direct
