"""Decoding of messages whose properties the AMQP client cannot read.

RabbitMQ does not check all properties of a message. The client raises an error for a time beyond the calendar, an
unknown type of value, a name that is not UTF-8, or deep nesting. Then its connection ends, and the broker delivers
the same message again, for ever. :func:`tolerate_unreadable` makes the client deliver such a message without
properties. It then has the header :data:`UNREADABLE` with the reason, so that the source can refuse it, and the header
:data:`RAW_PROPERTIES` with the bytes.
"""

from __future__ import annotations

import struct
from typing import Final

from pamqp import commands, decode, header

__all__ = ["RAW_PROPERTIES", "UNREADABLE", "tolerate_unreadable"]

UNREADABLE: Final = "x-unreadable-properties"
RAW_PROPERTIES: Final = "x-raw-properties"
_FIXED_BYTES: Final = 12
_read_properties = header.ContentHeader.unmarshal


def tolerate_unreadable() -> None:
    """Change the client's decoding, in this process. A second call has no effect."""
    header.ContentHeader.unmarshal = _unmarshal  # type: ignore[method-assign]
    decode.METHODS["shortstr"] = _short_string


def _unmarshal(self: header.ContentHeader, data: bytes) -> None:
    try:
        _read_properties(self, data)
    except Exception as error:  # noqa: BLE001 - also a RecursionError
        self.class_id, self.weight, self.body_size = struct.unpack(">HHQ", data[:_FIXED_BYTES])
        self.properties = commands.Basic.Properties(
            headers={
                UNREADABLE: f"{type(error).__name__}: {error}"[:200],
                RAW_PROPERTIES: bytearray(data[_FIXED_BYTES:]),
            }
        )


def _short_string(value: bytes) -> tuple[int, str]:
    """Read a routing key, a name or an id. Write bytes that are not UTF-8 with backslashes, which no topic has."""
    length = value[0]
    return length + 1, value[1 : length + 1].decode("utf-8", "backslashreplace")
