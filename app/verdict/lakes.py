"""Lakes: how the last audit of each lake ended. The verdict and ``hookwire doctor`` tell the same.

Findings are told until an audit finds nothing, and events that were not audited until an audit has judged them. Else a
lake that no job has changed or audited for a week is not told.
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

_Judged = tuple[PartState, str, datetime | None]

_UNFINISHED: Final = timedelta(days=1)
_CLOCK: Final = timedelta(hours=1)


def lake_parts(rows: Sequence[Row], now: datetime) -> Iterator[Part]:
    """Yield each lake. ``rows`` are those of ``lake_mark.audits``, ``now`` is the database's time."""
    for row in rows:
        state, reason, since = _judged(row, now)
        yield Part("lake", row["lake"], state, reason, since)


def _judged(row: Row, now: datetime) -> _Judged:
    return (
        _trouble(row) or _doubt(row, now) or ("ok", f"{_last(row)}, nothing found up to {_moment(row, 'until')}", None)
    )


def _trouble(row: Row) -> _Judged | None:
    """Return findings, a lake that is damaged, or events that no audit has judged; None if there is none of these."""
    if row["exit_code"] == 1:
        again = _command(row, " --contents" if row["has_contents"] else "")
        said = f"{_last(row)}, {counted(row['findings'], 'finding')}; run {again} to see them"
        return "failing", said, row["ended_at"]
    if row["failure_code"] == 1:
        return "failing", f"{_failed(row)}; {_last(row)}", row["failed_at"]
    if row["unaudited_at"] is not None:
        told = [f"events from {_moment(row, 'unaudited')} on were not audited", _last(row)]
        told += [_failed(row)] if row["failed_at"] is not None else []
        return "late", "; ".join([*told, f"run {_command(row)} every night"]), row["unaudited_at"]
    return None


def _doubt(row: Row, now: datetime) -> _Judged | None:
    """Return why it is not known whether the lake is whole; None if it is known."""
    ended_at, started_at = row["ended_at"], row["started_at"]
    if row["failed_at"] is not None:
        return "unknown", f"{_failed(row)}; {_last(row)}", row["failed_at"]
    if started_at is not None and now - started_at > _UNFINISHED:
        age = format_duration((now - started_at).total_seconds())
        return "unknown", f"an audit began {age} ago, and none has ended since; {_last(row)}", started_at
    if ended_at is None:
        return "unknown", f"{_last(row)}; run {_command(row)} every night", None
    if ended_at - now > _CLOCK:
        return "unknown", f"{_last(row)}, which is in the future: a clock was wrong; run {_command(row)} again", None
    if row["exit_code"]:
        said = f"{_last(row)}, {counted(row['not_compared'], 'thing')} not compared; run {_command(row)} to see them"
        return "unknown", said, ended_at
    return None


def _last(row: Row) -> str:
    if row["ended_at"] is None:
        return "no audit of all its hours has ended yet"
    return f"the last audit ended at {_moment(row, 'ended')}: exit {row['exit_code']}"


def _failed(row: Row) -> str:
    return f"an audit failed at {_moment(row, 'failed')}: {row['failure']}"


def _command(row: Row, options: str = "") -> str:
    return f"`hookwire pipeline audit --lake {row['lake']}{options}`"


def _moment(row: Row, what: str) -> str:
    return format_moment(row[f"{what}_at"])
