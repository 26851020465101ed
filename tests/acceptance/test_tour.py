"""The five-minute tour of the README, by real processes: the service, its embedded database, the example receiver."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest
from standardwebhooks.webhooks import Webhook

from runtime.port import free_port as find_port
from scripts.servers.tree import ProcessTree
from scripts.servers.warden import WARDEN
from tests.waiting import until

ROOT = Path(__file__).parents[2]
HOOKWIRE = Path(sys.executable).with_name("hookwire")
WAIT_SECONDS = 60.0
UNHEARD = "No subscription's topic and filter matched when it was fanned out."
STOP_SECONDS = 30.0  # a machine with nothing else to do needs less than five


class Program:
    """A child process whose output is read line by line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []
        self._grew = asyncio.Event()

    async def read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.lines.append(line.decode().rstrip("\n"))
            self._grew.set()

    async def line(self, words: str) -> str:
        """The first line with these words, once there is one."""
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                for line in self.lines:
                    if words in line:
                        return line
                self._grew.clear()
                await self._grew.wait()

    async def end(self, number: signal.Signals) -> tuple[int, float]:
        """Send the signal; exit code, and how many seconds it took."""
        began = time.monotonic()
        self.process.send_signal(number)
        async with asyncio.timeout(WAIT_SECONDS):
            code = await self.process.wait()
        return code, time.monotonic() - began


@asynccontextmanager
async def running(*words: str | Path, **variables: str) -> AsyncIterator[Program]:
    """A program in a clean environment, with its output; ended and its tree cleaned up whatever the test does."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOOKWIRE_")}
    process = await asyncio.create_subprocess_exec(
        *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, stdin=asyncio.subprocess.DEVNULL,
        env=environment | variables,
    )  # fmt: skip
    tree = ProcessTree.of(process.pid)
    WARDEN.watch(tree, signal.SIGTERM)
    program = Program(process)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(program.read())
        try:
            yield program
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            WARDEN.forget(tree)


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A data folder on a short path that the database's own account can reach."""
    with TemporaryDirectory(prefix="hookwire-tour-") as folder:
        Path(folder).chmod(0o711)
        WARDEN.remove(Path(folder))
        yield Path(folder) / "data"


@asynccontextmanager
async def serving(data_dir: Path, port: int) -> AsyncIterator[tuple[Program, httpx.AsyncClient]]:
    """``hookwire serve`` on its embedded database, answering."""
    settings = {"HOOKWIRE_DATA_DIR": str(data_dir), "HOOKWIRE_LISTEN": f"127.0.0.1:{port}"}
    async with (
        running(HOOKWIRE, "serve", **settings) as service,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=20) as client,
    ):
        await service.line("  database")
        await until(lambda: _ready(client))
        yield service, client


