"""Forecast of a pause: what it leaves out at the rate of the last hour, and until when that can be sent later."""

from __future__ import annotations

from datetime import datetime

from app.web.console.listing.list_view import Item
from runtime.counted import counted
from runtime.duration_histogram import duration_words

__all__ = ["pause_forecast"]

_HOUR_SECONDS = 3_600


def pause_forecast(stats: Item) -> str:
    """Return the words for an answer of ``GET /subscriptions/{id}/stats`` about the last hour."""
    return " ".join(filter(None, (_left_out(stats), _kept(stats), _waiting(stats))))


def _left_out(stats: Item) -> str:
    if not stats["delivered"]:
        return "Nothing was delivered in the last hour, so it is unknown how much a pause leaves out."
    begin, end = (datetime.fromisoformat(stats[name]) for name in ("since", "until"))
    deliveries = stats["delivered"] * _HOUR_SECONDS / (end - begin).total_seconds()
    missed = counted(round(deliveries), "delivery")
    return f"At the rate of the last hour, each hour of the pause leaves out about {missed}."


def _kept(stats: Item) -> str:
    days = stats["event_days"]
    if days is None:
        return "Events are kept for ever, so a replay can send them at any time."
    return f"Events are kept for {counted(days, 'day')} by default: end the pause and replay before."


def _waiting(stats: Item) -> str:
    if not stats["waiting"]:
        return ""
    gone = stats["drained_seconds"]
    after = f", and need about {duration_words(gone)} afterwards" if gone else ""
    return f"Now {counted(stats['waiting'], 'delivery')} {'waits' if stats['waiting'] == 1 else 'wait'}{after}."
