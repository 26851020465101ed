"""The example applications run as printed, as subprocesses under a server, with a real hub."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from hookwire import AsyncHookwire
from runtime.port import free_port
from tests.app.conftest import RunHub
from tests.waiting import until

FOLDER = Path(__file__).parents[3] / "examples" / "publish-and-receive"
WSGI = (
    "import sys, wsgiref.simple_server as server, django_app; "
    "server.make_server('127.0.0.1', int(sys.argv[1]), django_app.application).serve_forever()"
)
SERVERS = {
    "fastapi_app": ("-m", "uvicorn", "fastapi_app:app", "--port"),
    "django_app": ("-c", WSGI),
}


@asynccontextmanager
async def serving(name: str, port: int, environment: dict[str, str]) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, *SERVERS[name], str(port), cwd=FOLDER, env=os.environ | environment
    )
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


@pytest.mark.parametrize("name", SERVERS)
async def test_an_order_is_published_and_received_by_the_same_application(running_hub: RunHub, name: str) -> None:
    port = free_port()
    async with running_hub(roles=("api", "relay", "deliver")) as hub, AsyncHookwire(hub.url) as client:
        made = await client.subscriptions.create(topic="orders.*", callback=f"http://127.0.0.1:{port}/hook")
        settings = {"HOOKWIRE_URL": hub.url, "HOOK_SECRET": made.secret}
        async with serving(name, port, settings), httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as shop:

            async def answers() -> bool:
                try:
                    return (await shop.get("/orders")).status_code == 200
                except httpx.TransportError:
                    return False

            await until(answers, 60)
            placed = (await shop.post("/orders", json={"customer": "ada", "total": 19.5}, timeout=60)).json()
            received: list[object] = []

            async def is_received() -> bool:
                received[:] = (await shop.get("/orders")).json()
                return bool(received)

            await until(is_received, 60)

    assert received == [{"id": placed["event"], "key": "ada", "order": {"customer": "ada", "total": 19.5}}]
