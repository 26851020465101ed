"""The result of a job as JSON that can be stored. Work that is done is not repeated because of its result."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any, Final

from hookwire.jobs.job import encode

__all__ = ["stored_result"]

_LEVELS_MAX: Final = 64
_ENCODED_MAX: Final = 3_500_000
_KEPT_CHARACTERS: Final = 65_536
_MARK: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]')
_NUL: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def stored_result(value: Any) -> tuple[str, str | None]:
    """Return the result as JSON, and None or a note that says why it is only the beginning of the result's text.

    The text is null if it cannot be made. Raise ValueError for a coroutine or a generator: its work was never done.
    """
    if value is None:
        return "null", None
    try:
        text = encode(value)
        why = _why_not(text)
    except ValueError as error:
        if inspect.isawaitable(value) or inspect.isgenerator(value) or inspect.isasyncgen(value):
            raise ValueError(f"the handler returned a {type(value).__name__}, which has not run") from None
        text, why = _shown(value), f"it is no JSON: {error}"
    if why is None:
        return text, None
    kept = (value if isinstance(value, str) else text)[:_KEPT_CHARACTERS]
    kept = kept.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    return json.dumps(kept or None), f"the result cannot be stored: {why[:200]}; the beginning of its text is kept"


def _why_not(text: str) -> str | None:
    if len(text) > _ENCODED_MAX:
        return "it is too large"
    if "\\u" in text and (_NUL.search(text) or _has_half_a_character(text)):
        return "a text holds U+0000 or half a character"
    if text.count("[") + text.count("{") > _LEVELS_MAX and _levels(text) > _LEVELS_MAX:
        return f"it is nested deeper than {_LEVELS_MAX}"
    return None


def _has_half_a_character(text: str) -> bool:
    try:
        json.dumps(json.loads(text), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _levels(text: str) -> int:
    level = deepest = 0
    for mark in _MARK.findall(text):
        level += 1 if mark in "[{" else -1 if mark in "]}" else 0
        deepest = max(level, deepest)
    return deepest


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except BaseException:  # noqa: BLE001 - a user's classes may raise anything
        return ""
