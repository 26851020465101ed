"""Numbers: the last hour of a subscription as a picture, with its rate and its times."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from app.web.console.cells import moment_cell
from app.web.console.listing.list_view import Item
from app.web.console.showing.bars import bars
from app.web.pages.markup import facts, section
from runtime.duration_histogram import duration_words

__all__ = ["numbers_content"]

_MINUTE_SECONDS: Final = 60


def numbers_content(stats: Item) -> str:
    """Return the section of an answer of ``GET /subscriptions/{id}/stats`` by the minute."""
    counted = ("Counted up to", moment_cell(stats["as_of"]))
    if not stats["attempts"]:
        return section("The last hour", f'<p class="soft">No attempt was made.</p>{facts([counted])}')
    begin, end = (datetime.fromisoformat(stats[name]) for name in ("since", "until"))
    attempts = [0] * round((end - begin).total_seconds() / _MINUTE_SECONDS)
    for point in stats["points"]:
        minute = round((datetime.fromisoformat(point["at"]) - begin).total_seconds() / _MINUTE_SECONDS)
        attempts[minute] = point["attempts"]
    title = f"Attempts by minute, {stats['attempts']:,} in all, at most {max(attempts):,} in one"
    rows = [
        ("Attempts", f"{stats['attempts']:,}, {stats['attempts_per_second']:.3g} a second"),
        ("Delivered", f"{stats['delivered']:,}, {stats['success']:.1%}"),
        ("Time of an attempt", _times(stats["attempt_seconds"])),
        ("From acceptance to delivery", _times(stats["age_seconds"])),
        counted,
    ]
    return section("The last hour", bars(attempts, title) + facts(rows), "attempts by minute, now at the right")


def _times(quantiles: dict[str, Any]) -> str:
    """Return the three times in words."""
    if quantiles["p50"] is None:
        return "&ndash;"
    return ", ".join(f"{name} {duration_words(value)}" for name, value in quantiles.items())
