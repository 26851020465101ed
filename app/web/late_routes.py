"""Late routes: a hub takes events before the routes of its API are imported and built.

::

    listen --> publishing: served at once
          '--> /healthz, /readyz: answered at once
          '--> any other request: waits --> the routes are there --> served

The routes are more than half of what a start imports. A thread imports them while the process serves, and a publisher
does not wait for a console that nobody has opened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.web.publishing.envelope import is_publish
from app.web.publishing.inbound_path import is_inbound

__all__ = ["LateRoutes"]

Probe = Callable[[], Awaitable[Response]]


class LateRoutes:
    """The routes of one listener. ``build`` imports and returns them; it runs in a thread."""

    def __init__(self, build: Callable[[], ASGIApp], probes: Mapping[str, Probe]) -> None:
        self._build = build
        self._probes = probes
        self._routes: ASGIApp | None = None
        self._there = asyncio.Event()

    async def load(self) -> None:
        """Import and build the routes, and let the requests go on that wait for them."""
        self._routes = await asyncio.to_thread(self._build)
        self._there.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request by the routes."""
        await self._there.wait()
        assert self._routes is not None, "they were loaded"
        await self._routes(scope, receive, send)

    def awaited_by(self, application: ASGIApp) -> ASGIApp:
        """Return the application, with what needs the routes kept back until they are there."""

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            if not self._there.is_set() and scope["type"] == "http" and not _takes_no_route(scope):
                probe = self._probes.get(scope["path"]) if scope["method"] == "GET" else None
                if probe is not None:
                    await (await probe())(scope, receive, send)
                    return
                await self._there.wait()
            await application(scope, receive, send)

        return serve


def _takes_no_route(scope: Scope) -> bool:
    """Return whether a request publishes, or comes to a door for webhooks of others."""
    return is_publish(scope) or is_inbound(scope)
