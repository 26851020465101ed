"""`hookwire.stash`: an event exists if and only if the caller's transaction commits (EC, RU-15)."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import psycopg
import pytest
from psycopg.rows import dict_row
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from hookwire import NotInTransaction, Record, stash
from tests.sdk.drivers import DRIVERS, Transaction, dialect, django_connection
from tests.waiting import until

RECORD = Record("orders.created", {"order": 1, "f\u00fcr": None}, key="ada", headers={"ce-type": "order"})


@pytest.fixture
async def sql(database_url_both: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url_both)
    await connection.execute("CREATE TABLE orders (id bigint PRIMARY KEY)")
    yield connection
    await connection.close(timeout=60)


async def contents(sql: asyncpg.Connection) -> tuple[object, ...]:
    """How many orders there are, and every event with what it is owed to."""
    events = await sql.fetch(
        "SELECT e.id, topic, key, content_type, headers, payload, count(o) AS owed"
        " FROM hookwire.events e LEFT JOIN hookwire.outbox o USING (id) GROUP BY e.id ORDER BY e.id"
    )
    stored = [
        (e["topic"], e["key"], e["content_type"], json.loads(e["headers"]), e["payload"], e["owed"]) for e in events
    ]
    return await sql.fetchval("SELECT count(*) FROM orders"), stored


@pytest.mark.parametrize("transaction", DRIVERS.values(), ids=DRIVERS.keys())
async def test_a_record_is_published_with_the_callers_commit(
    transaction: Transaction, sql: asyncpg.Connection, database_url_both: str
) -> None:
    event_id = await transaction(database_url_both, RECORD, True)
    event = ("orders.created", "ada", "application/json", {"ce-type": "order"}, '{"order":1,"für":null}'.encode(), 1)
    assert (await contents(sql), event_id[:4]) == ((1, [event]), "evt_")


@pytest.mark.parametrize("transaction", DRIVERS.values(), ids=DRIVERS.keys())
async def test_a_record_goes_with_the_callers_rollback(
    transaction: Transaction, sql: asyncpg.Connection, database_url_both: str
) -> None:
    await transaction(database_url_both, RECORD, False)
    assert await contents(sql) == (0, [])


async def alone_asyncpg(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await stash(connection, RECORD)
    finally:
        await connection.close()


async def alone_psycopg(url: str) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await stash(connection, RECORD)


async def alone_sqlalchemy(url: str) -> None:
    engine = create_async_engine(dialect(url, "asyncpg"), isolation_level="AUTOCOMMIT")
    try:
        async with engine.connect() as connection:
            await stash(connection, RECORD)
    finally:
        await engine.dispose()


async def alone_sync_sqlalchemy(url: str) -> None:
    def work() -> None:
        with create_engine(dialect(url, "psycopg")).connect() as connection:
            stash(connection.execution_options(isolation_level="AUTOCOMMIT"), RECORD)

    await asyncio.to_thread(work)


async def alone_django(url: str) -> None:
    def work() -> None:
        connection = django_connection(url)
        try:
            stash(connection, RECORD)
        finally:
            connection.close()

    await asyncio.to_thread(work)


@pytest.mark.parametrize("alone", [alone_asyncpg, alone_psycopg, alone_sqlalchemy, alone_sync_sqlalchemy, alone_django])
async def test_outside_of_a_transaction_nothing_is_published(
    alone: Any, sql: asyncpg.Connection, database_url_both: str
) -> None:
    """RU-15: it would be published whatever becomes of the rows that it tells about."""
    with pytest.raises(NotInTransaction):
        await alone(database_url_both)
    assert await contents(sql) == (0, [])


async def test_a_callers_own_codec_of_jsonb_does_no_harm(sql: asyncpg.Connection) -> None:
    await sql.set_type_codec("jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads)
    async with sql.transaction():
        await stash(sql, RECORD)
    assert await sql.fetchval("SELECT headers FROM hookwire.events") == {"ce-type": "order"}


@pytest.mark.parametrize(
    "chosen", [{"row_factory": dict_row}, {"cursor_factory": psycopg.RawCursor}], ids=["rows", "placeholders"]
)
async def test_a_callers_own_rows_and_placeholders_of_psycopg_do_no_harm(
    sql: asyncpg.Connection, database_url_both: str, chosen: dict[str, Any]
) -> None:
    """`row_factory=dict_row` is what psycopg's own tutorial proposes."""

    def work() -> None:
        with psycopg.connect(database_url_both, **chosen) as connection:
            stash(connection, RECORD)

    await asyncio.to_thread(work)
    if chosen.get("cursor_factory") is psycopg.RawCursor:
        chosen = {"cursor_factory": psycopg.AsyncRawCursor}
    async with await psycopg.AsyncConnection.connect(database_url_both, **chosen) as connection:
        await stash(connection, RECORD)
    assert await sql.fetchval("SELECT count(*) FROM hookwire.events") == 2


