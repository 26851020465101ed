"""Lakes: how the last audit of each lake ended. The verdict and ``hookwire doctor`` tell the same.

A lake that no job has changed or audited for a week is not in use, and is not told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from app.verdict.facts import Row
from app.verdict.verdict import Part, PartState
from runtime.counted import counted
from webhooks.condition import format_duration, format_moment

__all__ = ["lake_parts"]

_LATE: Final = timedelta(days=3)
_NIGHTLY: Final = "run `hookwire pipeline audit` every night"
_AGAIN: Final = "run `hookwire pipeline audit` to see them"


def lake_parts(rows: Sequence[Row], now: datetime) -> Iterator[Part]:
    """Yield each lake. ``rows`` are those of ``lake_mark.audits``, ``now`` is the database's time."""
    for row in rows:
        state, reason, since = _judged(row, now)
        yield Part("lake", row["lake"], state, reason, since)


def _judged(row: Row, now: datetime) -> tuple[PartState, str, datetime | None]:
    ended_at = row["ended_at"]
    if ended_at is None:
        return "unknown", f"no audit of it has ended yet; {_NIGHTLY}", None
    last = f"the last audit ended at {format_moment(ended_at)}: exit {row['exit_code']}"
    if row["reason"] is not None:
        return ("unknown" if row["exit_code"] == 2 else "failing"), f"{last}; {row['reason']}", ended_at
    if row["exit_code"] == 1:
        return "failing", f"{last}, {counted(row['findings'], 'finding')}; {_AGAIN}", ended_at
    changed_at = row["changed_at"]
    if changed_at is not None and changed_at > ended_at and now - ended_at > _LATE:
        age = format_duration((now - ended_at).total_seconds())
        return "late", f"no audit for {age}, and the lake has changed since; {last}; {_NIGHTLY}", ended_at
    if row["exit_code"]:
        return "unknown", f"{last}, {counted(row['not_compared'], 'thing')} not compared; {_AGAIN}", ended_at
    return "ok", f"{last}, nothing found up to {format_moment(row['until_at'])}", None
