"""Services under faults: hubs and workers that are killed at each step of a request (ZU-01, ZU-04, TI-08)."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import asyncpg
import httpx
import pytest

from app.chaos.child import Child
from tests.waiting import poll, until

WAIT_SECONDS = 60.0
KILLED_WORKER = """
import json, os, signal, sys, urllib.request
url, effects = sys.argv[1:]
asked = urllib.request.Request(url + "/services/echo/claim", b'{"wait_seconds": 20, "lease_seconds": 1}',
                               {"Content-Type": "application/json"})
[item] = json.load(urllib.request.urlopen(asked))["items"]
open(effects, "a").write(item["receipt"] + "\\n")
os.kill(os.getpid(), signal.SIGKILL)
"""


class Hubs:
    """Hubs on one database, a caller and a worker that try again whatever happens to them."""

    def __init__(self, children: list[Child], client: httpx.AsyncClient, sql: asyncpg.Connection) -> None:
        self.children = children
        self.client = client
        self.sql = sql
        self.executed: Counter[str] = Counter()
        self._turn = 0

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> httpx.Response:
        """Ask one hub after the other until one answers."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                self._turn += 1
                base = f"http://127.0.0.1:{self.children[self._turn % len(self.children)].port}"
                with suppress(httpx.TransportError):
                    answer = await self.client.request(method, base + path, content=body, headers=named, timeout=30)
                    if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                        return answer
                await poll()

    async def call(self, number: int) -> str:
        """A request that is accepted for certain; its id."""
        answer = await self.ask(
            "POST", "/services/echo", b"%d" % number, prefer="respond-async", idempotency_key=f"k{number}"
        )
        assert answer.status_code in (200, 202), answer.text
        return answer.headers["hookwire-request-id"]

    async def work(self, *, lease_seconds: float = 2) -> None:
        """Claim, execute and answer without end."""
        asked = b'{"wait_seconds": 1, "lease_seconds": %g}' % lease_seconds
        while True:
            claimed = await self.ask("POST", "/services/echo/claim", asked, content_type="application/json")
            for item in claimed.json()["items"]:
                request = item["request"]
                self.executed[request["id"]] += 1
                reply = f"{request['payload']} by {self.executed[request['id']]}".encode()
                await self.ask("POST", f"/requests/{request['id']}/reply", reply, hookwire_receipt=item["receipt"])

    async def reply(self, request_id: str) -> str:
        async with asyncio.timeout(WAIT_SECONDS):
            while (answer := await self.ask("GET", f"/requests/{request_id}", prefer="wait=5")).status_code != 200:
                assert answer.status_code == httpx.codes.ACCEPTED, answer.text
        return answer.text

    async def reply_events(self) -> Counter[bytes]:
        rows = await self.sql.fetch("SELECT payload FROM hookwire.events WHERE topic = 'hookwire.service.echo.reply'")
        return Counter(row["payload"] for row in rows)


@asynccontextmanager
async def hubs(database_url: str, folder: Path, count: int = 1, failpoints: str = "") -> AsyncIterator[Hubs]:
    settings = {
        "DATABASE_URL": database_url, "DATA_DIR": str(folder), "PROFILE": "development", "LOG_LEVEL": "warning",
    }  # fmt: skip
    children = [Child(f"hub-{number}", folder, settings) for number in range(count)]
    sql = await asyncpg.connect(database_url)
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            for child in children:
                await child.start(failpoints)
            yield Hubs(children, client, sql)
    finally:
        for child in children:
            await child.end()
        await sql.close()


@pytest.mark.parametrize(
    "point",
    [
        pytest.param("service.before_request", marks=pytest.mark.slow),
        pytest.param("service.after_request", marks=pytest.mark.slow),
        "service.after_claim",
        "service.before_reply",
        pytest.param("service.after_reply", marks=pytest.mark.slow),
    ],
)
async def test_a_service_killed_mid_request_loses_no_request_and_doubles_no_reply(
    point: str, database_url: str, tmp_path: Path
) -> None:
    """ZU-01, ZU-04, TI-08: the caller and the worker repeat what got no answer; one reply stands, one event says so."""
    async with hubs(database_url, tmp_path, failpoints=f"{point}:kill@2") as fleet:
        [hub] = fleet.children
        working = asyncio.create_task(fleet.work())
        asking = [asyncio.create_task(fleet.call(number)) for number in range(3)]
        code = await hub.ended(WAIT_SECONDS)
        await hub.start()
        ids = [await one for one in asking]
        replies = [await fleet.reply(one) for one in ids]
        again = [await fleet.call(number) for number in range(3)]
        working.cancel()

        assert (code, again, [reply.partition(" by ")[0] for reply in replies]) == (
            -signal.SIGKILL,
            ids,
            ["0", "1", "2"],
        )
        assert await fleet.reply_events() == Counter(reply.encode() for reply in replies)


async def test_a_worker_killed_after_its_effect_is_replaced_and_its_late_reply_refused(
    database_url: str, tmp_path: Path
) -> None:
    """ZU-04, TI-12: the request is given to another worker; the first reply wins."""
    async with hubs(database_url, tmp_path) as fleet:
        effects = tmp_path / "effects"
        request_id = await fleet.call(1)
        url = f"http://127.0.0.1:{fleet.children[0].port}"
        command = [sys.executable, "-c", KILLED_WORKER, url, str(effects)]
        killed = await asyncio.to_thread(subprocess.run, command, check=False, timeout=WAIT_SECONDS)
        working = asyncio.create_task(fleet.work())
        reply = await fleet.reply(request_id)
        working.cancel()
        late = await fleet.ask(
            "POST", f"/requests/{request_id}/reply", b"late", hookwire_receipt=effects.read_text().strip()
        )

        assert (killed.returncode, reply, late.status_code, await fleet.reply(request_id)) == (
            -signal.SIGKILL, "1 by 1", 409, "1 by 1",
        )  # fmt: skip


@pytest.mark.slow
async def test_kills_of_two_hubs_lose_no_accepted_request(database_url: str, tmp_path: Path) -> None:
    """ZU-01, ZU-20, TI-08, XX-05: 20 kills while requests are made and answered; each has one reply and one event."""
    async with hubs(database_url, tmp_path, count=2) as fleet:
        workers = [asyncio.create_task(fleet.work()) for _ in range(3)]
        ids: list[str] = []

        async def make() -> None:
            for number in range(10_000):
                ids.append(await fleet.call(number))

        making = asyncio.create_task(make())
        for number in range(20):
            victim = fleet.children[number % 2]
            goal = len(ids) + 10
            await until(lambda goal=goal: len(ids) >= goal)
            await victim.kill()
            await victim.start()
        making.cancel()
        replies = [(await fleet.reply(one)).partition(" by ")[0] for one in ids]
        for worker in workers:
            worker.cancel()
        events = Counter(payload.partition(b" by ")[0] for payload in (await fleet.reply_events()).elements())

        assert replies == [str(number) for number in range(len(ids))]
        assert [number for number in range(len(ids)) if events[str(number).encode()] != 1] == []
