"""The primary of a pool: its connections are replaced where their server takes no writes any more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from hookwire.jobs.mysql_errors import takes_no_writes

__all__ = ["TAKES_NO_WRITES", "following"]

TAKES_NO_WRITES: Final = "25006"


@asynccontextmanager
async def following(pool: Any) -> AsyncIterator[None]:
    """Let a pool open new connections after an error that shows that its server takes no writes any more.

    Otherwise the pool, of asyncpg or of aiomysql, would lend the old connections for as long as they are used.
    """
    try:
        yield
    except Exception as error:
        if getattr(error, "sqlstate", None) == TAKES_NO_WRITES:
            await pool.expire_connections()
        elif takes_no_writes(error):
            await pool.clear()
        raise
