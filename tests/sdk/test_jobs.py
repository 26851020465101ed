"""`hookwire.jobs`: tasks and queues through the caller's own connection (JB-02, JB-11, JB-20, JB-21, JB-67)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.pool import NullPool

from hookwire.jobs import Message, NotInTransaction, Queue, Refused, Worker
from hookwire.jobs import enqueue_task as enqueue
from tests.sdk.drivers import dialect, django_connection
from tests.waiting import until

QUEUE = Queue("q")


@pytest.fixture
async def sql(database_url_both: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url_both)
    yield connection
    await connection.close(timeout=60)


async def with_asyncpg(url: str, commit: bool) -> None:
    connection = await asyncpg.connect(url)
    transaction = connection.transaction()
    await transaction.start()
    await enqueue(connection, "mail.send", {"n": 1})
    await QUEUE.submit(connection, {"n": 1})
    await (transaction.commit() if commit else transaction.rollback())
    await connection.close()


async def with_psycopg(url: str, commit: bool) -> None:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await enqueue(connection, "mail.send", {"n": 1})
        await QUEUE.submit(connection, {"n": 1})
        await (connection.commit() if commit else connection.rollback())


async def with_sqlalchemy(url: str, commit: bool) -> None:
    engine = create_async_engine(dialect(url, "asyncpg"), poolclass=NullPool)
    async with AsyncSession(engine) as session:
        await enqueue(session, "mail.send", {"n": 1})
        await QUEUE.submit(session, {"n": 1})
        await (session.commit() if commit else session.rollback())
    await engine.dispose()


async def with_sync_sqlalchemy(url: str, commit: bool) -> None:
    def work() -> None:
        with create_engine(dialect(url, "psycopg"), poolclass=NullPool).connect() as connection:
            enqueue(connection, "mail.send", {"n": 1})
            QUEUE.submit(connection, {"n": 1})
            connection.commit() if commit else connection.rollback()

    await asyncio.to_thread(work)


async def with_django(url: str, commit: bool) -> None:
    from django.db import transaction

    def work() -> None:
        connection = django_connection(url)
        try:
            with transaction.atomic(using=connection.alias):
                enqueue(connection, "mail.send", {"n": 1})
                QUEUE.submit(connection, {"n": 1})
                if not commit:
                    transaction.set_rollback(True, using=connection.alias)
        finally:
            connection.close()

    await asyncio.to_thread(work)


DRIVERS = [with_asyncpg, with_psycopg, with_sqlalchemy, with_sync_sqlalchemy, with_django]


@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_task_and_a_message_exist_if_and_only_if_the_transaction_commits(
    driver: Any, sql: asyncpg.Connection, database_url_both: str
) -> None:
    """JB-02, JB-21."""
    found = []
    for commit in (False, True):
        await driver(database_url_both, commit)
        tasks = await sql.fetch("SELECT kind, description FROM hookwire.tasks")
        found.append(([tuple(row) for row in tasks], await QUEUE.count(sql)))

    assert found == [([], 0), ([("mail.send", '{"n": 1}')], 1)]


async def test_outside_of_a_transaction_nothing_is_enqueued(sql: asyncpg.Connection) -> None:
    """JB-21: and only there."""
    with pytest.raises(NotInTransaction, match=r"enqueue_task\(\)"):
        await enqueue(sql, "mail.send")
    with pytest.raises(NotInTransaction):
        await QUEUE.submit(sql, b"")


async def test_a_message_goes_its_way(sql: asyncpg.Connection, database_url_both: str) -> None:
    """JB-03, JB-05, JB-06, JB-11: asynchronous and synchronous drivers see the same."""
    async with sql.transaction():
        ids = await QUEUE.submit_many(sql, [{"n": 1}, "two", b"\xff"])
        await QUEUE.submit(sql, b"4", type="t", key="k", priority=3, headers={"h": "1"})
    first = await QUEUE.receive(sql, 2)
    returned = await QUEUE.reject(sql, first[1:], counts=False)
    accepted = await QUEUE.accept(sql, first)
    stale = await QUEUE.extend(sql, first, 10)

    def rest() -> list[Message]:
        with psycopg.connect(database_url_both) as connection:
            return QUEUE.receive(connection, 9)

    two, raw, four = await asyncio.to_thread(rest)
    assert (first[0].json(), first[0].content_type, first[0].id) == ({"n": 1}, "application/json", ids[0])
    assert (returned, accepted, stale) == ([ids[1]], [ids[0]], [])
    assert (two.payload, two.attempts, raw.payload) == (b"two", 1, b"\xff")
    assert (four.type, four.key, four.priority, four.headers) == ("t", "k", 3, {"h": "1"})


async def test_accepting_commits_with_the_handlers_own_rows(sql: asyncpg.Connection) -> None:
    """JB-39, JB-67: exactly-once effects in the database."""
    await sql.execute("CREATE TABLE done (n integer)")
    async with sql.transaction():
        await QUEUE.submit(sql, b"x")
    received = await QUEUE.receive(sql)
    transaction = sql.transaction()
    await transaction.start()
    await sql.execute("INSERT INTO done VALUES (1)")
    await QUEUE.accept(sql, received)
    await transaction.rollback()
    async with sql.transaction():
        await sql.execute("INSERT INTO done VALUES (1)")
        accepted = await QUEUE.accept(sql, received)

    assert (len(accepted), await sql.fetchval("SELECT count(*) FROM done")) == (1, 1)


async def test_a_worker_settles_every_message_once_and_returns_what_fails(
    sql: asyncpg.Connection, database_url_both: str
) -> None:
    """JB-64, JB-78."""
    async with sql.transaction():
        await QUEUE.submit_many(sql, [{"n": number} for number in range(500)] + [{"bad": True}])
    seen: list[int] = []

    async def handle(message: Message) -> None:
        body = message.json()
        if "bad" in body:
            raise Refused("no use", dead=True)
        seen.append(body["n"])

    async with asyncpg.create_pool(database_url_both, min_size=1, max_size=3) as pool, asyncio.TaskGroup() as group:
        worker = Worker(pool, "q", handle, batch=64)
        running = group.create_task(worker.run())
        await until(lambda: sql.fetchval("SELECT count(*) = 0 FROM hookwire.messages"))
        worker.stop()
        await running
    dead = await sql.fetchval("SELECT reason FROM hookwire.dead_messages")

    assert (sorted(seen), worker.accepted, dead) == (list(range(500)), 500, "no use")


async def test_an_idle_worker_of_messages_is_woken_by_a_notification(
    sql: asyncpg.Connection, database_url_both: str
) -> None:
    """JB-65, JF-42: it polls once in an hour."""
    handled = asyncio.Event()

    async def handle(_: Message) -> None:
        handled.set()

    async with asyncpg.create_pool(database_url_both, min_size=1, max_size=3) as pool, asyncio.TaskGroup() as group:
        worker = Worker(pool, "q", handle, idle_seconds=3600)
        running = group.create_task(worker.run())
        await until(lambda: sql.fetchval("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"))
        async with sql.transaction():
            await QUEUE.submit(sql, "hello")
        async with asyncio.timeout(60):
            await handled.wait()
        worker.stop()
        await running

    assert worker.accepted == 1
