"""The header ``Prefer`` (RFC 7240): how long a caller waits for its reply."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from fastapi import Request

__all__ = ["Preference", "preference_of"]

_WAIT_SECONDS: Final = 20
_WAIT_SECONDS_MAX: Final = 60
_WAIT: Final = re.compile(r'wait\s*=\s*"?([0-9]{1,6})"?', re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Preference:
    """The wait that a caller prefers. ``applied``: the value of ``Preference-Applied``; empty for the default."""

    wait_seconds: int
    applied: str


def preference_of(request: Request, default_seconds: int = _WAIT_SECONDS) -> Preference:
    """Read ``wait=n`` and ``respond-async``; unknown preferences are ignored, as the RFC demands.

    The first ``wait`` counts. ``respond-async`` alone waits for nothing; beside ``wait=n`` it changes nothing.
    """
    words = [word.strip() for line in request.headers.getlist("prefer") for word in line[:1_000].split(",")]
    names = [word.partition(";")[0].strip() for word in words]
    for name in names:
        if (match := _WAIT.fullmatch(name)) is not None:
            seconds = min(int(match[1]), _WAIT_SECONDS_MAX)
            return Preference(seconds, f"wait={seconds}")
    if any(name.lower() == "respond-async" for name in names):
        return Preference(0, "respond-async")
    return Preference(default_seconds, "")
