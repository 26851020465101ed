"""Overview: the data of the status page, queried once for all readers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from app.verdict.counts import Counts, CurrentCounts
from app.verdict.current_verdict import CurrentVerdict
from app.verdict.facts import Row
from app.verdict.verdict import Verdict
from app.web.outage import Outage, classify_outage, probe_connection
from db.errors import Busy, OutcomeUnknown, Unavailable
from db.pool import Database
from runtime.cached_query import CachedQuery
from webhooks.condition import WAITING_MAX

__all__ = ["LATEST_MAX", "Overview", "Status"]

LATEST_MAX: Final = 1_000
"""The events of the last minute are counted among so many, so that the page costs the same with any traffic."""

_ROWS: Final = 10
_DEADLINE_SECONDS: Final = 5.0
_FRESH_SECONDS: Final = 1.0
_KEPT_TIMES: Final = 4.0  # so that all readers together use at most a fifth of one connection
_OLDER_FRESH_SECONDS: Final = 4.0  # less than the time between two refreshes of a page
_OLDER_KEPT_TIMES: Final = 400.0  # so that open pages which nobody touches use a four-hundredth of one connection
_OLDER_KEPT_SECONDS_MAX: Final = 60.0


@dataclass(frozen=True, slots=True)
class Status:
    """The data of the page; rows as the statements of ``console.sql`` and others return them.

    ``counts`` are exact, and may be older than the rest.
    """

    public_url: str
    profile: str
    incarnation: str
    verdict: Verdict
    totals: Row
    counts: Counts | None
    topics_lately: Sequence[Row]
    topics: Sequence[Row]
    subscription_counts: Sequence[Row]
    subscriptions: Sequence[Row]
    open_deliveries: Sequence[Row]
    dead_letters: Sequence[Row]
    holds: Sequence[Row]

    @property
    def now(self) -> datetime:
        """Return the database's clock, which wrote all other moments."""
        now: datetime = self.totals["at"]
        return now


class Overview:
    """One per process. Its answer is as old as a ``CachedQuery`` of ``fresh_seconds`` and ``kept_times`` allows."""

    def __init__(
        self,
        database: Database,
        current: CurrentVerdict,
        public_url: str,
        profile: str,
        incarnation: str,
        fresh_seconds: float = _FRESH_SECONDS,
        kept_times: float = _KEPT_TIMES,
        deadline_seconds: float = _DEADLINE_SECONDS,
    ) -> None:
        self._database = database
        self._current = current
        self._counts = CurrentCounts(database)
        self._public_url = public_url
        self._profile = profile
        self._incarnation = incarnation
        self._deadline_seconds = deadline_seconds
        self._outage = Outage.UNREACHABLE
        self._cached = CachedQuery(self._answer, fresh_seconds, kept_times)
        self._older = CachedQuery(
            lambda: self._answer(is_refresh=True), _OLDER_FRESH_SECONDS, _OLDER_KEPT_TIMES, _OLDER_KEPT_SECONDS_MAX
        )
        self._probe = CachedQuery(lambda: probe_connection(database.options), fresh_seconds, 0.0)

    async def get(self) -> Status | Outage:
        """Return the data, or the outage if the database does not answer in time."""
        return await self._cached.get() or self._outage

    async def get_older(self) -> Status | Outage:
        """Return data that may be some seconds old, for pages that refresh themselves; else as :meth:`get`."""
        return await self._older.get() or self._outage

    async def count(self, *, is_refresh: bool) -> None:
        """Count the large numbers again, if that is due; for when the page has been sent."""
        await self._counts.count(is_refresh=is_refresh)

    async def classify_outage(self, error: Exception) -> Outage:
        """Return why the database has not answered.

        All callers share a new connection to it: a slow server must not get one more for each check of a load balancer.
        """
        return await classify_outage(error, self._probe.get)

    async def _answer(self, *, is_refresh: bool = False) -> Status | None:
        try:
            async with asyncio.timeout(self._deadline_seconds):
                return await self._ask(is_refresh=is_refresh)
        except (Busy, OutcomeUnknown, Unavailable, TimeoutError) as error:
            self._outage = await self.classify_outage(error)
            return None

    async def _ask(self, *, is_refresh: bool) -> Status:
        verdict = await (self._current.get_older() if is_refresh else self._current.get())
        if verdict is None:
            raise self._current.error
        fetch = self._database.fetch
        subscriptions = await fetch("console.last_subscriptions", "default", _ROWS)
        shown = [*verdict.facts.subscriptions, *subscriptions]
        large = [row["id"] for row in shown if row["waiting"] >= WAITING_MAX][:_ROWS]
        totals = await self._database.fetchrow("console.totals")
        assert totals is not None, "a row of scalars"
        return Status(
            public_url=self._public_url,
            profile=self._profile,
            incarnation=self._incarnation,
            verdict=verdict,
            totals=totals,
            counts=await self._counts.get(large, is_refresh=is_refresh),
            topics_lately=await fetch("console.topics_lately", "default", _ROWS),
            topics=await fetch("topic.list", "default", "", _ROWS, None, None),
            subscription_counts=await fetch("subscription.count", "default"),
            subscriptions=subscriptions,
            open_deliveries=await fetch("console.open_deliveries", _ROWS // 2),
            dead_letters=await fetch("console.last_dead_letters", _ROWS),
            holds=await fetch("hold.list", _ROWS + 1),
        )
