"""What was checked before the migrations, and what is checked again when the database is open."""

from __future__ import annotations

from contextlib import AsyncExitStack, aclosing
from pathlib import Path

import asyncpg
import pytest

import app.serve
from app.checks import Check, ChecksRefused, early_checks, startup_checks
from db.direct import Direct
from db.errors import TooManyConnections
from db.pool import PoolOptions, open_database
from tests.app.test_checks import settings_of


async def test_a_check_of_the_server_that_could_not_be_made_early_is_no_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SC-06: the first connection is refused, as at a rolling start of a server that has no more."""

    async def refused(_: PoolOptions) -> Direct:
        raise TooManyConnections("sorry, too many clients already")

    monkeypatch.setattr("app.checks.database.connect_direct", refused)
    assert await early_checks(settings_of(tmp_path, database_url="postgresql://h@127.0.0.1:9/h")) is None


@pytest.mark.parametrize("sessions", [None, Check("SC-25", "sessions", "ok", "")], ids=["not-made-early", "made-early"])
async def test_the_server_that_the_pool_has_found_is_checked_whatever_was_found_before(
    sessions: Check | None, database_url: str, tmp_path: Path
) -> None:
    """SC-06: of several servers another one may be the primary by then."""
    connection = await asyncpg.connect(database_url)
    await connection.execute(f"ALTER DATABASE {database_url.rpartition('/')[2]} SET synchronous_commit = off")
    await connection.close()

    with pytest.raises(ChecksRefused, match="synchronous_commit: off"):
        await startup_checks(
            settings_of(tmp_path, profile="production"), PoolOptions(database_url), 8080, sessions, serves_api=False
        )


async def test_the_server_is_checked_over_a_session_of_the_pool(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read the catalogue for that session already; a connection of its own took half of a start's checks."""
    connection = await asyncpg.connect(database_url)
    await connection.execute(f"ALTER DATABASE {database_url.rpartition('/')[2]} SET synchronous_commit = off")
    options, made = PoolOptions(database_url), Check("SC-25", "sessions", "ok", "")
    async with aclosing(await open_database(options)) as pool:
        monkeypatch.delattr("app.checks.database.connect_direct")
        with pytest.raises(ChecksRefused, match="synchronous_commit: off"):
            await startup_checks(
                settings_of(tmp_path, profile="production"), options, 8080, made, serves_api=False, pool=pool
            )
    await connection.close()


@pytest.mark.parametrize("is_made", [True, False])
async def test_the_database_is_opened_beside_the_imports_where_no_migration_is_pending(
    database_url: str, tmp_path: Path, *, is_made: bool
) -> None:
    """A process that cannot bind its port migrates nothing."""
    connection = await asyncpg.connect(database_url)
    if not is_made:
        await connection.execute("DROP SCHEMA hookwire CASCADE")
    async with AsyncExitStack() as stack:
        _, storage = await app.serve._asked(settings_of(tmp_path, database_url=database_url), ["relay"], stack)
        schemas = await connection.fetchval("SELECT count(*) FROM pg_namespace WHERE nspname = 'hookwire'")
    await connection.close()
    assert (storage is not None, schemas) == (is_made, int(is_made))


async def test_a_database_that_is_open_beside_the_imports_is_checked_beside_them(
    database_url: str, tmp_path: Path
) -> None:
    """The start waits for the slower of the two, so that the answers of the checks cost it no time."""
    connection = await asyncpg.connect(database_url)
    await connection.execute("ALTER TABLE hookwire.outbox SET UNLOGGED")
    await connection.close()
    settings = settings_of(tmp_path, database_url=database_url)
    async with AsyncExitStack() as stack:
        with pytest.raises(ChecksRefused, match="UNLOGGED"):
            await app.serve._asked(settings, ["relay"], stack)


async def test_a_start_that_found_no_pending_migration_asks_for_none_again(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second session would read the history and all migration files once more."""
    monkeypatch.delattr("app.assembly.storage.migrate")
    async with AsyncExitStack() as stack:
        _, storage = await app.serve._asked(settings_of(tmp_path, database_url=database_url), ["relay"], stack)
        assert storage is not None
