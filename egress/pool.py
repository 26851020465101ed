"""Idle connections, kept for reuse as long as the guard's verdict counts.

Keyed by origin (TLS or not, host, port), last in first out, so that surplus connections of a burst age out. A verdict
counts as long as its connection lives, and at most `age_seconds_max` (EG-05). One origin can hold at most
`idle_per_origin_max` connections, all origins together `idle_max` (OB-08, WH-I04).
"""

import asyncio

from egress.connection import Connection, Origin


class Pool:
    """The idle connections of one client, and a list of all open ones for closing down."""

    def __init__(self, age_seconds_max: float, idle_per_origin_max: int, idle_max: int) -> None:
        self._age_seconds_max = age_seconds_max
        self._idle_per_origin_max = idle_per_origin_max
        self._idle_max = idle_max
        self._idle: dict[Origin, list[Connection]] = {}
        self._idle_count = 0
        self._open: set[Connection] = set()
        self._all_closed = asyncio.Event()
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def is_closed(self) -> bool:
        """Return whether `aclose` was called."""
        return self._closed

    @property
    def idle_count(self) -> int:
        """Return the number of connections that wait for reuse."""
        return self._idle_count

    @property
    def open_count(self) -> int:
        """Return the number of connections that hold a descriptor, idle or not."""
        return len(self._open)

    def opened(self, connection: Connection) -> None:
        """Count a connection until `lost`."""
        self._open.add(connection)

    def lost(self, connection: Connection) -> None:
        """Forget a connection whose transport is gone, so that dead ones never fill an origin's share."""
        self._open.discard(connection)
        stack = self._idle.get(connection.origin)
        if stack and connection in stack:
            stack.remove(connection)
            self._idle_count -= 1
        if self._closed and not self._open:
            self._all_closed.set()

    def take(self, origin: Origin, now: float) -> Connection | None:
        """Return the youngest usable idle connection, or None; it is no longer idle."""
        stack = self._idle.get(origin)
        while stack:
            connection = stack.pop()
            self._idle_count -= 1
            if connection.is_closing():
                continue
            if now - connection.connected_at < self._age_seconds_max:
                return connection
            connection.abort()
        return None

    def give(self, connection: Connection) -> None:
        """Keep a connection for reuse, or close it when there are enough."""
        stack = self._idle.get(connection.origin)
        if stack is None:
            stack = self._idle[connection.origin] = []
        if self._closed or len(stack) >= self._idle_per_origin_max or self._idle_count >= self._idle_max:
            connection.abort()
            return
        stack.append(connection)
        self._idle_count += 1
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(self._age_seconds_max / 4, self._sweep)

    async def aclose(self, grace_seconds: float = 1.0) -> None:
        """Close every connection, busy ones included, and wait for their transports to be gone."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._idle.clear()
        self._idle_count = 0
        for connection in tuple(self._open):
            connection.abort()
        if self._open:
            try:
                async with asyncio.timeout(grace_seconds):
                    await self._all_closed.wait()
            except TimeoutError:
                return  # the transports are aborted; the loop drops them

    def _sweep(self) -> None:
        """Close idle connections that are too old, and forget origins without connections."""
        loop = asyncio.get_running_loop()
        oldest_at = loop.time() - self._age_seconds_max
        for origin, stack in tuple(self._idle.items()):
            aged = [connection for connection in stack if connection.connected_at <= oldest_at]
            for connection in aged:
                stack.remove(connection)
                connection.abort()
            self._idle_count -= len(aged)
            if not stack:
                del self._idle[origin]
        self._sweeper = loop.call_later(self._age_seconds_max / 4, self._sweep) if self._idle else None
