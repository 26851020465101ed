"""What the form says before a subscription is paused."""

from __future__ import annotations

from typing import Any

import pytest

from app.web.console.acting.pause_forecast import pause_forecast

_HALF_AN_HOUR: dict[str, Any] = {
    "since": "2026-01-15T09:30:00Z", "until": "2026-01-15T10:00:00Z", "delivered": 300, "waiting": 0,
    "drained_seconds": None, "event_days": 7,
}  # fmt: skip
_RATE = "At the rate of the last hour, each hour of the pause leaves out about 600 deliveries."
_DAYS = "Events are kept for 7 days by default: end the pause and replay before."


@pytest.mark.parametrize(
    ("stats", "words"),
    [
        ({}, f"{_RATE} {_DAYS}"),
        (
            {"waiting": 90, "drained_seconds": 540.0},
            f"{_RATE} {_DAYS} Now 90 deliveries wait, and need about 9 min afterwards.",
        ),
        (
            {"delivered": 0, "waiting": 1, "event_days": None},
            "Nothing was delivered in the last hour, so it is unknown how much a pause leaves out."
            " Events are kept for ever, so a replay can send them at any time. Now 1 delivery waits.",
        ),
    ],
    ids=["flowing", "waiting", "idle"],
)
def test_a_pause_is_foretold_from_the_last_hour(stats: dict[str, Any], words: str) -> None:
    """CN-08: how fast it queues, when retention ends, how long the rest takes."""
    assert pause_forecast(_HALF_AN_HOUR | stats) == words
