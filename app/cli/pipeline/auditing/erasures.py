"""The lake's erasures in the audit: each is confirmed by the database, or is named."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from runtime.counted import counted

if TYPE_CHECKING:
    from db.pool import Session
    from pipeline.audit.inquiry import Cell
    from pipeline.audit.lake_audit import LakeAudit

__all__ = ["Erasures", "judged_erasures", "known_erasures"]

_PAGE: Final = 10_000
_CONFIRM: Final = "hookwire pipeline erase --confirm"


@dataclass(frozen=True, slots=True)
class Erasures:
    """The erasures of the judged hours.

    * ``erased``: events that the lake notes as erased.
    * ``unconfirmed``: those of which the database knows nothing and has no contents; they cannot be judged.
    * ``differences``: what lake and database say differently, in sentences; the ids are in ``examples_max``.
    """

    erased: int
    unconfirmed: Sequence[str]
    differences: Sequence[str]


async def judged_erasures(
    session: Session, incarnation: str, audit: LakeAudit, cells: Sequence[Cell], examples_max: int
) -> Erasures:
    """Compare the notes of the lake with those of the database, after ``LakeAudit.compare``.

    Raises ``DatabaseError``.
    """
    from event.identity import format_event_id

    def named(numbers: Sequence[int]) -> str:
        return " ".join(format_event_id(incarnation, number) for number in numbers[:examples_max])

    noted = await asyncio.to_thread(audit.erased_ids)
    unknown: list[int] = []
    kept: list[int] = []
    for start in range(0, len(noted), _PAGE):
        for row in await session.fetch("erasure.unconfirmed", noted[start : start + _PAGE]):
            (kept if row["is_kept"] else unknown).append(row["id"])
    begun = await _begun(session, cells, frozenset(noted))
    left = await asyncio.to_thread(audit.still_there, begun)
    differences = []
    if kept:
        differences.append(
            f"the lake notes {counted(len(kept), 'event')} as erased, and the database has them whole and knows of no "
            f"erasure: {named(kept)}. If you erased them, confirm it with `{_CONFIRM}`; else restore them from Kafka "
            "or a backup"
        )
    if left:
        differences.append(
            f"the database says that the lake has erased {counted(len(left), 'event')}, and the records are there: "
            f"{named(left)}. Run the same `hookwire pipeline erase` again"
        )
    return Erasures(len(noted), [format_event_id(incarnation, number) for number in unknown], differences)


async def _begun(session: Session, cells: Sequence[Cell], noted: frozenset[int]) -> list[int]:
    """Return the ids in the judged cells that the database calls erased in the lake, without those that it notes."""
    highs = [cell.owed_high for cell in cells if cell.owed_high is not None]
    lows = [cell.owed_low for cell in cells if cell.owed_low is not None]
    if not highs or not lows:
        return []
    known = await known_erasures(session, min(lows), max(highs))
    return [row["event_id"] for row in known if row["is_of_lake"] and row["event_id"] not in noted]


async def known_erasures(session: Session, low: int, high: int) -> list[Mapping[str, Any]]:
    """Return the erased events from ``low`` to ``high`` by ``event_id``, and whether the lake has erased them too.

    Raises ``DatabaseError``.
    """
    found: list[Mapping[str, Any]] = []
    while rows := await session.fetch("erasure.known", found[-1]["event_id"] if found else low - 1, high, _PAGE):
        found += rows
    return found
