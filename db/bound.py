"""Named statements on one connection, with asyncpg's exceptions translated."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import asyncpg

from db.errors import (
    Busy,
    DatabaseError,
    OutcomeUnknown,
    Overdue,
    Refused,
    ServerTrouble,
    TooManyConnections,
    Unavailable,
)
from db.foreign import origin
from db.statements import STATEMENTS

__all__ = [
    "Bound",
    "confirmed",
    "connecting",
    "dropped_after",
    "is_away",
    "is_client_failure",
    "lost_its_server",
    "takes_no_writes",
    "translated",
    "waited_in_vain",
]

_CONNECTION_CLASSES = (
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    OSError,
    TimeoutError,
)
_OURS = "hookwire."
"""Prefix of the message of each error that our own SQL functions raise: the schema of the function."""
_DATA = "22"
_NOT_NULL, _CHECK = "23502", "23514"
_OUT_OF_RANGE = "22008"
_READ_ONLY = "25006"
_WAITS_FOR_STANDBYS = "SyncRepWaitForLSN"
_GONE = (
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.InternalClientError,
    ConnectionError,
)
"""Errors of a session whose server ends, starts or does not answer."""
_BUSY_CLASSES = (
    asyncpg.LockNotAvailableError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
)


@contextmanager
def translated(*, sent: bool) -> Iterator[None]:
    """Map asyncpg's exceptions onto ours; ``sent`` says whether a statement may have reached the server.

    asyncpg raises InterfaceError in two cases: for a closed connection, and for wrong arguments. The first is an
    operating error; the second is a bug and passes through. ``InternalClientError``, and other errors from asyncpg's
    own code, mean a dying connection; see :mod:`db.foreign`.
    """
    try:
        yield
    except asyncpg.QueryCanceledError as error:
        raise Overdue(str(error)) from error
    except _BUSY_CLASSES as error:
        raise Busy(str(error)) from error
    except _CONNECTION_CLASSES as error:
        kind = OutcomeUnknown if sent else Unavailable
        words = str(error) or "no answer in time; is there a PostgreSQL at this address?"
        raise kind(f"{type(error).__name__}: {words}") from error
    except asyncpg.exceptions.ClientConfigurationError as error:
        raise Unavailable(f"the database URL cannot be used: {error}") from error
    except asyncpg.InterfaceError as error:
        if not any(word in str(error) for word in ("closed", "closing", "released back")):
            raise
        raise Unavailable(str(error)) from error
    except asyncpg.PostgresError as error:
        raise _answered(error, sent=sent) from error
    except Exception as error:
        if not is_client_failure(error):
            raise
        if isinstance(error, OverflowError | ValueError):  # it decoded a result; the connection is as good as before
            raise Refused(_OUT_OF_RANGE, f"a stored value cannot be read: {error}") from error
        # A server that shuts down reports that on idle connections before it closes them. Until the socket closes,
        # asyncpg refuses the next statement with this text, before it sends anything.
        kind = OutcomeUnknown if sent and "cannot switch to state" not in str(error) else Unavailable
        raise kind(f"the database client has lost this connection ({type(error).__name__}: {error})") from error


def _answered(error: Any, *, sent: bool) -> DatabaseError:
    """Classify an error of the server. After FATAL or PANIC the session is gone: a COMMIT may be durable."""
    sqlstate, message = error.sqlstate or "XX000", str(error)
    if error.severity_en in ("FATAL", "PANIC"):
        return (OutcomeUnknown if sent else Unavailable)(f"{message} (SQLSTATE {sqlstate})")
    is_ours = message.startswith(_OURS) or _is_raised_by_us(error)
    if is_ours or sqlstate.startswith(_DATA) or sqlstate == _NOT_NULL or _breaks_a_check(error):
        return Refused(sqlstate, message, is_ours=is_ours)
    if sqlstate == _CHECK:  # a row without a partition
        message += "; call hookwire.ensure_partitions() as the owner of the schema"
    return ServerTrouble(sqlstate, message)


def _is_raised_by_us(error: Any) -> bool:
    """Return whether a RAISE in a function of our schema made this error. The server may speak any language."""
    where = (error.context or "").partition("\n")[0]
    return error.server_source_function == "exec_stmt_raise" and " hookwire." in where


def _breaks_a_check(error: Any) -> bool:
    """Return whether a value breaks a check constraint.

    A row without a partition has the same SQLSTATE, but names no constraint.
    """
    return error.sqlstate == _CHECK and bool(error.constraint_name)


def is_client_failure(error: Exception) -> bool:
    """Return whether asyncpg's own code has failed."""
    return isinstance(error, asyncpg.InternalClientError) or bool(origin(error, "asyncpg"))


