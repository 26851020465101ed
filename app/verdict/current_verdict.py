"""CurrentVerdict: the verdict (:mod:`app.verdict`), asked once for all readers of a process."""

from __future__ import annotations

import asyncio
from typing import Final

from app.verdict.facts import read_facts
from app.verdict.judge import judge
from app.verdict.verdict import Verdict
from db.errors import DatabaseError
from db.pool import Database
from runtime.cached_query import CachedQuery

__all__ = ["CurrentVerdict"]

_DEADLINE_SECONDS: Final = 5.0
_FRESH_SECONDS: Final = 1.0
_KEPT_TIMES: Final = 4.0  # so that all readers together use at most a fifth of one connection
_OLDER_FRESH_SECONDS: Final = 5.0
_OLDER_KEPT_TIMES: Final = 20.0


class CurrentVerdict:
    """One per process. ``error`` is the reason of the last verdict that could not be made.

    People get a fresh one. Machines that ask again and again, for ``/readyz`` and ``/metrics``, take an older one,
    which costs less.
    """

    def __init__(
        self, database: Database, fresh_seconds: float = _FRESH_SECONDS, kept_times: float = _KEPT_TIMES,
        older_fresh_seconds: float = _OLDER_FRESH_SECONDS, older_kept_times: float = _OLDER_KEPT_TIMES,
    ) -> None:  # fmt: skip
        self.error: Exception = TimeoutError()
        self._database = database
        self._cached = CachedQuery(self._ask, fresh_seconds, kept_times)
        self._older = CachedQuery(self._cached.get, older_fresh_seconds, older_kept_times)

    async def get(self) -> Verdict | None:
        """Return the verdict; None if the database does not answer in time."""
        return await self._cached.get()

    async def get_older(self) -> Verdict | None:
        """Return a verdict that may be some seconds old; None as for :meth:`get`."""
        return await self._older.get()

    def expire(self) -> None:
        """Make a new verdict for the next reader, also for one that would take an older one."""
        self._cached.expire()
        self._older.expire()

    async def _ask(self) -> Verdict | None:
        try:
            async with asyncio.timeout(_DEADLINE_SECONDS):
                return judge(await read_facts(self._database))
        except (DatabaseError, TimeoutError) as error:
            self.error = error
            return None
