"""LISTEN: tell the relays, the receivers and the waits of services what other transactions have committed.

A lost connection is made again; meanwhile polling finds everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import ClassVar

from db.direct import Direct
from db.errors import DatabaseError
from runtime.periodic import Periodic
from runtime.trouble import Trouble

__all__ = ["Listener"]


class Listener(Periodic):
    """Call the function of a channel with the text of each notification on it.

    After a connection is made, it is called with an empty text: anything may have been committed before.
    """

    name = "listener"
    expected: ClassVar = (DatabaseError,)

    def __init__(self, connect: Callable[[], Awaitable[Direct]], channels: Mapping[str, Callable[[str], None]]) -> None:
        super().__init__(1.0)
        self._connect = connect
        self._channels = channels
        self._trouble = Trouble("listener_lost", "listener_back")

    def failed(self, error: Exception) -> None:
        """Report that the connection was lost."""
        self._trouble.tell(error)

    async def once(self) -> None:
        """Listen until the connection is lost, or until stopped."""
        async with aclosing(await self._connect()) as connection:
            for channel, notify in self._channels.items():
                await connection.listen(channel, notify)
            self._trouble.over()
            for notify in self._channels.values():
                notify("")
            lost = asyncio.ensure_future(connection.lost.wait())
            stopped = asyncio.ensure_future(self._notified.wait())
            try:
                await asyncio.wait({lost, stopped}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                lost.cancel()
                stopped.cancel()
