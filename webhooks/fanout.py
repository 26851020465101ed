"""Fan-out: one event becomes one delivery per matching active subscription, in one statement.

It is the send of the webhooks sink, and it happens exactly once. The statement that inserts the deliveries also deletes
the outbox row, and it names the term of the claim. A fan-out is limited by the rows that it writes, the patterns that
it compares and the contents that it parses for filters. A single event with more subscribers is fanned out in slices
behind a stored cursor.

The cost of a filter is known before it runs: the values of the event times the conditions of the filter. Above a bound
the subscription gets a dead letter at once. An event with many values is fanned out alone, in slices.

A slow database, and patterns of subscribers, can still make a statement expensive. It has a limit of a few seconds, and
is then rolled back::

    batch --overdue--> half of it ... --overdue--> one event: slices of few subscriptions, one with each batch of others
                                                       |  overdue: half as many; in time: twice as many
                                                       '--of one, again and again--> a dead letter for that subscription

Meanwhile all other events are fanned out, except later events of the same key.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import structlog

from db.errors import Overdue
from db.pool import Database, Row

__all__ = ["FanOut", "FannedOut", "TermOver"]

_log = structlog.get_logger(__name__)
_AUDIENCE_SECONDS = 1.0
_EVENTS_MAX = 1_024
_FILTERED_BYTES_MAX = 4 * 1024 * 1024  # of payload that is parsed in one statement; a larger event is alone in it
_COMPARISONS_MAX = 300_000  # of a topic with a pattern, in one statement: well below a second
_VALUES_MAX = 7_812  # of an event, for a filter of 64 negated conditions; more are counted (migration 0028)
_SLICE = 16  # first slice of an expensive event, in subscriptions
_TRIES = 3  # tries of a single subscription's filter: one time-out may come from a slow database


class TermOver(Exception):
    """Another term is in force; nothing was written."""


class FannedOut(Protocol):
    """The part of an outbox record that the fan-out needs."""

    @property
    def id(self) -> int:
        """Return the event's number."""
        ...

    @property
    def shard(self) -> int:
        """Return the shard of its outbox row."""
        ...

    @property
    def tenant(self) -> str:
        """Return its tenant."""
        ...

    @property
    def topic(self) -> str:
        """Return its topic."""
        ...

    @property
    def key(self) -> str | None:
        """Return its key: later events of the key must not overtake it."""
        ...


R = TypeVar("R", bound=FannedOut)


class _Audience(NamedTuple):
    """The audience of a topic: its subscriptions, whether some have a filter, and the number of patterns to compare."""

    subscriptions: int
    is_filtered: bool
    patterns: int


@dataclass(slots=True)
class _Dear:
    """An event that is too expensive for one statement: its next slice, and how often a slice was overdue."""

    slice: int = _SLICE
    overdue: int = 0


