"""From where a subscriber wants what it missed: an event, a moment, or the earliest event that is kept (FM-12)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

from pydantic import Field, TypeAdapter, ValidationError

from app.web.api.event_ids import event_number
from app.web.api.moment import ZonedMoment
from app.web.problem import Problem
from hub.subscriptions import ReplayStart

__all__ = ["START_MEANING", "Start", "start_of"]

START_MEANING: Final = (
    "Also what was published before: from this event on (its id), from this moment on (RFC 3339, with a time zone), or "
    "`earliest`, from the oldest event that is kept."
)
Start = Annotated[str, Field(max_length=60, pattern=r"^[ -~]+$", examples=["2026-01-15T00:00:00Z"])]
_MOMENT: Final[TypeAdapter[datetime]] = TypeAdapter(ZonedMoment)


def start_of(text: str, incarnation: str) -> ReplayStart:
    """Read it; else ``Problem``."""
    if text == "earliest":
        return ReplayStart()
    if text.startswith("evt_"):
        return ReplayStart(event=event_number(text, incarnation))
    try:
        return ReplayStart(since=_MOMENT.validate_strings(text))
    except ValidationError:
        detail = "start is earliest, an event's id, or a moment such as 2026-01-15T00:00:00Z."
        raise Problem("invalid-parameter", detail, parameter="start") from None
