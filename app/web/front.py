"""The HTTP front as a service of the process."""

from __future__ import annotations

import asyncio

from app.web.late_routes import LateRoutes
from app.web.server import HttpServer

__all__ = ["Front"]


class Front:
    """Serves until stopped, then drains. ``routes`` are loaded as soon as it listens. ``stopping``, if given, is set at
    the stop.
    """

    def __init__(
        self, name: str, server: HttpServer, routes: LateRoutes, drain_seconds: float,
        stopping: asyncio.Event | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self._server = server
        self._routes = routes
        self._drain_seconds = drain_seconds
        self._stopping = stopping or asyncio.Event()

    async def start(self) -> None:
        """Listen; raises ``app.web.server.ListenError``."""
        await self._server.start()

    def stop(self) -> None:
        """Accept no more requests."""
        self._stopping.set()
        self._server.stop_accepting()

    async def run(self) -> None:
        """Serve until stopped."""
        await self.start()
        try:
            await self._routes.load()
            await self._stopping.wait()
        finally:
            await self._server.stop(self._drain_seconds)
