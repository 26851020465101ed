"""`hookwire reincarnate`: a restored database gets its new name when it is told to, and not while the hub uses it."""

import asyncio
import json
from pathlib import Path

import asyncpg
import pytest
from typer.testing import CliRunner

from app.cli.commands.mending.reincarnate import _reincarnate, _rename
from app.cli.failure import CommandFailed
from app.cli.main import application
from db.pool import PoolOptions, open_database

_STATE = "SELECT incarnation, (SELECT last_value FROM hookwire.event_id) FROM hookwire.installation"


@pytest.fixture(autouse=True)
def settings(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOOKWIRE_DATABASE_URL", database_url)


def hookwire(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(application("reincarnate"), ["reincarnate", *words], catch_exceptions=False)
    return result.exit_code, result.stdout


async def asked(database_url: str, statement: str) -> tuple[str, int]:
    connection = await asyncpg.connect(database_url)
    row = await connection.fetchrow(statement)
    await connection.close()
    return tuple(row)


def test_a_database_gets_a_new_name_and_skips_a_million_ids(database_url: str) -> None:
    """HA-23: without --yes it stays as it is."""
    before = asyncio.run(asked(database_url, _STATE))
    only_told = hookwire()
    unchanged = asyncio.run(asked(database_url, _STATE))
    code, output = hookwire("--yes", "--json")
    name, last_id = asyncio.run(asked(database_url, _STATE))
    assert (only_told, unchanged[0]) == ((2, ""), before[0])
    assert (code, json.loads(output)) == (0, {"before": before[0], "now": name, "last_id": last_id})
    assert (name != before[0], last_id) == (True, unchanged[1] + 1_000_000)


def test_a_database_that_the_hub_uses_keeps_its_name(database_url: str) -> None:
    """HA-23: a process knows the name from its start."""

    async def refused() -> None:
        session = await asyncpg.connect(database_url, server_settings={"application_name": "hookwire"})
        with pytest.raises(CommandFailed, match=r"in use by the hub \(1 sessions, 0 relays\)"):
            await asyncio.to_thread(lambda: asyncio.run(_reincarnate(True, False, None)))
        await session.close()

    asyncio.run(refused())


def test_a_database_in_which_a_transaction_publishes_by_sql_keeps_its_name(database_url: str) -> None:
    """HA-23: the id that its publisher has would be unknown."""

    async def refused() -> None:
        session = await asyncpg.connect(database_url)
        database = await open_database(PoolOptions(database_url, lock_seconds=0.2))
        async with session.transaction():
            await session.execute("SELECT hookwire.publish('t', 'x'::text)")
            with pytest.raises(CommandFailed, match="publish by SQL"):
                await _rename(database)
        await database.aclose()
        await session.close()

    asyncio.run(refused())
