"""An append-only outbox table of others: its rows are neither deleted nor marked, and an offset tells what was sent.

::

    highest offset seen --> lag_seconds later, and no transaction of before is open --> rows up to it may be sent
                                                                                             |
    offset of the table <-- moved to the last row before the first that was not confirmed <--+

A row that commits behind the offset is never sent, so the start warns. In PostgreSQL the snapshot tells whether a
transaction is open that may still commit such a row. There the lag covers only the moment between drawing an offset and
writing the row. MariaDB and MySQL tell this to nobody but administrators, so there the lag is all.

A refused row holds all rows behind it, because the offset cannot pass it. It is tried alone, after 2 to 300 seconds.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import structlog

from relay.election.port import LeadershipLost
from relay.goharvest.outbox_table import PROBE_SECONDS_FIRST, PROBE_SECONDS_MAX, Due
from relay.goharvest.unmarked_table import UnmarkedTable
from relay.record import Record
from relay.sink import Refusal, Term

__all__ = ["Horizon", "OffsetStore", "OffsetTable"]

_log = structlog.get_logger(__name__)
_SIGHTS_IN_LAG: Final = 20
"""How many sights of the highest offset are kept at a time: one for each part of the lag."""


class Horizon(NamedTuple):
    """The highest offset that is committed; None: the table is empty. Transactions that began before it was seen have
    ids below ``next_id``, and those that run have ``oldest_id`` or more. Both are 0 where nobody is told.
    """

    place: int | None
    next_id: int
    oldest_id: int


class OffsetStore(Protocol):
    """The table and its offset in a database. Each method raises DatabaseError."""

    async def look_at(self) -> None:
        """Check expressions and rights; raise ``TableRefused``."""
        ...

    async def horizon(self) -> Horizon:
        """Return how far the table reaches."""
        ...

    async def behind(self, term: Term, until: int, limit: int) -> Sequence[Mapping[str, Any]]:
        """Return the first rows behind the offset and up to ``until``, each with its ``place``."""
        ...

    async def advance(self, term: Term, place: int) -> bool:
        """Set the offset forward; return whether the term still holds."""
        ...


class _Sight(NamedTuple):
    place: int
    next_id: int
    at: float


class OffsetTable(UnmarkedTable):
    """One table, as its leader sees it: an `OutboxTable`."""

    def __init__(self, name: str, store: OffsetStore, lag_seconds: float) -> None:
        super().__init__(name)
        self._store = store
        self._lag_seconds = lag_seconds
        self._sights: deque[_Sight] = deque()
        self._until: int | None = None
        self._batch: list[tuple[int, int]] = []
        self._confirmed: set[int] = set()
        self._held_seconds = 0.0
        self._held_until = 0.0
        self._held_at = 0

    async def look_at(self) -> None:
        """Check the table, and warn of what it cannot promise. Raise ``TableRefused``, DatabaseError."""
        await self._store.look_at()
        _log.warning(
            "outbox_offset_may_lose_rows", outbox=self.name, lag_seconds=self._lag_seconds,
            hint="a row that commits more than lag_seconds after its offset was drawn may never be sent; where rows"
            " can be deleted or marked, none is lost",
        )  # fmt: skip

    def begin(self) -> None:
        """Begin a term."""
        super().begin()
        self._batch.clear()
        self._confirmed.clear()

    async def mark(self, term: Term, limit: int) -> list[Record]:
        """Claim the first rows behind the offset that are old enough; a row that was refused is claimed alone."""
        until = await self._look()
        if until is None or (self._held_seconds and time.monotonic() < self._held_until):
            return []
        found = await self._store.behind(term, until, 1 if self._held_seconds else limit)
        self._begin_batch(term)
        self._confirmed.clear()
        records = [self._rows.record(row) for row in found]
        self._batch = [(record.id, row["place"]) for record, row in zip(records, found, strict=True)]
        return records

    async def _look(self) -> int | None:
        """Return the offset up to which rows may be sent; None: none may."""
        now, seen = time.monotonic(), await self._store.horizon()
        is_due = not self._sights or now - self._sights[-1].at >= self._lag_seconds / _SIGHTS_IN_LAG
        if seen.place is not None and is_due:
            self._sights.append(_Sight(seen.place, seen.next_id, now))
        while self._sights and self._sights[0].at + self._lag_seconds <= now:
            if self._sights[0].next_id > seen.oldest_id:
                break
            place = self._sights.popleft().place
            self._until = place if self._until is None else max(place, self._until)
        return self._until

    async def mark_due(self, term: Term) -> Due:
        """Return nothing: no key is parked."""
        return Due([], [])

    async def purge(self, ids: Collection[int]) -> None:
        """Set the offset to the last row before the first that is not confirmed. A pause ends when it passes the
        refused row. Raise :class:`LeadershipLost` when the term is over.
        """
        assert self._term is not None, "confirmed rows were claimed under a term"
        self._confirmed.update(ids)
        place = None
        for number, at in self._batch:
            if number not in self._confirmed:
                break
            place = at
        if place is None:
            return
        if not await self._store.advance(self._term, place):
            raise LeadershipLost(f"term {self._term.number} of {self.name} is over")
        if place >= self._held_at:
            self._held_seconds = 0.0

    async def park(self, term: Term, refusals: Sequence[Refusal]) -> None:
        """Hold the table: the offset cannot pass the refused row."""
        self._held_seconds = min(self._held_seconds * 2 or PROBE_SECONDS_FIRST, PROBE_SECONDS_MAX)
        self._held_until = time.monotonic() + self._held_seconds
        refused = {refusal.record.id for refusal in refusals}
        self._held_at = min(at for number, at in self._batch if number in refused)

    async def unpark(self, keys: Collection[str]) -> None:
        """Do nothing: no key is parked."""