def test_something_else_is_no_connection() -> None:
    with pytest.raises(TypeError, match="asyncpg, psycopg 3, SQLAlchemy or Django, not object"):
        stash(object(), RECORD)  # type: ignore[call-overload]


# --- the view for plain SQL ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "values", "event"),
    [
        ("topic, key, payload", "('t', 'k', 'a\\b')", ("t", "k", "text/plain; charset=utf-8", {}, b"a\\b", 1)),
        ("topic, payload_bytes", "('t', '\\x00ff')", ("t", None, None, {}, b"\x00\xff", 1)),
        ("topic", "('t')", ("t", None, None, {}, b"", 1)),
        (
            "topic, payload, content_type, headers",
            "('t', '{}', 'application/json', '{\"ce-type\": \"y\"}')",
            ("t", None, "application/json", {"ce-type": "y"}, b"{}", 1),
        ),
    ],
    ids=["text", "bytes", "empty", "everything"],
)
async def test_a_plain_insert_publishes(
    sql: asyncpg.Connection, columns: str, values: str, event: tuple[object, ...]
) -> None:
    """RG-08, RO-02b."""
    event_id = await sql.fetchval(f"INSERT INTO hookwire.stash ({columns}) VALUES {values} RETURNING event_id")
    assert (await contents(sql), event_id[:4]) == ((0, [event]), "evt_")


async def test_a_plain_insert_needs_usage_of_the_schema_and_nothing_else(sql: asyncpg.Connection) -> None:
    role = f"shop_{await sql.fetchval('SELECT current_database()')}"
    await sql.execute(f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA hookwire TO {role}; SET ROLE {role}")
    try:
        await sql.execute("INSERT INTO hookwire.stash (topic, payload) VALUES ('t', 'x')")
    finally:
        await sql.execute(f"RESET ROLE; REVOKE USAGE ON SCHEMA hookwire FROM {role}; DROP ROLE {role}")
    assert await sql.fetchval("SELECT count(*) FROM hookwire.events") == 1


@pytest.mark.parametrize(
    "values",
    ["('a b', NULL, NULL)", "(NULL, 'x', NULL)", "('t', 'x', 'x')"],
    ids=["wrong topic", "no topic", "two payloads"],
)
async def test_a_plain_insert_is_refused_as_the_function_refuses(sql: asyncpg.Connection, values: str) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError):
        await sql.execute(f"INSERT INTO hookwire.stash (topic, payload, payload_bytes) VALUES {values}")


async def test_plain_inserts_of_one_key_have_ids_in_the_order_of_their_commits(
    sql: asyncpg.Connection, database_url_both: str
) -> None:
    """RO-02b: the second waits for the first one's commit before it draws its id, also inside one statement."""
    first = await asyncpg.connect(database_url_both)
    transaction = first.transaction()
    await transaction.start()
    await first.execute("INSERT INTO hookwire.stash (topic, key, payload) VALUES ('t', 'k', 'first')")
    async with asyncio.TaskGroup() as group:
        second = group.create_task(
            sql.execute("INSERT INTO hookwire.stash (topic, key, payload) VALUES ('t', 'k', 'second')")
        )
        await waits_for_a_lock(first)
        await first.execute("INSERT INTO hookwire.stash (topic, key, payload) VALUES ('t', 'k', 'third')")
        await transaction.commit()
        await second
    await first.close()
    rows = await sql.fetch("SELECT payload FROM hookwire.events ORDER BY id")
    assert [row["payload"] for row in rows] == [b"first", b"third", b"second"]


async def waits_for_a_lock(sql: asyncpg.Connection) -> None:
    """Returns once another session of this database waits for an advisory lock."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'"
    await until(lambda: sql.fetchval(waiting))
