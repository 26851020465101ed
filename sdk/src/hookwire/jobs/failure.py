"""Failures: which errors another try may heal, which ones refuse a value, and the text of a reason."""

from __future__ import annotations

from typing import Final

from hookwire.jobs.mysql_errors import may_pass
from hookwire.jobs.primary import TAKES_NO_WRITES

__all__ = ["is_refusal", "passes", "reason_of", "stored_reason"]

_PASSING: Final = ("08", "40", "53", "55", "57", "58")
_REFUSING: Final = ("22", "23", "54", "HW")
_UNKNOWN_KIND: Final = "42704"
_REFUSING_STATUS: Final = (400, 413, 422)
_CHARACTERS_MAX: Final = 2000


def passes(error: Exception) -> bool:
    """Return whether another try may help: the connection, the server or a lock failed."""
    state = _sqlstate_of(error)
    if isinstance(error, OSError | TimeoutError) or state[:2] in _PASSING or state == TAKES_NO_WRITES:
        return True
    return may_pass(error)


def is_refusal(error: Exception) -> bool:
    """Return whether JSON, the database or the hub refuses a value: no other try of the same value succeeds."""
    state = _sqlstate_of(error)
    return (
        isinstance(error, TypeError | ValueError | RecursionError)
        or state[:2] in _REFUSING
        or state == _UNKNOWN_KIND
        or getattr(error, "status", None) in _REFUSING_STATUS
    )


def reason_of(error: BaseException) -> str:
    """Return the exception's text, or its type's name where the text is empty or cannot be made.

    Both together if it is no ``Exception``. Characters that a database cannot store become ``?``.
    """
    name = type(error).__name__
    try:
        text = str(error)[:_CHARACTERS_MAX]
    except BaseException:  # noqa: BLE001 - the text of a user's exception may raise anything
        text = ""
    if text and not isinstance(error, Exception):
        text = f"{name}: {text}"
    return stored_reason(text or name)


def stored_reason(text: str) -> str:
    """Return the first 2,000 characters of a reason. Characters that a database cannot store become ``?``."""
    return text[:_CHARACTERS_MAX].replace("\0", "?").encode("utf-8", "replace").decode()


def _sqlstate_of(error: Exception) -> str:
    return str(getattr(error, "sqlstate", "") or "")
