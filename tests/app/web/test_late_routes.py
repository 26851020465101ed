"""Publishing does not wait for the routes of the API; whatever needs them does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.web.late_routes import LateRoutes

BOUND_SECONDS = 60.0


async def inside(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse(f"served {scope['path']}")(scope, receive, send)


async def probe() -> Response:
    return PlainTextResponse("alive")


@asynccontextmanager
async def loading() -> AsyncIterator[tuple[ASGIApp, threading.Event]]:
    """Yield the application whose routes are being built, until the event is set."""
    built = threading.Event()

    def build() -> ASGIApp:
        built.wait(BOUND_SECONDS)
        return inside

    routes = LateRoutes(build, {"/healthz": probe})
    task = asyncio.create_task(routes.load())
    try:
        yield routes.awaited_by(routes_or_publishing(routes)), built
    finally:
        built.set()
        await task


def routes_or_publishing(routes: ASGIApp) -> ASGIApp:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        app = inside if scope["method"] == "POST" else routes
        await app(scope, receive, send)

    return serve


async def ask(app: ASGIApp, method: str, path: str) -> str:
    body = bytearray()

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, object]) -> None:
        part = message.get("body", b"")
        assert isinstance(part, bytes)
        body.extend(part)

    scope = {"type": "http", "method": method, "path": path, "headers": []}
    async with asyncio.timeout(BOUND_SECONDS):
        await app(scope, receive, send)  # type: ignore[arg-type]  # plain dicts
    return body.decode()


@pytest.mark.parametrize(
    ("method", "path", "answer"),
    [
        ("POST", "/topics/a/events", "served /topics/a/events"),
        ("POST", "/in/shop", "served /in/shop"),
        ("GET", "/healthz", "alive"),
    ],
)
async def test_publishers_doors_and_probes_are_answered_while_the_routes_are_built(
    method: str, path: str, answer: str
) -> None:
    async with loading() as (app, built):
        assert await ask(app, method, path) == answer
        assert not built.is_set()


async def test_a_request_for_a_route_is_served_when_the_routes_are_there() -> None:
    async with loading() as (app, built):
        asked = asyncio.create_task(ask(app, "GET", "/topics"))
        assert await ask(app, "GET", "/healthz") == "alive"
        assert not asked.done()
        built.set()
        assert await asked == "served /topics"


async def test_routes_that_cannot_be_built_end_the_listener() -> None:
    def build() -> ASGIApp:
        raise RuntimeError("the route '/x' declares no scope")

    with pytest.raises(RuntimeError, match="declares no scope"):
        await LateRoutes(build, {}).load()
