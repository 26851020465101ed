"""Connections to MariaDB and MySQL: statements by name, foreign exceptions translated.

Each statement is a transaction of its own (autocommit), under REPEATABLE READ: ``db/sql/mariadb/outbox.sql`` says why.
Any failure closes its connection, because its state is unknown then; a new connection costs milliseconds.

The driver, aiomysql, is the optional extra ``mariadb`` and is imported when a database is opened.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote, urlsplit

from db.errors import Busy, DatabaseError, OutcomeUnknown, Refused, Unavailable
from db.statements import load

__all__ = [
    "Done",
    "MariaDatabase",
    "MariaOptions",
    "as_json",
    "for_mapped_outbox",
    "for_outbox",
    "maria_options",
    "open_maria",
    "quoted_identifier",
    "quoted_maria_table",
    "table_parts",
]

_URL = "must be mysql://user:password@host:3306/database"
_IDENTIFIER = r"(?:[A-Za-z_][A-Za-z0-9_$]*|`(?:[^`\x00]|``)+`)"
_TABLE = re.compile(rf"{_IDENTIFIER}(?:\.{_IDENTIFIER})?", re.ASCII)
_PLACEHOLDER = re.compile(r"\bcompat_outbox\b")
_MAPPED = re.compile(r"\bmapped_[a-z_]+\b")
_STATEMENTS = load(Path(__file__).parents[1] / "sql" / "mariadb")

_FOUND_ROWS = 1 << 1  # a flag of the client: UPDATE counts matched rows, also those whose values stay equal

# https://mariadb.com/kb/en/mariadb-error-codes/ and MySQL's list of the same numbers.
_LOST = {1053, 1077, 1079, 1080, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 2006, 2013, 2014, 2055}
_NOT_NOW = {1040, 1203, 1290, 1836, 2002, 2003, 2005}
_BUSY = {1020, 1205, 1213, 1317, 1969, 3024, 3572}


@dataclass(frozen=True, slots=True)
class MariaOptions:
    """The server's address and time limits in seconds.

    ``statement_seconds`` limits a statement in the server and, with a second added, in the client. ``lock_seconds``
    limits any wait for a lock. With ``tls`` no connection goes without it.
    """

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    database: str
    tls: ssl.SSLContext | None = None
    connections_max: int = 4
    connect_seconds: float = 5.0
    acquire_seconds: float = 5.0
    statement_seconds: float = 30.0
    lock_seconds: int = 5


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a statement: matched rows, and its LAST_INSERT_ID."""

    rows: int
    last_id: int


def maria_options(url: str, tls: ssl.SSLContext | None = None) -> MariaOptions:
    """Parse ``mysql://user:password@host:3306/database``; the scheme ``mariadb`` works too.

    Raise ValueError, without the URL, otherwise.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or 3306
    except ValueError:  # the text may hold a part of a password with a slash
        raise ValueError(_URL) from None
    database = unquote(parts.path.lstrip("/"))
    if parts.scheme not in {"mysql", "mariadb"} or not parts.hostname or not database or parts.query:
        raise ValueError(_URL)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return MariaOptions(parts.hostname, port, user, password, database, tls)


def table_parts(table: str) -> tuple[str | None, str]:
    """Return the database, if named, and the table of a name as MariaDB reads it.

    Raise ValueError for any other text.
    """
    if not _TABLE.fullmatch(table):
        raise ValueError(f"{table!r} is not a table's name: outbox, database.outbox, or either part in backticks")
    parts = [_unquoted(part) for part in re.findall(_IDENTIFIER, table)]
    return (None if len(parts) == 1 else parts[0]), parts[-1]


def _unquoted(part: str) -> str:
    return part[1:-1].replace("``", "`") if part.startswith("`") else part


def quoted_identifier(name: str) -> str:
    """Return a name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def quoted_maria_table(table: str) -> str:
    """Return a table's quoted name; raise ValueError as :func:`table_parts`."""
    return ".".join(quoted_identifier(part) for part in table_parts(table) if part is not None)


