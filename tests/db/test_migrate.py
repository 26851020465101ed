"""Migrations: numbered, checksummed, one at a time, all or nothing, equal to the schema file (EC-H01)."""

import asyncio
import json
import re
import secrets
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from db import migrate as migrate_module
from db.errors import ServerTrouble, Unavailable
from db.migrate import Migration, MigrationRefused, migrate, migrations, pending
from db.statements import STATEMENTS
from scripts.dump_schema import SCHEMA_FILE, dump
from scripts.servers.given import GivenServer
from scripts.servers.postgres import PostgresServer
from scripts.sql_functions import FOLDER, NOUNS, function_files
from tests.db.catalog import catalog_of
from tests.waiting import until

OURS = Path(migrate_module.__file__).parent / "migrations"
NAMES = [m.label for m in migrations()]


@asynccontextmanager
async def empty_database(server_url: str) -> AsyncIterator[str]:
    """The URL of a database without our schema."""
    name = f"hookwire_empty_{secrets.token_hex(4)}"
    connection = await asyncpg.connect(server_url)
    try:
        await connection.execute(f"CREATE DATABASE {name}")
        yield urlunsplit(urlsplit(server_url)._replace(path=f"/{name}"))
        await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        await connection.close()


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Path]:
    """Makes a copy of our migrations with files added, changed or (None) removed."""

    def make(**files: str | None) -> Path:
        copy = tmp_path / "migrations"
        shutil.copytree(OURS, copy)
        for stem, text in files.items():
            path = copy / f"{stem.lstrip('_')}.sql"
            path.unlink() if text is None else path.write_text(text, encoding="utf-8")
        return copy

    return make


async def applied(database_url: str) -> list[tuple[int, str, str]]:
    connection = await asyncpg.connect(database_url)
    try:
        rows = await connection.fetch("SELECT version, name, checksum FROM hookwire.migrations ORDER BY version")
        return [tuple(row) for row in rows]
    finally:
        await connection.close()


# --- files ------------------------------------------------------------------------------------------------------


def test_files_are_numbered_without_a_gap(folder: Callable[..., Path]) -> None:
    with pytest.raises(ValueError, match="without gap or repeat"):
        migrations(folder(_0900_far_away="SELECT 1;"))


def test_files_are_numbered_without_a_repeat(folder: Callable[..., Path]) -> None:
    with pytest.raises(ValueError, match="without gap or repeat"):
        migrations(folder(_0001_again="SELECT 1;"))


def test_a_misnamed_file_is_named(folder: Callable[..., Path]) -> None:
    with pytest.raises(ValueError, match=r"story\.sql is not named NNNN_name\.sql"):
        migrations(folder(story="SELECT 1;"))


# --- applying ---------------------------------------------------------------------------------------------------


async def test_every_migration_applies_on_the_newest_and_the_oldest_server(database_url_both: str) -> None:
    assert await applied(database_url_both) == [(m.version, m.name, m.checksum) for m in migrations()]


async def test_a_second_run_finds_nothing_to_do(database_url: str) -> None:
    assert [(await migrate(database_url)).is_empty, (await pending(database_url)).is_empty] == [True, True]


async def test_a_role_that_may_create_nothing_finds_all_in_place(database_url: str) -> None:
    """As the how-to for goharvest's table promises to whoever lets another role migrate."""
    role = f"clerk_{secrets.token_hex(4)}"
    sql = await asyncpg.connect(database_url)
    await sql.execute(
        f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA hookwire TO {role}; GRANT SELECT ON hookwire.migrations TO {role}"
    )
    try:
        assert (await migrate(f"{database_url}?role={role}")).is_empty
    finally:
        await sql.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
        await sql.close()


async def test_pending_names_what_would_be_applied_and_applies_nothing(
    database_url: str, folder: Callable[..., Path]
) -> None:
    before = await applied(database_url)
    wanted = await pending(database_url, folder(**{f"{len(NAMES) + 1:04}_more": "CREATE TABLE hookwire.more ();"}))
    assert ([m.name for m in wanted.to_run], await applied(database_url)) == (["more"], before)


async def test_a_migration_that_fails_leaves_nothing_behind(database_url: str, folder: Callable[..., Path]) -> None:
    before = await applied(database_url)
    with pytest.raises(ServerTrouble):
        await migrate(
            database_url,
            folder(**{f"{len(NAMES) + 1:04}_half": "CREATE TABLE hookwire.half (); SELECT * FROM hookwire.nowhere;"}),
        )
    connection = await asyncpg.connect(database_url)
    try:
        half = await connection.fetchval("SELECT to_regclass('hookwire.half')")
    finally:
        await connection.close()
    assert (half, await applied(database_url)) == (None, before)


async def test_a_changed_file_is_refused_and_named(database_url: str, folder: Callable[..., Path]) -> None:
    changed = (OURS / "0001_publishing.sql").read_text(encoding="utf-8") + "\n-- an afterthought\n"
    with pytest.raises(MigrationRefused, match="0001_publishing was changed after it was applied"):
        await migrate(database_url, folder(_0001_publishing=changed))


