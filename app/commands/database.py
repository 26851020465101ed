"""The database for a command that runs beside the service, or without it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from app.settings import Settings
from db.direct import connect_direct
from db.embedded import EmbeddedOptions, EmbeddedServer
from db.errors import DatabaseError
from db.pool import Database, PoolOptions, open_database

__all__ = ["database_url", "is_made", "opened_database"]


def is_made(settings: Settings) -> bool:
    """Whether there is a database yet: a configured one always counts, the embedded one when it has been started."""
    return settings.database_url is not None or (settings.data_dir / "postgres").exists()


@asynccontextmanager
async def database_url(settings: Settings) -> AsyncIterator[str]:
    """The URL of a database that answers. An embedded server that does not run is started and stopped again.

    Raises ``DatabaseError`` and ``EmbeddedError``.
    """
    if settings.database_url is not None:
        yield settings.database_url.get_secret_value()
        return
    server = EmbeddedServer(EmbeddedOptions(settings.data_dir))
    if await _answers(server.dsn):
        yield server.dsn
        return
    try:
        yield await server.start()
    finally:
        await server.stop()


@asynccontextmanager
async def opened_database(settings: Settings, **options: Any) -> AsyncIterator[Database]:
    """Connections to that database, closed on exit; ``options`` are fields of ``PoolOptions``. Raises as the URL."""
    async with (
        database_url(settings) as url,
        aclosing(await open_database(PoolOptions(url, connections_min=1, **options))) as database,
    ):
        yield database


async def _answers(url: str) -> bool:
    try:
        await (await connect_direct(PoolOptions(url))).aclose()
    except DatabaseError:
        return False
    return True
