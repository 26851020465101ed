"""A whole hub inside the test: real wiring, real PostgreSQL, HTTP over loopback; and a receiver for its deliveries."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from typing_extensions import override

from app.settings.settings import Settings
from app.wiring import open_hub
from db.pool import Database, PoolOptions, open_database
from runtime.process import Process
from tests.databases import Databases
from tests.waiting import until

WAIT_SECONDS = 60.0
ALL_ROLES = ("api", "relay", "deliver")


@dataclass(frozen=True)
class RunningHub:
    """A hub that answers at ``url``; ``client`` speaks to it, ``sql`` runs a statement in its database."""

    url: str
    client: httpx.AsyncClient
    settings: Settings
    database_url: str

    async def publish(self, topic: str, content: bytes = b"{}", **headers: str) -> httpx.Response:
        """POST one event; header names are written with underscores."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.post(f"/topics/{topic}/events", content=content, headers=named)

    async def subscribe(self, topic: str, callback: str, **more: Any) -> dict[str, Any]:
        """Make a subscription."""
        answer = await self.client.post("/subscriptions", json={"topic": topic, "callback": callback, **more})
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def sql(self, statement: str, *arguments: object) -> list[Any]:
        """Rows of a statement of the test's own."""
        connection = await asyncpg.connect(self.database_url)
        try:
            return [tuple(row) for row in await connection.fetch(statement, *arguments)]
        finally:
            await connection.close()

    async def until(self, path: str, holds: Callable[[Any], bool]) -> Any:
        """GET until the JSON answer fulfils a condition."""
        answers: list[Any] = []

        async def fulfilled() -> bool:
            answers[:] = [(await self.client.get(path)).json()]
            return holds(answers[0])

        await until(fulfilled, WAIT_SECONDS)
        return answers[0]


@asynccontextmanager
async def opened(database_url: str) -> AsyncIterator[tuple[Database, asyncpg.Connection]]:
    """A database as the process has it, and a connection of the test's own."""
    database = await open_database(PoolOptions(database_url))
    sql = await asyncpg.connect(database_url)
    try:
        yield database, sql
    finally:
        await sql.close()
        await database.aclose()


RunHub = Callable[..., AbstractAsyncContextManager[RunningHub]]


@asynccontextmanager
async def run_hub(
    url: str, folder: Path, /, roles: Sequence[str] = ("api",), *, is_loaded: bool = True, **settings: Any
) -> AsyncIterator[RunningHub]:
    """Run a hub while the block runs; settings by name, also another ``database_url`` or ``data_dir``. ``is_loaded``:
    it has all its routes.
    """
    values = {"listen": "127.0.0.1:0", "data_dir": folder, "database_url": url, "log_level": "error"}
    values["database_connections_max"] = 4  # all services begin at once: each would open a session of its own
    loaded = Settings(**{**values, **settings})
    failed: Exception | None = None
    async with open_hub(loaded, roles) as assembly:
        process = Process(assembly.phases, 5.0)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(process.run())
            try:
                reached = f"http://{loaded.listen}" if loaded.public_url else assembly.public_url
                async with httpx.AsyncClient(base_url=reached, trust_env=False, verify=False, timeout=80) as client:
                    hub = RunningHub(assembly.public_url, client, loaded, url)
                    if is_loaded and not loaded.metrics_listen:
                        await client.options("/readyz")  # only a GET is answered early; the routes are loaded at once
                    else:
                        late = ("starting",) if is_loaded else ()
                        await hub.until(
                            "/readyz", lambda answer: answer["database"] == "ok" and answer["status"] not in late
                        )
                    yield hub
            except Exception as error:  # noqa: BLE001 - raised again outside of the group: in the test's own words
                failed = error
            process.stop()
    if failed is not None:
        raise failed


@pytest.fixture
def running_hub(database_url: str, tmp_path: Path) -> RunHub:
    """Factory: ``async with running_hub(event_bytes_max=100) as hub``; settings by name, roles too."""
    return partial(run_hub, database_url, tmp_path)


class _LoopOfThread(asyncio.SelectorEventLoop):
    """A loop beside the main thread, which alone gets signals."""

    @override
    def add_signal_handler(self, *_: object) -> None:
        """Leave signals to the main thread."""

    @override
    def remove_signal_handler(self, sig: int) -> bool:
        return False


async def _no_end(_: RunningHub) -> None:
    """Check nothing."""


