"""Places of the members of a JSON object. No value is built, so that a body of the wrong shape costs little.

Brackets are counted in windows of the text. Without its strings, each bracket of a window is a step of 1 or -1, and the
sum of the steps is the depth. The closing bracket is looked for only in the window where the depth becomes 0.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from itertools import accumulate, islice
from typing import Final

from event.strict_json import LENIENT

__all__ = ["member_places"]

_TEXT: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
"""One JSON string; the closing quote is optional, so that an unfinished string matches at once."""
_STRING = re.compile(_TEXT, re.DOTALL)
_WINDOW = re.compile(rb'(?:[^"]{1,32}+|%b){1,1024}+' % _TEXT, re.DOTALL)
_MARK = re.compile(rb"%b|[\[\]{}]" % _TEXT, re.DOTALL)
_WORD = re.compile(rb"[^,:\[\]{}\s\"]++")
_SPACE = re.compile(rb"[ \t\n\r]*+")
_QUOTE: Final = ord('"')
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[{]}"))


def member_places(data: bytes) -> Iterator[tuple[str, int, int]]:
    """Yield name, beginning and end of the value of each member of a JSON object, for a caller that changes some.

    What ``event.strict_json.loads`` refuses is not judged here. Raises ValueError where this is no object.
    """
    position = _skip(data, _expect(data, _skip(data, 0), b"{"))
    while not data.startswith(b"}", position):
        name = _end(_STRING.match(data, position))
        start = _skip(data, _expect(data, _skip(data, name), b":"))
        end = _value_end(data, start)
        yield LENIENT.decode(data[position:name].decode("utf-8", "replace")), start, end
        position = _skip(data, end)
        if not data.startswith(b"}", position):
            position = _skip(data, _expect(data, position, b","))


def _value_end(data: bytes, start: int) -> int:
    if data[start : start + 1] in (b"[", b"{"):
        return _closing(data, start)
    return _end((_STRING if data.startswith(b'"', start) else _WORD).match(data, start))


def _closing(data: bytes, start: int) -> int:
    """Return the place behind the bracket that closes the one at ``start``."""
    depth = 1
    for window in _WINDOW.finditer(data, start + 1):
        steps = array("b", _STRING.sub(b"", window[0]).translate(_STEPS, _NO_BRACKETS))
        depths = list(accumulate(steps, initial=depth))
        if min(depths) <= 0:
            marks = _MARK.finditer(data, window.start(), window.end())
            brackets = (mark for mark in marks if mark[0][0] != _QUOTE)
            return next(islice(brackets, depths.index(0) - 1, None)).end()
        depth = depths[-1]
    raise ValueError("a bracket is not closed")


def _skip(data: bytes, position: int) -> int:
    return _end(_SPACE.match(data, position))


def _expect(data: bytes, position: int, character: bytes) -> int:
    if not data.startswith(character, position):
        raise ValueError(f"expecting {character!r} at byte {position}")
    return position + 1


def _end(found: re.Match[bytes] | None) -> int:
    if found is None:
        raise ValueError("expecting a name or a value")
    return found.end()