def for_mapped_outbox(parts: Mapping[str, str]) -> Mapping[str, str]:
    """Return all statements, those of ``mapped.sql`` for this table. ``parts`` has a text of SQL for each word there
    that begins with "mapped"; the texts are an operator's own.
    """
    literals = {word: text.replace("%", "%%") for word, text in parts.items()}  # the driver formats the text
    return MappingProxyType(
        {
            name: _MAPPED.sub(lambda found: literals[found[0]], text) if name.startswith("mapped.") else text
            for name, text in _STATEMENTS.items()
        }
    )


def for_outbox(table: str) -> tuple[str, Mapping[str, str]]:
    """Return a table's quoted name, and the statements for it; raise ValueError as :func:`table_parts`."""
    quoted = quoted_maria_table(table)
    literal = quoted.replace("%", "%%")  # the driver formats the text
    return quoted, MappingProxyType(
        {key: _PLACEHOLDER.sub(lambda _: literal, text) for key, text in _STATEMENTS.items()}
    )


def as_json(rows: Collection[object]) -> str:
    """Return a JSON array, for JSON_TABLE."""
    return json.dumps(list(rows))


class MariaDatabase:
    """A few connections that run named statements, each a transaction of its own."""

    def __init__(self, options: MariaOptions, statements: Mapping[str, str] = _STATEMENTS) -> None:
        self.options = options
        self._statements = statements
        self._free: list[Any] = []
        self._slots = asyncio.Semaphore(options.connections_max)

    def with_statements(self, statements: Mapping[str, str]) -> MariaDatabase:
        """Return the same connections with other statements; close only one of the two."""
        other = copy(self)
        other._statements = statements
        return other

    async def fetch(self, name: str, **values: object) -> Sequence[Mapping[str, Any]]:
        """Return all rows of a named statement."""
        async with self._cursor(name, values) as cursor:
            rows: Sequence[Mapping[str, Any]] = await cursor.fetchall()
            return rows

    async def types(self, name: str, **values: object) -> tuple[Mapping[str, int], Mapping[str, Any]]:
        """Return the driver's numbers of the types of a statement's columns, and its first row."""
        async with self._cursor(name, values) as cursor:
            return {column[0]: column[1] for column in cursor.description}, await cursor.fetchone()

    async def fetchval(self, name: str, **values: object) -> Any:
        """Return the first column of the first row, or None."""
        rows = await self.fetch(name, **values)
        return next(iter(rows[0].values())) if rows else None

    async def execute(self, name: str, **values: object) -> Done:
        """Run a named statement."""
        async with self._cursor(name, values) as cursor:
            return Done(cursor.rowcount, cursor.lastrowid or 0)

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[Any]:
        """Lend a connection of the driver, with its errors translated. Any failure closes it."""
        async with self._connection() as connection:
            with _translated(sent=True):
                yield connection

    async def aclose(self) -> None:
        """Close the connections. No task may use one any more."""
        self._close_free()
        await asyncio.sleep(0)  # their sockets are closed in the loop's next round

    def _close_free(self) -> None:
        while self._free:
            self._free.pop().close()

    @asynccontextmanager
    async def _cursor(self, name: str, values: Mapping[str, object]) -> AsyncIterator[Any]:
        """Yield a cursor that has run the statement."""
        async with self._connection() as connection:
            with _translated(sent=True):
                async with asyncio.timeout(self.options.statement_seconds + 1), connection.cursor() as cursor:
                    await cursor.execute(self._statements[name], values)
                    yield cursor

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        with _translated(sent=False):
            async with asyncio.timeout(self.options.acquire_seconds):
                await self._slots.acquire()
        try:
            connection = self._reusable() or await self._connect()
            try:
                yield connection
            except BaseException as error:
                connection.close()
                if isinstance(error, Unavailable | OutcomeUnknown):
                    self._close_free()  # the server may have become read-only, or another one the primary
                raise
            self._free.append(connection)
        finally:
            self._slots.release()

    def _reusable(self) -> Any:
        """Return a free connection that the server has not closed, or None."""
        while self._free:
            connection = self._free.pop()
            if not connection.closed and not connection._reader.at_eof():
                return connection
            connection.close()
        return None

    async def _connect(self) -> Any:
        import aiomysql

        options, cancellations = self.options, _cancellations()
        with _connecting():
            connection = await aiomysql.connect(
                host=options.host, port=options.port, user=options.user, password=options.password,
                db=options.database, charset="utf8mb4", autocommit=True, client_flag=_FOUND_ROWS, ssl=options.tls,
                connect_timeout=options.connect_seconds, cursorclass=aiomysql.DictCursor, program_name="hookwire",
            )  # fmt: skip
            try:
                # Before Python 3.12 wait_for, which the driver uses, may drop a cancellation (CPython issue 86296).
                if _cancellations() > cancellations:
                    raise asyncio.CancelledError
                await self._prepare(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    async def _prepare(self, connection: Any) -> None:
        """Check the server's identity and prepare the session."""
        if self.options.tls is not None and connection._writer.get_extra_info("ssl_object") is None:
            raise Unavailable("the server has no TLS, which the settings demand")  # the driver would go on without
        async with asyncio.timeout(self.options.connect_seconds), connection.cursor() as cursor:
            await cursor.execute(_STATEMENTS["installation.version"])
            version = (await cursor.fetchone())["version"]
            for statement in _session(version, self.options):
                await cursor.execute(statement)


def _cancellations() -> int:
    """Return the number of open cancellation requests of this task."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def _session(version: str, options: MariaOptions) -> list[str]:
    """Return the statements that begin a session; raise :class:`Unavailable` for a server that is too old."""
    is_maria = "mariadb" in version.lower()
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:3])
    if numbers < ((10, 6, 0) if is_maria else (8, 0, 15)):
        raise Unavailable(f"the server is {version}; an outbox needs MariaDB 10.6 or MySQL 8.0.15, or newer")
    if is_maria:
        bound = f"SET SESSION max_statement_time = {options.statement_seconds:g}"
    else:
        bound = f"SET SESSION max_execution_time = {options.statement_seconds * 1000:.0f}"
    return [
        bound,
        f"SET SESSION innodb_lock_wait_timeout = {options.lock_seconds}",
        "SET SESSION time_zone = '+00:00'",
        "SET SESSION sql_mode = 'TRADITIONAL'",
        "SET SESSION sql_safe_updates = 0",
        "SET SESSION sql_select_limit = 18446744073709551615",
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    ]


@contextmanager
def _translated(*, sent: bool) -> Iterator[None]:
    """Map the driver's exceptions onto ours; ``sent`` says whether a statement may have reached the server."""
    import aiomysql

    lost = OutcomeUnknown if sent else Unavailable
    try:
        yield
    except DatabaseError:
        raise
    except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
        raise lost(f"{type(error).__name__}: {error}") from error
    except aiomysql.Error as error:
        number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        text = str(error.args[1]) if len(error.args) > 1 else str(error)
        if number in _LOST or isinstance(error, aiomysql.InterfaceError):
            raise lost(text) from error
        if number in _NOT_NOW:
            raise Unavailable(text) from error
        if number in _BUSY:
            raise Busy(text) from error
        raise Refused("HY000", f"{text} (error {number})") from error


@contextmanager
def _connecting() -> Iterator[None]:
    """Translate as :func:`_translated` does, before anything was sent: a refused connection is :class:`Unavailable`."""
    try:
        with _translated(sent=False):
            yield
    except Refused as error:
        raise Unavailable(error.message) from error


async def open_maria(options: MariaOptions) -> MariaDatabase:
    """Open the first connection; raise ModuleNotFoundError without the driver, or :class:`Unavailable`."""
    database = MariaDatabase(options)
    async with database._connection():
        return database
