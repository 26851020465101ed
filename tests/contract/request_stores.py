"""The stores of requests that the port's suite runs on. To add one: a context manager here, and its name in STORES."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from reqrep.titanic.memory_store import MemoryRequestStore
from reqrep.titanic.store import RequestStore


@dataclass(frozen=True)
class Ground:
    """What a store stands on: an empty folder, and the URL of a migrated database (made when it is asked for)."""

    folder: Path
    database_url: Callable[[], str]


@dataclass(frozen=True)
class Rig:
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
async def in_memory(ground: Ground) -> AsyncIterator[Rig]:
    clock = Clock()
    yield Rig(MemoryRequestStore(clock=clock), clock.advance)


STORES: dict[str, Callable[[Ground], AbstractAsyncContextManager[Rig]]] = {
    "memory": in_memory,
}
DURABLE = [name for name in STORES if name != "memory"]
