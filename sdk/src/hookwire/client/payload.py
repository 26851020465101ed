"""Payload: what a program passes as data, as the bytes of an event and their content type.

Dictionaries, lists, texts, numbers, truth values and None become JSON; a text becomes a JSON string, with its quotes.
Bytes are sent unchanged. Dataclasses, and objects of pydantic, msgspec and cloudevents, are written by their own
encoders, which are found without an import.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote

__all__ = ["NOTHING", "Payload", "encode_payload"]

JSON_TYPE: Final = "application/json"
_BYTES_TYPE: Final = "application/octet-stream"


_BYTES: Final = (bytes, bytearray, memoryview)
_BUILT_IN: Final = frozenset({dict, list, str, int, float, bool, type(None)})
"""Classes that belong to no package, so most data needs no further look."""


class _Nothing:
    """The default of ``data``: an event with an empty body."""

    def __repr__(self) -> str:
        return "nothing"


NOTHING: Final = _Nothing()


class Payload(NamedTuple):
    """The body of an event. ``attributes`` are those of a CloudEvent, without ``ce-``."""

    body: bytes
    content_type: str | None
    attributes: Mapping[str, str] = {}


def encode_payload(data: Any, content_type: str | None) -> Payload:
    """Return the payload. Raise TypeError for data that JSON, or this content type, cannot express."""
    if type(data) in _BUILT_IN and content_type is None:
        return Payload(_written(data), JSON_TYPE)
    if data is NOTHING:
        return Payload(b"", content_type)
    if isinstance(data, _BYTES):
        return Payload(bytes(data), content_type or _BYTES_TYPE)
    if _package(data) == "cloudevents":
        return _cloudevent(data, content_type)
    if content_type is not None and not _is_json(content_type):
        if isinstance(data, str):
            return Payload(data.encode(), content_type)
        raise TypeError(f"data for {content_type} is bytes or str, not {type(data).__name__}")
    return Payload(_json(data), content_type or JSON_TYPE)


def _json(data: Any) -> bytes:
    if _package(data) == "msgspec" or hasattr(type(data), "__struct_fields__"):
        written: bytes = sys.modules["msgspec"].json.encode(data)
        return written
    return _written(data)


def _written(data: Any) -> bytes:
    try:
        return _ENCODER.encode(data).encode()
    except UnicodeEncodeError:
        raise TypeError("a text holds half of a surrogate pair, which is no UTF-8") from None
    except ValueError as error:
        raise TypeError(f"JSON cannot express this data: {error}") from None


def _plain(value: Any) -> Any:
    """Return a value that JSON can express, for an object that it cannot."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(type(value), "__struct_fields__"):
        return sys.modules["msgspec"].to_builtins(value)
    if hasattr(type(value), "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"JSON cannot express {type(value).__name__}; pass a dict, list, str, number, bool, None or bytes")


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)


def _cloudevent(event: Any, content_type: str | None) -> Payload:
    attributes = {name: _text(value) for name, value in event.get_attributes().items() if value is not None}
    declared = content_type or attributes.pop("datacontenttype", None)
    attributes.pop("datacontenttype", None)
    data = event.get_data()
    if data is None:
        return Payload(b"", declared, attributes)
    if isinstance(data, str) and declared is not None and not _is_json(declared):
        return Payload(data.encode(), declared, attributes)
    if isinstance(data, bytes):
        return Payload(data, declared, attributes)
    return Payload(_json(data), declared or JSON_TYPE, attributes)


def _text(value: Any) -> str:
    """Return an attribute's value as CloudEvents writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if hasattr(value, "isoformat"):
        return str(value.isoformat()).replace("+00:00", "Z")
    return str(value)


def header_value(text: str) -> str:
    """Return an attribute's value as a header: percent-encoded UTF-8 (CloudEvents HTTP binding, 3.1.3.2)."""
    return quote(text, safe="!#$&'()*+,/:;=?@[]~-._^`{|}<>\\")


def _is_json(content_type: str) -> bool:
    subtype = content_type.partition(";")[0].strip().lower().partition("/")[2]
    return subtype == "json" or subtype.endswith("+json")


def _package(value: Any) -> str:
    return type(value).__module__.partition(".")[0]
