"""What an audit leaves out: days that retention deleted, and hours before the ledger. Each is counted and printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from runtime.counted import counted

if TYPE_CHECKING:
    from db.pool import Session

__all__ = ["DeletedDays", "before_ledger", "deleted_days"]

_CONFIRM: Final = "`hookwire pipeline retain --confirm`"


@dataclass(frozen=True, slots=True)
class DeletedDays:
    """Days of a Kafka topic that the lake calls deleted by retention; "" stands for all topics.

    * ``before``: the first day that the lake keeps, as its log says; ``known``: in the words of the database, or "".
    * ``cells``, ``events``: what the ledger has of these days. ``first``, ``last``: its days; None if it has nothing.
    * ``verdict``: confirmed; unconfirmed, if the database knows of no retention; different, if it knows less.
    """

    topic: str
    before: str
    known: str
    cells: int
    events: int
    first: date | None
    last: date | None
    verdict: Literal["confirmed", "unconfirmed", "different"]

    @property
    def sentence(self) -> str:
        """Return what was left out, beside the words of the log and the database."""
        days = f" from {self.first} to {self.last}" if self.first else ""
        known = f"says the same of days before {self.known}" if self.known else "knows of no retention"
        hint = "" if self.verdict == "confirmed" else f". If you deleted them, run {_CONFIRM}; else restore the lake"
        return (
            f"{self.topic or 'all topics'}: the lake's log says that retention deleted the days before {self.before}, "
            f"and the database {known}; {counted(self.cells, 'cell')} with {counted(self.events, 'event')}{days} "
            f"{'was' if self.cells == 1 else 'were'} not compared{hint}"
        )


def deleted_days(
    kept: Mapping[str, str], known: Mapping[str, str], owed: Sequence[Mapping[str, Any]]
) -> list[DeletedDays]:
    """Return the days that the lake calls deleted, by topic.

    ``kept``: the bounds in the lake's log, as in ``State``. ``known``: those in the database. ``owed``: rows of the
    ledger with ``topic``, ``hour`` and ``owed``.
    """
    found = []
    for topic, before in sorted(kept.items()):
        left_out = [
            row for row in owed
            if _is_of(topic, row["topic"], kept) and _day(row["hour"]).isoformat() < before
        ]  # fmt: skip
        day = max(known.get("", ""), known.get(topic, ""))
        days = [_day(row["hour"]) for row in left_out]
        found.append(
            DeletedDays(
                topic, before, day, len(left_out), sum(row["owed"] for row in left_out),
                min(days, default=None), max(days, default=None),
                "confirmed" if before <= day else "different" if day else "unconfirmed",
            )
        )  # fmt: skip
    return found


def _is_of(bound: str, topic: str, kept: Mapping[str, str]) -> bool:
    """Return whether this bound is the one that decides for a topic: its own one, unless that for all is later."""
    own, general = kept.get(topic, ""), kept.get("", "")
    return bound == (topic if own >= general and topic in kept else "")


def _day(hour: datetime) -> date:
    return hour.astimezone(UTC).date()


async def before_ledger(session: Session) -> list[str]:
    """Return a sentence if the ledger has counted events before its own beginning. Raises ``DatabaseError``."""
    row = await session.fetchrow("lake_mark.before_ledger")
    if row is None:
        return []
    return [
        f"the ledger has {counted(row['cells'], 'cell')} with {counted(row['events'], 'event')} from "
        f"{row['first_hour']:%Y-%m-%d %H:%M} UTC on that were not compared, because its beginning "
        f"(hookwire.ledger_cursor.since_at) says {row['since_at']:%Y-%m-%d %H:%M} UTC: somebody moved it; set it back"
    ]
