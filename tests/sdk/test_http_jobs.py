"""The SDK's worker over HTTP, against a hub of the test's own (JB-62, JB-78, JB-82)."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from hookwire.jobs import Failed, Handlers, HttpJobs, Job
from tests.sdk.test_job_worker import WAIT_SECONDS, working
from tests.waiting import until


class Hub:
    """Hands out each job once. ``status`` holds the answers that are not 200, by job and verb; ``log`` all requests."""

    def __init__(self, *jobs: str) -> None:
        self.jobs = list(jobs)
        self.status: dict[tuple[str, str], list[int]] = {}
        self.log: list[tuple[str, str]] = []
        self.extended = threading.Event()
        self.released = threading.Event()

    def answer(self, path: str, asked: dict[str, Any]) -> tuple[int, Any]:
        job, verb = path.split("/")[-2:]
        self.log.append((job, verb))
        if statuses := self.status.get((job, verb)):
            return statuses.pop(0), {}
        if verb == "claim":
            return 200, {"items": [item(self.jobs.pop(0)) for _ in self.jobs[: asked["max"]]]}
        if verb == "extend":
            self.extended.set()
        if verb == "release":
            self.released.set()
        return 200, {"is_cancelled": False}


def item(job: str) -> dict[str, Any]:
    found = {
        "id": job, "kind": "work", "args": None, "key": None, "attempts_max": 5, "resumed": None,
        "run_until": "2026-01-01T00:00:00+00:00",
    }  # fmt: skip
    return {"job": found, "attempts": 1, "receipt": f"job_{job}_1"}


@contextmanager
def serving(hub: Hub) -> Iterator[str]:
    class Request(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, answer = hub.answer(self.path, asked)
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Request) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


async def test_blocking_handlers_do_not_stop_the_heartbeat() -> None:
    """JB-62: they fill their slots, and the loop's own executor has a single thread."""
    hub, handlers, held = Hub("a", "b"), Handlers(), list[bool]()

    @handlers.job("work")
    def work(_job: Job) -> None:
        held.append(hub.extended.wait(WAIT_SECONDS))

    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    with serving(hub) as url:
        async with working(HttpJobs(url), handlers, slots=2, lease_seconds=0.3):
            await until(lambda: len(held) == 2)

    assert held == [True, True]


async def test_a_stopped_worker_releases_a_job_when_its_thread_has_ended() -> None:
    """JB-78: another worker would run it at the same time."""
    hub, handlers, begun, early = Hub("a"), Handlers(), asyncio.Event(), list[bool]()
    loop = asyncio.get_running_loop()

    @handlers.job("work")
    def work(_job: Job) -> None:
        loop.call_soon_threadsafe(begun.set)
        early.append(hub.released.wait(0.5))

    with serving(hub) as url:
        async with working(HttpJobs(url), handlers, grace_seconds=0.01):
            async with asyncio.timeout(WAIT_SECONDS):
                await begun.wait()

    assert (early, hub.released.is_set()) == ([False], True)


@pytest.mark.parametrize("verb", ["complete", "fail", "extend"])
async def test_a_job_that_is_gone_ends_alone(verb: str) -> None:
    """JB-60: the hub answers 404 to each request for it. The worker goes on with the next job."""
    hub, handlers = Hub("gone", "good"), Handlers()
    hub.status = {("gone", one): [404] * 100 for one in ("complete", "fail", "extend", "release")}

    @handlers.job("work")
    async def work(job: Job) -> None:
        if job.id == "gone" and verb == "fail":
            raise Failed("no")
        if job.id == "gone" and verb == "extend":
            await asyncio.Event().wait()

    with serving(hub) as url:
        async with working(HttpJobs(url), handlers, slots=1, lease_seconds=0.3) as worker:
            await until(lambda: ("good", "complete") in hub.log)

    assert (("gone", verb) in hub.log, worker.completed) == (True, 1)


@pytest.mark.parametrize("status", [408, 429])
async def test_a_request_that_took_too_long_is_repeated(status: int) -> None:
    """JB-62: a claim and a settlement."""
    hub, handlers = Hub("a"), Handlers()
    hub.status = {("jobs", "claim"): [status], ("a", "complete"): [status]}
    handlers.job("work")(lambda _: None)

    with serving(hub) as url:
        async with working(HttpJobs(url), handlers) as worker:
            await until(lambda: worker.completed)

    assert hub.log.count(("a", "complete")) == 2
