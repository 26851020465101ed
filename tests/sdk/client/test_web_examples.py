"""The example applications run by the commands that they print, under uvicorn and gunicorn, with a real hub."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from hookwire import AsyncHookwire
from runtime.port import free_port
from tests.app.conftest import RunHub
from tests.waiting import until

FOLDER = Path(__file__).parents[3] / "examples" / "publish-and-receive"
NAMES = ("fastapi_app", "django_app")
COMMANDS = [
    command
    for name in NAMES
    for command in re.findall(r"^    ((?:uvicorn|gunicorn) .*)$", (FOLDER / f"{name}.py").read_text(), re.MULTILINE)
]


@asynccontextmanager
async def serving(command: str, port: int, environment: dict[str, str]) -> AsyncIterator[None]:
    words = shlex.split(re.sub(r"\b800[12]$", str(port), command))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *words, cwd=FOLDER, env=os.environ | environment
    )
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


def test_each_example_prints_a_command_for_each_server() -> None:
    assert sorted(tuple(command.replace(":", " ").split()[:2]) for command in COMMANDS) == [
        ("gunicorn", "django_app"),
        ("gunicorn", "fastapi_app"),
        ("uvicorn", "django_app"),
        ("uvicorn", "fastapi_app"),
    ]


async def test_an_order_is_published_and_received_by_the_same_application(running_hub: RunHub) -> None:
    """Under each server; all at once, because hub and servers need seconds to start."""
    async with running_hub(roles=("api", "relay", "deliver")) as hub, AsyncHookwire(hub.url) as client:
        found = await asyncio.gather(*(placed_and_received(command, hub.url, client) for command in COMMANDS))

    assert found == [{"key": "ada", "order": {"customer": "ada", "total": 19.5, "by": command}} for command in COMMANDS]


async def placed_and_received(command: str, url: str, client: AsyncHookwire) -> dict[str, object]:
    """Place an order at the application; return what it received of it."""
    port = free_port()
    made = await client.subscriptions.create(topic="orders.*", callback=f"http://127.0.0.1:{port}/hook")
    settings = {"HOOKWIRE_URL": url, "HOOK_SECRET": made.secret}
    async with serving(command, port, settings), httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as shop:

        async def answers() -> bool:
            try:
                return (await shop.get("/orders")).status_code == 200
            except httpx.TransportError:
                return False

        await until(answers, 60)
        order = {"customer": "ada", "total": 19.5, "by": command}
        placed = (await shop.post("/orders", json=order, timeout=60)).json()
        received: list[dict[str, object]] = []

        async def is_received() -> bool:
            received[:] = [one for one in (await shop.get("/orders")).json() if one["id"] == placed["event"]]
            return bool(received)

        await until(is_received, 60)
    return {"key": received[0]["key"], "order": received[0]["order"]}
