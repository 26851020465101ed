"""hub/topics.py: a topic's row is made by its first publish, outside the publishing transaction."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from db.errors import Unavailable
from db.pool import Database, PoolOptions, open_database
from hub.topics import Topics, UnknownTopic


@asynccontextmanager
async def opened(database_url: str) -> AsyncIterator[tuple[Database, asyncpg.Connection]]:
    database = await open_database(PoolOptions(database_url))
    sql = await asyncpg.connect(database_url)
    try:
        yield database, sql
    finally:
        await sql.close()
        await database.aclose()


async def names(sql: asyncpg.Connection) -> list[str]:
    return [row["name"] for row in await sql.fetch("SELECT name FROM hookwire.topics ORDER BY name")]


async def test_the_first_publish_of_a_topic_makes_its_row_once(database_url: str) -> None:
    async with opened(database_url) as (database, sql):
        one, other = Topics(database, auto_create=True), Topics(database, auto_create=True)
        await asyncio.gather(*(topics.admit(name) for topics in (one, other) for name in ("a", "b", "a")))
        assert await names(sql) == ["a", "b"]


async def test_a_known_topic_does_not_ask_the_database_again(database_url: str) -> None:
    async with opened(database_url) as (database, _):
        topics = Topics(database, auto_create=True)
        await topics.admit("a")
        await database.aclose()
        await topics.admit("a")
        with pytest.raises(Unavailable):
            await topics.admit("b")


async def test_an_unknown_topic_is_refused_where_topics_are_made_by_hand(database_url: str) -> None:
    async with opened(database_url) as (database, sql):
        topics = Topics(database, auto_create=False)
        with pytest.raises(UnknownTopic):
            await topics.admit("a")
        await sql.execute("INSERT INTO hookwire.topics (name) VALUES ('a')")
        await topics.admit("a")
        assert await names(sql) == ["a"]


async def test_a_topic_s_row_waits_for_no_publishing_transaction(database_url: str) -> None:
    """RR-04: somebody's open transaction that publishes to a new topic holds nobody up."""
    async with opened(database_url) as (database, sql):
        await sql.execute("BEGIN")
        await sql.execute("SELECT hookwire.publish('new', 'x'::text, key => 'k')")
        async with asyncio.timeout(20):
            await Topics(database, auto_create=True).admit("new")
        await sql.execute("ROLLBACK")
        assert await names(sql) == ["new"]
