"""Start of a replay for a subscriber: an event, a moment, or the earliest stored event (FM-12)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

from pydantic import Field, TypeAdapter, ValidationError

from app.web.api.route.event_ids import event_number
from app.web.api.route.moment import ZonedMoment
from app.web.problem import Problem
from hub.subscriptions import ReplayStart

__all__ = ["START_MEANING", "Start", "start_of"]

START_MEANING: Final = (
    "Also deliver earlier events: from this event on (its id), from this moment on (RFC 3339, with a time zone), or "
    "`earliest`, from the oldest stored event."
)
Start = Annotated[str, Field(max_length=60, pattern=r"^[ -~]+$", examples=["2026-01-15T00:00:00Z"])]
_MOMENT: Final[TypeAdapter[datetime]] = TypeAdapter(ZonedMoment)


def start_of(text: str, incarnation: str) -> ReplayStart:
    """Read the parameter; raise ``Problem`` for an invalid one."""
    if text == "earliest":
        return ReplayStart()
    if text.startswith("evt_"):
        return ReplayStart(event=event_number(text, incarnation))
    try:
        return ReplayStart(since=_MOMENT.validate_strings(text))
    except ValidationError:
        detail = "start is earliest, an event's id, or a moment such as 2026-01-15T00:00:00Z."
        raise Problem("invalid-parameter", detail, parameter="start") from None
