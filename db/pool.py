"""The connection pool: statements by name, every time-out set, foreign exceptions translated.

Every wait has a limit (RP-06): connecting, getting a connection, a statement on both sides, a lock, and idling inside a
transaction. A statement whose answer never came is :class:`~db.errors.OutcomeUnknown`. A statement that was never sent
is :class:`~db.errors.Unavailable`. The difference decides the answer to a publisher.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from copy import copy
from dataclasses import dataclass
from typing import Any, Protocol

import asyncpg

from db.bound import Bound, connecting, translated
from db.errors import DatabaseError
from db.statements import STATEMENTS

__all__ = ["Database", "PoolOptions", "Row", "Session", "open_database"]

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """The database's address and time limits.

    ``statement_seconds`` limits a statement in the server and, with a second added, in the client. ``lock_seconds``
    limits any wait for a lock, and ``idle_in_transaction_seconds`` a forgotten transaction. ``connect_seconds`` limits
    a new connection, and ``acquire_seconds`` the wait for a free one.

    ``plan_seconds`` is how long a prepared statement and its plan are kept. A plan made for empty tables reads whole
    tables, and must not serve the first burst after a quiet day for long (RP-03).
    """

    url: str
    application_name: str = "hookwire"
    connections_min: int = 2
    connections_max: int = 12
    connect_seconds: float = 5.0
    acquire_seconds: float = 5.0
    statement_seconds: float = 30.0
    lock_seconds: float = 5.0
    idle_in_transaction_seconds: float = 30.0
    plan_seconds: int = 10

    def server_settings(self) -> dict[str, str]:
        """Return the session settings that every connection starts with, in PostgreSQL's units (milliseconds)."""
        return {
            "application_name": self.application_name,
            "statement_timeout": str(int(self.statement_seconds * 1000)),
            "lock_timeout": str(int(self.lock_seconds * 1000)),
            "idle_in_transaction_session_timeout": str(int(self.idle_in_transaction_seconds * 1000)),
            "tcp_keepalives_idle": "10",
            "tcp_keepalives_interval": "3",
            "tcp_keepalives_count": "3",
            "timezone": "UTC",
            "jit": "off",
            # Every statement has its index. A plan made for an empty table must not scan the full table later.
            "enable_seqscan": "off",
            # Planning a statement at every call costs more than running it. ``fetch_filtered`` is the exception.
            "plan_cache_mode": "force_generic_plan",
        }


class Session(Protocol):
    """An object that runs named statements: the whole database, or one of its transactions."""

    async def fetch(self, name: str, *args: object) -> Sequence[Row]:
        """Return all rows."""
        ...

    async def fetchrow(self, name: str, *args: object) -> Row | None:
        """Return the first row, or None."""
        ...

    async def fetchval(self, name: str, *args: object) -> Any:
        """Return the first column of the first row, or None."""
        ...

    async def execute(self, name: str, *args: object) -> int:
        """Run the statement and return the number of rows that it changed."""
        ...


class Database:
    """A pool of connections that runs named statements, each in its own transaction by default."""

    def __init__(self, pool: Any, options: PoolOptions, statements: Mapping[str, str] | None = None) -> None:
        self._pool = pool
        self._statements = statements
        self.options = options

    def with_statements(self, statements: Mapping[str, str]) -> Database:
        """Return the same pool with other statements (``db.statements.for_outbox``); close only one of the two."""
        other = copy(self)
        other._statements = statements
        return other

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        with connecting():
            connection = await self._pool.acquire(timeout=self.options.acquire_seconds)
        try:
            yield connection
        finally:
            await self._release(connection)

    async def _release(self, connection: Any) -> None:
        """Return a connection to the pool, or drop it where that fails (FC-05).

        Only the outcome of its use counts: a result, an error or a cancellation. So this raises nothing for a lost
        connection.
        """
        try:
            with translated(sent=False):
                await self._pool.release(connection)
        except DatabaseError:
            # The pool has dropped it already, unless it failed before that.
            with suppress(DatabaseError, asyncpg.InterfaceError), translated(sent=False):
                connection.terminate()

    async def fetch(self, name: str, *args: object) -> Sequence[Row]:
        """Return all rows of a named statement, in a transaction of its own."""
        async with self._connection() as connection:
            return await Bound(connection, self._statements).fetch(name, *args)

    async def fetch_filtered(self, name: str, *args: object) -> Sequence[Row]:
        """Fetch as :meth:`fetch`, planned for these values: for a statement whose filters may be NULL.

        After a few runs PostgreSQL would use one plan for all values, which reads whole tables where a filter is set.
        """
        async with self.transaction() as transaction:
            await transaction.fetchval("plan.for_values")
            return await transaction.fetch(name, *args)

    async def fetchrow(self, name: str, *args: object) -> Row | None:
        """Return the first row of a named statement, or None."""
        async with self._connection() as connection:
            return await Bound(connection, self._statements).fetchrow(name, *args)

    async def fetchval(self, name: str, *args: object) -> Any:
        """Return the first column of the first row of a named statement, or None."""
        async with self._connection() as connection:
            return await Bound(connection, self._statements).fetchval(name, *args)

    async def execute(self, name: str, *args: object) -> int:
        """Run a named statement and return the number of rows that it changed."""
        async with self._connection() as connection:
            return await Bound(connection, self._statements).execute(name, *args)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        """Run several named statements in one transaction, committed on a clean exit.

        Raise :class:`OutcomeUnknown` when the connection is lost at COMMIT.
        """
        async with self._connection() as connection:
            transaction = connection.transaction()
            with translated(sent=False):
                await transaction.start()
            try:
                yield Bound(connection, self._statements)
            except BaseException:
                # A transaction without its connection rolls back by itself. Only the original error counts, above all a
                # cancellation.
                with suppress(DatabaseError), translated(sent=True):
                    await transaction.rollback()
                raise
            with translated(sent=True):
                await transaction.commit()

    async def aclose(self) -> None:
        """Let running statements end within a moment, then close every connection."""
        try:
            with translated(sent=False):
                async with asyncio.timeout(3):
                    await self._pool.close()
        except DatabaseError:
            self._pool.terminate()


async def _keep(_connection: object) -> None:
    """Replace asyncpg's reset, a round trip after every statement: our statements leave no state in the session."""


async def _keep_commits_durable(connection: Any) -> None:
    """Give the session its own ``synchronous_commit``, which a server-wide ``off`` does not change (FC-11)."""
    await connection.execute(STATEMENTS["plan.keep_commits_durable"])


async def open_database(options: PoolOptions) -> Database:
    """Open the pool; raise :class:`Unavailable` when the server cannot be reached."""
    with connecting():
        pool = await asyncpg.create_pool(
            options.url,
            min_size=options.connections_min,
            max_size=options.connections_max,
            timeout=options.connect_seconds,
            command_timeout=options.statement_seconds + 1,
            server_settings=options.server_settings(),
            init=_keep_commits_durable,
            max_inactive_connection_lifetime=300,
            max_cached_statement_lifetime=options.plan_seconds,
            reset=_keep,
        )
    return Database(pool, options)
