"""Fresh migrated databases on one PostgreSQL server."""

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from db.migrate import migrate
from db.numbers import Numbers

_T = TypeVar("_T")
Ensure = Callable[[Numbers, Any, str | None], Coroutine[Any, Any, None]]

_copies: dict[str, tuple[Numbers, str | int] | None] = {}
"""The databases of now, with the first process that opened it, and the server on which it did."""


def trusting_copies(ensure: Ensure) -> Ensure:
    """Return `Numbers.ensure` that lets the first process into a new copy without a look: no number was drawn there.

    The look costs 60 ms of processor time, because no session has read the catalog before.
    """

    async def trusting(self: Numbers, session: Any, server: str | None) -> None:
        name, opened = await session.fetchval("SELECT current_database()"), (self, server or session.generation)
        if name in _copies:
            _copies[name] = _copies[name] or opened
        if _copies.get(name) != opened:
            await ensure(self, session, server)

    return trusting


class Databases:
    """Fresh databases on one server, cloned from a template that has all migrations.

    All are made over one connection, on a loop and a thread of its own: the test's loop must not notice, and a backend
    of PostgreSQL's costs as much as the clone.
    """

    def __init__(self, server_url: str, *, is_in_memory: bool = False) -> None:
        self._server_url = server_url
        # On a disk each copied file would be synced, and the log of a copy is one file.
        self._strategy = "FILE_COPY" if is_in_memory else "WAL_LOG"
        self._template = f"hookwire_template_{secrets.token_hex(4)}"
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._runner = asyncio.Runner()
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None

    def make_template(self) -> None:
        self._execute(f"CREATE DATABASE {self._template}")
        self._run(migrate(self._url(self._template)))

    def close(self) -> None:
        """Drop the template and leave the server."""
        self._execute(f"DROP DATABASE {self._template} WITH (FORCE)")
        self._run(self._disconnect())
        self._thread.submit(self._runner.close).result()
        self._thread.shutdown()

    @contextmanager
    def fresh(self) -> Iterator[str]:
        name = f"hookwire_test_{secrets.token_hex(4)}"
        self._execute(f"CREATE DATABASE {name} TEMPLATE {self._template} STRATEGY {self._strategy}")
        _copies[name] = None
        try:
            yield self._url(name)
        finally:
            del _copies[name]
            self._execute(f"DROP DATABASE {name} WITH (FORCE)")

    def _url(self, database: str) -> str:
        return urlunsplit(urlsplit(self._server_url)._replace(path=f"/{database}"))

    def _execute(self, statement: str) -> None:
        self._run(self._execute_connected(statement))

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return self._thread.submit(self._runner.run, work).result()

    async def _execute_connected(self, statement: str) -> None:
        if not await self._is_connected():
            self._connection = await asyncpg.connect(self._server_url, timeout=60, command_timeout=60)
        assert self._connection is not None
        await self._connection.execute(statement)

    async def _is_connected(self) -> bool:
        """A test may have restarted the server since."""
        if self._connection is None:
            return False
        try:
            await self._connection.execute("SELECT 1")
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            await self._disconnect()
        return self._connection is not None

    async def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
