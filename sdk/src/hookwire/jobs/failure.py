"""Failures: which errors another try may heal, which ones refuse a value, and the text of a reason."""

from __future__ import annotations

from typing import Final

from hookwire.jobs.primary import TAKES_NO_WRITES

__all__ = ["is_refusal", "passes", "reason_of"]

_PASSING: Final = ("08", "40", "53", "55", "57", "58")
_REFUSING: Final = ("22", "23", "HW")
_UNKNOWN_KIND: Final = "42704"
_TOO_COMPLEX: Final = "54001"
_REFUSING_STATUS: Final = (400, 413, 422)
_CHARACTERS_MAX: Final = 2000


def passes(error: Exception) -> bool:
    """Return whether another try may help: the connection, the server or a lock failed."""
    state = _sqlstate_of(error)
    return isinstance(error, OSError | TimeoutError) or state[:2] in _PASSING or state == TAKES_NO_WRITES


def is_refusal(error: Exception) -> bool:
    """Return whether JSON, the database or the hub refuses a value: no other try of the same value succeeds."""
    state = _sqlstate_of(error)
    return (
        isinstance(error, TypeError | ValueError | RecursionError)
        or state[:2] in _REFUSING
        or state in (_UNKNOWN_KIND, _TOO_COMPLEX)
        or getattr(error, "status", None) in _REFUSING_STATUS
    )


def reason_of(error: Exception) -> str:
    """Return the exception's text, or its type. Characters that PostgreSQL cannot store become ``?``."""
    text = str(error) or type(error).__name__
    return text[:_CHARACTERS_MAX].replace("\0", "?").encode("utf-8", "replace").decode()


def _sqlstate_of(error: Exception) -> str:
    return str(getattr(error, "sqlstate", "") or "")