async def _ready(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/readyz")).status_code == 200
    except httpx.TransportError:
        return False


async def told(client: httpx.AsyncClient, event_id: str, summary: str) -> None:
    """Wait until the hub says this of an event."""

    async def holds() -> object:
        return (await client.get(f"/events/{event_id}")).json()["summary"] == summary

    await until(holds)


async def psql(service: Program, script: str) -> str:
    """Run a script by the very line that the service printed."""
    # A slow start says before it: "  database  PostgreSQL is ready, 2 s so far".
    command = shlex.split((await service.line(" -h ")).split(maxsplit=1)[1])
    process = await asyncio.create_subprocess_exec(
        *command, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate(script.encode())
    assert process.returncode == 0, output.decode()
    return output.decode()


async def test_the_five_minute_tour(data_dir: Path) -> None:
    """Subscribe, receive, publish, ask, look around, publish from SQL, be refused, be unheard, stop."""
    async with serving(data_dir, find_port()) as (service, client):
        unheard = await client.post("/topics/orders.created/events", content=b"unheard")
        assert unheard.headers["hookwire-notice"].startswith("nobody listens: no subscription matches this topic")
        await told(client, unheard.json()["id"], UNHEARD)

        port = find_port()
        asked = {"topic": "orders.*", "callback": f"http://127.0.0.1:{port}/"}
        subscription = (await client.post("/subscriptions", json=asked)).json()
        receiver_words = ("examples/receiver.py", "--secret", subscription["secret"], "--port", str(port))
        async with running(sys.executable, ROOT / receiver_words[0], *receiver_words[1:]) as receiver:
            await receiver.line("receiving at")
            await _publish_and_ask(client, receiver)
            await _publish_from_sql(service, receiver)
            await receiver.end(signal.SIGINT)

        await _look_around(client)
        refused = await client.post("/subscriptions", json={"topic": "orders.*", "callback": "http://10.0.0.7/hook"})
        assert refused.status_code == 422
        assert "HOOKWIRE_EGRESS_ALLOW_CIDRS or HOOKWIRE_EGRESS_ALLOW_HOSTS" in refused.json()["detail"]
        page = await client.get(httpx.URL(refused.json()["type"]).path)
        assert (page.status_code, "HOOKWIRE_EGRESS_ALLOW_CIDRS" in page.text) == (200, True)

        code, seconds = await service.end(signal.SIGINT)
        assert (code, seconds < STOP_SECONDS, [line for line in service.lines if "Traceback" in line]) == (0, True, [])


async def _publish_and_ask(client: httpx.AsyncClient, receiver: Program) -> None:
    headers = {"Hookwire-Key": "42", "Content-Type": "application/json"}
    accepted = await client.post("/topics/orders.created/events", content=b'{"n": 1}', headers=headers)

    event_id = accepted.json()["id"]
    assert (accepted.status_code, "hookwire-notice" in accepted.headers) == (202, False)
    assert await receiver.line(event_id) == f'{event_id}  orders.created  42  {{"n": 1}}'
    await told(client, event_id, "1 delivered.")


async def _publish_from_sql(service: Program, receiver: Program) -> None:
    """What was rolled back never arrives: the marker that was committed after it arrives, and it has not."""
    statement = "SELECT hookwire.publish('orders.created', '{{\"n\": \"{}\"}}', key => '42');"
    await psql(service, f"BEGIN; {statement.format('rolled back')} ROLLBACK;")
    event_id = (await psql(service, f"BEGIN; {statement.format('committed')} COMMIT;")).strip()

    assert "committed" in await receiver.line(event_id)
    assert [line for line in receiver.lines if "rolled back" in line] == []


async def _look_around(client: httpx.AsyncClient) -> None:
    status, docs = await client.get("/console"), await client.get("/docs")
    assert (status.status_code, docs.status_code, "orders.created" in status.text) == (200, 200, True)


async def test_the_receiver_refuses_what_the_hub_did_not_sign_and_shows_an_event_once(free_port: int) -> None:
    """WH-O07: what a receiver has to do about duplicates, ready to be copied."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

    async def post(client: httpx.AsyncClient, signer: Webhook, event_id: str) -> int:
        now = datetime.now(UTC)
        headers = {
            "webhook-id": event_id, "webhook-timestamp": str(int(now.timestamp())), "hookwire-topic": "a",
            "webhook-signature": signer.sign(event_id, now, "{}"),
        }  # fmt: skip
        return (await client.post("/", content=b"{}", headers=headers)).status_code

    words = (sys.executable, ROOT / "examples/receiver.py", "--port", str(free_port), "--secret", secret, "--json")
    async with (
        running(*words) as receiver,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{free_port}", timeout=60) as client,
    ):
        await receiver.line("receiving at")
        statuses = [
            await post(client, Webhook(secret), "evt_1"),
            await post(client, Webhook(secret), "evt_1"),
            await post(client, Webhook("whsec_" + "A" * 32), "evt_2"),
            (await client.post("/", content=b"{}")).status_code,
        ]
        code, _ = await receiver.end(signal.SIGINT)

        assert (code, statuses) == (0, [204, 204, 401, 401])
        assert [line for line in receiver.lines if "evt_" in line] == [
            '{"id": "evt_1", "topic": "a", "key": null, "body": "{}"}'
        ]


async def test_after_kill_nine_the_next_start_finds_everything(data_dir: Path) -> None:
    """RR-14: no stale lock, no lost event; the database that was left running is taken over."""
    port = find_port()
    async with serving(data_dir, port) as (service, client):
        accepted = (await client.post("/topics/a/events", content=b"precious")).json()
        code, _ = await service.end(signal.SIGKILL)
        assert code == -signal.SIGKILL

    async with serving(data_dir, port) as (service, client):
        event = (await client.get(f"/events/{accepted['id']}")).json()
        again = await client.post("/topics/a/events", content=b"more")
        code, seconds = await service.end(signal.SIGTERM)

        assert (event["payload"], again.status_code, code, seconds < STOP_SECONDS) == ("precious", 202, 0, True)
        assert (data_dir / "postgres" / "postmaster.pid").exists() is False
