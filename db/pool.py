"""The connection pool: statements by name, every time-out set, foreign exceptions translated.

Every wait has a limit: connecting, getting a connection, a statement on both sides, a lock, and idling inside a
transaction. A statement whose answer never came is :class:`~db.errors.OutcomeUnknown`. A statement that was never sent
is :class:`~db.errors.Unavailable`. The difference decides the answer to a publisher.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass
from typing import Any, Protocol

import asyncpg

from db.bound import Bound, confirmed, connecting, dropped_after, translated, waited_in_vain
from db.errors import DatabaseError, HeldBack
from db.numbers import Numbers
from db.pooling.pool_options import PoolOptions
from db.pooling.ready_pool import ReadyPool
from db.replication.standby_fence import FenceMark
from db.session import ServerSession, open_session

__all__ = ["Database", "PoolOptions", "Row", "Session", "open_database"]

Row = Mapping[str, Any]
Release = Callable[[Sequence[Row]], Awaitable[object]]

_RELEASE_SECONDS = 2.0


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


@dataclass(frozen=True, slots=True)
class _Joined:
    """A transaction that one task has joined, with its pool."""

    pool: Any
    task: asyncio.Task[Any] | None
    connection: Any


_JOINED: ContextVar[_Joined | None] = ContextVar("joined", default=None)


class Database:
    """A pool of connections that runs named statements, each in its own transaction by default."""

    def __init__(self, pool: Any, options: PoolOptions, statements: Mapping[str, str] | None = None) -> None:
        self._pool = pool
        self._turns = asyncio.Semaphore(options.connections_max)
        self._statements = statements
        self.options = options

    def with_statements(self, statements: Mapping[str, str]) -> Database:
        """Return the same pool with other statements (``db.statements.for_outbox``); close only one of the two."""
        other = copy(self)
        other._statements = statements
        return other

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[Any]:
        """Lend a connection. Its errors tell whether the primary has changed."""
        joined = _JOINED.get()
        if joined is not None and joined.pool is self._pool and joined.task is asyncio.current_task():
            async with _transaction(joined.connection, self.options):  # a savepoint
                yield joined.connection
            return
        connection = await self._lent()
        generation, is_in_order = connection.generation, False
        try:
            with nullcontext() if self.options.fence is None else confirmed(connection):
                yield connection
            is_in_order = True
        except DatabaseError as error:
            self.options.primary.hear(error, generation)
            if waited_in_vain(error):
                self.options.holders.look(self.fetch)
            raise
        finally:
            await self._release(connection, generation, is_in_order=is_in_order)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Bound]:
        """Lend a connection for several statements, each in its own transaction."""
        async with self.lend() as connection:
            yield self._bound(connection)

    async def _lent(self) -> Any:
        """Return a free connection, to its callers in turn.

        A time-out of the pool's own needs a task for each. And its queue lets a caller that comes take the connection
        that has woken one who waits.
        """
        if not self._turns.locked() and (connection := self._ready()) is not None:
            await self._turns.acquire()  # one is free, so this does not wait
            return connection
        with connecting():
            async with asyncio.timeout(self.options.acquire_seconds):
                await self._turns.acquire()
                try:
                    return self._ready() or await self._acquired()
                except BaseException:
                    self._turns.release()
                    raise

    def _ready(self) -> Any | None:
        """Return a connection that is ready, or None. End those of an older generation."""
        while (connection := self._pool.take()) is not None and connection.generation < self.options.primary.generation:
            connection.terminate()
        return connection

    async def _acquired(self) -> Any:
        """Return a free connection. End those of an older generation, which are free until one of them is asked for."""
        while True:
            connection = await self._pool.acquire()
            if connection.generation >= self.options.primary.generation:
                return connection
            connection.terminate()

    async def _release(self, connection: Any, generation: int, *, is_in_order: bool) -> None:
        """Return a connection to the pool, or drop it where that fails, or where it is not to be lent again.

        Only the outcome of its use counts: a result, an error or a cancellation. So this raises nothing for a lost
        connection.
        """
        primary = self.options.primary
        try:
            with translated(sent=False):
                if generation >= primary.generation and not primary.wants_a_look():
                    await self._pool.release(connection, is_in_order=is_in_order)
                    return
        except DatabaseError:
            pass  # The pool has dropped it already, unless it failed before that.
        finally:
            self._turns.release()
        with suppress(DatabaseError, asyncpg.InterfaceError), translated(sent=False):
            connection.terminate()

    async def fetch(self, name: str, *args: object) -> Sequence[Row]:
        """Return all rows of a named statement, in a transaction of its own."""
        async with self.lend() as connection:
            return await self._bound(connection).fetch(name, *args)

    def _bound(self, connection: Any) -> Bound:
        return Bound(connection, self._statements, self.options.dropped_after_seconds)

    async def fetch_fenced(self, name: str, *args: object, release: Release | None = None) -> Sequence[Row]:
        """Fetch as :meth:`fetch` what is about to leave the hub, and return it when the required standbys have it.

        Raise :class:`HeldBack` where they do not have it in time. ``release`` gets the rows that do not leave: they are
        held back, or the caller is cancelled. Without a fence this is a fetch.
        """
        mark = await self.fence_mark()
        if self.options.fence is not None and self.options.fence.lacks:
            await self.pass_fence(mark)  # what cannot leave need not be claimed and released again and again
        rows = await self.fetch(name, *args)
        if rows:
            try:
                await self.pass_fence(mark)
            except (HeldBack, asyncio.CancelledError):
                if release is not None:
                    # A lease that is not given back ends by itself, so a standby that is gone need not be waited for.
                    with suppress(DatabaseError, TimeoutError):
                        async with asyncio.timeout(_RELEASE_SECONDS):
                            await release(rows)
                raise
        return rows

    async def fence_mark(self) -> FenceMark | None:
        """Return the mark to take before something is read or written that is about to leave; None without a fence."""
        fence = self.options.fence
        return None if fence is None else await fence.mark(self)

    async def pass_fence(self, mark: FenceMark | None) -> None:
        """Wait until the required standbys have all that is visible now; raise :class:`HeldBack` if they do not."""
        if mark is not None and self.options.fence is not None:
            await self.options.fence.wait(self, mark)

    async def fetch_filtered(self, name: str, *args: object) -> Sequence[Row]:
        """Fetch as :meth:`fetch`, planned for these values: for a statement whose filters may be NULL.

        After a few runs PostgreSQL would use one plan for all values, which reads whole tables where a filter is set.
        """
        async with self.transaction() as transaction:
            await transaction.fetchval("plan.for_values")
            return await transaction.fetch(name, *args)

    async def fetchrow(self, name: str, *args: object) -> Row | None:
        """Return the first row of a named statement, or None."""
        async with self.lend() as connection:
            return await self._bound(connection).fetchrow(name, *args)

    async def fetchval(self, name: str, *args: object) -> Any:
        """Return the first column of the first row of a named statement, or None."""
        async with self.lend() as connection:
            return await self._bound(connection).fetchval(name, *args)

    async def execute(self, name: str, *args: object) -> int:
        """Run a named statement and return the number of rows that it changed."""
        async with self.lend() as connection:
            return await self._bound(connection).execute(name, *args)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        """Run several named statements in one transaction, committed on a clean exit.

        Raise :class:`OutcomeUnknown` when the connection is lost at COMMIT.
        """
        async with self.lend() as connection, _transaction(connection, self.options):
            yield self._bound(connection)

    @asynccontextmanager
    async def joined(self) -> AsyncIterator[Session]:
        """Join whatever this task does with this pool into one transaction, committed on a clean exit.

        Each statement and transaction inside is a savepoint, so it may fail alone. Other tasks are not joined.
        """
        async with self.lend() as connection, _transaction(connection, self.options):
            token = _JOINED.set(_Joined(self._pool, asyncio.current_task(), connection))
            try:
                yield self._bound(connection)
            finally:
                _JOINED.reset(token)

    async def aclose(self) -> None:
        """Let running statements end within a moment, then close every connection."""
        try:
            with translated(sent=False):
                async with asyncio.timeout(3):
                    await self._pool.close()
        except DatabaseError:
            self._pool.terminate()


@asynccontextmanager
async def _transaction(connection: Any, options: PoolOptions) -> AsyncIterator[None]:
    transaction, seconds = connection.transaction(), options.dropped_after_seconds
    with translated(sent=False), dropped_after(connection, seconds):
        await transaction.start()
    try:
        yield
    except BaseException:
        # A transaction without its connection rolls back by itself. Only the original error counts, above all a
        # cancellation.
        with suppress(DatabaseError), translated(sent=True), dropped_after(connection, seconds):
            await transaction.rollback()
        raise
    with translated(sent=True), dropped_after(connection, seconds):
        await transaction.commit()


async def _keep(_connection: object) -> None:
    """Replace asyncpg's reset, a round trip after every statement: our statements leave no state in the session."""


async def open_database(options: PoolOptions) -> Database:
    """Open the pool; raise :class:`Unavailable` when the server cannot be reached, or its sequences are behind."""
    options.primary.numbers = options.primary.numbers or Numbers()

    async def connect(*_arguments: object, **_options: object) -> ServerSession:
        return await open_session(options)

    with connecting():
        pool = await asyncpg.create_pool(
            min_size=options.connections_min,
            max_size=options.connections_max,
            connect=connect,
            connection_class=ServerSession,
            max_inactive_connection_lifetime=300,
            reset=_keep,
        )
    return Database(ReadyPool(pool), options)
