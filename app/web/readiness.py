"""Readiness: whether the database can store an event now."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from app.web.outage import Outage
from db.errors import DatabaseError
from db.pool import Database
from runtime.cached_query import CachedQuery
from runtime.trouble import Trouble

__all__ = ["Readiness"]

_QUESTION_SECONDS: Final = 2.0
_WRITE_SECONDS: Final = 5.0
_FRESH_SECONDS: Final = 5.0
_WRITABLE: Final = "ok"


class Readiness:
    """One per process. ``classify_outage`` says why the database failed, as ``Overview.classify_outage`` does.

    A server that is read-only or has a full disk still answers queries, so this also tests a write. It does so at most
    once in ``fresh_seconds``, and at the first check after :meth:`doubt`.
    """

    def __init__(
        self, database: Database, classify_outage: Callable[[Exception], Awaitable[Outage]],
        fresh_seconds: float = _FRESH_SECONDS,
    ) -> None:  # fmt: skip
        self._database = database
        self._classify_outage = classify_outage
        self._trouble = Trouble("database_cannot_write", "database_writes_again")
        self._write = CachedQuery(self._try_to_write, fresh_seconds, 0.0)

    def doubt(self) -> None:
        """Test a write at the next check: the database has just refused one."""
        self._write.expire()

    async def check(self) -> Outage | None:
        """Return why nothing can be stored now; None when storing works."""
        try:
            async with asyncio.timeout(_QUESTION_SECONDS):
                await self._database.fetchrow("event.installation")
        except (DatabaseError, TimeoutError) as error:
            return await self._classify_outage(error)
        written = await self._write.get()
        return None if written == _WRITABLE else Outage(str(written))

    async def _try_to_write(self) -> str:
        try:
            async with asyncio.timeout(_WRITE_SECONDS):
                await self._database.fetchval("check.writable")
        except (DatabaseError, TimeoutError) as error:
            self._trouble.tell(error)
            return await self._classify_outage(error)
        self._trouble.over()
        return _WRITABLE
