"""A pool for the SDK's workers: the methods of aiomysql's pool that they use, on a database's connections."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from db.errors import DatabaseError, Refused
from db.mariadb.database import MariaDatabase

__all__ = ["MariaSdkPool"]


class MariaSdkPool:
    """Lends connections of a database. An error that another try may heal reaches the SDK as a ConnectionError."""

    def __init__(self, database: MariaDatabase) -> None:
        self._database = database

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[Any]:
        """Lend a connection. Raise ConnectionError for an operating error, and Refused for any other."""
        try:
            async with self._database.lend() as connection:
                yield connection
        except Refused:
            raise
        except DatabaseError as error:
            raise ConnectionError(str(error)) from error
