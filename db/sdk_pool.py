"""A pool for the SDK's workers: the methods of asyncpg's pool that they use, on a database's connections.

So their sessions follow the primary as all others do. The SDK knows the errors of asyncpg, not those
of ``db``. Each error that another try may heal reaches it as a ConnectionError.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from db.bound import translated
from db.errors import DatabaseError, Refused
from db.pool import Database

__all__ = ["SdkPool"]


class SdkPool:
    """Lends connections of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get_max_size(self) -> int:
        """Return the largest number of connections."""
        return self._database.options.connections_max

    async def expire_connections(self) -> None:
        """Return: the database itself ends sessions whose server takes no writes."""

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[Any]:
        """Lend a connection. Raise ConnectionError for an operating error, and Refused with its SQLSTATE."""
        try:
            async with self._database.lend() as connection:
                with translated(sent=True):
                    yield connection
        except Refused:
            raise
        except DatabaseError as error:
            raise ConnectionError(str(error)) from error
