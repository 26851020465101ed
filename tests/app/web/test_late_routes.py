"""Publishing does not wait for the routes of the API; whatever needs them does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from structlog.testing import capture_logs
from typing_extensions import override

from app.web import late_routes
from app.web.front import Front
from app.web.late_routes import LateRoutes
from app.web.problem import Problem
from app.web.route_needs import RouteNeeds
from app.web.server import HttpServer
from tests.waiting import until

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


async def test_only_so_many_requests_wait_and_publishers_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strangers without a key would otherwise hold every place of the process."""
    monkeypatch.setattr(late_routes, "_WAITING_MAX", 2)
    async with loading() as (app, built):
        waiting = [asyncio.create_task(ask(app, "GET", "/topics")) for _ in range(2)]
        await asyncio.sleep(0)  # both begin
        assert await refused(app) == "busy"
        assert await ask(app, "POST", "/topics/a/events") == "served /topics/a/events"
        built.set()
        assert await asyncio.gather(*waiting) == ["served /topics"] * 2


async def test_a_request_waits_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_routes, "_WAIT_SECONDS", 0.0)
    async with loading() as (app, _):
        assert await refused(app) == "busy"


async def test_the_log_tells_that_the_routes_are_late_and_when_they_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_routes, "_SLOW_SECONDS", 0.0)
    with capture_logs() as logged:
        async with loading():
            await until(lambda: bool(logged))
    assert [line["event"] for line in logged] == ["routes_load_slowly", "routes_loaded"]


class Server(HttpServer):
    """A server without a socket, whose requests are these tasks."""

    def __init__(self) -> None:
        self.requests: list[asyncio.Task[str]] = []
        self.has_stopped = False

    @override
    async def start(self) -> None:
        """Listen nowhere."""

    @override
    def stop_accepting(self) -> None:
        """Nothing is accepted."""

    @override
    async def stop(self, grace_seconds: float) -> None:
        """Wait for the requests without a time limit; a request without an answer hangs the test."""
        async with asyncio.timeout(BOUND_SECONDS):
            await asyncio.gather(*self.requests)
        self.has_stopped = True


async def test_routes_that_cannot_be_built_end_the_front_and_who_waits_is_answered() -> None:
    begun = threading.Event()

    def build() -> ASGIApp:
        begun.wait(BOUND_SECONDS)
        raise RuntimeError("the route '/x' declares no scope")

    server, routes = Server(), LateRoutes(build, {})
    running = asyncio.create_task(Front("http", server, routes, 60.0, lambda: None).run())
    server.requests.append(asyncio.create_task(refused(routes.awaited_by(routes))))
    await asyncio.sleep(0)
    begun.set()
    with capture_logs() as logged, pytest.raises(ExceptionGroup) as failed:
        await running
    assert ([str(error) for error in failed.value.exceptions], [line["event"] for line in logged]) == (
        ["the route '/x' declares no scope"], ["routes_not_built"],
    )  # fmt: skip
    assert (server.has_stopped, await server.requests[0]) == (True, "shutting-down")


async def test_a_thread_that_cannot_be_started_is_told_and_who_waits_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    routes = LateRoutes(lambda: inside, {})
    monkeypatch.setattr(late_routes, "_WAIT_SECONDS", 0.0)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with capture_logs() as logged, pytest.raises(RuntimeError, match="new thread"):
        await routes.load()
    assert [line["event"] for line in logged] == ["routes_not_built"]
    assert await refused(routes.awaited_by(routes)) == "shutting-down"


async def test_a_stop_does_not_wait_for_the_routes() -> None:
    built = threading.Event()

    def build() -> ASGIApp:
        built.wait(BOUND_SECONDS)
        return inside

    front = Front("http", server := Server(), LateRoutes(build, {}), 60.0, lambda: None)
    running = asyncio.create_task(front.run())
    await asyncio.sleep(0)
    front.stop()
    async with asyncio.timeout(BOUND_SECONDS):
        await running
    assert (server.has_stopped, built.is_set()) == (True, False)
    built.set()


async def test_the_owner_of_the_process_learns_that_everything_is_imported() -> None:
    """The command then sets the imported objects aside from the collection of garbage."""
    loaded = asyncio.Event()
    front = Front("http", Server(), routes := LateRoutes(lambda: inside, {}), 60.0, loaded.set)
    running = asyncio.create_task(front.run())
    async with asyncio.timeout(BOUND_SECONDS):
        await loaded.wait()
    front.stop()
    await running
    assert routes.there.is_set()


async def test_no_need_is_known_before_the_routes_are_declared() -> None:
    """The need of a request without a route would otherwise be that of every request."""
    scope = {"type": "http", "method": "GET", "path": "/subscriptions", "query_string": b"", "headers": []}
    with pytest.raises(RuntimeError, match="not been declared"):
        RouteNeeds().of(scope)


async def refused(app: ASGIApp) -> str:
    """Return the problem that a request for a route gets."""
    with pytest.raises(Problem) as problem:
        await ask(app, "GET", "/topics")
    return problem.value.slug


async def test_the_routes_are_built_after_the_first_event_was_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their thread would take turns with the loop, and each step of a publisher who waited for the start would wait."""
    monkeypatch.setattr(late_routes, "_PUBLISHERS_FIRST_SECONDS", BOUND_SECONDS)
    done: list[str] = []
    may_answer = asyncio.Event()

    async def publishing(scope: Scope, receive: Receive, send: Send) -> None:
        await may_answer.wait()
        await inside(scope, receive, send)
        done.append("answered")

    def build() -> ASGIApp:
        done.append("built")
        return inside

    routes = LateRoutes(build, {})
    async with asyncio.timeout(BOUND_SECONDS), asyncio.TaskGroup() as group:
        group.create_task(routes.load())
        group.create_task(ask(routes.awaited_by(publishing), "POST", "/topics/a/events"))
        may_answer.set()
    assert done == ["answered", "built"]


@pytest.mark.parametrize("seconds", [0.0, BOUND_SECONDS])
async def test_the_routes_are_built_without_a_publisher(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """A moment after the start, or as soon as a request needs one."""
    monkeypatch.setattr(late_routes, "_PUBLISHERS_FIRST_SECONDS", seconds)
    routes = LateRoutes(lambda: inside, {})
    async with asyncio.timeout(BOUND_SECONDS / 2), asyncio.TaskGroup() as group:
        group.create_task(routes.load())
        if seconds:
            group.create_task(ask(routes.awaited_by(routes), "GET", "/topics"))
    assert routes.there.is_set()
