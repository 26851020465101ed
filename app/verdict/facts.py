"""Facts: what the database knows about everything that can wait, fail or stop. Read by ``verdict.sql``.

Every statement looks names up in an index, and every count ends at a bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from db.errors import DatabaseError
from db.pool import Database

__all__ = [
    "COUNTED_MAX",
    "DEAD_LETTERS_MAX",
    "TRIED_MAX",
    "WORK_KINDS",
    "WORST_MAX",
    "Facts",
    "Row",
    "WorkKind",
    "read_facts",
]

WorkKind = Literal["queue", "task", "job", "service"]

COUNTED_MAX: Final = 5_000
"""Counts of sinks, holds, refused records and all deliveries end at this number."""
TRIED_MAX: Final = COUNTED_MAX // 5
"""Among as many pieces of work of a kind that wait for later, those that have failed are counted. The statements divide
alike.
"""
DEAD_LETTERS_MAX: Final = 1_000
"""As many dead letters of the last day are counted, the latest first."""
WORST_MAX: Final = 100
"""As many subscriptions, sources with refusals, queues, kinds, services and lakes are told, the worst first, and
the newest backfills.
"""
WORK_KINDS: Final[Mapping[WorkKind, str]] = {
    "queue": "verdict.queues", "task": "verdict.tasks", "job": "verdict.jobs", "service": "verdict.services",
}  # fmt: skip
"""The kinds of work, each with its statement."""

Row = Mapping[str, Any]

_NAMES_MAX: Final = 500
_TIMED_MINUTES: Final = 10
_BATCH: Final = 10  # each of these subscriptions has its deliveries counted
_STATEMENT_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Facts:
    """Rows as the statements return them. ``unknown`` names what could not be read in time; its rows are absent.

    ``subscriptions`` are those that fail, are paused or disabled, and those whose deliveries have waited longest.
    ``attempt_times`` has the histograms of their last minutes.
    """

    at: datetime
    open_deliveries: int
    oldest_delivery_at: datetime | None
    sinks: Sequence[Row] = ()
    processes: Sequence[Row] = ()
    holds: Sequence[Row] = ()
    subscription_counts: Sequence[Row] = ()
    subscriptions: Sequence[Row] = ()
    attempt_times: Sequence[Row] = ()
    dead_letters: Sequence[Row] = ()
    refusals: Sequence[Row] = ()
    publishers: Sequence[Row] = ()
    work: Mapping[WorkKind, Sequence[Row]] = field(default_factory=dict)
    lakes: Sequence[Row] = ()
    backfills: Sequence[Row] = ()
    unknown: Sequence[str] = ()


async def read_facts(database: Database) -> Facts:
    """Read all facts, one statement after the other. Raise ``DatabaseError`` or ``TimeoutError`` if the first fails.

    A statement that fails later is named in ``unknown``. Counting may take too long where millions of dead rows are
    kept, and that is no outage.
    """
    async with asyncio.timeout(_STATEMENT_SECONDS):
        totals = await database.fetchrow("verdict.totals", COUNTED_MAX)
    assert totals is not None, "a row of scalars"
    read = _Reading(database)
    troubled = await read.rows("failing subscriptions", "subscription.troubled", "default", WORST_MAX)
    behind = await read.rows("late subscriptions", "verdict.behind", _NAMES_MAX, WORST_MAX)
    worst = [*dict.fromkeys(row["id"] for row in (*troubled, *behind))]
    return Facts(
        at=totals["at"],
        open_deliveries=totals["open_deliveries"],
        oldest_delivery_at=totals["oldest_delivery_at"],
        processes=await read.rows("processes", "verdict.processes"),
        holds=await read.rows("holds", "verdict.holds", COUNTED_MAX),
        sinks=await read.rows("sinks", "outbox.oldest", COUNTED_MAX),
        subscription_counts=await read.rows("subscriptions", "verdict.subscription_counts", _NAMES_MAX),
        subscriptions=await read.subscriptions(worst),
        attempt_times=await read.rows("times of attempts", "rollup.recent", worst, _TIMED_MINUTES),
        dead_letters=await read.rows("dead letters", "verdict.dead_letters", DEAD_LETTERS_MAX),
        refusals=await read.rows("refused records", "verdict.refusals", _NAMES_MAX, WORST_MAX, COUNTED_MAX),
        publishers=await read.rows("other publishers", "verdict.publishers", WORST_MAX),
        work={
            kind: await read.rows(f"{kind}s", statement, _NAMES_MAX, WORST_MAX, COUNTED_MAX)
            for kind, statement in WORK_KINDS.items()
        },
        lakes=await read.rows("lakes", "lake_mark.audits", WORST_MAX),
        backfills=await read.rows("backfills", "verdict.backfills", WORST_MAX),
        unknown=tuple(read.unknown),
    )


class _Reading:
    """Runs statements within their time, and notes which ones failed."""

    def __init__(self, database: Database) -> None:
        self.unknown: list[str] = []
        self._database = database

    async def subscriptions(self, ids: Sequence[int]) -> Sequence[Row]:
        """Read in batches, so that no statement takes long."""
        found: list[Row] = []
        for first in range(0, len(ids), _BATCH):
            found += await self.rows("subscriptions", "verdict.receivers", ids[first : first + _BATCH])
        return found

    async def rows(self, what: str, statement: str, *arguments: int | str | Sequence[int]) -> Sequence[Row]:
        try:
            async with asyncio.timeout(_STATEMENT_SECONDS):
                found: Sequence[Row] = await self._database.fetch(statement, *arguments)
        except (DatabaseError, TimeoutError):
            if what not in self.unknown:
                self.unknown.append(what)
            return ()
        return found
