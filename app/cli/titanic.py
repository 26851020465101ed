"""The options ``--titanic...`` of ``hookwire broker``: the store, and the execution of requests."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from app.settings.settings import Settings
    from db.pool import Database
    from reqrep.titanic.options import TitanicOptions
    from reqrep.titanic.store import RequestStore
    from reqrep.titanic.thread import TitanicPlan

__all__ = ["StoreChoice", "seconds_in", "titanic_plan"]

_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


@dataclass(frozen=True, slots=True)
class StoreChoice:
    """The options of Titanic. ``where``: "memory", "database", or a folder for the file.

    ``collect_ms``: the time that a write of the file waits for others. ``settings``: those of the database.
    """

    where: str
    collect_ms: int
    settings: Settings | None = None


def titanic_plan(choice: StoreChoice, concurrency: int, execution_seconds: float, retention: str) -> TitanicPlan:
    """Return the options of Titanic for the broker. Raise ValueError for a retention that is not a time."""
    from reqrep.titanic.options import TitanicOptions
    from reqrep.titanic.thread import TitanicPlan

    options = TitanicOptions(
        concurrency=concurrency, execution_seconds=execution_seconds, retention_seconds=seconds_in(retention)
    )
    if choice.where == "database" and choice.settings is not None:
        return _database_plan(choice.settings, options)
    return TitanicPlan(lambda: _opened(choice), options)


def _database_plan(settings: Settings, options: TitanicOptions) -> TitanicPlan:
    """Return Titanic on the hub's database, with the service ``hub.publish`` beside it."""
    from app.cli.database import hub_database
    from reqrep.bridge.hub_publish import HUB_PUBLISH, HubPublish
    from reqrep.titanic.postgresql_store import PostgresqlRequestStore
    from reqrep.titanic.thread import TitanicPlan

    opened: list[Database] = []
    stores: list[PostgresqlRequestStore] = []

    @asynccontextmanager
    async def open_store() -> AsyncIterator[RequestStore]:
        async with AsyncExitStack() as stack:
            database = await stack.enter_async_context(hub_database(settings, application_name="hookwire broker"))
            opened.append(database)
            store = PostgresqlRequestStore(database, f"broker at {gethostname()}")
            stores.append(store)
            yield store

    async def announce(services: list[str]) -> None:
        await stores[0].announce(services)

    return TitanicPlan(open_store, options, {HUB_PUBLISH: HubPublish(lambda: opened[0]).answer}, announce)


def seconds_in(text: str) -> float:
    """Return the seconds of a time such as 90s, 15m, 12h or 7d. Raise ValueError."""
    match = re.fullmatch(r"(\d{1,6})([smhd])", text)
    if match is None or int(match[1]) == 0:
        raise ValueError(f"--titanic-retention {text!r} is no time such as 90s, 15m, 12h or 7d")
    return float(int(match[1]) * _UNITS[match[2]])


@asynccontextmanager
async def _opened(choice: StoreChoice) -> AsyncIterator[RequestStore]:
    from reqrep.titanic.file_store import FileStoreOptions, open_file_store
    from reqrep.titanic.memory_store import MemoryRequestStore

    if choice.where == "memory":
        yield MemoryRequestStore()
        return
    async with open_file_store(FileStoreOptions(Path(choice.where), collect_seconds=choice.collect_ms / 1000)) as store:
        yield store
