"""db/names.py: names that their first use makes, how many there may be, and which are forgotten (GS-06)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date

import asyncpg
import pytest

from db.names import NamesInUse, TooManyNames
from db.pool import Database, PoolOptions, open_database

KINDS = ("topic", "queue", "service")
TODAY = date(2026, 1, 1)


@asynccontextmanager
async def opened(database_url: str, **limits: int) -> AsyncIterator[tuple[Database, asyncpg.Connection]]:
    database = await open_database(PoolOptions(database_url))
    sql = await asyncpg.connect(database_url)
    for name, limit in limits.items():
        await sql.execute(f"UPDATE hookwire.installation SET {name} = $1", limit)
    try:
        yield database, sql
    finally:
        await sql.close()
        await database.aclose()


async def names(sql: asyncpg.Connection, kind: str) -> list[str]:
    return [row["name"] for row in await sql.fetch(f"SELECT name FROM hookwire.{kind}s ORDER BY name")]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_key_makes_as_many_names_by_use_as_its_limit_says(kind: str, database_url: str) -> None:
    async with opened(database_url, names_per_key_max=2) as (database, sql):
        made = NamesInUse(database, kind)  # type: ignore[arg-type]
        for name in ("a", "b", "a"):
            await made.ensure(name, "key_1")
        with pytest.raises(TooManyNames, match="HOOKWIRE_NAMES_PER_KEY_MAX"):
            await made.ensure("c", "key_1")
        await made.ensure("a", "key_1")
        await made.ensure("d", "key_2")
        await made.ensure("e")

        assert await names(sql, kind) == ["a", "b", "d", "e"]


@pytest.mark.parametrize("kind", KINDS)
async def test_all_callers_together_make_as_many_names_as_the_installation_allows(kind: str, database_url: str) -> None:
    async with opened(database_url, names_max=2) as (database, sql):
        for name, key in (("a", "key_1"), ("b", None)):
            await NamesInUse(database, kind).ensure(name, key)  # type: ignore[arg-type]
        with pytest.raises(TooManyNames, match="HOOKWIRE_NAMES_MAX"):
            await NamesInUse(database, kind).ensure("c", "key_2")  # type: ignore[arg-type]

        assert await names(sql, kind) == ["a", "b"]


async def test_names_made_by_hand_do_not_count(database_url: str) -> None:
    async with opened(database_url, names_max=1) as (database, sql):
        await sql.execute("INSERT INTO hookwire.topics (name) VALUES ('by'), ('hand')")
        made = NamesInUse(database, "topic")
        await made.ensure("by")
        await made.ensure("a")

        assert await names(sql, "topic") == ["a", "by", "hand"]


@pytest.mark.parametrize("kind", KINDS)
async def test_the_use_of_a_name_is_noted_on_each_day(kind: str, database_url: str) -> None:
    days = iter([1, 1, 1, 2])
    async with opened(database_url) as (database, sql):
        made = NamesInUse(database, kind, lambda: next(days))  # type: ignore[arg-type]
        await made.ensure("a")
        await sql.execute(f"UPDATE hookwire.{kind}s SET used_on = '2020-01-01'")
        noted = []
        for _ in "12":
            await made.ensure("a")
            noted.append(await sql.fetchval(f"SELECT used_on = current_date FROM hookwire.{kind}s"))

        assert noted == [False, True]


FORGOTTEN = {
    "topic": "INSERT INTO hookwire.topics (name, made_by, used_on) VALUES ($1, '', current_date - $2::integer)",
    "queue": "INSERT INTO hookwire.queues (name, made_by, used_on) VALUES ($1, '', current_date - $2::integer)",
    "service": "INSERT INTO hookwire.services (name, made_by, used_on) VALUES ($1, '', current_date - $2::integer)",
}
IN_USE = {
    "topic with a subscriber": "INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state)"
    " VALUES ('sub_1', 'websub', 'old', 'http://a', 'active')",
    "topic with an event": "SELECT hookwire.publish('old', 'x')",
    "topic with settings": "UPDATE hookwire.topics SET made_by = NULL, used_on = NULL",
    "queue with a message": "SELECT hookwire.submit('old', 'x')",
    "queue of copies": "UPDATE hookwire.queues SET copies = true",
    "service with a request": "SELECT hookwire.request('old', 'x')",
    "service with a worker": "UPDATE hookwire.services SET workers_until = now()",
}


@pytest.mark.parametrize("kind", KINDS)
async def test_names_are_forgotten_that_were_not_used_for_long(kind: str, database_url: str) -> None:
    """GS-06."""
    async with opened(database_url) as (database, sql):
        await sql.executemany(FORGOTTEN[kind], [("old", 91), ("new", 90)])
        count = await database.fetchval(f"{kind}.forget_unused", 90, 100)

        assert (count, await names(sql, kind)) == (1, ["new"])


@pytest.mark.parametrize("what", IN_USE)
async def test_names_in_use_stay(what: str, database_url: str) -> None:
    kind = what.partition(" ")[0]
    async with opened(database_url) as (database, sql):
        await sql.execute(FORGOTTEN[kind], "old", 91)
        await sql.execute(IN_USE[what])
        count = await database.fetchval(f"{kind}.forget_unused", 90, 100)

        assert (count, await names(sql, kind)) == (0, ["old"])


@pytest.mark.parametrize("kind", KINDS)
async def test_no_name_is_forgotten_where_names_are_made_by_hand(kind: str, database_url: str) -> None:
    """Its next use would be refused."""
    async with opened(database_url) as (database, sql):
        await sql.execute(FORGOTTEN[kind], "old", 91)
        await sql.execute(f"UPDATE hookwire.installation SET {kind}s_auto_create = false")

        assert await database.fetchval(f"{kind}.forget_unused", 90, 100) == 0
