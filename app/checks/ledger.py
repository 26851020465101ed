"""Check that every accepted event has left, by the two sides of the ledger (PL-A03..A06)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from db.pool import Session
from event.identity import format_event_id

__all__ = ["LedgerCell", "LedgerReport", "compare_ledger"]

_CELLS_MAX = 500
_WAITING_MAX = 200_000


@dataclass(frozen=True, slots=True)
class LedgerCell:
    """One sink, topic, hour and quarter of the ids whose sides differ.

    ``verdict``: "waiting" is no finding: missing records still wait in the outbox or behind a hold. "lost": fewer left
    than were accepted; "extra": more left; "different": as many, but other events. "unjudged": too many wait for this
    sink; repeat the check when it has drained. ``missing_event`` is the id if exactly one event is missing.
    """

    sink: str
    tenant: str
    topic: str
    hour: datetime
    bucket: int
    owed: int
    sent: int
    dead: int
    waiting: int
    verdict: str
    missing: int
    missing_event: str | None

    @property
    def is_finding(self) -> bool:
        """Return whether an operator should examine it."""
        return self.verdict != "waiting"


@dataclass(frozen=True, slots=True)
class LedgerReport:
    """Closed hours from ``since_at`` to ``through_at``: events accepted, records owed to sinks, and their outcome.

    ``is_behind``: no process has folded the ledger for hours, so that the latest hours could not be judged.
    """

    since_at: datetime
    through_at: datetime
    is_behind: bool
    cells: int
    accepted: int
    owed: int
    sent: int
    dead: int
    unequal: Sequence[LedgerCell]

    @property
    def findings(self) -> int:
        """Return the number of cells that an operator should examine, and one more if the ledger is behind."""
        return sum(cell.is_finding for cell in self.unequal) + self.is_behind


async def compare_ledger(session: Session, incarnation: str) -> LedgerReport:
    """Compare the sides of all closed hours; raises ``DatabaseError``."""
    summary = await session.fetchrow("ledger.summary")
    assert summary is not None, "the cursor has one row"
    rows = await session.fetch("ledger.compare", _CELLS_MAX, _WAITING_MAX)
    cells = []
    for row in rows:
        values = dict(row)
        missing = values.pop("missing_id")
        cells.append(LedgerCell(**values, missing_event=format_event_id(incarnation, missing) if missing else None))
    return LedgerReport(**summary, unequal=cells)
