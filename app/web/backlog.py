"""Backlog: the records that wait for each sink and since when, for ``/metrics`` (RO-11, RU-11).

Reading the metrics queries the database. So each process shows the backlog of a relay that stands still. Counters
cannot show it, because they only count successes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from prometheus_client import CollectorRegistry, Gauge

from app.web.cached_query import CachedQuery
from db.errors import DatabaseError
from db.pool import Database, Row
from webhooks.condition import subscription_condition

__all__ = ["Backlog"]

_TROUBLED_MAX = 1_000
_TOLD_MAX = 100  # a row of metrics for each
_COUNTED_MAX = 100_000  # for each sink; the age of the oldest record is always shown
_FRESH_SECONDS = 5.0
_KEPT_TIMES = 20.0
_DEADLINE_SECONDS = 2.0


class Backlog:
    """Gauges of one process's registry, as old as a ``CachedQuery`` of ``fresh_seconds`` and ``kept_times`` allows."""

    def __init__(
        self,
        database: Database,
        registry: CollectorRegistry,
        fresh_seconds: float = _FRESH_SECONDS,
        kept_times: float = _KEPT_TIMES,
    ) -> None:
        self._database = database
        self._cached = CachedQuery(self._ask, fresh_seconds, kept_times)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"hookwire_{name}", text, labels, registry=registry)

        counted = f"counted up to {_COUNTED_MAX:,}"
        self._answers = gauge("database_up", "Whether the database answered when these metrics were read.")
        self._waiting = gauge("outbox_waiting", f"Records that wait for a sink, {counted}.", "sink")
        self._oldest = gauge("outbox_oldest_seconds", "For how long the oldest record has waited.", "sink")
        self._led = gauge("outbox_led", "Whether a relay leads a group of the sink.", "sink")
        self._held = gauge("outbox_held", f"Records that wait behind a hold, {counted}.", "sink")
        self._holds = gauge("holds", "Keys, topics and single records that are held.", "sink", "scope")
        self._stalled = gauge("hold_oldest_seconds", "For how long the oldest hold has existed.", "sink")
        self._subscriptions = gauge(
            "subscriptions",
            f"Subscriptions that fail, are paused or disabled, counted up to {_TROUBLED_MAX:,}.",
            "health",
        )
        self._troubled = gauge(
            "subscription_troubled",
            f"1 for each of the {_TOLD_MAX} that fail longest, with the blocker and the last failure.",
            "subscription", "health", "blocked_by", "outcome", "status",
        )  # fmt: skip
        self._failing = gauge(
            "subscription_failing_seconds",
            "For how long each of these subscriptions has failed without a success.",
            "subscription",
        )
        self._of_sinks = (self._waiting, self._oldest, self._led, self._held, self._holds, self._stalled)

    async def refresh(self) -> None:
        """Query the database, unless the values are fresh. Values without an answer in time are absent."""
        await self._cached.get()

    async def _ask(self) -> Literal[True] | None:
        """Query holds first, because there are few: counting waiting records may take too long, which is no outage."""
        holds = await self._answer("hold.active")
        sinks = await self._answer("outbox.oldest", _COUNTED_MAX) if holds is not None else None
        self._answers.set(holds is not None)
        self._forget()
        self._tell_holds(holds or ())
        self._tell_sinks(sinks or ())
        if holds is not None:
            self._tell_troubled(await self._answer("subscription.troubled", "default", _TROUBLED_MAX) or ())
        return True if holds is not None else None

    async def _answer(self, statement: str, *arguments: int | str) -> Sequence[Row] | None:
        try:
            async with asyncio.timeout(_DEADLINE_SECONDS):
                return await self._database.fetch(statement, *arguments)
        except (DatabaseError, TimeoutError):
            return None

    def _forget(self) -> None:
        for gauge in (*self._of_sinks, self._subscriptions, self._troubled, self._failing):
            gauge.clear()

    def _tell_sinks(self, sinks: Sequence[Row]) -> None:
        for row in sinks:
            if not (row["configured"] or row["backlog"] or row["held"]):
                continue  # no process has this sink, so a missing leader is normal
            name = row["sink"]
            self._waiting.labels(name).set(row["backlog"])
            self._oldest.labels(name).set(_age_seconds(row["oldest_at"]))
            self._led.labels(name).set(bool(row["led"]))
            self._held.labels(name).set(row["held"])

    def _tell_holds(self, holds: Sequence[Row]) -> None:
        oldest: dict[str, float] = {}
        for row in holds:
            self._holds.labels(row["sink"], row["scope"]).set(row["holds"])
            oldest[row["sink"]] = max(oldest.get(row["sink"], 0.0), _age_seconds(row["since"]))
        for name, seconds in oldest.items():
            self._stalled.labels(name).set(seconds)

    def _tell_troubled(self, rows: Sequence[Row]) -> None:
        """Set the gauges of these subscriptions, by the rule of the status page and the API (FT-01)."""
        for row in rows:
            self._subscriptions.labels(subscription_condition(row).state).inc()
        for row in rows[:_TOLD_MAX]:
            found, name = subscription_condition(row), row["public_id"]
            outcome, status = row["failure_outcome"] or "", str(row["failure_status"] or "")
            self._troubled.labels(name, found.state, found.blocked_by or "", outcome, status).set(1)
            if row["failing_since"] is not None:
                self._failing.labels(name).set(_age_seconds(row["failing_since"]))


def _age_seconds(since: datetime | None) -> float:
    """Return the age; 0 without a time, and where the two clocks differ."""
    return max(0.0, (datetime.now(UTC) - since).total_seconds()) if since is not None else 0.0
