"""The audit's webhook side: is every event accounted for at each subscription, and did it come in time (PL-A08)?"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from db.pool import Session
    from pipeline.audit.inquiry import Finding

__all__ = ["webhook_findings"]


async def webhook_findings(
    session: Session, incarnation: str, since: datetime, until: datetime, late_seconds: float, examples_max: int
) -> tuple[int, list[Finding]]:
    """How many closed hours were looked at, and what is ``unaccounted`` or ``late``, by topic and subscription.

    Raises ``DatabaseError``.
    """
    from event.identity import format_event_id
    from pipeline.audit.inquiry import Finding

    found = []
    hours = await session.fetch("lake.webhook_hours", since, until)
    for hour in hours:
        span = (hour["hour"], hour["low"], hour["high"], examples_max)
        faults = {
            "unaccounted": await session.fetch("lake.unaccounted", *span),
            "late": await session.fetch("lake.late", *span, late_seconds),
        }
        for fault, rows in faults.items():
            for row in rows:
                ids = [format_event_id(incarnation, number) for number in row["ids"]]
                found.append(Finding(fault, row["topic"], hour["hour"], row["count"], ids, row["subscription"]))
    return len(hours), found
