"""Fan-out: one event becomes one delivery per matching active subscription, in one statement (RR-10).

It is the send of the webhooks sink, and it is exactly once: the statement that inserts the deliveries is the one
that deletes the outbox row, and it names the term it was claimed under. A fan-out is cut by the rows it writes;
a single event with more subscribers than that is fanned out in slices behind a stored cursor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from db.pool import Database

__all__ = ["FanOut", "FannedOut", "TermOver"]

_AUDIENCE_SECONDS = 1.0


class TermOver(Exception):
    """Another term rules; nothing was written."""


class FannedOut(Protocol):
    """What the fan-out needs to know of an outbox record."""

    @property
    def id(self) -> int:
        """The event's number."""
        ...

    @property
    def shard(self) -> int:
        """Its outbox row's shard."""
        ...

    @property
    def tenant(self) -> str:
        """Whose it is."""
        ...

    @property
    def topic(self) -> str:
        """Its topic."""
        ...


R = TypeVar("R", bound=FannedOut)


class FanOut:
    """``deliveries_max`` bounds one transaction; ``on_due`` is told the subscriptions that have something to do."""

    def __init__(
        self, database: Database, on_due: Callable[[Sequence[int]], None], deliveries_max: int = 20_000
    ) -> None:
        self._database = database
        self._on_due = on_due
        self._deliveries_max = deliveries_max
        self._audience: dict[tuple[str, str], int] = {}
        self._audience_until = 0.0

    async def send(self, group: int, term: int, records: Sequence[R]) -> Sequence[R]:
        """Fan out records, lowest id first; returns those that are done, perhaps not all.

        Raises :class:`TermOver`, ``db.errors.DatabaseError``.
        """
        whole = await self._affordable(records)
        if not whole:
            await self._in_slices(group, term, records[0])
            return records[:1]
        row = await self._database.fetchrow(
            "delivery.fan_out", group, term, [r.shard for r in whole], [r.id for r in whole]
        )
        if row is None or not row["leads"]:
            raise TermOver
        self._on_due(row["subscriptions"])
        return whole

    async def _affordable(self, records: Sequence[R]) -> Sequence[R]:
        await self._count({(record.tenant, record.topic) for record in records})
        total = 0
        for count, record in enumerate(records):
            total += self._audience[record.tenant, record.topic]
            if total > self._deliveries_max:
                return records[:count]
        return records

    async def _count(self, topics: set[tuple[str, str]]) -> None:
        """Learn how many subscriptions each topic has; a second old is good enough, it only decides where to cut."""
        now = time.monotonic()
        if now >= self._audience_until:
            self._audience.clear()
            self._audience_until = now + _AUDIENCE_SECONDS
        unknown = [topic for topic in topics if topic not in self._audience]
        if unknown:
            rows = await self._database.fetch("delivery.audience", [t for t, _ in unknown], [n for _, n in unknown])
            self._audience.update(((row["tenant"], row["topic"]), row["audience"]) for row in rows)

    async def _in_slices(self, group: int, term: int, record: FannedOut) -> None:
        more = True
        while more:
            row = await self._database.fetchrow(
                "delivery.fan_out_slice", group, term, record.shard, record.id, self._deliveries_max
            )
            if row is None or not row["leads"]:
                raise TermOver
            self._on_due(row["subscriptions"])
            more = row["more"]
