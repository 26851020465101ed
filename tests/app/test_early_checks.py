"""What was checked before the migrations, and what is checked again when the database is open."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest

from app.checks import Check, ChecksRefused, early_checks, startup_checks
from db.direct import Direct
from db.errors import TooManyConnections
from db.pool import PoolOptions
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
