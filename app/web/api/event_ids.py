"""Public event ids in requests."""

from __future__ import annotations

from app.web.problem import Problem
from event.identity import parse_event_id

__all__ = ["event_number"]


def event_number(event_id: str, incarnation: str) -> int:
    """Return the row's number of a public event id of this installation; a problem for any other."""
    try:
        whose, number = parse_event_id(event_id)
    except ValueError:
        raise Problem("not-found", "There is no such event.") from None
    if whose != incarnation:
        raise Problem("not-found", "This event id is of another installation.")
    return number
