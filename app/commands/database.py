"""The database for a command that runs beside the service, or without it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.settings import Settings
from db.direct import connect_direct
from db.embedded import EmbeddedOptions, EmbeddedServer
from db.errors import DatabaseError
from db.pool import PoolOptions

__all__ = ["database_url", "is_made"]


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


async def _answers(url: str) -> bool:
    try:
        await (await connect_direct(PoolOptions(url))).aclose()
    except DatabaseError:
        return False
    return True
