"""What no publisher needs begins when the first publisher has been answered."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from starlette.responses import PlainTextResponse

from app.assembly.later import LaterService, publishers_first
from app.web import late_routes
from app.web.front import Front
from app.web.late_routes import LateRoutes
from runtime.process import Process, Service
from runtime.withdrawal import Withdrawal
from tests.app.web.test_late_routes import BOUND_SECONDS, Server, ask, inside


@dataclass
class Diary:
    """A service that notes when it begins and when it is asked to stop."""

    name: str
    pages: list[str] = field(default_factory=list)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        self.pages.append("begins")
        self.begun.set()
        await self.stopped.wait()

    def stop(self) -> None:
        self.pages.append("stops")
        self.stopped.set()


def front_of(routes: LateRoutes, name: str = "http") -> Front:
    return Front(name, Server(), routes, 60.0, lambda: None)  # type: ignore[arg-type]  # a server without a socket


async def test_a_service_begins_when_the_first_event_has_been_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_routes, "_PUBLISHERS_FIRST_SECONDS", BOUND_SECONDS)
    routes, worker = LateRoutes(lambda: inside, {}), Diary("worker")
    process = Process(publishers_first([[front_of(routes)], [worker]]), 60.0)
    running = asyncio.create_task(process.run())
    await asyncio.sleep(0)

    async def stored(scope: object, receive: object, send: object) -> None:
        worker.pages.append("answered")
        await PlainTextResponse("stored")(scope, receive, send)  # type: ignore[arg-type]  # of the test's own request

    await ask(routes.awaited_by(stored), "POST", "/topics/a/events")
    async with asyncio.timeout(BOUND_SECONDS):
        await worker.begun.wait()
        process.stop()
        await running
    assert worker.pages == ["answered", "begins", "stops"]


async def test_a_service_begins_also_if_nobody_publishes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_routes, "_PUBLISHERS_FIRST_SECONDS", 0.0)
    later = LaterService(worker := Diary("worker"), front_of(LateRoutes(lambda: inside, {})).publishers_first)
    async with asyncio.timeout(BOUND_SECONDS), asyncio.TaskGroup() as group:
        group.create_task(later.run())
        await worker.begun.wait()
        later.stop()
    assert worker.pages == ["begins", "stops"]


async def test_a_service_that_is_stopped_before_does_not_begin() -> None:
    first = asyncio.Event()

    async def wait() -> None:
        await first.wait()

    later = LaterService(worker := Diary("worker"), wait)
    async with asyncio.timeout(BOUND_SECONDS), asyncio.TaskGroup() as group:
        group.create_task(later.run())
        later.stop()
        first.set()
    assert (later.name, worker.pages) == ("worker", [])


def test_what_publishers_need_begins_at_once() -> None:
    front, metrics = (front_of(LateRoutes(lambda: inside, {}), name) for name in ("http", "metrics"))
    withdrawal, worker = Withdrawal(asyncio.Event(), 0.0), Diary("worker")
    phases = publishers_first([[withdrawal], [front], [worker, metrics]])
    assert [phase if phase[0] is not phases[2][0] else phase[1:] for phase in phases] == [
        [withdrawal], [front], [metrics],
    ]  # fmt: skip
    assert isinstance(phases[2][0], LaterService)


def test_a_process_that_takes_no_events_waits_for_none() -> None:
    phases: list[list[Service]] = [[Diary("worker")], [front_of(LateRoutes(lambda: inside, {}), "metrics")]]
    assert publishers_first(phases) is phases
