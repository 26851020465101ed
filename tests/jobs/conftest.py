"""A database of the test's own on each PostgreSQL, and what the tests of queues and tasks do with it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import asyncpg
import pytest

Connect = Callable[[], Any]


@pytest.fixture
async def connect(database_url_both: str) -> AsyncIterator[Connect]:
    """Opens sessions, closed after the test."""
    async with AsyncExitStack() as stack:

        async def opened() -> asyncpg.Connection:
            connection = await asyncpg.connect(database_url_both)
            stack.push_async_callback(connection.close, timeout=60)
            await connection.execute("SET enable_seqscan = off; SET jit = off")  # as the pool does
            return connection

        yield opened


@pytest.fixture
async def sql(connect: Connect) -> asyncpg.Connection:
    return await connect()


@pytest.fixture
async def other(connect: Connect) -> asyncpg.Connection:
    """A second session."""
    return await connect()