@contextmanager
def _hub_in_thread(
    databases: Databases, folder: Path, roles: Sequence[str], settings: Mapping[str, Any],
    at_end: Callable[[RunningHub], Awaitable[None]] = _no_end,
) -> Iterator[RunningHub]:  # fmt: skip
    """Run a hub on a loop in a thread of its own: the loop of a test ends with it."""
    started: Future[tuple[RunningHub, Callable[[], object]]] = Future()

    async def run(database_url: str) -> None:
        ended, loop = asyncio.Event(), asyncio.get_running_loop()
        async with run_hub(database_url, folder, roles, **settings) as hub:
            started.set_result((hub, lambda: loop.call_soon_threadsafe(ended.set)))
            await ended.wait()
            await at_end(hub)

    def run_on_its_loop(database_url: str) -> None:
        with asyncio.Runner(loop_factory=_LoopOfThread) as runner:
            runner.run(run(database_url))

    with databases.fresh() as url, ThreadPoolExecutor(1) as thread:
        running = thread.submit(run_on_its_loop, url)
        wait((started, running), return_when=FIRST_COMPLETED)
        if running.done():
            running.result()
        hub, end = started.result()
        yield hub
        end()
        running.result()


async def _nothing_stored(hub: RunningHub) -> None:
    stored = "SELECT topic FROM hookwire.events UNION ALL SELECT topic FROM hookwire.subscriptions"
    assert await hub.sql(stored) == []


@pytest.fixture(scope="module")
def hub_of_file(databases18: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    """One hub with default settings for a file, in which nothing is stored."""
    with _hub_in_thread(databases18, tmp_path_factory.mktemp("hub"), ("api",), {}, _nothing_stored) as hub:
        yield hub


@asynccontextmanager
async def _with_client(hub: RunningHub) -> AsyncIterator[RunningHub]:
    """The hub, with a client on the loop of this test."""
    async with httpx.AsyncClient(base_url=hub.client.base_url, trust_env=False, verify=False, timeout=80) as client:
        yield replace(hub, client=client)


@pytest.fixture
async def kept_hub(hub_of_file: RunningHub) -> AsyncIterator[RunningHub]:
    """The hub of the file, for requests that it refuses, so they change nothing: to start one takes half a second."""
    async with _with_client(hub_of_file) as hub:
        yield hub


@pytest.fixture(scope="module")
def shared_hubs(
    databases18: Databases, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., RunningHub]]:
    """One hub for a file, its roles and its settings; the first test that asks for it starts it."""
    with ExitStack() as stack:
        hubs: dict[str, RunningHub] = {}

        def shared(roles: Sequence[str], settings: Mapping[str, Any]) -> RunningHub:
            name = f"{list(roles)} {sorted(settings.items())}"
            if name not in hubs:
                made = _hub_in_thread(databases18, tmp_path_factory.mktemp("hub"), roles, settings)
                hubs[name] = stack.enter_context(made)
            return hubs[name]

        yield shared


@pytest.fixture
def shared_hub(shared_hubs: Callable[..., RunningHub]) -> RunHub:
    """Factory as `running_hub`, of a hub that the tests of a file share: each has topics and names of its own."""

    def run(roles: Sequence[str] = ("api",), **settings: Any) -> AbstractAsyncContextManager[RunningHub]:
        return _with_client(shared_hubs(roles, settings))

    return run


@pytest.fixture
def topic() -> str:
    """The name of a topic that only this test knows, in a hub that the tests of its file share."""
    return f"only.{secrets.token_hex(6)}"


@dataclass
class Delivered:
    """One POST as the receiver saw it."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """Answers every POST with ``status`` and ``answer``; ``delivered`` keeps them in order of arrival.

    ``status_of`` chooses another status by the body, and ``gate`` holds back the answers while it is not set.
    """

    port: int = 0
    status: int = 204
    status_of: Callable[[bytes], int | None] = lambda _: None
    gate: asyncio.Event | None = None
    answer: bytes = b""
    delivered: list[Delivered] = field(default_factory=list)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def callback(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def wait_for(self, count: int) -> list[Delivered]:
        """The deliveries, once there are so many."""
        async with asyncio.timeout(WAIT_SECONDS):
            while len(self.delivered) < count:
                self._arrived.clear()
                await self._arrived.wait()
        return self.delivered

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in head[1:] if line)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                self.delivered.append(Delivered(head[0].split(" ")[1], headers, body))
                self._arrived.set()
                if self.gate is not None:
                    await self.gate.wait()
                status = self.status_of(body) or self.status
                head_of_answer = b"HTTP/1.1 %d Status\r\nContent-Length: %d\r\n\r\n" % (status, len(self.answer))
                writer.write(head_of_answer + self.answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A callback on loopback."""
    made = Receiver()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    yield made
    server.close()
