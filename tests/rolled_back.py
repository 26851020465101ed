"""One database and one session for the tests of a file, each of which a rollback undoes.

To make a database and to read its catalog in a new session takes most of the time of a test of one statement. A test
that takes ``rolled_back`` has the mark ``ON_THE_LOOP_OF_THE_FILE``. It needs no second session and no commit, and an
error of the database is the last thing that it sees.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest
import pytest_asyncio

from tests.databases import Databases

__all__ = ["ON_THE_LOOP_OF_THE_FILE", "rolled_back", "session_of_file", "session_of_file15", "session_of_file18"]

ON_THE_LOOP_OF_THE_FILE = pytest.mark.asyncio(loop_scope="module")


@asynccontextmanager
async def _session(databases: Databases) -> AsyncIterator[asyncpg.Connection]:
    """A session in a fresh database, with the settings of the pool."""
    with databases.fresh() as url:
        connection = await asyncpg.connect(url)
        await connection.execute("SET enable_seqscan = off; SET jit = off")
        yield connection
        await connection.close(timeout=60)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session_of_file18(databases18: Databases) -> AsyncIterator[asyncpg.Connection]:
    """The session of this file on PostgreSQL 18."""
    async with _session(databases18) as session:
        yield session


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session_of_file15(databases15: Databases) -> AsyncIterator[asyncpg.Connection]:
    """As `session_of_file18`, on the system's PostgreSQL."""
    async with _session(databases15) as session:
        yield session


@pytest.fixture(params=["session_of_file18", "session_of_file15"], ids=["postgres18", "postgres15"])
def session_of_file(request: pytest.FixtureRequest) -> asyncpg.Connection:
    """The session of this file, once on each PostgreSQL."""
    return request.getfixturevalue(request.param)


@pytest_asyncio.fixture(loop_scope="module")
async def rolled_back(session_of_file: asyncpg.Connection) -> AsyncIterator[asyncpg.Connection]:
    """The session, in a transaction that is rolled back after the test."""
    transaction = session_of_file.transaction()
    await transaction.start()
    yield session_of_file
    await transaction.rollback()
