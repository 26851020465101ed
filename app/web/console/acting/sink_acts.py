"""The acts on a sink, and the forecast of its pause."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from app.web.console.acting.act import REASON, Act
from app.web.console.acting.verb import is_one_of, json_request, line, reason_of, verb
from app.web.console.listing.list_view import Item
from runtime.counted import counted

__all__ = ["OF_SINKS", "sink_forecast"]

_UNITS: Final = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def sink_forecast(forecast: Item) -> str:
    """Return the words for an answer of ``GET /sinks/{sink}/forecast``."""
    return " ".join(filter(None, (_queued(forecast), _kept(forecast), _sources(forecast), _waiting(forecast))))


def _queued(forecast: Item) -> str:
    events = round(forecast["events_per_hour"])
    if not events:
        return "No event of the last hour was for this sink, so it is unknown how much a pause queues."
    queued = f"{counted(events, 'event')} ({_size(forecast)})"
    return f"At the rate of the last hour, each hour of the pause queues about {queued}."


def _size(forecast: Item) -> str:
    size = forecast["bytes_per_hour"]
    return next((f"{size / unit:.1f} {name}" for name, unit in _UNITS if size >= unit), f"{size:.0f} B")


def _kept(forecast: Item) -> str:
    taken = "Publishing goes on, and nothing that waits is removed"
    days = forecast["event_days"]
    return f"{taken}." if days is None else f"{taken}: after {counted(days, 'day')} the database begins to grow by it."


def _sources(forecast: Item) -> str:
    most = forecast["source_backlog_max"]
    return f"When about {most:,} wait, Kafka sources take no more records." if most else ""


def _waiting(forecast: Item) -> str:
    waiting = forecast["waiting"]
    return f"Now {counted(waiting, 'event')} {'waits' if waiting == 1 else 'wait'}." if waiting else ""


OF_SINKS: Final[Sequence[Act]] = (
    Act(
        "pause", "Pause", "Nothing more is sent to it, by any process, until it is resumed; what is in flight ends. "
        "Events are accepted, and wait in their order. Of webhooks, deliveries that were made already go on.",
        ("operate",),
        lambda identity, form: json_request(
            "POST", "/sinks/{}/pause", identity, reason_of(form), form.get("once", "")
        ),
        lambda identity, form: line("sinks", "pause", identity, why=form.get("reason", "")), (REASON,),
        applies=is_one_of("paused", False), foretells="/sinks/{}/forecast", foretold=sink_forecast,
    ),
    verb("resume", "Resume", "What waits goes out within a few seconds, oldest first.", "/sinks/{}/resume",
         ("sinks", "resume"), applies=is_one_of("paused", True)),
)  # fmt: skip
"""The acts: only one of them applies."""
