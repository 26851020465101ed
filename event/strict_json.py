"""The only JSON reader for untrusted bytes.

Python's parser is too lenient for a hub. It takes the last of two equal keys, NaN, numbers that become infinity, lone
surrogates and U+0000, which PostgreSQL's text refuses. Deep nesting ends in RecursionError. All of these are refused
with a reason and an HTTP status: 400 for invalid JSON, 422 for text that cannot be stored.

Shape (depth and number of values) is judged on the text *before* parsing, so that a hostile megabyte never becomes a
hundred megabytes of objects.
"""

import json
import math
import re
from collections.abc import Callable
from typing import NamedTuple, NoReturn, TypeVar

T = TypeVar("T")

DEPTH_MAX = 64
NODES_MAX = 65_536  # a legal megabyte then blocks the event loop for less than 50 ms
DIGITS_MAX = 1_000
LENIENT = json.JSONDecoder(strict=False)  # for what is cleaned before it is read strictly
TEXT_CHARACTERS_MAX = 65_536  # of content that is kept as text, because it is no JSON

# One JSON string; the closing quote is optional, so that an unfinished string matches at once (no quadratic search).
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")
_SPACE = re.compile(r"[ \t\n\r]*")


class StrictJsonError(ValueError):
    """The bytes were refused; ``status_hint`` is 400 or 422."""

    def __init__(self, reason: str, status_hint: int = 400) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status_hint = status_hint


class Member(NamedTuple):
    """One member of a JSON object: its value, and the exact text that it was read from."""

    value: object
    source: str


def loads(data: bytes, *, depth_max: int = DEPTH_MAX, nodes_max: int = NODES_MAX) -> object:
    """Parse one JSON text.  ``nodes_max`` bounds commas plus opening brackets.  Raises StrictJsonError."""
    return _whole(_text(data, depth_max, nodes_max), _value)


def loads_members(data: bytes, *, depth_max: int = DEPTH_MAX, nodes_max: int = NODES_MAX) -> dict[str, Member]:
    """Parse a JSON text that must be an object, keeping the source text of each member."""
    return _whole(_text(data, depth_max, nodes_max), _object)


def loads_array_members(
    data: bytes, *, depth_max: int = DEPTH_MAX, nodes_max: int = NODES_MAX
) -> list[dict[str, Member]]:
    """Parse a JSON text that must be an array of objects, keeping the source text of each object's members."""
    return _whole(_text(data, depth_max, nodes_max), _array)


def storable_text(text: str) -> str:
    """Return the beginning of a text. Characters that PostgreSQL cannot store become another one."""
    return text[:TEXT_CHARACTERS_MAX].replace("\x00", "\ufffd").encode("utf-8", "replace").decode()


def _text(data: bytes, depth_max: int, nodes_max: int) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise StrictJsonError("the text is not UTF-8") from error
    check_shape(text, depth_max=depth_max, nodes_max=nodes_max)
    return text


def nodes_of(data: bytes, *, enough: int) -> int:
    """Count commas and opening brackets of a JSON text. A result of at most ``enough`` may include those inside
    strings.
    """
    most = data.count(b"[") + data.count(b"{") + data.count(b",")
    if most <= enough:
        return most
    bones = _STRING.sub("", data.decode("utf-8", "replace"))
    return bones.count("[") + bones.count("{") + bones.count(",")


def check_shape(text: str, *, depth_max: int = DEPTH_MAX, nodes_max: int = NODES_MAX) -> None:
    """Judge depth and number of values of a JSON text, before anything parses it.  Raises StrictJsonError."""
    brackets = text.count("[") + text.count("{")
    if brackets <= depth_max and brackets + text.count(",") <= nodes_max:
        return  # strings were counted too, so the true numbers are no higher
    bones = _STRING.sub("", text)
    if bones.count("[") + bones.count("{") + bones.count(",") > nodes_max:
        raise StrictJsonError(f"more than {nodes_max} values")
    depth = 0
    for bracket in _BRACKET.findall(bones):
        depth += 1 if bracket in "[{" else -1
        if depth > depth_max:
            raise StrictJsonError(f"nested deeper than {depth_max}")


def _whole(text: str, read: Callable[[str, int], tuple[T, int]]) -> T:
    try:
        value, end = read(text, _skip(text, 0))
    except json.JSONDecodeError as error:
        raise StrictJsonError(f"not JSON: {error.msg} at character {error.pos}") from error
    except RecursionError as error:  # possible only where the caller's stack is deep already
        raise StrictJsonError("nested too deep") from error
    if _skip(text, end) != len(text):
        raise StrictJsonError(f"not JSON: extra text at character {end}")
    if "\\u" in text:  # U+0000 and surrogates can only come from an escape
        _check_texts(value)
    return value


def _object(text: str, start: int) -> tuple[dict[str, Member], int]:
    members: dict[str, Member] = {}
    if not text.startswith("{", start):
        raise StrictJsonError("not a JSON object")
    position = _skip(text, start + 1)
    if text.startswith("}", position):
        return members, position + 1
    while True:
        if not text.startswith('"', position):
            raise StrictJsonError(f"not JSON: expecting a member's name at character {position}")
        name, end = _DECODER.raw_decode(text, position)
        value_start = _skip(text, _expect(text, _skip(text, end), ":"))
        value, value_end = _DECODER.raw_decode(text, value_start)
        if name in members:
            raise StrictJsonError("two members of an object have the same name")
        members[name] = Member(value, text[value_start:value_end])
        position = _skip(text, value_end)
        if text.startswith("}", position):
            return members, position + 1
        position = _skip(text, _expect(text, position, ","))


def _array(text: str, start: int) -> tuple[list[dict[str, Member]], int]:
    elements: list[dict[str, Member]] = []
    if not text.startswith("[", start):
        raise StrictJsonError("not a JSON array")
    position = _skip(text, start + 1)
    if text.startswith("]", position):
        return elements, position + 1
    while True:
        element, end = _object(text, position)
        elements.append(element)
        position = _skip(text, end)
        if text.startswith("]", position):
            return elements, position + 1
        position = _skip(text, _expect(text, position, ","))


def _value(text: str, start: int) -> tuple[object, int]:
    return _DECODER.raw_decode(text, start)


def _skip(text: str, position: int) -> int:
    if position < len(text) and text[position] > " ":  # the usual case
        return position
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _expect(text: str, position: int, character: str) -> int:
    if not text.startswith(character, position):
        raise StrictJsonError(f"not JSON: expecting {character!r} at character {position}")
    return position + 1


def _check_texts(root: object) -> None:
    pending = [root]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            _check_text(value)
        elif isinstance(value, dict):
            pending += value.keys()
            pending += value.values()
        elif isinstance(value, (list, Member)):
            pending += value


def _check_text(text: str) -> None:
    if "\x00" in text:
        raise StrictJsonError("a text holds U+0000", 422)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise StrictJsonError("a text holds a lone surrogate", 422) from error


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise StrictJsonError("two members of an object have the same name")
    return result


def _bounded_int(text: str) -> int:
    if len(text) > DIGITS_MAX:
        raise StrictJsonError(f"an integer has more than {DIGITS_MAX} digits")
    return int(text)


def _finite_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise StrictJsonError("a number is too large")
    return value


def _no_constant(name: str) -> NoReturn:
    raise StrictJsonError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=_bounded_int, parse_float=_finite_float, parse_constant=_no_constant
)
