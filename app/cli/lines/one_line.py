"""Make untrusted text harmless for a terminal, and where asked keep it on one line."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["harmless", "on_one_line"]

_LINE_END: Final = re.compile(r"[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_CONTROL_IN_LINES: Final = re.compile(r"(?!\n|\t|\r\n)[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def harmless(text: str) -> str:
    """Return the text for a terminal with its control characters escaped, except tabs and ends of lines."""
    return _CONTROL_IN_LINES.sub(_escaped, text)


def on_one_line(text: str, *, is_terminal: bool) -> str:
    """Return the text with its line ends escaped, and for a terminal all other control characters too."""
    return (_CONTROL if is_terminal else _LINE_END).sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
