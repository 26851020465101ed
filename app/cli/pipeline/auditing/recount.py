"""The audit of the database: compares its events with those that the ledger has counted."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from db.pool import Session
    from pipeline.audit.inquiry import Finding

__all__ = ["recounted"]

_CELLS_MAX: Final = 500


async def recounted(session: Session, incarnation: str, since: datetime, until: datetime) -> list[Finding]:
    """Return rows ``deleted``, ``inserted``, ``rewritten`` or ``exchanged`` by hand, in hours that are still kept.

    A finding names the cell. It also names the event if a single event explains the difference. Raises
    ``DatabaseError``.
    """
    from event.identity import format_event_id
    from pipeline.audit.inquiry import Finding

    rows = await session.fetch("lake.recount", since, until, _CELLS_MAX) if since < until else []
    return [
        Finding(row["fault"], row["topic"], row["hour"], row["count"],
                [format_event_id(incarnation, row["id"])] if row["id"] else [])
        for row in rows
    ]  # fmt: skip
