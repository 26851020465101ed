"""Headers of an AMQP message as headers of an event.

An event's header has a short name and one line of text, because every sink must carry it. A message's header may be a
table, a list, bytes or several lines. No message is refused for a header: its value becomes text, or it is left out and
counted.

===========================  ===================================================================================
text in one line, a number   unchanged
truth value, time            ``true`` or ``false``, RFC 3339 in UTC
table, list                  JSON; bytes in it as UTF-8, or else in Base64
control characters           percent-encoded, with ``%`` itself, so that the text can be decoded
bytes that are not UTF-8     percent-encoded
no value                     left out without being counted
===========================  ===================================================================================

Left out and counted, by reason:

``name``       A name that is not 1-200 of a-z 0-9 _ . - in lower case.
``twice``      A second header of the same name in lower case.
``reserved``   A name of the hub's own.
``limit``      A header that does not fit into the limits of an event. Later headers that fit are kept.
``depth``      A table that is nested too deeply.
``hops``       A number of hubs that is no number.
``content_type``  A type that no event can have.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Final
from urllib.parse import quote_from_bytes

from event.attribute import CloudEventError, check_content_type
from event.timestamp import format_timestamp
from event.tombstone import TOMBSTONE_HEADER

__all__ = ["OTHER_HUBS", "MessageHeaders", "encode_controls", "text_of"]

OTHER_HUBS: Final = frozenset(
    {f"hookwire-{name}" for name in ("event-id", "topic", "term", "accepted-at", "sequence", "key", "hops")}
)
"""Headers of another hub: they say what was true there."""

_COUNT_MAX: Final = 60
_BYTES_MAX: Final = 14_000
"""As JSON. An event has at most 64 headers and 16,384 bytes; the rest is for the headers that the hub adds."""
_NAME = re.compile(r"[a-z0-9_.-]{1,200}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ENCODED = re.compile(r"[\x00-\x1f\x7f%]")
_PRINTED: Final = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")


class MessageHeaders:
    """The headers that fit, in ``kept``; ``left_out`` has a reason for each of the others."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}
        self.left_out: list[str] = []
        self._bytes = 0

    def add_all(self, named: Iterable[tuple[str, object]]) -> None:
        """Add headers in their order. Names are in lower case."""
        for name, value in named:
            self._add(name, value)

    def add_publishers(
        self, given: Iterable[tuple[str, object]], prefixes: Sequence[str], is_passed_over: Callable[[str], bool]
    ) -> None:
        """Add a publisher's headers. A name with one of the prefixes is an attribute of CloudEvents. Attributes come
        first, so that large headers do not displace them.
        """
        named = self._named(given, prefixes, is_passed_over)
        self.add_all(sorted(named, key=lambda header: not header[0].startswith("ce-")))

    def _named(
        self, given: Iterable[tuple[str, object]], prefixes: Sequence[str], is_passed_over: Callable[[str], bool]
    ) -> Iterator[tuple[str, object]]:
        for any_case, value in given:
            name = any_case.lower()
            if is_passed_over(name) or value is None:
                continue
            if name.startswith("hookwire-") and name != TOMBSTONE_HEADER:
                self.left_out.append("reserved")
                continue
            prefix = next((prefix for prefix in prefixes if name.startswith(prefix)), None)
            yield (name if prefix is None else f"ce-{name.removeprefix(prefix)}"), value

    def hops(self, text: str) -> str:
        """Return the number of hubs that the message has passed; 0 for a text that is no number."""
        if text.isascii() and text.isdigit():
            return text
        self.left_out.append("hops")
        return "0"

    def content_type(self, given: str | None) -> str | None:
        """Return the type of the content; None without one, and for one that no event can have."""
        try:
            check_content_type(given)
        except CloudEventError:
            self.left_out.append("content_type")
            return None
        return given or None

    def _add(self, name: str, value: object) -> None:
        if len(self.kept) >= _COUNT_MAX:  # first, because a message may have 10,000 headers and more
            self.left_out.append("limit")
            return
        try:
            text = text_of(value)
        except RecursionError:
            self.left_out.append("depth")
            return
        size = _size(name) + _size(text)
        if not _NAME.fullmatch(name):
            self.left_out.append("name")
        elif name in self.kept:
            self.left_out.append("twice")
        elif self._bytes + size > _BYTES_MAX:
            self.left_out.append("limit")
        else:
            self.kept[name] = text
            self._bytes += size


def text_of(value: object) -> str:
    """Return a header's value as one line of text. Raise RecursionError for a table that is nested too deeply."""
    if isinstance(value, bytes | bytearray):
        return _decoded(bytes(value))
    if isinstance(value, dict | list | tuple):
        return encode_controls(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_member))
    if isinstance(value, bool):
        return str(value).lower()
    return encode_controls(_plain(value))


def encode_controls(text: str) -> str:
    """Percent-encode the control characters of a text, and ``%`` where there are any."""
    return _ENCODED.sub(lambda found: f"%{ord(found[0]):02X}", text) if _CONTROL.search(text) else text


def _decoded(value: bytes) -> str:
    try:
        return encode_controls(value.decode())
    except UnicodeDecodeError:
        return quote_from_bytes(value, safe=_PRINTED)


def _plain(value: object) -> str:
    return format_timestamp(value) if isinstance(value, datetime) else str(value)


def _member(value: object) -> object:
    """Return a member of a table that JSON has no type for."""
    if isinstance(value, bytes | bytearray):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    return float(value) if isinstance(value, Decimal) else _plain(value)


def _size(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode()) + len(", ")
