"""The CloudEvents JSON format: one event as a JSON object, a batch as an array of them.

Reading keeps the publisher's bytes: the payload of a JSON ``data`` member is the exact slice of the source, white
space and number spelling included.  Other text is the string's UTF-8; ``data_base64`` is its decoded bytes.
``"data": null`` is no data, as in every common SDK.

Writing embeds a JSON payload verbatim as ``data``; only white space round it is dropped. UTF-8 text of a textual type
becomes a string. Everything else becomes ``data_base64``: invalid JSON, ``null``, text in another charset, content
without a type. An empty payload has no member.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import NamedTuple

from event.attribute import CloudEventError
from event.strict_json import DEPTH_MAX, NODES_MAX, Member, StrictJsonError, loads, loads_array_members, loads_members

JSON_TYPE = "application/json"
_INTEGER_MIN, _INTEGER_MAX = -(2**31), 2**31 - 1  # CloudEvents type ``Integer``
_UTF8_CHARSETS = ("", "utf-8", "utf8", "us-ascii")


class Parts(NamedTuple):
    """The parts of one event, for every carrier."""

    attributes: Mapping[str, str]
    """All but ``datacontenttype``; not yet judged (``event.attribute.check_attributes``)."""
    content_type: str | None
    payload: bytes


def read_one(body: bytes) -> Parts:
    """Read one event in structured mode.  Raises CloudEventError."""
    try:
        return _read_members(loads_members(body))
    except StrictJsonError as error:
        raise CloudEventError(error.reason, error.status_hint) from error


def read_batch(body: bytes, *, events_max: int) -> list[Parts]:
    """Read a batch; it may be empty.  Raises CloudEventError, which names the position of a bad event."""
    try:
        elements = loads_array_members(body)
    except StrictJsonError as error:
        raise CloudEventError(error.reason, error.status_hint) from error
    if len(elements) > events_max:
        raise CloudEventError(f"a batch has at most {events_max} events", 413)
    batch = []
    for position, members in enumerate(elements):
        try:
            batch.append(_read_members(members))
        except CloudEventError as error:
            raise CloudEventError(f"event {position} of the batch: {error.detail}", error.status_hint) from error
    return batch


def write_one(parts: Parts) -> bytes:
    """Write one event as a JSON object."""
    attributes = dict(parts.attributes)
    if parts.content_type is not None:
        attributes["datacontenttype"] = parts.content_type
    head = json.dumps(attributes, ensure_ascii=False, separators=(",", ":")).encode()
    member = _write_payload(parts.content_type, parts.payload)
    return head[:-1] + b"," + member + b"}" if member else head


def is_json_type(content_type: str) -> bool:
    """Return whether the media type's subtype is ``json`` or ends in ``+json``."""
    subtype = _media_type(content_type).partition("/")[2]
    return subtype == "json" or subtype.endswith("+json")


def charset_is_utf8(content_type: str) -> bool:
    """Return whether the type names no charset, or one that UTF-8 contains."""
    for parameter in content_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip('"').lower() in _UTF8_CHARSETS
    return True


def _read_members(members: dict[str, Member]) -> Parts:
    attributes = {
        name: text
        for name, member in members.items()
        if name not in ("data", "data_base64") and (text := _attribute_text(name, member.value)) is not None
    }
    content_type = attributes.pop("datacontenttype", None)
    data, data_base64 = members.get("data"), members.get("data_base64")
    if data is not None and data.value is None and (data_base64 is None or data_base64.value is None):
        data = None  # a CloudEvent has no data then
    return Parts(attributes, *payload_of(content_type, data, data_base64))


def payload_of(content_type: str | None, data: Member | None, data_base64: Member | None) -> tuple[str | None, bytes]:
    """Return content type and body of the two members for data. Raises CloudEventError.

    ``data`` of a JSON type is kept as it was written; without any type it is JSON. Of another type it is a text.
    """
    if data_base64 is not None and data_base64.value is not None:
        if data is not None:
            raise CloudEventError("an event has data or data_base64, not both")
        return content_type, _from_base64(data_base64.value)
    if data is None:
        return content_type, b""
    if content_type is None or is_json_type(content_type):
        return content_type or JSON_TYPE, data.source.encode()
    if not isinstance(data.value, str):
        raise CloudEventError("data of a content type that is not JSON must be a string, or data_base64", 422)
    if not charset_is_utf8(content_type):
        raise CloudEventError("data as a string needs the charset UTF-8; send other charsets as data_base64", 422)
    return content_type, data.value.encode()


def _attribute_text(name: str, value: object) -> str | None:
    """Return the canonical string of an attribute's JSON value; None when it is absent."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and _INTEGER_MIN <= value <= _INTEGER_MAX:
        return str(value)
    raise CloudEventError(f"the CloudEvents attribute {name[:64]!a} is no string, truth value or 32-bit integer", 422)


def _from_base64(value: object) -> bytes:
    if not isinstance(value, str):
        raise CloudEventError("data_base64 is not a string", 422)
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:  # ValueError: characters outside ASCII
        raise CloudEventError("data_base64 is not base64", 422) from error


def _write_payload(content_type: str | None, payload: bytes) -> bytes:
    if not payload:
        return b""
    if content_type is not None and is_json_type(content_type):
        value = payload.strip(b" \t\n\r")
        if value != b"null" and _is_strict_json(value):
            return b'"data":' + value
    elif content_type is not None and _is_text_type(content_type) and (text := _utf8_text(payload)) is not None:
        return b'"data":' + json.dumps(text, ensure_ascii=False).encode()
    return b'"data_base64":"' + base64.b64encode(payload) + b'"'


def _is_strict_json(payload: bytes) -> bool:
    try:
        # The envelope and a batch's array add to both.
        loads(payload, depth_max=DEPTH_MAX - 2, nodes_max=NODES_MAX // 2)
    except StrictJsonError:
        return False
    return True


def _is_text_type(content_type: str) -> bool:
    media_type = _media_type(content_type)
    is_text = media_type.startswith("text/") or media_type == "application/xml" or media_type.endswith("+xml")
    return is_text and charset_is_utf8(content_type)


def _utf8_text(payload: bytes) -> str | None:
    try:
        text = payload.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\x00" in text else text  # strict readers, such as ours, refuse U+0000


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()
