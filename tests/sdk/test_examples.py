"""The examples do what they say: an order that is refused leaves no event."""

import asyncio
import importlib.util
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

import asyncpg
import httpx
import pytest

from scripts.servers.postgres import system_bin_dir
from tests.sdk.drivers import dialect

FOLDER = Path(__file__).parents[2] / "examples" / "publish-in-your-transaction"
ORDER = {"id": 1, "customer": "ada", "total": 19.5}


@pytest.fixture
async def sql(database_url15: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url15)
    await connection.execute("CREATE TABLE orders (id bigint PRIMARY KEY, customer text, total numeric)")
    yield connection
    await connection.close(timeout=60)


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def by_fastapi(url: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Asks twice for the same order; returns what became of each request."""
    monkeypatch.setenv("DATABASE_URL", dialect(url, "asyncpg"))
    module = load("fastapi_sqlalchemy")
    transport = httpx.ASGITransport(module.app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        answers = [await client.post("/orders", json=ORDER) for _ in range(2)]
    await module.engine.dispose()
    return [str(answer.status_code) for answer in answers]


PROGRAM = """
import json, sys
import django_orders as shop
from django.test import Client
client = Client(raise_request_exception=False)
print(*(client.post("/orders", json.loads(sys.argv[1]), content_type="application/json").status_code for _ in "12"))
"""


async def by_django(url: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """In a process of its own, because a process has one set of Django's settings."""
    at = urlsplit(url)
    environment = {
        "DATABASE": at.path[1:], "DATABASE_USER": at.username or "", "DATABASE_HOST": at.hostname or "",
        "DATABASE_PORT": str(at.port or ""), "PYTHONPATH": str(FOLDER),
    }  # fmt: skip
    return (await output(sys.executable, "-c", PROGRAM, json.dumps(ORDER), **environment)).split()


async def by_shell(url: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    path = f"{system_bin_dir()}:{os.environ['PATH']}"
    command = f'for n in 1 2; do "{FOLDER}/orders.sh" 1 ada 19.5 >out 2>err && echo 201 || echo 500; done'
    return (await output("sh", "-c", f"cd $(mktemp -d) && {command}", DATABASE_URL=url, PATH=path)).split()


async def output(*command: str, **environment: str) -> str:
    child = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, **environment}, stdout=asyncio.subprocess.PIPE
    )
    written, _ = await child.communicate()
    return written.decode()


@pytest.mark.parametrize("shop", [by_fastapi, by_django, by_shell])
async def test_an_order_that_is_refused_leaves_no_event(
    shop: Callable[[str, pytest.MonkeyPatch], Awaitable[list[str]]],
    sql: asyncpg.Connection,
    database_url15: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codes = await shop(database_url15, monkeypatch)
    orders = await sql.fetchval("SELECT count(*) FROM orders")
    events = await sql.fetch("SELECT key, payload FROM hookwire.events")
    assert (codes, orders, [(e["key"], json.loads(e["payload"])) for e in events]) == (
        ["201", "500"],
        1,
        [("ada", ORDER)],
    )
