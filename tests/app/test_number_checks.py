"""The doctor's checks of numbers, and of the order of texts in indexes."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from app.checks.check import Check
from app.checks.database import database_checks
from app.settings.settings import Settings
from db.migrate import migrate
from db.pool import PoolOptions


def settings_of(folder: Path) -> Settings:
    return Settings(data_dir=folder, hub_access="keys")


def found(checks: list[Check]) -> list[tuple[str, str]]:
    """Number and level of whatever is not well."""
    return [(check.id, check.level) for check in checks if check.is_finding]


async def test_the_doctor_names_a_sequence_that_is_behind_and_changes_nothing(
    database_url_both: str, tmp_path: Path
) -> None:
    """GB-05, HA-22: it said "0 findings"."""
    connection = await asyncpg.connect(database_url_both)
    await connection.execute(
        "SELECT hookwire.publish('orders', 'one'::text); SELECT hookwire.publish('orders', 'two'::text); "
        "SELECT setval('hookwire.event_id', 1)"
    )
    checks = await database_checks(settings_of(tmp_path), PoolOptions(database_url_both))
    last = await connection.fetchval("SELECT last_value FROM hookwire.event_id")
    cures = [check.cure for check in checks if check.is_finding]
    await connection.execute("SELECT * FROM hookwire.set_numbers_forward()")
    repaired = await database_checks(settings_of(tmp_path), PoolOptions(database_url_both))
    await connection.close()

    assert [check.detail for check in checks if check.is_finding] == [
        "behind, so numbers would come twice: event_id is at 1, and 2 was used"
    ]
    assert "SELECT * FROM hookwire.set_numbers_forward()" in cures[0]
    assert last == 1
    assert found(repaired) == []


@pytest.fixture
async def german_url(database_url15: str) -> AsyncIterator[str]:
    """The URL of a database whose texts have the order of ICU, which not every PostgreSQL is built with."""
    url = f"{database_url15}_german"
    name = urlsplit(url).path[1:]
    connection = await asyncpg.connect(database_url15)
    await connection.execute(
        f"CREATE DATABASE {name} TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'de' LC_COLLATE 'C' LC_CTYPE 'C'"
    )
    await migrate(url)
    yield url
    await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await connection.close()


async def test_indexes_in_the_order_of_another_version_of_a_library_are_named(german_url: str, tmp_path: Path) -> None:
    """GB-11: by the database's default, and by a collation of their own. The named statements are the cure."""
    connection = await asyncpg.connect(german_url)
    await connection.execute(
        """CREATE TABLE hookwire.words (w text COLLATE "de-x-icu"); CREATE INDEX words_w ON hookwire.words (w)"""
    )
    before = await database_checks(settings_of(tmp_path), PoolOptions(german_url))
    await connection.execute(
        f"""UPDATE pg_database SET datcollversion = '1' WHERE datname = '{urlsplit(german_url).path[1:]}';
        UPDATE pg_collation SET collversion = '2' WHERE collname = 'de-x-icu'"""
    )
    checks = await database_checks(settings_of(tmp_path), PoolOptions(german_url))
    [stale] = [check for check in checks if check.is_finding]
    statements = stale.cure.split("; ")
    for statement in statements:
        await connection.execute(statement)
    cured = await database_checks(settings_of(tmp_path), PoolOptions(german_url))
    await connection.close()

    assert found(before) == []
    assert (stale.id, stale.level) == ("GB-11", "warn")
    assert {"hookwire.words_w", "hookwire.topics_pkey"} <= set(re.findall(r"hookwire\.\w+", stale.detail))
    assert "hookwire.relay_terms_pkey" not in stale.detail, "its texts are in C"
    assert statements[-2:] == [
        f"ALTER DATABASE {urlsplit(german_url).path[1:]} REFRESH COLLATION VERSION",
        'ALTER COLLATION "de-x-icu" REFRESH VERSION',
    ]
    assert found(cured) == []
