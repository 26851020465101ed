"""Counts: exact numbers for people, up to 100,000. They cost more than those of the verdict, so they are older.

A count reads as many entries of an index as it counts, some 10 ms for 100,000. So each process counts at most one
hundredth of the time, and its page says how old the numbers are. Where a count takes long, no page waits for it: the
page has the last numbers, and it is counted again behind its answer.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from db.errors import DatabaseError
from db.pool import Database
from runtime.cached_query import CachedQuery

__all__ = ["EXACT_MAX", "Counts", "CurrentCounts"]

EXACT_MAX: Final = 100_000
"""A larger number is told as more than this one."""

_SECONDS: Final = 2.0
_PATIENCE_SECONDS: Final = 0.03
_FRESH_SECONDS: Final = 5.0
_KEPT_TIMES: Final = 100.0
_SELDOM_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of one moment ``at``. One above ``EXACT_MAX`` stands for any larger one.

    ``backlog`` and ``held`` are records by sink. Dead letters are those of the list: of subscriptions and of sinks,
    without those that ended with their subscription or their contents. ``waiting`` has open deliveries by the number of
    the subscription.
    """

    at: datetime
    open_deliveries: int
    dead_letters: int
    topics: int
    backlog: Mapping[str, int]
    held: Mapping[str, int]
    waiting: Mapping[int, int]


class CurrentCounts:
    """One per process; all readers share one answer. Without an answer in time there is none.

    A page waits ``patience_seconds`` for it, and not at all where the last count took longer.
    """

    def __init__(
        self, database: Database, fresh_seconds: float = _FRESH_SECONDS, kept_times: float = _KEPT_TIMES,
        patience_seconds: float = _PATIENCE_SECONDS,
    ) -> None:  # fmt: skip
        self._database = database
        self._patience_seconds = patience_seconds
        self._took_seconds = 0.0
        self._subscriptions: Sequence[int] = ()
        self._counted: Counts | None = None
        self._counted_until = 0.0
        self._cached = CachedQuery(self._count, fresh_seconds, kept_times)

    async def get(self, subscriptions: Sequence[int] = (), *, is_refresh: bool = False) -> Counts | None:
        """Return the numbers, or the last ones; None if they could not be counted in time.

        ``subscriptions``: whose open deliveries the next count shall have. ``is_refresh``: as for :meth:`count`.
        """
        self._subscriptions = subscriptions
        if self._took_seconds <= self._patience_seconds:
            try:
                async with asyncio.timeout(self._patience_seconds):
                    await self.count(is_refresh=is_refresh)
            except TimeoutError:
                self._took_seconds = math.inf
        return self._counted

    async def count(self, *, is_refresh: bool = False) -> None:
        """Count again, if that is due. ``is_refresh``: nobody has just opened a page, so numbers of the last minutes
        will do.
        """
        if is_refresh and time.monotonic() < self._counted_until:
            return
        self._counted = await self._cached.get()
        self._counted_until = time.monotonic() + _SELDOM_SECONDS

    async def _count(self) -> Counts | None:
        most, database, began = EXACT_MAX + 1, self._database, time.monotonic()
        try:
            async with asyncio.timeout(_SECONDS):
                at = await database.fetchval("diagnosis.now")
                sinks = await database.fetch("console.sinks", most)
                found = Counts(
                    at=at,
                    open_deliveries=await database.fetchval("console.open", most),
                    dead_letters=await database.fetchval("console.dead", most),
                    topics=await database.fetchval("console.topics", "default", most),
                    backlog={row["sink"]: row["backlog"] for row in sinks},
                    held={row["sink"]: row["held"] for row in sinks},
                    waiting={one: await database.fetchval("console.waiting", one, most) for one in self._subscriptions},
                )
        except (DatabaseError, TimeoutError):
            return None
        self._took_seconds = time.monotonic() - began
        return found
