"""Late routes: a hub takes events before the routes of its API are imported and built (ADR 92).

::

    listen --> publishing, doors: served at once
          '--> /healthz, /readyz: answered at once; the hub is not ready yet
          '--> any other request: waits --> the routes are there --> served
                                     '----> too many wait, or for too long; the routes cannot be built --> 503

The routes are more than half of what a start imports. A thread imports them while the process serves, and a publisher
does not wait for a console that nobody has opened. A request waits before its key is looked at: which key it needs is a
declaration of its route.

The thread and the event loop would take turns, so that each step of a publisher would wait for the thread. So the
thread begins when an event has been answered or a request needs a route, and else a moment after the start.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Final

import structlog
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.web.problem import Problem
from app.web.publishing.envelope import is_publish
from app.web.publishing.inbound_path import is_inbound

__all__ = ["LateRoutes"]

Probe = Callable[[], Awaitable[Response]]

_log = structlog.get_logger(__name__)
_WAITING_MAX: Final = 256
"""A quarter of the requests that a process has in flight at most, so publishing always has room."""
_WAIT_SECONDS: Final = 30.0
_SLOW_SECONDS: Final = 10.0
_PUBLISHERS_FIRST_SECONDS: Final = 0.25
"""The time in which publishers who waited for the start are answered, and services begin."""


class LateRoutes:
    """The routes of one listener. ``build`` imports and returns them; it runs in a thread. ``there`` is set when they
    are there.
    """

    def __init__(self, build: Callable[[], ASGIApp], probes: Mapping[str, Probe]) -> None:
        self.there = asyncio.Event()
        self._build = build
        self._probes = probes
        self._routes: ASGIApp | None = None
        self._begun = asyncio.Event()
        self._ended = asyncio.Event()
        self._waiting = 0

    async def publishers_first(self) -> None:
        """Wait until an event has been answered, or a request needs a route, but no longer than a moment."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_PUBLISHERS_FIRST_SECONDS):
                await self._begun.wait()

    async def load(self) -> None:
        """Import and build the routes, and let the requests go on that wait for them. Raise what ``build`` raises."""
        await self.publishers_first()
        began = time.monotonic()
        building = _in_thread(self._build)
        try:
            if not (await asyncio.wait({building}, timeout=_SLOW_SECONDS))[0]:
                _log.warning("routes_load_slowly", seconds=_SLOW_SECONDS)
                await asyncio.wait({building})
            if (error := building.exception()) is not None:
                _log.error("routes_not_built", error=repr(error))
                raise error
            self._routes = building.result()
            self.there.set()
            _log.info("routes_loaded", seconds=round(time.monotonic() - began, 3))
        finally:
            building.cancel()
            self._ended.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request by the routes."""
        if not self.there.is_set():
            await self._wait()
        assert self._routes is not None, "they are there"
        await self._routes(scope, receive, send)

    def awaited_by(self, application: ASGIApp) -> ASGIApp:
        """Return the application, with what needs the routes kept back until they are there."""

        def serve(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
            if self.there.is_set() or scope["type"] != "http":
                return application(scope, receive, send)
            if _takes_no_route(scope):
                return self._serve_publisher(application, scope, receive, send)
            return self._serve_early(application, scope, receive, send)

        return serve

    async def _serve_publisher(self, application: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await application(scope, receive, send)
        finally:
            self._begun.set()

    async def _serve_early(self, application: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        probe = self._probes.get(scope["path"]) if scope["method"] == "GET" else None
        if probe is not None:
            await (await probe())(scope, receive, send)
            return
        await self._wait()
        await application(scope, receive, send)

    async def _wait(self) -> None:
        """Wait until the routes are there. Raise ``Problem``: busy, shutting-down."""
        if self._waiting >= _WAITING_MAX:
            raise Problem("busy", "The API is being loaded, and too many requests wait for it; nothing was done.")
        self._waiting += 1
        self._begun.set()
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await self._ended.wait()
        except TimeoutError:
            raise Problem("busy", "The API is still being loaded; nothing was done.") from None
        finally:
            self._waiting -= 1
        if not self.there.is_set():
            raise Problem("shutting-down", "The API could not be loaded, so this process ends; nothing was done.")


def _takes_no_route(scope: Scope) -> bool:
    """Return whether a request publishes, or comes to a door for webhooks of others."""
    return is_publish(scope) or is_inbound(scope)


def _in_thread(build: Callable[[], ASGIApp]) -> asyncio.Future[ASGIApp]:
    """Build the routes in a thread that nobody joins: a process that is stopped does not wait for an import."""
    built: Future[ASGIApp] = Future()
    built.set_running_or_notify_cancel()

    def run() -> None:
        try:
            built.set_result(build())
        except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
            built.set_exception(error)

    try:
        threading.Thread(target=run, name="routes", daemon=True).start()
    except RuntimeError as error:  # the machine has no room for another thread
        built.set_exception(error)
    return asyncio.wrap_future(built)