async def test_a_newer_schema_is_refused(database_url: str, folder: Callable[..., Path]) -> None:
    with pytest.raises(MigrationRefused, match=f"schema version {len(NAMES)}, this hookwire knows {len(NAMES) - 1}"):
        await migrate(database_url, folder(**{NAMES[-1]: None}))


@pytest.mark.parametrize("changed", [None, "SELECT 1;"], ids=["more migrations", "other migrations"])
async def test_the_refusal_says_that_the_database_is_newer(
    database_url: str, folder: Callable[..., Path], changed: str | None
) -> None:
    """GS-08: older code on a newer database said "restore the file"."""
    with pytest.raises(MigrationRefused) as refused:
        await migrate(database_url, folder(**{NAMES[-1]: changed}))

    assert "this database is newer than this version" in str(refused.value)


async def test_no_server_is_unavailable(free_port: int) -> None:
    with pytest.raises(Unavailable):
        await migrate(f"postgresql://nobody@127.0.0.1:{free_port}/nothing")


_MIGRATE = """
import asyncio, json, sys
from db.migrate import migrate
plan = asyncio.run(migrate(sys.argv[1]))
print(json.dumps([m.label for m in (*plan.to_record, *plan.to_run)]))
"""
_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'"


async def two_migrate_at_once(url: str) -> list[list[str]]:
    """Start two processes that migrate, let both wait for the lock, and return what each did; the idle one first."""
    sql = await asyncpg.connect(url)
    await sql.execute(STATEMENTS["migration.lock"])
    processes = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", _MIGRATE, url, stdout=asyncio.subprocess.PIPE)
        for _ in range(2)
    ]

    async def both_wait() -> bool:
        return await sql.fetchval(_WAITING) == 2

    try:
        await until(both_wait)
    finally:
        await sql.close()
    outputs = await asyncio.gather(*(process.communicate() for process in processes))
    last_lines = [output.splitlines()[-1] for output, _ in outputs]  # behind the log of one that waits for long
    return sorted((json.loads(line) for line in last_lines), key=len)


async def test_of_two_processes_that_start_together_one_migrates(postgres18: PostgresServer | GivenServer) -> None:
    async with empty_database(postgres18.url) as url:
        assert await two_migrate_at_once(url) == [[], NAMES]


def _blocking_indexes(migration: Migration) -> list[str]:
    """Tables that were there before and get an index that cannot be built ahead."""
    made = set(re.findall(r"CREATE TABLE (hookwire\.\w+)", migration.text))
    found = re.findall(r"CREATE (?:UNIQUE )?INDEX (?!IF NOT EXISTS )\w+\s+ON (?:ONLY )?(hookwire\.\w+)", migration.text)
    return [table for table in found if table not in made]


def test_indexes_of_tables_with_rows_can_be_built_ahead_of_an_upgrade() -> None:
    """docs/adr/0031-migrations-in-one-transaction.md; the files of the squash make their tables themselves."""
    assert [_blocking_indexes(migration) for migration in migrations()] == [[]] * len(NAMES)


def test_an_index_that_cannot_be_built_ahead_is_found() -> None:
    text = (
        "CREATE TABLE hookwire.a (); CREATE INDEX a_b ON hookwire.a (b); CREATE INDEX events_c ON hookwire.events (c);"
    )
    assert _blocking_indexes(Migration(8, "planted", "", text)) == ["hookwire.events"]


# --- the schema file and the functions ---------------------------------------------------------------------------


def test_the_schema_file_is_what_the_migrations_make(database_url: str) -> None:
    """After a new migration: `make schema`."""
    assert dump(database_url) == SCHEMA_FILE.read_text(encoding="utf-8")


async def test_the_files_of_functions_are_what_the_migrations_make(database_url: str) -> None:
    """GH-02: each function stands in one file, as it is today. After a new migration: `make schema`."""
    texts = await function_files(database_url)
    assert {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.sql")} == texts


async def test_a_noun_is_known_for_no_function_that_is_gone(database_url: str) -> None:
    """GH-02: the list of nouns follows the functions in both directions."""
    texts = "".join((await function_files(database_url)).values())
    assert NOUNS.keys() - set(re.findall(r"^CREATE OR REPLACE FUNCTION hookwire\.(\w+)", texts, re.MULTILINE)) == set()


async def test_the_texts_of_functions_are_complete(database_url_both: str) -> None:
    """GH-02: settings, comments and rights too, so that a function begun from its text loses none of them."""
    before = await catalog_of(database_url_both)
    connection = await asyncpg.connect(database_url_both)
    try:
        for text in (await function_files(database_url_both)).values():
            await connection.execute(text)
    finally:
        await connection.close(timeout=10)
    assert await catalog_of(database_url_both) ^ before == set()
