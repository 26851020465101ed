"""Public event ids in requests."""

from __future__ import annotations

from app.web.problem import Problem
from event.identity import name_of, parse_event_id

__all__ = ["event_number", "no_such_event"]


def no_such_event() -> Problem:
    """Return the problem of an event's id that names no event."""
    return Problem("not-found", "There is no such event.")


def event_number(event_id: str, incarnation: str) -> int:
    """Return the row's number of a public event id of this installation; a problem for any other."""
    try:
        whose, number = parse_event_id(event_id)
    except ValueError:
        detail = "There is no such event: the id of an event looks like evt_k3v7q2ha_42."
        raise Problem("not-found", detail) from None
    if whose != name_of(incarnation, number):
        raise Problem("not-found", "This event id is of another installation.")
    return number
