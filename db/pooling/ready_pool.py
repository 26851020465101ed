"""Ready pool: asyncpg's pool, and beside it the connections that came back in order, which are lent again at once.

asyncpg makes a task for each connection that is returned, and a new proxy for each that is lent. Both together cost a
tenth of the processor time of a small statement. What was cancelled or has failed is returned to asyncpg's pool, which
waits for the end of a cancellation and rolls back.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any, Final

import asyncpg

__all__ = ["ReadyPool"]

_READY_SECONDS: Final = 30.0
_LENT_TIMES: Final = 1_000


class ReadyPool:
    """Lends the connection that was returned last. Half a minute after its last use one is returned to asyncpg's pool.

    So is each thousandth, because that pool replaces a connection after a number of statements.
    """

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._ready: list[tuple[Any, float]] = []
        self._returns = 0
        self._is_closing = False

    def take(self) -> Any | None:
        """Return a connection that is ready, or None."""
        while self._ready:
            connection, _ = self._ready.pop()
            with suppress(asyncpg.InterfaceError):  # it was closed, and asyncpg's pool knows it
                if not connection.is_closed():
                    return connection
                connection.terminate()
        return None

    async def acquire(self) -> Any:
        """Return a connection of asyncpg's pool; wait until one is free."""
        return await self._pool.acquire()

    async def release(self, connection: Any, *, is_in_order: bool) -> None:
        """Take a connection back. ``is_in_order``: its last use has ended without an error."""
        now = time.monotonic()
        self._returns += 1
        is_ready = is_in_order and not connection.is_in_transaction()  # nobody may write into a foreign transaction
        if is_ready and self._returns % _LENT_TIMES and not self._is_closing:
            self._ready.append((connection, now))
        else:
            await self._pool.release(connection)
        if self._ready and now - self._ready[0][1] > _READY_SECONDS:
            await self._pool.release(self._ready.pop(0)[0])

    async def close(self) -> None:
        """Wait for the connections that are lent, and close all."""
        self._is_closing = True
        while self._ready:
            await self._pool.release(self._ready.pop()[0])
        await self._pool.close()

    def terminate(self) -> None:
        """Close all connections now."""
        self._pool.terminate()
