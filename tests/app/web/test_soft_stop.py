"""A soft stop answers those that wait (GU-10)."""

import asyncio
import os
import signal
from typing import Any

import httpx
import pytest

from app.web.limits import FrontDoor
from app.web.problem import Problems
from app.web.server import HttpServer
from tests.app.conftest import RunHub, RunningHub
from tests.app.web.test_jobs import enqueue
from tests.app.web.test_pull import ROLES, pulling
from tests.app.web.test_services import ask
from tests.waiting import until


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> list[HttpServer]:
    """The servers that were started."""
    found: list[HttpServer] = []
    start = HttpServer.start

    async def noted(server: HttpServer) -> None:
        await start(server)
        found.append(server)

    monkeypatch.setattr(HttpServer, "start", noted)
    return found


async def waiting_requests(hub: RunningHub) -> list[tuple[str, str, Any, dict[str, str]]]:
    """One request for each route that waits: for what never comes, for a minute or for twenty seconds."""
    puller = await pulling(hub)
    job, asked = await enqueue(hub, "other"), await ask(hub)
    wait = {"max": 1, "wait_seconds": 20}
    return [
        ("POST", f"{puller.path}/dequeue", wait, {}),
        ("POST", "/queues/q/receive", wait, {}),
        ("POST", "/queues/q/receive", {**wait, "filter": {"type": "t"}}, {}),
        ("POST", "/jobs/claim", {**wait, "kinds": ["none"]}, {}),
        ("GET", f"/jobs/{job}?wait_seconds=60", None, {}),
        ("POST", "/services/idle/claim", wait, {}),
        ("GET", f"/requests/{asked}", None, {"prefer": "wait=20"}),
        ("POST", "/services/echo", "hello", {"prefer": "wait=20"}),
    ]


async def test_whoever_waits_is_answered_when_the_process_is_asked_to_end(
    running_hub: RunHub, servers: list[HttpServer]
) -> None:
    """GU-10: each deployment cut them off, and the log had a traceback for each."""
    async with running_hub(ROLES) as hub:
        await hub.client.post("/queues/q/messages", json={"items": []})
        requests = await waiting_requests(hub)
        async with httpx.AsyncClient(base_url=hub.url, trust_env=False, timeout=80) as client:
            sent = [
                asyncio.create_task(
                    client.request(
                        verb, path, headers=headers, json=None if isinstance(body, str) else body,
                        content=body if isinstance(body, str) else None,
                    )
                )
                for verb, path, body, headers in requests
            ]  # fmt: skip
            await until(lambda: asyncio.sleep(0, servers[0].request_count == len(sent)))
            os.kill(os.getpid(), signal.SIGTERM)
            answers = await asyncio.gather(*sent, return_exceptions=True)
    assert [one if isinstance(one, BaseException) else one.status_code for one in answers] == [200] * 6 + [202] * 2


async def test_a_request_that_is_cut_at_the_end_of_the_grace_is_told_so_without_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """GU-10: the log of each deployment had forty lines at level error."""
    reached = asyncio.Event()

    async def endless(*_: object) -> None:
        reached.set()
        await asyncio.Event().wait()

    problems = Problems("http://hub")
    server = HttpServer(FrontDoor(endless, problems=problems), port=0, problems=problems)
    await server.start()
    async with httpx.AsyncClient(trust_env=False) as client:
        asked = asyncio.create_task(client.get(f"http://127.0.0.1:{server.port}/"))
        await reached.wait()
        await server.stop(0)
        answer = await asked
    cut = (answer.status_code, answer.json()["type"].rpartition("/")[2])
    assert (cut, [record.levelname for record in caplog.records]) == ((503, "shutting-down"), [])
