"""Moments as text."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from event.timestamp import format_timestamp


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (datetime(2026, 1, 18, 13, 6, 7, 131002, UTC), "2026-01-18T13:06:07.131002Z"),
        (datetime(2026, 1, 18, 13, 6, 7, tzinfo=UTC), "2026-01-18T13:06:07Z"),
        (datetime(2026, 1, 18, 13, 6, tzinfo=timezone(timedelta(hours=2))), "2026-01-18T11:06:00Z"),
    ],
)
def test_a_moment_is_written_in_utc(at: datetime, text: str) -> None:
    assert format_timestamp(at) == text
