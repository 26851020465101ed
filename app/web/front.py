"""The HTTP front as a service of the process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from app.web.late_routes import LateRoutes
from app.web.server import HttpServer

__all__ = ["Front"]


class Front:
    """Serves until stopped, then drains. ``routes`` are loaded as soon as it listens; ``on_loaded`` is called when they
    are there. ``stopping``, if given, is set at the stop.
    """

    def __init__(
        self, name: str, server: HttpServer, routes: LateRoutes, drain_seconds: float, on_loaded: Callable[[], None],
        stopping: asyncio.Event | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self._server = server
        self._routes = routes
        self._drain_seconds = drain_seconds
        self._on_loaded = on_loaded
        self._stopping = stopping or asyncio.Event()

    async def publishers_first(self) -> None:
        """Wait until the first event has been answered, but no longer than a moment."""
        await self._routes.publishers_first()

    async def start(self) -> None:
        """Listen; raises ``app.web.server.ListenError``."""
        await self._server.start()

    def stop(self) -> None:
        """Accept no more requests."""
        self._stopping.set()
        self._server.stop_accepting()

    async def run(self) -> None:
        """Serve until stopped. A stop does not wait for the routes; routes that cannot be built end the front."""
        await self.start()
        async with asyncio.TaskGroup() as group:
            loading = group.create_task(self._load(), name=f"routes of {self.name}")
            try:
                await self._stopping.wait()
            finally:
                await self._server.stop(self._drain_seconds)
                loading.cancel()

    async def _load(self) -> None:
        await self._routes.load()
        self._on_loaded()