def takes_no_writes(error: DatabaseError) -> bool:
    """Return whether the server has become a standby or read-only."""
    return isinstance(error, ServerTrouble) and error.sqlstate == _READ_ONLY


def lost_its_server(error: DatabaseError) -> bool:
    """Return whether the session has ended because of its server or the way there."""
    return isinstance(error, Unavailable | OutcomeUnknown) and isinstance(error.__cause__, _GONE)


def is_away(error: DatabaseError) -> bool:
    """Return whether no server answered, or one that is starting or ending: it may answer later."""
    return isinstance(error, Unavailable) and isinstance(error.__cause__, (*_GONE, OSError, TimeoutError))


def waited_in_vain(error: DatabaseError) -> bool:
    """Return whether the statement has waited for a lock until its limit."""
    return isinstance(error.__cause__, asyncpg.LockNotAvailableError)


@contextmanager
def connecting() -> Iterator[None]:
    """Translate as :func:`translated` does, before anything was sent. A server's refusal of a new connection (wrong
    password, no such database) refuses no statement. The caller gets :class:`db.errors.Unavailable`.
    """
    try:
        with translated(sent=False):
            yield
    except Unavailable as error:
        if isinstance(error.__cause__, asyncpg.TooManyConnectionsError):
            raise TooManyConnections(str(error.__cause__)) from error.__cause__
        raise
    except Refused as error:
        raise Unavailable(str(error)) from error


@contextmanager
def confirmed(connection: Any) -> Iterator[None]:
    """Raise :class:`OutcomeUnknown` at the end where the server has stopped its wait for a standby.

    Such a COMMIT succeeds with a warning in the server's language. Only the name of the server's function is always the
    same.
    """
    warnings: list[str] = []

    def hear(_connection: object, message: Any) -> None:
        if getattr(message, "server_source_function", None) == _WAITS_FOR_STANDBYS:
            warnings.append(str(message))

    with translated(sent=False):
        connection.add_log_listener(hear)
    try:
        yield
    finally:
        with suppress(asyncpg.InterfaceError):  # the connection is closed, and its listeners are gone
            connection.remove_log_listener(hear)
    if warnings:
        raise OutcomeUnknown(f"committed, but perhaps on this server alone: {warnings[0]}")


@contextmanager
def dropped_after(connection: Any, seconds: float | None) -> Iterator[None]:
    """Close the connection if the block takes longer; None: never. The server goes on with the statement.

    A time-out of asyncpg would cancel it, and with it a commit's wait for a standby.
    """
    if seconds is None:
        yield
        return
    timer = asyncio.get_running_loop().call_later(seconds, connection.terminate)
    try:
        yield
    finally:
        timer.cancel()


class Bound:
    """A :class:`db.pool.Session` on one asyncpg connection. ``seconds``: after so many the connection is closed."""

    def __init__(
        self, connection: Any, statements: Mapping[str, str] | None = None, seconds: float | None = None
    ) -> None:
        self._connection = connection
        self._seconds = seconds
        self._statements = STATEMENTS if statements is None else statements

    async def fetch(self, name: str, *args: object) -> Sequence[Mapping[str, Any]]:
        """Return all rows."""
        with translated(sent=True), dropped_after(self._connection, self._seconds):
            rows: Sequence[Mapping[str, Any]] = await self._connection.fetch(self._statements[name], *args)
            return rows

    async def fetchrow(self, name: str, *args: object) -> Mapping[str, Any] | None:
        """Return the first row, or None."""
        with translated(sent=True), dropped_after(self._connection, self._seconds):
            row: Mapping[str, Any] | None = await self._connection.fetchrow(self._statements[name], *args)
            return row

    async def fetchval(self, name: str, *args: object) -> Any:
        """Return the first column of the first row, or None."""
        with translated(sent=True), dropped_after(self._connection, self._seconds):
            return await self._connection.fetchval(self._statements[name], *args)

    async def execute(self, name: str, *args: object) -> int:
        """Run the statement and return the number of rows that it changed."""
        with translated(sent=True), dropped_after(self._connection, self._seconds):
            tag: str = await self._connection.execute(self._statements[name], *args)
        count = tag.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0
