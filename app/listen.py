"""LISTEN: wakes the relays when somebody's transaction has called hookwire.publish (RR-15).

A lost connection is made again; meanwhile polling finds everything (F60).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from db.direct import Direct
from db.errors import DatabaseError
from relay.trouble import Trouble
from runtime.pause import pause

__all__ = ["Listener"]

_CHANNEL = "hookwire_outbox"


class Listener:
    """Calls ``ring`` at every notification."""

    name = "listener"

    def __init__(self, connect: Callable[[], Awaitable[Direct]], ring: Callable[[], None]) -> None:
        self._connect = connect
        self._ring = ring
        self._trouble = Trouble("listener_lost", "listener_back")
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """End at once."""
        self._stopping.set()

    async def run(self) -> None:
        """Listen until stopped."""
        while not self._stopping.is_set():
            try:
                await self._listen()
            except DatabaseError as error:
                self._trouble.tell(error)
            await pause(self._stopping, 1.0)

    async def _listen(self) -> None:
        connection = await self._connect()
        try:
            await connection.listen(_CHANNEL, self._ring)
            self._trouble.over()
            self._ring()  # whatever was committed before we listened
            lost = asyncio.ensure_future(connection.lost.wait())
            stopped = asyncio.ensure_future(self._stopping.wait())
            try:
                await asyncio.wait({lost, stopped}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                lost.cancel()
                stopped.cancel()
        finally:
            await connection.aclose()
