"""Moments on the command line: read as ISO 8601 or as a time span back from now, shown to the second."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from app.cli.failure import CommandFailed

__all__ = ["moment", "shown_moment"]

_SPAN = re.compile(r"([0-9]{1,6})([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def moment(option: str, text: str | None) -> str | None:
    """Return ``2026-01-15T09:00Z`` or ``2h`` as ISO 8601 with its offset. Raises ``CommandFailed`` for any other
    text.
    """
    if text is None:
        return None
    try:
        if match := _SPAN.fullmatch(text):
            return (datetime.now(UTC) - timedelta(seconds=int(match[1]) * _UNITS[match[2]])).isoformat()
        parsed = datetime.fromisoformat(text)
    except OverflowError:
        raise CommandFailed(f"{option}: {text} ago is before the year 1", 2) from None
    except ValueError:
        raise CommandFailed(
            f"{option}: {text!r} is neither a moment such as 2026-01-15T09:00Z nor a span such as 2h", 2
        ) from None
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).isoformat()


def shown_moment(text: str | None) -> str:
    """Return a moment of the API, such as ``2026-01-15T09:00:00.123456Z``, to the second; '' if there is none.

    >>> shown_moment("2026-01-15T09:00:00.123456Z")
    '2026-01-15T09:00:00Z'
    """
    return f"{text[:19]}Z" if text else ""
