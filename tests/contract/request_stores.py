"""The stores of requests that the port's suite runs on. To add one: a context manager here, and its name in STORES."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from db.pool import PoolOptions, open_database
from reqrep.titanic.file_store import FileStoreOptions, open_file_store
from reqrep.titanic.memory_store import MemoryRequestStore
from reqrep.titanic.postgresql_store import PostgresqlRequestStore
from reqrep.titanic.store import RequestStore


@dataclass(frozen=True)
class Ground:
    """What a store stands on: an empty folder, and the URL of a migrated database (made when it is asked for)."""

    folder: Path
    database_url: Callable[[], str]


@dataclass(frozen=True)
class Harness:
    """``store``: under test. ``pass_time``: leases, delays and ages advance by so many seconds. ``reopened``: another
    store over the same data after a crash, or None where nothing survives; the first one is not used any more."""

    store: RequestStore
    pass_time: Callable[[float], Awaitable[None]]
    reopened: Callable[[], Awaitable[RequestStore]] | None = None


class Clock:
    """A clock that stands still until the test moves it."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now

    async def advance(self, seconds: float) -> None:
        self.now += seconds


@asynccontextmanager
async def in_memory(ground: Ground) -> AsyncIterator[Harness]:
    clock = Clock()
    yield Harness(MemoryRequestStore(clock=clock), clock.advance)


@asynccontextmanager
async def in_postgresql(ground: Ground) -> AsyncIterator[Harness]:
    url = ground.database_url()
    async with AsyncExitStack() as stack:

        async def opened() -> RequestStore:
            database = await open_database(PoolOptions(url))
            stack.push_async_callback(database.aclose)
            return PostgresqlRequestStore(database)

        async def pass_time(seconds: float) -> None:
            connection = await asyncpg.connect(url)
            try:
                await connection.execute(
                    "UPDATE hookwire.requests SET deadline_at = deadline_at - make_interval(secs => $1),"
                    " created_at = created_at - make_interval(secs => $1)",
                    seconds,
                )
            finally:
                await connection.close()

        yield Harness(await opened(), pass_time, opened)


@asynccontextmanager
async def in_a_file(ground: Ground) -> AsyncIterator[Harness]:
    """A crash leaves the bytes that are in the file: the copy of it is opened, while the first store still runs."""
    clock = Clock()
    async with AsyncExitStack() as stack:

        async def opened(name: str) -> RequestStore:
            options = FileStoreOptions(ground.folder / name, wall_clock=clock, clock=clock)
            return await stack.enter_async_context(open_file_store(options))

        async def reopened() -> RequestStore:
            shutil.copytree(ground.folder / "first", ground.folder / "after")
            return await opened("after")

        yield Harness(await opened("first"), clock.advance, reopened)


STORES: dict[str, Callable[[Ground], AbstractAsyncContextManager[Harness]]] = {
    "memory": in_memory,
    "postgresql": in_postgresql,
    "file": in_a_file,
}
DURABLE = [name for name in STORES if name != "memory"]
