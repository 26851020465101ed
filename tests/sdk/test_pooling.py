"""Publishers behind PgBouncer in transaction mode: plain SQL, and `stash` with every driver (FC-10)."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import asyncpg
import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from hookwire import Record, stash
from scripts.servers.postgres import PostgresServer
from tests.pooler import pooled
from tests.sdk.drivers import dialect, with_django

# One client: `rounds` transactions on one connection, each with a row and its event; every third is rolled back.
Client = Callable[[str, int, int], Awaitable[None]]
CLIENTS = 6
ROUNDS = 9
ROW = "INSERT INTO orders (id) VALUES ({})"
KEYS = 2


class RolledBack(Exception):
    """Leaves a transaction without a commit."""


def record(client: int, number: int) -> Record:
    return Record("orders", f"{client}/{number}", key=f"key {client % KEYS}")


def numbered(client: int, rounds: int) -> Iterator[tuple[int, bool]]:
    for number in range(rounds):
        yield client * rounds + number, number % 3 != 2


@pytest.fixture
def pooled_url(postgres18: PostgresServer, servers_folder: Path, database_url: str) -> Iterator[str]:
    with pooled(postgres18, servers_folder, "transaction") as pooler:
        yield pooler.through(database_url)


async def with_asyncpg(url: str, client: int, rounds: int) -> None:
    connection = await asyncpg.connect(url, statement_cache_size=0)
    for row, commits in numbered(client, rounds):
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(ROW.format(row))
        await stash(connection, record(client, row))
        await (transaction.commit() if commits else transaction.rollback())
    await connection.close()


async def with_psycopg(url: str, client: int, rounds: int) -> None:
    async with await psycopg.AsyncConnection.connect(url, prepare_threshold=None) as connection:
        for row, commits in numbered(client, rounds):
            await connection.execute(ROW.format(row))
            await stash(connection, record(client, row))
            await (connection.commit() if commits else connection.rollback())


async def with_sqlalchemy_asyncpg(url: str, client: int, rounds: int) -> None:
    at = make_url(dialect(url, "asyncpg")).update_query_dict({"prepared_statement_cache_size": "0"})
    engine = create_async_engine(
        at, connect_args={"statement_cache_size": 0, "prepared_statement_name_func": lambda: ""}
    )
    await _with_session(engine, client, rounds)


async def with_sqlalchemy_psycopg(url: str, client: int, rounds: int) -> None:
    await _with_session(
        create_async_engine(dialect(url, "psycopg"), connect_args={"prepare_threshold": None}), client, rounds
    )


async def _with_session(engine: object, client: int, rounds: int) -> None:
    async with AsyncSession(engine) as session:  # type: ignore[arg-type]
        for row, commits in numbered(client, rounds):
            await session.execute(text(ROW.format(row)))
            await stash(session, record(client, row))
            await (session.commit() if commits else session.rollback())
    await engine.dispose()  # type: ignore[attr-defined]


async def with_plain_sql(url: str, client: int, rounds: int) -> None:
    """The simple protocol, as `psql` speaks it: the function and the view in turn."""
    connection = await asyncpg.connect(url, statement_cache_size=0)
    for row, commits in numbered(client, rounds):
        key, payload = f"key {client % KEYS}", f"{client}/{row}"
        publish = (
            f"SELECT hookwire.publish('orders', '{payload}'::text, key => '{key}')"
            if row % 2
            else f"INSERT INTO hookwire.stash (topic, key, payload) VALUES ('orders', '{key}', '{payload}')"
        )
        end = "COMMIT" if commits else "ROLLBACK"
        for statement in ("BEGIN", ROW.format(row), publish, end):
            await connection.execute(statement)
    await connection.close()


async def each(client: Client, url: str) -> None:
    async with asyncio.timeout(60):
        await asyncio.gather(*(client(url, number, ROUNDS) for number in range(CLIENTS)))


@pytest.mark.parametrize(
    "client",
    [with_asyncpg, with_psycopg, with_sqlalchemy_asyncpg, with_sqlalchemy_psycopg, with_plain_sql],
    ids=lambda client: client.__name__.removeprefix("with_"),
)
async def test_an_event_goes_with_its_row_through_transaction_pooling(
    client: Client, pooled_url: str, database_url: str
) -> None:
    """FC-10: the lock of a key ends with its transaction, so publishers need no session."""
    direct = await asyncpg.connect(database_url)
    await direct.execute("CREATE TABLE orders (id bigint PRIMARY KEY)")
    await each(client, pooled_url)
    rows = {row["id"] for row in await direct.fetch("SELECT id FROM orders")}
    payloads = [
        row["payload"].decode() for row in await direct.fetch("SELECT payload FROM hookwire.events ORDER BY id")
    ]
    await direct.close()
    committed = [(number, row) for number in range(CLIENTS) for row, commits in numbered(number, ROUNDS) if commits]
    by_client = [[one for one in payloads if one.startswith(f"{number}/")] for number in range(CLIENTS)]
    assert rows == {row for _, row in committed}
    assert by_client == [[f"{n}/{row}" for n, row in committed if n == number] for number in range(CLIENTS)]


async def test_django_publishes_through_transaction_pooling(pooled_url: str, database_url: str) -> None:
    """FC-10."""
    direct = await asyncpg.connect(database_url)
    await direct.execute("CREATE TABLE orders (id bigint PRIMARY KEY)")
    await with_django(pooled_url, record(0, 1), False)
    await with_django(pooled_url, record(0, 2), True)
    stored = [row["payload"] for row in await direct.fetch("SELECT payload FROM hookwire.events")]
    assert (await direct.fetchval("SELECT count(*) FROM orders"), stored) == (1, [b"0/2"])
    await direct.close()
