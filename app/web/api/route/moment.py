"""Moments of a caller: in UTC, and within the years that every receiver can write."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime

__all__ = ["Moment", "ZonedMoment"]


def _in_utc(given: datetime) -> datetime:
    try:
        return given.astimezone(UTC)
    except OverflowError:  # the first or the last hours of the calendar, at another offset
        raise ValueError("lies outside of the years 1 to 9999 in UTC") from None


Moment = Annotated[datetime, AfterValidator(_in_utc)]
ZonedMoment = Annotated[AwareDatetime, AfterValidator(_in_utc)]
