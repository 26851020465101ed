"""Two hubs behind a balancer that polls readiness, restarted one after the other while events arrive (GW-13)."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import httpx
import pytest

from app.chaos.child import Child
from scripts.servers.haproxy import HAProxy
from scripts.servers.missing import MissingServerError
from tests.waiting import until

STOP_DELAY_SECONDS = 3
CLIENTS = 6


@pytest.fixture
async def hubs(database_url: str, tmp_path: Path) -> AsyncIterator[list[Child]]:
    settings = {
        "DATABASE_URL": database_url, "DATA_DIR": str(tmp_path), "DATABASE_CONNECTIONS_MAX": "6",
        "STOP_DELAY_SECONDS": str(STOP_DELAY_SECONDS),
    }  # fmt: skip
    found = [Child(f"hub-{number}", tmp_path, settings) for number in range(2)]
    try:
        for hub in found:
            await hub.start()
        yield found
    finally:
        for hub in found:
            await hub.end()


@pytest.fixture
def balancer(hubs: Sequence[Child], tmp_path: Path) -> Iterator[HAProxy]:
    server = HAProxy("haproxy", tmp_path / "haproxy", [hub.port for hub in hubs])
    try:
        server.start()
    except MissingServerError as error:
        pytest.fail(str(error), pytrace=False)
    try:
        yield server
    finally:
        server.discard()


@asynccontextmanager
async def load(address: str, answers: Counter[str]) -> AsyncIterator[None]:
    """POST events all the time, on connections that are kept; count the answers by status or error."""
    done = asyncio.Event()

    async def publish(number: int) -> None:
        async with httpx.AsyncClient(base_url=address, timeout=60, trust_env=False) as client:
            while not done.is_set():
                try:
                    answer = await client.post("/topics/orders/events", content=b"1", params={"key": f"k{number}"})
                    answers[str(answer.status_code)] += 1
                except httpx.HTTPError as error:
                    answers[type(error).__name__] += 1

    async with asyncio.TaskGroup() as group:
        for number in range(CLIENTS):
            group.create_task(publish(number))
        try:
            yield
        finally:
            done.set()


async def restart(hub: Child, answers: Counter[str]) -> None:
    """End a hub softly and start it again; each half under load, so that both hubs take part."""
    os.kill(hub.pid, signal.SIGTERM)
    await hub.ended(60)
    await hub.start()
    async with httpx.AsyncClient(trust_env=False) as client:
        await until(lambda: _is_ready(client, hub))
    before = answers.total()
    await until(lambda: answers.total() >= before + 100)


async def _is_ready(client: httpx.AsyncClient, hub: Child) -> bool:
    return (await client.get(f"http://127.0.0.1:{hub.port}/readyz")).status_code == 200


@pytest.mark.slow
async def test_a_rolling_restart_behind_a_balancer_fails_no_request(
    hubs: list[Child], balancer: HAProxy, database_url: str
) -> None:
    answers: Counter[str] = Counter()
    async with load(balancer.address, answers):
        await until(lambda: answers.total() >= 100)
        for _ in range(2):
            for hub in hubs:
                await restart(hub, answers)
    connection = await asyncpg.connect(database_url)
    stored = await connection.fetchval("SELECT count(*) FROM hookwire.events")
    await connection.close()
    assert (dict(answers), stored) == ({"202": stored}, answers.total())
