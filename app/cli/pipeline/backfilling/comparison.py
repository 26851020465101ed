"""Comparison: the audit of a backfill. It compares the lake with what the receiver has taken, event by event."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final

from db.pool import Database, Row
from event.identity import Incarnation, format_event_id

__all__ = ["RangeAudit", "absent", "compared"]

_PARTS: Final = 100
_SHOWN: Final = 20
"""Ids of each kind, beside those that were refused."""


@dataclass(slots=True)
class RangeAudit:
    """What the lake has in the range, and what became of it.

    * ``events``: events of the range in the lake now; ``sent``: those that the receiver has taken.
    * ``erased``: events that were erased before they were sent; ``unwanted``: those that the filter does not pass.
    * ``refused``: events that the receiver did not take, and that the run skipped.
    * ``missing``: events of the range that the run does not know, such as those archived after its beginning. Events
      that were named one by one, and that the range does not have, are missing, too.
    * ``vanished``: so many events were in the range at the beginning and were gone before they were sent.
    * ``extra``: events that were sent and are not in the lake, and that nobody erased.
    * ``left``: events that a run which has not ended still has to send.

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
        """Return 0 if the receiver got exactly the range, 1 for a difference, 2 if the run has not ended."""
        return 1 if self.refused or self.missing or self.vanished or self.extra else 2 if self.left else 0


class _Ordered:
    """Numbers in order, taken up to one bound after the other. ``unseen`` loses those that were taken."""

    def __init__(self, numbers: Iterator[int], unseen: set[int]) -> None:
        self._numbers = numbers
        self._unseen = unseen
        self._next = next(numbers, None)

    def upto(self, through: float) -> Iterator[int]:
        """Yield the numbers that were not taken yet, up to this one."""
        while (number := self._next) is not None and number <= through:
            self._unseen.discard(number)
            yield number
            self._next = next(self._numbers, None)


async def compared(
    database: Database, run: Row, numbers: Iterator[int], erased: Iterator[int], incarnation: Incarnation, *,
    has_ended: bool,
) -> RangeAudit:  # fmt: skip
    """Compare. ``numbers`` are those of the range in the lake, ``erased`` those that the lake notes, both in order.

    Memory holds one part of each at a time.
    """
    found = RangeAudit()
    known: dict[str, set[int]] = {name: set() for name in ("sent", "erased", "unwanted", "refused")}
    unseen = set(run["event_ids"] or ())
    there, noted, unsent = _Ordered(numbers, unseen), _Ordered(erased, unseen), 0
    async for through, parts in _windows(database, run):
        for part in parts:
            for name, ids in known.items():
                ids.update(part[name])
                unseen.difference_update(part[name])
        ended = _taken(known, through)
        here, gone = set(there.upto(through)), set(noted.upto(through))
        _name(found, "missing", sorted(here.difference(*ended.values())), incarnation)
        unsent += len(gone.difference(*ended.values()))
        await _judge(database, found, ended, here | gone, incarnation)
        found.events += len(here)
    # What a run that stopped midway has noted above its cursor.
    ended, there_still = _taken(known, inf), set()
    for number in there.upto(inf):
        found.events += 1
        if any(number in ids for ids in ended.values()):
            there_still.add(number)
        elif has_ended:
            _name(found, "missing", [number], incarnation)
        else:
            found.left += 1
    for number in noted.upto(inf):
        if any(number in ids for ids in ended.values()):
            there_still.add(number)
        else:
            unsent += 1
    await _judge(database, found, ended, there_still, incarnation)
    if has_ended:
        ended_count = found.sent + found.erased + found.unwanted + found.refused
        found.vanished = max(run["events"] - ended_count - max(unsent - run["erased_at_start"], 0), 0)
    found.erased += unsent
    _name(found, "missing", sorted(unseen - await _erased(database, unseen)), incarnation)
    return found


async def absent(database: Database, named: Iterable[int], *known: Iterator[int]) -> set[int]:
    """Return those of the named events that nobody knows: neither ``known`` nor erased by the hub."""
    left = set(named)
    for numbers in known:
        left.difference_update(numbers)
    return left - await _erased(database, left)


def _taken(known: Mapping[str, set[int]], through: float) -> dict[str, set[int]]:
    """Take those up to this number."""
    ended = {name: {number for number in ids if number <= through} for name, ids in known.items()}
    for name, ids in ended.items():
        known[name].difference_update(ids)
    return ended


async def _erased(database: Database, numbers: Collection[int]) -> set[int]:
    rows = await database.fetch("backfill.erased", list(numbers)) if numbers else ()
    return {row["event_id"] for row in rows}


async def _windows(database: Database, run: Row) -> AsyncIterator[tuple[int, Sequence[Row]]]:
    """Yield parts of batches in order, each time with the number up to which all parts were yielded."""
    above, part = -1, 0
    while rows := await database.fetch("backfill.batches", run["id"], above, part, _PARTS):
        above, part = rows[-1]["above_id"], rows[-1]["part"]
        yield above, rows
    yield run["last_event_id"], ()


async def _judge(
    database: Database, found: RangeAudit, ended: Mapping[str, set[int]], explained: set[int], incarnation: Incarnation
) -> None:
    """Count what became of events. ``explained``: events that the lake has, or notes as erased."""
    for name in ("sent", "erased", "unwanted"):
        setattr(found, name, getattr(found, name) + len(ended[name]))
    _name(found, "refused", sorted(ended["refused"]), incarnation, most=None)
    gone = ended["sent"] - explained
    _name(found, "extra", sorted(gone - await _erased(database, gone)), incarnation)


def _name(
    found: RangeAudit, what: str, numbers: Sequence[int], incarnation: Incarnation, *, most: int | None = _SHOWN
) -> None:
    setattr(found, what, getattr(found, what) + len(numbers))
    examples = found.examples.setdefault(what, [])
    named = numbers if most is None else numbers[: most - len(examples)]
    examples += [format_event_id(incarnation, number) for number in named]
