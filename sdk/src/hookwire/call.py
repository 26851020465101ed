"""Call: run one statement on a connection of the caller's driver, whichever of the known ones it is.

No driver is imported that the caller has not: which one a connection belongs to is read off its class. Nothing is
opened, committed or rolled back here. An asynchronous connection makes the result an awaitable.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

__all__ = ["AsyncConnection", "NotInTransaction", "Statement", "SyncConnection", "call"]

T = TypeVar("T")
Rows = Sequence[Sequence[Any]]
_DRIVERS: Final = ("asyncpg", "psycopg", "sqlalchemy", "django")


class NotInTransaction(RuntimeError):
    """The connection commits by itself: begin a transaction first."""


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


class Statement:
    """SQL with ``{name}`` where arguments stand, in the ways in which drivers write them."""

    def __init__(self, text: str, *names: str) -> None:
        self.names = names
        self.numbered = text.format(**{name: f"${number}" for number, name in enumerate(names, 1)})
        self.percent = text.format(**dict.fromkeys(names, "%s"))
        self.named = text.format(**{name: f":{name}" for name in names})


def call(
    connection: Any, statement: Statement, arguments: Sequence[Any], made_of: Callable[[Rows], T], *, name: str,
    in_transaction: bool = True,
) -> Any:  # fmt: skip
    """Run it and return what ``made_of`` makes of its rows; an awaitable of that where the connection is asynchronous.

    ``name`` is the caller's, for its errors. ``in_transaction``: raise :class:`NotInTransaction` outside of one. Raises
    TypeError for a connection of something else, and whatever the driver raises.
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
    """The package that a connection's class, or one that it derives from, belongs to."""
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

    # A cursor of our own: those of the connection have the placeholders and rows that its program has chosen.
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
        # A session has its connection from its first statement on; run_sync gives the synchronous face of either.
        await connection.run_sync(_refuse_autocommit)
    return made_of((await connection.execute(bound)).all())


def _refuse_autocommit(connection: Any) -> None:
    """SQLAlchemy begins by itself, unless engine or connection has the isolation level AUTOCOMMIT."""
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
