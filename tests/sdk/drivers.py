"""One transaction with one stash in it, for each driver: how a program would write it."""

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg
import psycopg
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from hookwire import Record, stash

Transaction = Callable[[str, Record, bool], Awaitable[str]]
ROW = "INSERT INTO orders (id) VALUES (1)"


class RolledBack(Exception):
    """Leaves a transaction's block without a commit."""


def dialect(url: str, driver: str) -> str:
    """The URL in SQLAlchemy's way."""
    return make_url(url).set(drivername=f"postgresql+{driver}").render_as_string(hide_password=False)


async def with_asyncpg(url: str, record: Record, commit: bool) -> str:
    connection = await asyncpg.connect(url)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(ROW)
    event_id = await stash(connection, record)
    await (transaction.commit() if commit else transaction.rollback())
    await connection.close()
    return event_id


async def with_asyncpg_pool(url: str, record: Record, commit: bool) -> str:
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool, pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(ROW)
        event_id: str = await stash(connection, record)
        await (transaction.commit() if commit else transaction.rollback())
        return event_id


async def with_psycopg(url: str, record: Record, commit: bool) -> str:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute(ROW)
        event_id: str = await stash(connection, record)
        await (connection.commit() if commit else connection.rollback())
        return event_id


async def with_sync_psycopg(url: str, record: Record, commit: bool) -> str:
    def work() -> str:
        with psycopg.connect(url) as connection:
            connection.execute(ROW)
            event_id: str = stash(connection, record)
            connection.commit() if commit else connection.rollback()
            return event_id

    return await asyncio.to_thread(work)


async def with_sqlalchemy_session(url: str, record: Record, commit: bool) -> str:
    engine = create_async_engine(dialect(url, "asyncpg"), poolclass=NullPool)
    async with AsyncSession(engine) as session:
        await session.execute(text(ROW))
        event_id: str = await stash(session, record)
        await (session.commit() if commit else session.rollback())
    await engine.dispose()
    return event_id


async def with_sqlalchemy_connection(url: str, record: Record, commit: bool) -> str:
    engine = create_async_engine(dialect(url, "psycopg"), poolclass=NullPool)
    async with engine.connect() as connection:
        await connection.execute(text(ROW))
        event_id: str = await stash(connection, record)
        await (connection.commit() if commit else connection.rollback())
    await engine.dispose()
    return event_id


async def with_sync_sqlalchemy_session(url: str, record: Record, commit: bool) -> str:
    def work() -> str:
        engine = create_engine(dialect(url, "psycopg"), poolclass=NullPool)
        with Session(engine) as session:
            session.execute(text(ROW))
            event_id: str = stash(session, record)
            session.commit() if commit else session.rollback()
            return event_id

    return await asyncio.to_thread(work)


async def with_sync_sqlalchemy_connection(url: str, record: Record, commit: bool) -> str:
    def work() -> str:
        engine = create_engine(dialect(url, "psycopg"), poolclass=NullPool)
        with engine.connect() as connection:
            connection.execute(text(ROW))
            event_id: str = stash(connection, record)
            connection.commit() if commit else connection.rollback()
            return event_id

    return await asyncio.to_thread(work)


async def with_django(url: str, record: Record, commit: bool) -> str:
    from django.db import transaction

    def work() -> str:
        connection = django_connection(url)
        try:
            with transaction.atomic(using=connection.alias):
                with connection.cursor() as cursor:
                    cursor.execute(ROW)
                event_id: str = stash(connection, record)
                if not commit:
                    transaction.set_rollback(True, using=connection.alias)
            return event_id
        finally:
            connection.close()

    return await asyncio.to_thread(work)


def django_connection(url: str):  # type: ignore[no-untyped-def]
    """Django's connection "default" to a database; the settings are made once a process."""
    import django
    from django.conf import settings
    from django.db import connections

    at = make_url(url)
    wanted = {
        "ENGINE": "django.db.backends.postgresql", "NAME": at.database, "USER": at.username or "",
        "PASSWORD": at.password or "", "HOST": at.host or "", "PORT": at.port or "",
    }  # fmt: skip
    if not settings.configured:
        settings.configure(SECRET_KEY="tests", DATABASES={"default": wanted})
        django.setup()
    connections.databases["default"].update(wanted)
    if hasattr(connections._connections, "default"):
        del connections["default"]
    return connections["default"]


DRIVERS: dict[str, Transaction] = {
    "asyncpg": with_asyncpg,
    "asyncpg pool": with_asyncpg_pool,
    "psycopg": with_psycopg,
    "psycopg, synchronous": with_sync_psycopg,
    "SQLAlchemy AsyncSession on asyncpg": with_sqlalchemy_session,
    "SQLAlchemy AsyncConnection on psycopg": with_sqlalchemy_connection,
    "SQLAlchemy Session": with_sync_sqlalchemy_session,
    "SQLAlchemy Connection": with_sync_sqlalchemy_connection,
    "Django": with_django,
}
