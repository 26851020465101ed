"""Moments and spans of a caller, in UTC and within the years that every receiver can write; times within a span."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

from fastapi import Query
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict

from app.web.problem import Problem

__all__ = ["TIMES_EXAMPLE", "Moment", "Quantiles", "Since", "Until", "ZonedMoment", "rate", "span_of", "whole"]


def _in_utc(given: datetime) -> datetime:
    try:
        return given.astimezone(UTC)
    except OverflowError:  # the first or the last hours of the calendar, at another offset
        raise ValueError("lies outside of the years 1 to 9999 in UTC") from None


Moment = Annotated[datetime, AfterValidator(_in_utc)]
ZonedMoment = Annotated[AwareDatetime, AfterValidator(_in_utc)]
Since = Annotated[ZonedMoment | None, Query(description="Default: an hour before `until`.")]
Until = Annotated[ZonedMoment | None, Query(description="Default: now.")]
TIMES_EXAMPLE: Final[dict[str, Any]] = {"p50": 0.0104, "p95": 0.0398, "p99": 0.082}


class Quantiles(BaseModel):
    """Seconds that 50, 95 and 99 of 100 did not exceed; null where nothing was timed."""

    model_config = ConfigDict(json_schema_extra={"examples": [TIMES_EXAMPLE]})

    p50: float | None
    p95: float | None
    p99: float | None


def span_of(
    since: datetime | None, until: datetime | None, now: datetime, usual: timedelta = timedelta(hours=1)
) -> tuple[datetime, datetime]:
    """Return begin and end. ``usual`` is the length without ``since``. Raise ``Problem`` if it is empty."""
    end = until or now
    try:
        begin = since or end - usual
    except OverflowError:
        raise _too_long() from None
    if begin >= end:
        raise Problem("invalid-parameter", "since must be before until.", parameter="since")
    return begin, end


def whole(begin: datetime, end: datetime, unit: timedelta, most: int) -> tuple[datetime, datetime]:
    """Return the span of whole units, in UTC, that has this one. ``unit`` is a minute, an hour or a day. Raise
    ``Problem`` if it has more than ``most`` units.
    """
    try:
        first, last = _begin_of(begin, unit), _begin_of(end, unit)
        last += unit if last < end else timedelta(0)
    except OverflowError:
        raise _too_long() from None
    if (last - first) / unit > most:
        detail = f"The span has more than {most:,} of this grain; take a coarser one, or a later since."
        raise Problem("invalid-parameter", detail, parameter="since")
    return first, last


def rate(count: int, begin: datetime, end: datetime, now: datetime) -> float:
    """Return how many there were in a second of the part of the span that has passed; 0 if none has."""
    seconds = (min(end, now) - begin).total_seconds()
    return count / seconds if seconds > 0 else 0.0


def _too_long() -> Problem:
    return Problem("invalid-parameter", "The span ends outside of the years 1 to 9999.", parameter="until")


def _begin_of(moment: datetime, unit: timedelta) -> datetime:
    hour = moment.hour if unit < timedelta(days=1) else 0
    return moment.replace(hour=hour, minute=moment.minute if unit < timedelta(hours=1) else 0, second=0, microsecond=0)
