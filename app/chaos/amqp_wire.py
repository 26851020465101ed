"""The part of AMQP 0-9-1 that a publisher's broker needs: frames, methods, a message's header.

It is written here, because only the relay uses AMQP client libraries, and the witness must not share the relay's codec.
Sections are those of the AMQP 0-9-1 specification.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

__all__ = [
    "BODY", "FRAME_BYTES_MAX", "HEADER", "HEARTBEAT", "METHOD", "Frame", "Method", "Properties", "Reader",
    "frame", "method", "properties_of", "read_frame", "table",
]  # fmt: skip

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_BYTES_MAX = 131_072
_FRAME_END = 0xCE
_INTEGERS = {"b": ">b", "B": ">B", "s": ">h", "u": ">H", "I": ">i", "i": ">I", "l": ">q", "L": ">q", "T": ">Q"}


class Method(NamedTuple):
    """Class and method number (section 1.2 of the generated part)."""

    class_id: int
    method_id: int


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame (2.3.5)."""

    kind: int
    channel: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Properties:
    """The properties of a content header (2.3.5.2) that the witness needs."""

    body_bytes: int
    message_id: str | None
    headers: Mapping[str, object]


class Reader:
    """Reads fields off a payload (4.2.5)."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._at = 0

    def number(self, form: str) -> int:
        """Read one number of a struct format."""
        (value,) = struct.unpack_from(form, self._payload, self._at)
        self._at += struct.calcsize(form)
        return int(value)

    def short_text(self) -> str:
        """Return a short string."""
        return self._bytes(self.number(">B")).decode()

    def table(self) -> dict[str, object]:
        """Return a field table (4.2.5.5)."""
        end = self.number(">I") + self._at
        fields: dict[str, object] = {}
        while self._at < end:
            name = self.short_text()
            fields[name] = self._value(chr(self.number(">B")))
        return fields

    def _value(self, kind: str) -> object:
        if kind == "S":
            return self._bytes(self.number(">I")).decode()
        if kind == "t":
            return bool(self.number(">B"))
        if kind == "F":
            return self.table()
        if kind in _INTEGERS:
            return self.number(_INTEGERS[kind])
        raise ValueError(f"a field of type {kind!r} in a table")

    def _bytes(self, length: int) -> bytes:
        self._at += length
        return self._payload[self._at - length : self._at]


def properties_of(payload: bytes) -> Properties:
    """Read a content header up to the message id; skip the fields between."""
    reader = Reader(payload)
    reader.number(">I")
    body_bytes, flags = reader.number(">Q"), reader.number(">H")
    message_id, headers = None, {}
    for bit, name in zip(range(15, 6, -1), "ttFBBtttm", strict=True):
        if not flags & (1 << bit):
            continue
        if name == "F":
            headers = reader.table()
        elif name == "B":
            reader.number(">B")
        elif name == "m":
            message_id = reader.short_text()
        else:
            reader.short_text()
    return Properties(body_bytes, message_id, headers)


async def read_frame(reader: asyncio.StreamReader) -> Frame:
    """Return the next frame; raises ValueError for an invalid frame, IncompleteReadError at the end."""
    kind, channel, size = struct.unpack(">BHI", await reader.readexactly(7))
    payload = await reader.readexactly(size)
    if (await reader.readexactly(1))[0] != _FRAME_END:
        raise ValueError("a frame without its end")
    return Frame(kind, channel, payload)


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """Return one frame as bytes."""
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + bytes([_FRAME_END])


def method(channel: int, which: Method, *arguments: bytes | str | int) -> bytes:
    """Return a method frame; text becomes a short string, a number a short, bytes are written as they are."""
    return frame(METHOD, channel, struct.pack(">HH", *which) + b"".join(map(_argument, arguments)))


def _argument(value: bytes | str | int) -> bytes:
    if isinstance(value, bytes):
        return value
    return _short_text(value) if isinstance(value, str) else struct.pack(">H", value)


def _short_text(text: str) -> bytes:
    encoded = text.encode()[:255]
    return bytes([len(encoded)]) + encoded


def table(fields: Mapping[str, object]) -> bytes:
    """Return a field table of texts, truths and tables."""
    content = b"".join(_short_text(name) + _field(value) for name, value in fields.items())
    return struct.pack(">I", len(content)) + content


def _field(value: object) -> bytes:
    if isinstance(value, bool):
        return b"t" + bytes([value])
    if isinstance(value, Mapping):
        return b"F" + table(value)
    text = str(value).encode()
    return b"S" + struct.pack(">I", len(text)) + text
