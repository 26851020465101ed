"""The audit of the database: compares its events with those that the ledger has counted, and names them by the lake."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from db.pool import Session
    from pipeline.audit.inquiry import Finding
    from pipeline.audit.lake_audit import LakeAudit
    from pipeline.audit.side import CellName, HubEvent, Sides

__all__ = ["Recount", "Uncounted", "recounted", "uncounted"]

_CELLS_MAX: Final = 500
_EVENTS_MAX: Final = 1_000_000
"""All cells together hold so many in memory, and one page more."""
_PAGE: Final = 10_000


@dataclass(frozen=True, slots=True)
class Recount:
    """Where and how to count again: closed hours from ``since`` until ``until``, with the prefix of Kafka's topics."""

    since: datetime
    until: datetime
    prefix: str
    incarnation: str
    examples_max: int


@dataclass(frozen=True, slots=True)
class Uncounted:
    """A cell of a sink that the ledger has lost. ``topic`` is the hub's. Its ids lie between ``low`` and ``high``."""

    sink: str
    topic: str
    kafka_topic: str
    hour: datetime
    bucket: int
    count: int
    low: int
    high: int

    @property
    def finding(self) -> Finding:
        """Return the finding, which names the cell."""
        from pipeline.audit.inquiry import Finding

        name = f"the ledger has no row of sink {self.sink}, bucket {self.bucket}"
        return Finding("uncounted", self.topic, self.hour, self.count, [name])


async def uncounted(session: Session, of: Recount) -> list[Uncounted]:
    """Return cells whose events are there and whose row of the ledger is not. Raises ``DatabaseError``."""
    if of.since >= of.until:
        return []
    rows = await session.fetch("lake.uncounted", of.since, of.until, _CELLS_MAX, of.prefix)
    return [Uncounted(**row) for row in rows]


async def recounted(session: Session, audit: LakeAudit, of: Recount) -> list[Finding]:
    """Return rows ``deleted``, ``inserted``, ``rewritten`` or ``exchanged`` by hand, in hours that are still kept.

    A finding names the events whose other side is in the lake, or the event if a single one explains the difference. If
    database and lake agree, the ledger itself was altered: ``miscounted``. Raises ``DatabaseError``.
    """
    if of.since >= of.until:
        return []
    rows = await session.fetch("lake.recount", of.since, of.until, _CELLS_MAX, of.prefix)
    cells = await _cells(session, rows)
    read = [cell for cell in cells if cell.events is not None]
    events = [event for cell in read for event in cell.events or ()]
    sides = await asyncio.to_thread(audit.sides, list(dict.fromkeys(cell.place for cell in read)), events)
    unknown = {number for one in sides.values() for number in one.archived}
    gone = frozenset(row["id"] for row in await session.fetch("lake.missing_events", sorted(unknown)))
    return [_finding(cell, None if cell.events is None else sides.get(cell.place), gone, of) for cell in cells]


class _Cell:
    """A row of the statement ``recount``, and the events of its cell; None if there are too many."""

    def __init__(self, row: Any, events: Sequence[HubEvent] | None) -> None:
        self.row = row
        self.events = events
        self.place = _place(row)


def _place(row: Any) -> CellName:
    from pipeline.audit.side import CellName

    return CellName(row["kafka_topic"], row["hour"].astimezone(UTC), row["bucket"])


async def _cells(session: Session, rows: Sequence[Any]) -> list[_Cell]:
    cells, left = list[_Cell](), _EVENTS_MAX
    for row in rows:
        events = await _events(session, row, left)
        left -= len(events or ())
        cells.append(_Cell(row, events))
    return cells


async def _events(session: Session, row: Any, most: int) -> list[HubEvent] | None:
    from pipeline.audit.side import HubEvent

    found: list[HubEvent] = []
    above = 0
    while len(found) < most:
        page = await session.fetch(
            "lake.cell_events", row["tenant"], row["topic"], row["hour"], row["bucket"], above, _PAGE
        )
        found += [HubEvent(_place(row), event["id"], event["digest"], event["is_sent"]) for event in page]
        if len(page) < _PAGE:
            return found
        above = page[-1]["id"]
    return None


def _finding(cell: _Cell, sides: Sides | None, gone: Collection[int], of: Recount) -> Finding:
    from event.identity import format_event_id
    from pipeline.audit.inquiry import Finding

    row, fault, ids = cell.row, cell.row["fault"], set[int]()
    if sides is not None:
        here = {event.id for event in cell.events or ()}
        deleted = {number for number in sides.archived if number in gone}
        inserted, rewritten = here.intersection(sides.stored), here.intersection(sides.differing)
        ids = {"deleted": deleted, "inserted": inserted, "rewritten": rewritten}.get(fault, deleted | inserted)
        is_whole = here and not (deleted or inserted or rewritten) and all(e.is_sent for e in cell.events or ())
        if is_whole and row["id"] is None:
            name = f"the ledger's row of all events, bucket {row['bucket']}, differs from database and lake"
            return Finding("miscounted", row["topic"], row["hour"], row["count"], [name])
    if row["id"] is not None:
        ids = {row["id"]}
    names = [format_event_id(of.incarnation, number) for number in sorted(ids)[: of.examples_max]]
    return Finding(fault, row["topic"], row["hour"], max(row["count"], len(ids)), names)
