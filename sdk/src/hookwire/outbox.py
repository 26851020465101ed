"""Stash: publish in the caller's own transaction, through the caller's own connection.

::

    BEGIN;  your rows;  stash(connection, record);  COMMIT;      the event exists if and only if that COMMIT succeeds

Nothing is opened, committed or rolled back here, and no driver is imported that you have not: which one a connection
belongs to is read off its class. Outside of a transaction :class:`NotInTransaction` is raised, because the event would
be published alone, whatever becomes of the rows that it tells about (RU-15).

The rule which stripe, shard and sinks an event gets lives in the database, in ``hookwire.publish``; a failure is the
driver's own exception, and the transaction that it happened in is over.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final, Protocol, overload

from hookwire.record import Record

__all__ = ["AsyncConnection", "NotInTransaction", "SyncConnection", "stash"]

# Through text, because a program may have told its driver to encode jsonb in a way of its own.
_CALL: Final = (
    "SELECT hookwire.publish(topic => CAST({} AS text), payload => CAST({} AS bytea), key => CAST({} AS text),"
    " content_type => CAST({} AS text), headers => CAST(CAST({} AS text) AS jsonb))"
)
_NAMES: Final = ("topic", "payload", "key", "content_type", "headers")
_NUMBERED: Final = _CALL.format(*(f"${number}" for number in range(1, 6)))
_PERCENT: Final = _CALL.format(*("%s",) * 5)
_NAMED: Final = _CALL.format(*(f":{name}" for name in _NAMES))


class NotInTransaction(RuntimeError):
    """The connection commits by itself: begin a transaction first, and stash inside it."""


class AsyncConnection(Protocol):
    """A connection of asyncpg, psycopg's ``AsyncConnection``, SQLAlchemy's ``AsyncConnection`` or ``AsyncSession``."""

    def execute(self, *args: Any, **options: Any) -> Awaitable[Any]:
        """Run a statement."""
        ...


class SyncConnection(Protocol):
    """psycopg's ``Connection``, SQLAlchemy's ``Connection`` or ``Session``, Django's ``connection``."""

    def close(self) -> None:
        """Every one of them has it."""
        ...


@overload
def stash(connection: AsyncConnection, record: Record) -> Awaitable[str]: ...
@overload
def stash(connection: SyncConnection, record: Record) -> str: ...
def stash(connection: Any, record: Record) -> Any:
    """Publish a record in the connection's open transaction; returns the event's id (to be awaited where async).

    Waits for the lock of the record's key as long as the connection's ``lock_timeout`` allows. Raises
    :class:`NotInTransaction`, TypeError for a connection of something else, and whatever the driver raises.
    """
    kind = _kind_of(connection)
    if kind == "asyncpg":
        return _stash_asyncpg(connection, record)
    if kind == "psycopg":
        return _stash_psycopg(connection, record)
    if kind == "sqlalchemy":
        return _stash_sqlalchemy(connection, record)
    return _stash_django(connection, record)


def _kind_of(connection: Any) -> str:
    """The package that a connection's class, or one that it derives from, belongs to."""
    for base in type(connection).__mro__:
        root = base.__module__.partition(".")[0]
        if root in ("asyncpg", "psycopg", "sqlalchemy", "django"):
            return root
    raise TypeError(
        f"stash takes a connection of asyncpg, psycopg 3, SQLAlchemy or Django, not {type(connection).__qualname__}"
    )


async def _stash_asyncpg(connection: Any, record: Record) -> str:
    if not connection.is_in_transaction():
        raise NotInTransaction("use `async with connection.transaction():` around your rows and stash()")
    event_id: str = await connection.fetchval(_NUMBERED, *record.arguments())
    return event_id


def _stash_psycopg(connection: Any, record: Record) -> Any:
    if connection.autocommit and connection.info.transaction_status.name == "IDLE":
        raise NotInTransaction("this connection is in autocommit mode: use `with connection.transaction():`")
    import psycopg
    from psycopg.rows import tuple_row

    # A cursor of our own: those of the connection have the placeholders and rows that its program has chosen.
    if any(base.__name__ == "AsyncConnection" for base in type(connection).__mro__):
        return _stash_psycopg_async(psycopg.AsyncCursor(connection, row_factory=tuple_row), record)
    cursor: Any
    with psycopg.Cursor(connection, row_factory=tuple_row) as cursor:
        cursor.execute(_PERCENT, record.arguments())
        event_id: str = cursor.fetchone()[0]
    return event_id


async def _stash_psycopg_async(cursor: Any, record: Record) -> str:
    async with cursor:
        await cursor.execute(_PERCENT, record.arguments())
        event_id: str = (await cursor.fetchone())[0]
    return event_id


def _stash_sqlalchemy(connection: Any, record: Record) -> Any:
    from sqlalchemy import text

    statement = text(_NAMED).bindparams(**dict(zip(_NAMES, record.arguments(), strict=True)))
    if any(base.__module__.startswith("sqlalchemy.ext.asyncio") for base in type(connection).__mro__):
        return _stash_sqlalchemy_async(connection, statement)
    _refuse_autocommit(connection)
    event_id: str = connection.execute(statement).scalar_one()
    return event_id


async def _stash_sqlalchemy_async(connection: Any, statement: Any) -> str:
    # A session has its connection from its first statement on; run_sync gives the synchronous face of either.
    await connection.run_sync(_refuse_autocommit)
    event_id: str = (await connection.execute(statement)).scalar_one()
    return event_id


def _refuse_autocommit(connection: Any) -> None:
    """SQLAlchemy begins by itself, unless engine or connection has the isolation level AUTOCOMMIT."""
    of_session = connection.connection
    level = of_session() if callable(of_session) else connection
    if level.connection.dbapi_connection.autocommit:
        raise NotInTransaction("this connection has isolation_level AUTOCOMMIT: use one with transactions")


def _stash_django(connection: Any, record: Record) -> str:
    if not connection.in_atomic_block and connection.get_autocommit():
        raise NotInTransaction("use `with transaction.atomic():` around your rows and stash()")
    with connection.cursor() as cursor:
        cursor.execute(_PERCENT, record.arguments())
        event_id: str = cursor.fetchone()[0]
    return event_id
