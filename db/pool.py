"""The connection pool: statements by name, every time-out set, foreign exceptions translated.

Every wait has a bound (RP-06): connecting, getting a connection, a statement on both sides, a lock, and
idling inside a transaction. A statement whose answer never came is :class:`~db.errors.OutcomeUnknown`;
one that never left is :class:`~db.errors.Unavailable`. The difference decides what a publisher is told.
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
    """How to reach the database and how long to wait for what.

    ``statement_seconds`` bounds a statement in the server and, with a second added, in the client;
    ``lock_seconds`` any wait for a lock; ``idle_in_transaction_seconds`` a forgotten transaction;
    ``connect_seconds`` a new connection; ``acquire_seconds`` the wait for a free one.

    ``plan_seconds`` is how long a prepared statement, and with it its plan, is kept. A plan made while the tables were
    empty reads whole tables, and the first burst after a quiet day must not run on it for long (RP-03).
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
            # Every statement of ours has its index. A plan made while a table was empty must not scan it whole later.
            "enable_seqscan": "off",
            # Planning a statement anew at every call costs the server more than running it. ``fetch_filtered`` differs.
            "plan_cache_mode": "force_generic_plan",
        }


class Session(Protocol):
    """Something that runs named statements: the whole database, or one transaction of it."""

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
        """Run it; the number of rows it touched."""
        ...


class Database:
    """A pool of connections that runs named statements, each in its own transaction unless told otherwise."""

    def __init__(self, pool: Any, options: PoolOptions, statements: Mapping[str, str] | None = None) -> None:
        self._pool = pool
        self._statements = statements
        self.options = options

    def with_statements(self, statements: Mapping[str, str]) -> Database:
        """Return the same pool under other statements (``db.statements.for_outbox``); close only one of the two."""
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

        The outcome of its use is what counts: a result, an error, above all a cancellation. So nothing is raised here
        for a connection that is lost.
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
        """As :meth:`fetch`, planned for these values: for a statement whose filters may be NULL.

        After a few runs PostgreSQL would take one plan for all, which reads whole tables where a filter is named.
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
        """Run a named statement; the number of rows it touched."""
        async with self._connection() as connection:
            return await Bound(connection, self._statements).execute(name, *args)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        """Several named statements in one transaction, committed on a clean exit.

        Raises :class:`OutcomeUnknown` when the connection goes at COMMIT.
        """
        async with self._connection() as connection:
            transaction = connection.transaction()
            with translated(sent=False):
                await transaction.start()
            try:
                yield Bound(connection, self._statements)
            except BaseException:
                # Without its connection a transaction rolls back by itself; the reason why we are here is what counts,
                # above all a cancellation.
                with suppress(DatabaseError), translated(sent=True):
                    await transaction.rollback()
                raise
            with translated(sent=True):
                await transaction.commit()

    async def aclose(self) -> None:
        """Give running statements a moment, then close every connection."""
        try:
            with translated(sent=False):
                async with asyncio.timeout(3):
                    await self._pool.close()
        except DatabaseError:
            self._pool.terminate()


async def _keep(_connection: object) -> None:
    """Replaces asyncpg's reset, a round trip after every statement: none of ours leaves anything in the session."""


async def _keep_commits_durable(connection: Any) -> None:
    """Give the session a ``synchronous_commit`` of its own, which a server-wide ``off`` does not change (FC-11)."""
    await connection.execute(STATEMENTS["plan.keep_commits_durable"])


async def open_database(options: PoolOptions) -> Database:
    """Open the pool; raises :class:`Unavailable` when the server can't be reached."""
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
