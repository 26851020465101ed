"""The database for a command that runs beside the service, or without it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from app.cli.failure import CommandFailed
from app.settings.settings import Settings
from db.direct import Direct, connect_direct
from db.embedded.server import EmbeddedOptions, EmbeddedServer
from db.errors import DatabaseError
from db.migrate import migrate, migrations, pending
from db.pool import Database, PoolOptions, open_database

__all__ = [
    "database_url",
    "hub_database",
    "is_made",
    "migrated_database",
    "opened_connection",
    "opened_database",
    "opened_pool",
]


def is_made(settings: Settings) -> bool:
    """Return whether there is a database yet: a configured one always counts, the embedded one when it has been
    started.

    Raises ``CommandFailed`` if this account may not look into the data folder.
    """
    if settings.database_url is not None:
        return True
    try:
        # Not exists(): from Python 3.14 on it reports an inaccessible path as missing.
        (settings.data_dir / "postgres").stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise CommandFailed(
            f"cannot look into {settings.data_dir} (HOOKWIRE_DATA_DIR): {error.strerror}; run this as the hub's user, "
            "or name another folder",
            3,
        ) from None
    return True


def _refuse_a_guess(settings: Settings) -> None:
    """Refuse to create a database in another folder than the hub's."""
    if not is_made(settings) and "data_dir" not in settings.model_fields_set:
        raise CommandFailed(
            f"there is no database in {settings.data_dir}: run this in the hub's folder or with its settings "
            "(HOOKWIRE_DATA_DIR or HOOKWIRE_DATABASE_URL), or start `hookwire serve` first",
            2,
        )


@asynccontextmanager
async def database_url(settings: Settings) -> AsyncIterator[str]:
    """Yield the URL of a database that answers. Start an embedded server that does not run, and stop it again.

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
    """Yield connections to that database, closed on exit; ``options`` are fields of ``PoolOptions``. Raise as the URL
    does. Raise ``CommandFailed`` where no setting names a database and none exists.
    """
    _refuse_a_guess(settings)
    async with database_url(settings) as url, opened_pool(url, **options) as database:
        yield database


@asynccontextmanager
async def hub_database(settings: Settings, **options: Any) -> AsyncIterator[Database]:
    """Yield :func:`opened_database` of a hub: raise ``CommandFailed``, with the cure, if nobody made the schema."""
    _refuse_a_guess(settings)
    async with database_url(settings) as url:
        plan = await pending(url)
        if plan.to_run and plan.to_run[0].version == migrations()[0].version:
            raise CommandFailed(
                "the database has no schema of the hub; run: hookwire migrate (or start hookwire serve)", 2
            )
        async with opened_pool(url, **options) as database:
            yield database


@asynccontextmanager
async def migrated_database(settings: Settings, **options: Any) -> AsyncIterator[Database]:
    """Yield :func:`opened_database`, created or migrated first, for commands before the first start.

    Raises ``MigrationRefused``, too.
    """
    _refuse_a_guess(settings)
    async with database_url(settings) as url:
        await migrate(url)
        async with opened_pool(url, **options) as database:
            yield database


@asynccontextmanager
async def opened_connection(settings: Settings, **options: Any) -> AsyncIterator[Direct]:
    """Yield one connection to that database, for a command with one query; otherwise as :func:`opened_database`."""
    _refuse_a_guess(settings)
    async with (
        database_url(settings) as url,
        aclosing(await connect_direct(PoolOptions(url, **options))) as connection,
    ):
        yield connection


@asynccontextmanager
async def opened_pool(url: str, **options: Any) -> AsyncIterator[Database]:
    """Connections to the database of a URL, closed on exit."""
    async with aclosing(await open_database(PoolOptions(url, connections_min=1, **options))) as database:
        yield database


async def _answers(url: str) -> bool:
    try:
        await (await connect_direct(PoolOptions(url))).aclose()
    except DatabaseError:
        return False
    return True
