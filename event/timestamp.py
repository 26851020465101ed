"""A moment as RFC 3339 text in UTC, which events, callbacks and log lines carry."""

from datetime import UTC, datetime

__all__ = ["format_timestamp"]


def format_timestamp(at: datetime) -> str:
    """Return ``2026-01-18T13:06:07.131002Z``; without a fraction for a whole second. ``at`` has a time zone."""
    utc = at if at.tzinfo is UTC else at.astimezone(UTC)
    return f"{utc.isoformat()[:-6]}Z"
