"""Comparison: the audit of a backfill. It compares the lake with what the receiver has taken, event by event."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from db.pool import Database, Row
from event.identity import Incarnation, format_event_id

__all__ = ["RangeAudit", "compared"]

_PARTS: Final = 100
_SHOWN: Final = 20


@dataclass(slots=True)
class RangeAudit:
    """What the lake has in the range, and what became of it.

    * ``events``: events of the range in the lake now; ``sent``: those that the receiver has taken.
    * ``erased``: events that were skipped because they were erased; ``unwanted``: those that the filter does not pass.
    * ``refused``: events that the receiver did not take, and that the run skipped.
    * ``missing``: events of the range that the run does not know, such as those archived after its beginning.
    * ``extra``: events that were sent and are not in the lake, and that nobody erased.
    * ``left``: events that a run which has not ended still has to send.

    ``examples`` has the first ids of refused, missing and extra ones.
    """

    events: int = 0
    sent: int = 0
    erased: int = 0
    unwanted: int = 0
    refused: int = 0
    missing: int = 0
    extra: int = 0
    left: int = 0
    examples: dict[str, list[str]] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """Return 0 if the receiver got exactly the range, 1 for a difference, 2 if the run has not ended."""
        return 1 if self.refused or self.missing or self.extra else 2 if self.left else 0


async def compared(
    database: Database, run: Row, numbers: Iterator[int], incarnation: Incarnation, *, has_ended: bool
) -> RangeAudit:
    """Compare. ``numbers`` are those of the range in the lake, in order. Memory holds one part of both at a time."""
    found = RangeAudit()
    known: dict[str, set[int]] = {name: set() for name in ("sent", "erased", "unwanted", "refused")}
    number = next(numbers, None)
    async for through, parts in _windows(database, run):
        for part in parts:
            for name, ids in known.items():
                ids.update(part[name])
        there: set[int] = set()
        while number is not None and number <= through:
            there.add(number)
            number = next(numbers, None)
        await _judge(database, found, known, there, through, incarnation)
    while number is not None:
        found.events += 1
        if has_ended:
            _name(found, "missing", [number], incarnation)
        else:
            found.left += 1
        number = next(numbers, None)
    return found


async def _windows(database: Database, run: Row) -> AsyncIterator[tuple[int, Sequence[Row]]]:
    """Yield parts of batches in order, each time with the number up to which all parts were yielded."""
    above, part = -1, 0
    while rows := await database.fetch("backfill.batches", run["id"], above, part, _PARTS):
        above, part = rows[-1]["above_id"], rows[-1]["part"]
        yield above, rows
    yield run["last_event_id"], ()


async def _judge(
    database: Database, found: RangeAudit, known: dict[str, set[int]], there: set[int], through: int,
    incarnation: Incarnation,
) -> None:  # fmt: skip
    """Count the events of one window, and forget them."""
    ended = {name: {number for number in ids if number <= through} for name, ids in known.items()}
    for name, ids in ended.items():
        known[name] -= ids
    found.events += len(there)
    for name in ("sent", "erased", "unwanted"):
        setattr(found, name, getattr(found, name) + len(ended[name]))
    _name(found, "refused", sorted(ended["refused"]), incarnation)
    _name(found, "missing", sorted(there.difference(*ended.values())), incarnation)
    gone = sorted(ended["sent"] - there)
    erased = {row["event_id"] for row in await database.fetch("backfill.erased", gone)} if gone else set()
    _name(found, "extra", [number for number in gone if number not in erased], incarnation)


def _name(found: RangeAudit, what: str, numbers: Sequence[int], incarnation: Incarnation) -> None:
    setattr(found, what, getattr(found, what) + len(numbers))
    examples = found.examples.setdefault(what, [])
    examples += [format_event_id(incarnation, number) for number in numbers[: _SHOWN - len(examples)]]
