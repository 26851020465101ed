"""Comparison: the audit of a backfill. It compares the lake with what the receiver has taken, event by event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from math import inf
from typing import Final

from app.cli.pipeline.backfilling.batch import erased_among
from db.pool import Database, Row
from event.identity import Incarnation, format_event_id

__all__ = ["RangeAudit", "compared", "unexplained"]

_PARTS: Final = 100
_FATES: Final = ("sent", "erased", "unwanted", "refused")
_SHOWN: Final = 20
"""Ids of each kind, beside those that were refused."""


@dataclass(slots=True)
class RangeAudit:
    """What the lake has in the range, and what became of it.

    * ``events``: events of the range in the lake now, as far as the run has come; ``sent``: those that the receiver has
      taken.
    * ``erased``: events that were erased before they were sent; ``unwanted``: those that the filter does not pass.
    * ``refused``: events that the receiver did not take, and that the run skipped.
    * ``missing``: events of the range that the run does not know, such as those archived after its beginning. Events
      that were named one by one, and that the range does not have, are missing, too.
    * ``vanished``: so many events were in the range at the beginning and were gone before they were sent.
    * ``extra``: events that were sent and are not in the lake, and that nobody erased.
    * ``left``: events that a run which is not done has not come to.

    ``examples`` has all ids of refused ones, and the first ids of missing and extra ones.
    """

    events: int = 0
    sent: int = 0
    erased: int = 0
    unwanted: int = 0
    refused: int = 0
    missing: int = 0
    vanished: int = 0
    extra: int = 0
    left: int = 0
    examples: dict[str, list[str]] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """Return 0 if the receiver got exactly the range, 1 for a difference, 2 if the run has not come to its end."""
        return 1 if self.refused or self.missing or self.vanished or self.extra else 2 if self.left else 0

    def name(self, what: str, numbers: Iterable[int], incarnation: Incarnation) -> None:
        """Count these events, and name the first of them; name all that were refused."""
        ids = [format_event_id(incarnation, number) for number in sorted(numbers)]
        setattr(self, what, getattr(self, what) + len(ids))
        examples = self.examples.setdefault(what, [])
        examples += ids if what == "refused" else ids[: _SHOWN - len(examples)]


class _Ordered:
    """Numbers that come in order, taken up to one bound after the other."""

    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers
        self._ahead: list[int] = []

    def upto(self, through: float) -> set[int]:
        """Return those that were not taken yet, up to this one."""
        taken: set[int] = set()
        for number in chain(self._ahead, self._numbers):
            if number > through:
                self._ahead = [number]
                return taken
            taken.add(number)
        self._ahead = []
        return taken


async def compared(
    database: Database, run: Row, numbers: Iterator[int], erased: Iterator[int], incarnation: Incarnation
) -> RangeAudit:
    """Compare. ``numbers`` are those of the range in the lake, ``erased`` those that the lake notes, both in order.

    Memory holds the events of a window of batches.
    """
    found, is_done = RangeAudit(), run["state"] == "done"
    there, noted = _Ordered(numbers), _Ordered(erased)
    named, unsent = set(run["event_ids"] or ()), 0
    async for through, fates in _windows(database, run):
        here, gone = [await asyncio.to_thread(one.upto, through) for one in (there, noted)]
        known = {*chain(*fates.values())}
        named -= known | here | gone
        unsent += len(gone - known)
        found.events += len(here)
        for fate in ("sent", "erased", "unwanted"):
            setattr(found, fate, getattr(found, fate) + len(fates[fate]))
        found.name("refused", fates["refused"], incarnation)
        unknown = {number for number in here - known if is_done or number <= run["last_event_id"]}
        found.name("missing", unknown, incarnation)
        found.name("extra", await unexplained(database, fates["sent"] - here - gone), incarnation)
    left = run["events"] - found.sent - found.erased - found.unwanted - found.refused
    if is_done:
        found.vanished = max(left - max(unsent - run["erased_at_start"], 0), 0)
        found.name("missing", await unexplained(database, named), incarnation)
    else:
        found.left = max(left, 0)
    found.erased += unsent
    return found


async def unexplained(database: Database, numbers: Collection[int]) -> set[int]:
    """Return those of these events that the database does not note as erased."""
    return set(numbers) - await erased_among(database, list(numbers)) if numbers else set()


async def _windows(database: Database, run: Row) -> AsyncIterator[tuple[float, Mapping[str, set[int]]]]:
    """Yield one bound after the other, and what became of the events up to it that were not yielded before.

    The parts of a batch have events above its own bound only. The last bound is the end of what the run has come to.
    """
    known: dict[str, set[int]] = {fate: set() for fate in _FATES}
    above, part = -1, 0
    while rows := await database.fetch("backfill.batches", run["id"], above, part, _PARTS):
        for row in rows:
            for fate, ids in known.items():
                ids.update(row[fate])
        above, part = rows[-1]["above_id"], rows[-1]["part"]
        ended = {fate: {number for number in ids if number <= above} for fate, ids in known.items()}
        for fate, ids in ended.items():
            known[fate] -= ids
        yield above, ended
    yield inf if run["state"] == "done" else max([run["last_event_id"], *chain(*known.values())]), known
