"""The audit of webhooks: checks that each subscription has a result for each event, in time."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from db.pool import Database, Session
    from pipeline.audit.inquiry import Finding

__all__ = ["names_unaccounted", "webhook_findings"]

_PLANTED_HOUR: Final = datetime(2000, 1, 1, 9, tzinfo=UTC)
"""This hour lies before all real subscriptions, so that the planted events belong to none of them."""


async def webhook_findings(
    session: Session, incarnation: str, since: datetime, until: datetime, late_seconds: float, examples_max: int
) -> tuple[int, list[Finding]]:
    """Return the number of closed hours, and the events ``unaccounted``, ``late`` or with a ``contradictory`` attempt.

    The events are counted by topic and subscription.

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
            "contradictory": await session.fetch("lake.contradictory", *span),
        }
        for fault, rows in faults.items():
            for row in rows:
                ids = [format_event_id(incarnation, number) for number in row["ids"]]
                found.append(Finding(fault, row["topic"], hour["hour"], row["count"], ids, row["subscription"]))
    return len(hours), found


class _TakenBack(Exception):
    def __init__(self, verdict: bool) -> None:
        self.verdict = verdict


async def names_unaccounted(database: Database) -> bool:
    """Return whether an event without a delivery is named as unaccounted, and one with a delivery is not.

    Both events are planted in one transaction, which is rolled back. Raises ``DatabaseError``.
    """
    try:
        async with database.transaction() as session:
            raise _TakenBack(await _names_planted(session))
    except _TakenBack as end:
        return end.verdict


async def _names_planted(session: Session) -> bool:
    name = f"selftest-{secrets.token_hex(8)}"
    subscription = await session.fetchval("lake.plant_subscription", name, _PLANTED_HOUR)
    waiting = await session.fetchval("lake.plant_event", name, _PLANTED_HOUR)
    await session.execute("lake.plant_delivery", waiting, subscription)
    clean = await session.fetch("lake.unaccounted", _PLANTED_HOUR, waiting, waiting, 1)
    missing = await session.fetchval("lake.plant_event", name, _PLANTED_HOUR)
    found = await session.fetch("lake.unaccounted", _PLANTED_HOUR, waiting, missing, 2)
    return not clean and [(row["subscription"], row["ids"]) for row in found] == [(name, [missing])]
