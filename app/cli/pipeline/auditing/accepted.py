"""The accepted events of cells that differ, as the audit compares them one by one."""

from __future__ import annotations

from collections.abc import Container, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from db.pool import Session
    from pipeline.audit.inquiry import Cell
    from pipeline.audit.lake_audit import Accepted

__all__ = ["AcceptedEvents"]

_PAGE: Final = 10_000
_ACCEPTED_MAX: Final = 1_000_000


class AcceptedEvents:
    """Reads events of the database by Kafka topic, hour and bucket. ``prefix`` is that of Kafka's topics."""

    def __init__(self, session: Session, prefix: str, incarnation: str) -> None:
        self._session = session
        self._prefix = prefix
        self._incarnation = incarnation

    async def waiting(self, cells: Sequence[Cell]) -> frozenset[int]:
        """Return the ids of the events of these cells that Kafka has yet to get."""
        accepted, _ = await self.of_cells(cells)
        return frozenset(event.id for event in accepted if event.state == "waiting")

    async def of_cells(
        self, cells: Sequence[Cell], waiting: Container[int] = frozenset()
    ) -> tuple[list[Accepted], list[Cell]]:
        """Return the events of these cells, and the cells that cannot be judged: their events are gone or too many.

        ``waiting``: the ids of events that waited before Kafka was read, and may have been sent since.
        """
        found: list[Accepted] = []
        unjudged = []
        for cell in cells:
            if not cell.owed or cell.bucket is None:
                continue
            low, high, most = cell.owed_low or 0, cell.owed_high or 0, _ACCEPTED_MAX - len(found)
            events = await self.of(cell.topic, cell.hour, cell.bucket, low, high, waiting, most=most)
            if len(events) == cell.owed:
                found += events
            else:
                unjudged.append(cell)
        return found, unjudged

    async def of(
        self, topic: str, hour: datetime, bucket: int, low: int, high: int, waiting: Container[int] = frozenset(), *,
        most: int = _ACCEPTED_MAX,
    ) -> list[Accepted]:  # fmt: skip
        """Return the events of a cell with ids from ``low`` to ``high``, and about ``most`` of them at most."""
        from event.identity import format_event_id
        from pipeline.audit.lake_audit import Accepted

        found: list[Accepted] = []
        above = low - 1
        while len(found) < most:
            rows = await self._session.fetch("lake.accepted", self._prefix, topic, hour, bucket, above, high, _PAGE)
            found += [
                Accepted(row["id"], format_event_id(self._incarnation, row["id"]), topic, hour,
                         "waiting" if row["id"] in waiting else row["state"], row["digest"])
                for row in rows
            ]  # fmt: skip
            if len(rows) < _PAGE:
                break
            above = rows[-1]["id"]
        return found
