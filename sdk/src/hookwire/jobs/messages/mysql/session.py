"""Run the steps of a verb on a connection of pymysql, aiomysql or another DB-API driver of MySQL.

A verb is a generator: it yields each statement and is sent the result. So the same code serves synchronous and
asynchronous connections. If no transaction is open, a verb commits its own; otherwise it belongs to the open one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, suppress
from enum import Enum
from typing import Any, Final, NamedTuple, TypeVar

from hookwire.call import NotInTransaction

__all__ = ["BEGIN", "COMMIT", "Needs", "Result", "Statement", "Steps", "run", "speaks_mysql"]

T = TypeVar("T")
_ASYNCHRONOUS: Final = ("aiomysql", "asyncmy")
_DRIVERS: Final = (*_ASYNCHRONOUS, "pymysql", "mysql", "mariadb")
_IN_TRANSACTION: Final = 1  # SERVER_STATUS_IN_TRANS of the client protocol


class Statement(NamedTuple):
    """A statement with its arguments."""

    text: str
    arguments: Sequence[Any] = ()


class Result(NamedTuple):
    """The rows of a statement, the number of rows that it read or changed, and its first new id."""

    rows: Sequence[Sequence[Any]]
    affected: int
    last_id: int


Steps = Generator[Statement, Result, T]
COMMIT: Final = Statement("COMMIT")
"""Yielded by a verb to commit what it has done so far, if the transaction is its own."""
BEGIN: Final = Statement("START TRANSACTION")


class Needs(Enum):
    """What a verb asks of the connection's transaction."""

    OPEN = "an open transaction, or a connection without autocommit"
    NONE = "no open transaction"
    OWN = "the open transaction, or one of its own"
    ANY = "nothing: it only reads"


def speaks_mysql(connection: Any) -> bool:
    """Return whether a connection's class belongs to a driver of MariaDB or MySQL."""
    return _driver_of(connection) is not None


def run(connection: Any, steps: Steps[T], needs: Needs, name: str) -> Any:
    """Run a verb and return its result, or an awaitable of it if the connection is asynchronous.

    ``name`` is the calling function, for error messages. Raise :class:`NotInTransaction` if the verb needs a
    transaction, and RuntimeError if it needs none and one is open. Exceptions of the driver pass; the verb's own
    transaction is then rolled back.
    """
    if _driver_of(connection) in _ASYNCHRONOUS:
        return _run_asynchronously(connection, steps, needs, name)
    begins, commits = _judge(connection, needs, name)
    try:
        if begins:
            _execute(connection, BEGIN)
        result = None
        while (step := _next(steps, result)).statement is not None:
            if step.statement is not COMMIT:
                result = _execute(connection, step.statement)
            elif commits:
                connection.commit()
        if commits:
            connection.commit()
    except BaseException:  # an interrupt leaves no open transaction either
        if commits:
            with suppress(Exception):  # the connection may be gone, and the first error tells more
                connection.rollback()
        raise
    return step.value


async def _run_asynchronously(connection: Any, steps: Steps[T], needs: Needs, name: str) -> T:
    begins, commits = _judge(connection, needs, name)
    try:
        if begins:
            await _execute_asynchronously(connection, BEGIN)
        result = None
        while (step := _next(steps, result)).statement is not None:
            if step.statement is not COMMIT:
                result = await _execute_asynchronously(connection, step.statement)
            elif commits:
                await connection.commit()
        if commits:
            await connection.commit()
    except (Exception, asyncio.CancelledError):
        if commits:
            with suppress(Exception):
                await connection.rollback()
        raise
    found: T = step.value
    return found


class _Step(NamedTuple):
    statement: Statement | None
    value: Any = None


def _next(steps: Steps[Any], result: Result | None) -> _Step:
    """Send a result to the verb, or None to begin it; return its next statement, or none and its value."""
    try:
        return _Step(steps.send(result))  # type: ignore[arg-type]
    except StopIteration as end:
        return _Step(None, end.value)


def _judge(connection: Any, needs: Needs, name: str) -> tuple[bool, bool]:
    """Return whether the verb begins a transaction by a statement, and whether it commits."""
    is_open, autocommits = _is_in_transaction(connection, name), _autocommits(connection)
    if needs is Needs.OPEN:
        if autocommits and not is_open:
            raise NotInTransaction(f"this connection is in autocommit mode: begin a transaction before {name}()")
        return False, False
    if needs is Needs.NONE and is_open:
        raise RuntimeError(f"{name}() commits by itself: commit or roll back the open transaction first")
    return needs is Needs.OWN and autocommits and not is_open, not is_open


def _is_in_transaction(connection: Any, name: str) -> bool:
    status = getattr(connection, "server_status", None)
    if isinstance(status, int):
        return bool(status & _IN_TRANSACTION)
    if (found := getattr(connection, "in_transaction", None)) is None:
        raise TypeError(f"{name}: {type(connection).__qualname__} does not tell whether a transaction is open")
    return bool(found)


def _autocommits(connection: Any) -> bool:
    getter = getattr(connection, "get_autocommit", None)
    return bool(getter() if getter is not None else connection.autocommit)


def _driver_of(connection: Any) -> str | None:
    for base in type(connection).__mro__:
        root = base.__module__.partition(".")[0]
        if root in _DRIVERS:
            return root
    return None


def _execute(connection: Any, statement: Statement) -> Result:
    with closing(connection.cursor()) as cursor:
        cursor.execute(statement.text, tuple(statement.arguments))
        return _result(cursor, cursor.fetchall() if cursor.description else ())


async def _execute_asynchronously(connection: Any, statement: Statement) -> Result:
    async with connection.cursor() as cursor:
        await cursor.execute(statement.text, tuple(statement.arguments))
        return _result(cursor, await cursor.fetchall() if cursor.description else ())


def _result(cursor: Any, rows: Sequence[Any]) -> Result:
    """Return rows as tuples, also where the program's cursors return mappings."""
    made = [tuple(row.values()) if isinstance(row, Mapping) else tuple(row) for row in rows]
    return Result(made, cursor.rowcount, cursor.lastrowid or 0)
