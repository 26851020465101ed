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
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Final
from urllib.parse import quote_from_bytes

from event.timestamp import format_timestamp

__all__ = ["MessageHeaders", "encode_controls", "text_of"]

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

    def _add(self, name: str, value: object) -> None:
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
        elif len(self.kept) >= _COUNT_MAX or self._bytes + size > _BYTES_MAX:
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
