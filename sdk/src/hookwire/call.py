"""Run one statement on a connection of asyncpg, psycopg 3, SQLAlchemy or Django.

The class of the connection tells its driver, so no other driver is imported. Nothing is opened, committed or rolled
back. With an asynchronous connection the result is an awaitable.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

__all__ = ["AsyncConnection", "NotInTransaction", "Statement", "SyncConnection", "call"]

T = TypeVar("T")
Rows = Sequence[Sequence[Any]]
_DRIVERS: Final = ("asyncpg", "psycopg", "sqlalchemy", "django")


class NotInTransaction(RuntimeError):
    """The connection is in autocommit mode: begin a transaction first."""


class AsyncConnection(Protocol):
    """A connection of asyncpg, psycopg's ``AsyncConnection``, SQLAlchemy's ``AsyncConnection`` or ``AsyncSession``."""

    def execute(self, *args: Any, **options: Any) -> Awaitable[Any]:
        """Run a statement."""
        ...


class SyncConnection(Protocol):
    """psycopg's ``Connection``, SQLAlchemy's ``Connection`` or ``Session``, Django's ``connection``."""

    def close(self) -> None:
        """Close the connection. All these classes have this method."""
        ...


class Statement:
    """SQL with a ``{name}`` for each argument, translated to the placeholders of each driver."""

    def __init__(self, text: str, *names: str) -> None:
        self.names = names
        self.numbered = text.format(**{name: f"${number}" for number, name in enumerate(names, 1)})
        self.percent = text.format(**dict.fromkeys(names, "%s"))
        self.named = text.format(**{name: f":{name}" for name in names})


def call(
    connection: Any, statement: Statement, arguments: Sequence[Any], made_of: Callable[[Rows], T], *, name: str,
    in_transaction: bool = True,
) -> Any:  # fmt: skip
    """Run a statement, pass its rows to ``made_of`` and return the result, or an awaitable of the result.

    ``name`` is the calling function, for error messages. ``in_transaction``: raise :class:`NotInTransaction` outside a
    transaction. Raise TypeError for an unknown class of connection. Exceptions of the driver pass.
    """
    kind = _kind_of(connection, name)
    if kind == "asyncpg":
        return _asyncpg(connection, statement, arguments, made_of, name if in_transaction else "")
    if kind == "psycopg":
        return _psycopg(connection, statement, arguments, made_of, name if in_transaction else "")
    if kind == "sqlalchemy":
        return _sqlalchemy(connection, statement, arguments, made_of, name if in_transaction else "")
    return _django(connection, statement, arguments, made_of, name if in_transaction else "")


def _kind_of(connection: Any, name: str) -> str:
    """Return the driver's package of a connection's class or of its bases. Raise TypeError for an unknown class."""
    for base in type(connection).__mro__:
        root = base.__module__.partition(".")[0]
        if root in _DRIVERS:
            return root
    raise TypeError(
        f"{name} takes a connection of asyncpg, psycopg 3, SQLAlchemy or Django, not {type(connection).__qualname__}"
    )


async def _asyncpg(
    connection: Any, statement: Statement, arguments: Sequence[Any], made_of: Callable[[Rows], T], needs: str
) -> T:
    if needs and not connection.is_in_transaction():
        raise NotInTransaction(f"use `async with connection.transaction():` around your rows and {needs}()")
    return made_of(await connection.fetch(statement.numbered, *arguments))


def _psycopg(
    connection: Any, statement: Statement, arguments: Sequence[Any], made_of: Callable[[Rows], T], needs: str
) -> Any:
    if needs and connection.autocommit and connection.info.transaction_status.name == "IDLE":
        raise NotInTransaction("this connection is in autocommit mode: use `with connection.transaction():`")
    import psycopg
    from psycopg.rows import tuple_row

    # A new cursor, because the program may have configured other placeholders and rows for the connection's cursors.
    if any(base.__name__ == "AsyncConnection" for base in type(connection).__mro__):
        return _psycopg_async(psycopg.AsyncCursor(connection, row_factory=tuple_row), statement, arguments, made_of)
    cursor: Any
    with psycopg.Cursor(connection, row_factory=tuple_row) as cursor:
        cursor.execute(statement.percent, arguments)
        return made_of(cursor.fetchall())


async def _psycopg_async(
    cursor: Any, statement: Statement, arguments: Sequence[Any], made_of: Callable[[Rows], T]
) -> T:
    async with cursor:
        await cursor.execute(statement.percent, arguments)
        return made_of(await cursor.fetchall())


def _sqlalchemy(
    connection: Any, statement: Statement, arguments: Sequence[Any], made_of: Callable[[Rows], T], needs: str
) -> Any:
    from sqlalchemy import text

    bound = text(statement.named).bindparams(**dict(zip(statement.names, arguments, strict=True)))
    if any(base.__module__.startswith("sqlalchemy.ext.asyncio") for base in type(connection).__mro__):
        return _sqlalchemy_async(connection, bound, made_of, needs)
    if needs:
        _refuse_autocommit(connection)
    return made_of(connection.execute(bound).all())


async def _sqlalchemy_async(connection: Any, bound: Any, made_of: Callable[[Rows], T], needs: str) -> T:
    if needs:
        # run_sync passes the synchronous object, both for a connection and for a session.
        await connection.run_sync(_refuse_autocommit)
    return made_of((await connection.execute(bound)).all())


def _refuse_autocommit(connection: Any) -> None:
    """Raise NotInTransaction for isolation level AUTOCOMMIT; otherwise SQLAlchemy begins a transaction itself."""
    of_session = connection.connection
    level = of_session() if callable(of_session) else connection
    if level.connection.dbapi_connection.autocommit:
        raise NotInTransaction("this connection has isolation_level AUTOCOMMIT: use one with transactions")


def _django(
    connection: Any, statement: Statement, arguments: Sequence[Any], made_of: Callable[[Rows], T], needs: str
) -> T:
    if needs and not connection.in_atomic_block and connection.get_autocommit():
        raise NotInTransaction(f"use `with transaction.atomic():` around your rows and {needs}()")
    with connection.cursor() as cursor:
        cursor.execute(statement.percent, arguments)
        return made_of(cursor.fetchall())