class FanOut:
    """The fan-out of one process. ``deliveries_max`` bounds one transaction; ``seconds_max`` a statement that judges
    filters or patterns; ``on_due`` gets the subscriptions with new deliveries.
    """

    def __init__(
        self,
        database: Database,
        on_due: Callable[[Sequence[int]], None],
        deliveries_max: int = 20_000,
        seconds_max: float = 5.0,
    ) -> None:
        self._database = database
        self._on_due = on_due
        self._deliveries_max = deliveries_max
        self._seconds_max = seconds_max
        self._audience: dict[tuple[str, str], _Audience] = {}
        self._audience_until = 0.0
        self._patterns = _COMPARISONS_MAX // _SLICE
        self._events_max = _EVENTS_MAX
        self._suspects: set[int] = set()
        self._dear: dict[int, _Dear] = {}

    async def send(self, group: int, term: int, records: Sequence[R]) -> Sequence[R]:
        """Fan out records, lowest id first; return the finished ones, which may be some or none.

        Raises :class:`TermOver`, ``db.errors.DatabaseError``.
        """
        self._dear = {record.id: self._dear[record.id] for record in records if record.id in self._dear}
        if not self._dear:
            return await self._send_lowest(group, term, records)
        others = _not_behind(self._dear, records)
        done = await self._send_lowest(group, term, others) if others else ()
        dear = next(record for record in records if record.id in self._dear)
        before = {record.id for record in others if record.id < dear.id and _lane(record) == _lane(dear)}
        if before <= {record.id for record in done} and await self._next_slice(group, term, dear):
            return [*done, dear]
        return done

    async def _send_lowest(self, group: int, term: int, records: Sequence[R]) -> Sequence[R]:
        """Fan out as many as one statement may take.

        Double the number when the expensive event of a batch was found.
        """
        whole = await self._affordable(records[: self._events_max])
        if not whole and records[0].id in self._dear:
            return ()
        if not whole:
            return records[:1] if await self._in_slices(group, term, records[0]) else ()
        arguments = (group, term, [r.shard for r in whole], [r.id for r in whole])
        try:
            self._made(await self._run("delivery.fan_out", *arguments, bounded=self._may_be_dear(whole)))
        except Overdue:
            self._note_overdue(whole)
            return ()
        self._suspects -= {record.id for record in whole}
        if not any(record.id in self._suspects for record in records):
            self._events_max = min(self._events_max * 2, _EVENTS_MAX)
        return whole

    def _note_overdue(self, records: Sequence[FannedOut]) -> None:
        self._events_max = max(len(records) // 2, 1)
        self._suspects = {record.id for record in records}
        if len(records) == 1:
            self._dear[records[0].id] = _Dear()
        _log.warning("fan_out_overdue", events=len(records), first=records[0].id, seconds_max=self._seconds_max)

    async def _run(self, name: str, *arguments: object, bounded: bool) -> Row | None:
        """Run a statement of the fan-out. Statements that subscribers can make expensive have less time than others."""
        if not bounded:
            return await self._database.fetchrow(name, *arguments)
        async with self._database.transaction() as transaction:
            await transaction.fetchval("plan.for_seconds", self._seconds_max)
            return await transaction.fetchrow(name, *arguments)

    def _made(self, row: Row | None) -> None:
        if row is None or not row["leads"]:
            raise TermOver
        self._on_due(row["subscriptions"])

    # --- cuts

    async def _affordable(self, records: Sequence[R]) -> Sequence[R]:
        """Return the lowest records that one statement may take; none where the first has too many subscribers."""
        await self._count({(record.tenant, record.topic) for record in records})
        sizes = await self._sizes(records)
        records = await self._with_cheap_filters(_light(records, sizes), sizes)
        topics: set[tuple[str, str]] = set()
        total = 0
        for count, record in enumerate(records):
            topic = record.tenant, record.topic
            topics.add(topic)
            total += self._audience[topic].subscriptions
            if total > self._deliveries_max or (count and len(topics) * self._patterns > _COMPARISONS_MAX):
                return records[:count]
        return records

    async def _with_cheap_filters(self, records: Sequence[R], sizes: Mapping[int, int]) -> Sequence[R]:
        """Return the records without those that have many values. Slices judge the cost of each filter for these."""
        large = [record.id for record in records if sizes.get(record.id, 0) > _VALUES_MAX]
        if not large:
            return records
        found = {row["id"] for row in await self._database.fetch("delivery.many_values", large)}
        self._dear |= {one: _Dear() for one in found}
        return _not_behind(found, records)

    def _may_be_dear(self, records: Sequence[FannedOut]) -> bool:
        audiences = [self._audience[record.tenant, record.topic] for record in records]
        return self._events_max < _EVENTS_MAX or any(found.is_filtered or found.patterns for found in audiences)

    async def _count(self, topics: set[tuple[str, str]]) -> None:
        """Read the audience of each topic.

        A value a second old is good enough, because it only decides where to cut.
        """
        now = time.monotonic()
        if now >= self._audience_until:
            self._audience.clear()
            self._audience_until = now + _AUDIENCE_SECONDS
        unknown = [topic for topic in topics if topic not in self._audience]
        while unknown:
            some = unknown[: max(_COMPARISONS_MAX // max(self._patterns, 1), 1)]
            unknown = unknown[len(some) :]
            rows = await self._database.fetch("delivery.audience", [t for t, _ in some], [n for _, n in some])
            for row in rows:
                found = _Audience(row["audience"], row["is_filtered"], row["patterns"])
                self._audience[row["tenant"], row["topic"]] = found
            self._patterns = max(row["patterns"] for row in rows)

    async def _sizes(self, records: Sequence[FannedOut]) -> dict[int, int]:
        """Return the sizes of the events that some filter reads."""
        filtered = [record.id for record in records if self._audience[record.tenant, record.topic].is_filtered]
        if not filtered:
            return {}
        return {row["id"]: row["bytes"] for row in await self._database.fetch("delivery.sizes", filtered)}

    # --- slices

    async def _in_slices(self, group: int, term: int, record: FannedOut) -> bool:
        """Fan out an event with many subscribers to the end; return False where that is too expensive."""
        more = True
        while more:
            try:
                more = await self._slice(group, term, record, self._deliveries_max)
            except Overdue:
                self._note_overdue([record])
                return False
        return True

    async def _next_slice(self, group: int, term: int, record: FannedOut) -> bool:
        """Fan out one slice of an expensive event; return whether it was the last."""
        dear = self._dear[record.id]
        try:
            more = await self._slice(group, term, record, dear.slice, is_given_up=dear.overdue == _TRIES)
        except Overdue:
            dear.overdue = min(dear.overdue + 1, _TRIES) if dear.slice == 1 else 0
            dear.slice = max(dear.slice // 2, 1)
            return False
        if dear.overdue == _TRIES:
            _log.warning("fan_out_given_up", number=record.id, topic=record.topic)
        else:
            dear.slice = min(dear.slice * 2, self._deliveries_max)
        dear.overdue = 0
        return not more

    async def _slice(self, group: int, term: int, record: FannedOut, most: int, *, is_given_up: bool = False) -> bool:
        """Fan out to the event's next subscriptions; return whether there are more. A delivery given up skips the
        filter.
        """
        arguments = (group, term, record.shard, record.id, most, is_given_up)
        found = self._audience.get((record.tenant, record.topic))
        bounded = record.id in self._dear or (found is not None and found.is_filtered)
        row = await self._run("delivery.fan_out_slice", *arguments, bounded=bounded)
        self._made(row)
        return bool(row and row["more"])


def _lane(record: FannedOut) -> object:
    """Return the order key of a record: a key, for several topics in some layouts. An event without a key is alone."""
    return record.id if record.key is None else (record.tenant, record.key)


def _light(records: Sequence[R], sizes: Mapping[int, int]) -> Sequence[R]:
    """Return the records whose contents one statement may parse, and no later record of a key that is left out."""
    parsed, heavy = 0, set()
    for record in records:
        size = sizes.get(record.id, 0)
        if size and parsed and parsed + size > _FILTERED_BYTES_MAX:
            heavy.add(record.id)
        else:
            parsed += size
    return _not_behind(heavy, records) if heavy else records


def _not_behind(held: Collection[int], records: Sequence[R]) -> Sequence[R]:
    """Return the records, in order, that are neither held nor behind a held record of their lane."""
    lanes = set()
    passing = []
    for record in records:
        if record.id in held or _lane(record) in lanes:
            lanes.add(_lane(record))
        else:
            passing.append(record)
    return passing
