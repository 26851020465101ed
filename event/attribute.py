"""CloudEvents 1.0 attributes: names, values, and how a value travels in an HTTP header.

Sources: CloudEvents 1.0.2 ``spec.md`` ("Context Attributes", "Type System") and ``http-protocol-binding.md`` 3.1.3;
WH-C01, WH-C03. Inside hookwire every value is plain text. A number or a truth value of the JSON format becomes its
canonical string, which the specification allows.
"""

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote, unquote_to_bytes

from event.event import Event

SPEC_VERSION = "1.0"
REQUIRED = ("specversion", "id", "source", "type")
NEVER_EMPTY = (*REQUIRED, "subject", "dataschema", "time")
HEADER_PREFIX = "ce-"
DEFAULT_TYPE = "hookwire.event"

ATTRIBUTES_MAX = 64
NAME_LENGTH_MAX = 64
VALUE_BYTES_MAX = 4_096
TOTAL_BYTES_MAX = 16_384  # all names and values: they have to fit into one request's headers at any receiver
CONTENT_TYPE_BYTES_MAX = 255  # an AMQP short string

_NAME = re.compile(r"[a-z0-9]+")
_PLAIN = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')
_NEEDS_NO_ENCODING = re.compile(rf"[{re.escape(_PLAIN)}]*")
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d):(\d\d)(?:\.\d+)?(?:[Zz]|([+-]\d\d:\d\d))", re.ASCII
)  # RFC 3339, section 5.6
_CONTENT_TYPE = re.compile(r"[\x20-\x7e\t]+")


class CloudEventError(ValueError):
    """A CloudEvent was refused; ``status_hint`` is the HTTP status that fits (400, 413, 415 or 422)."""

    def __init__(self, detail: str, status_hint: int = 400) -> None:
        super().__init__(detail)
        self.detail = detail
        self.status_hint = status_hint


def check_attributes(attributes: Mapping[str, str]) -> None:
    """Judge names and values of one event's attributes (without ``datacontenttype``).  Raises CloudEventError."""
    missing = [name for name in REQUIRED if name not in attributes]
    if missing:
        raise CloudEventError(f"the CloudEvents attribute {missing[0]} is missing")
    if attributes["specversion"] != SPEC_VERSION:
        raise CloudEventError(f"only CloudEvents specversion {SPEC_VERSION} is understood", 422)
    if len(attributes) > ATTRIBUTES_MAX:
        raise CloudEventError(f"an event has at most {ATTRIBUTES_MAX} CloudEvents attributes", 422)
    if sum(len(name) + _check_attribute(name, value) for name, value in attributes.items()) > TOTAL_BYTES_MAX:
        raise CloudEventError(f"all CloudEvents attributes together have at most {TOTAL_BYTES_MAX} bytes", 422)


def check_content_type(content_type: str | None) -> None:
    """Refuse a content type that could not be sent as a header field.  Raises CloudEventError."""
    if content_type is None:
        return
    if len(content_type) > CONTENT_TYPE_BYTES_MAX or not _CONTENT_TYPE.fullmatch(content_type):
        raise CloudEventError("the content type is malformed", 422)


def encode_header_value(value: str) -> str:
    """Percent-encode space, ``"``, ``%`` and all outside U+0021..U+007E: UTF-8 first, upper-case hex (WH-C03)."""
    return value if _NEEDS_NO_ENCODING.fullmatch(value) else quote(value, safe=_PLAIN)


def decode_header_value(value: str) -> str:
    """Undo a double-quoted string, then exactly one round of percent-decoding (WH-C03).  Raises CloudEventError."""
    if not value.isascii():
        raise CloudEventError("a ce- header holds bytes outside ASCII; percent-encode them")
    if value.startswith('"'):
        quoted = _QUOTED.fullmatch(value)
        if quoted is None:
            raise CloudEventError("a ce- header holds an unfinished quoted string")
        value = re.sub(r"\\(.)", r"\1", quoted.group(1), flags=re.DOTALL)
    if "%" not in value:
        return value
    if _BAD_PERCENT.search(value):
        raise CloudEventError("a ce- header holds a % that no two hex digits follow")
    try:
        return unquote_to_bytes(value).decode("utf-8")
    except UnicodeDecodeError as error:
        raise CloudEventError("a ce- header's percent-encoding is not UTF-8") from error


def cloudevents_identity(headers: Mapping[str, str]) -> str | None:
    """Return an idempotency key of fixed size made from (source, id); None when the headers are no CloudEvent
    (WH-C01).
    """
    source, id_ = headers.get("ce-source"), headers.get("ce-id")
    if source is None or id_ is None:
        return None
    digest = hashlib.sha256(source.encode() + b"\x00" + id_.encode())  # neither may hold U+0000
    return f"cloudevent-{digest.hexdigest()}"


def attributes_of(event: Event, *, source: str | None = None, event_type: str = DEFAULT_TYPE) -> dict[str, str]:
    """Return the attributes of an event to send: the publisher's own, or a full set made from the event.

    For a plain event: ``id`` = its event id, ``source`` = the parameter or ``/topics/<topic>``, ``type`` =
    ``event_type``, ``time`` = its acceptance, ``partitionkey`` = its key if it has one.
    """
    own = {
        name.removeprefix(HEADER_PREFIX): value
        for name, value in event.headers.items()
        if name.startswith(HEADER_PREFIX) and _NAME.fullmatch(name.removeprefix(HEADER_PREFIX))
    }
    if all(name in own for name in REQUIRED):
        return own
    made = {
        "specversion": SPEC_VERSION,
        "id": event.event_id,
        "source": source or f"/topics/{event.topic}",
        "type": event_type,
        "time": format_time(event.accepted_at),
    }
    return made if event.key is None else made | {"partitionkey": event.key}


def format_time(moment: datetime) -> str:
    """Write a moment with a time zone as RFC 3339 in UTC, such as ``2026-01-31T12:00:00.500000Z``."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def _check_attribute(name: str, value: str) -> int:
    """Judge one attribute and return the bytes of its value."""
    if not _NAME.fullmatch(name) or len(name) > NAME_LENGTH_MAX or name == "data":
        raise CloudEventError("a CloudEvents attribute's name is lower-case letters and digits, and not 'data'")
    if not value and name in NEVER_EMPTY:
        raise CloudEventError(f"the CloudEvents attribute {name} is empty", 422)
    if len(value) > VALUE_BYTES_MAX:  # cheaper than the check of each character, so it comes first
        raise CloudEventError(f"the CloudEvents attribute {name} has more than {VALUE_BYTES_MAX} bytes", 422)
    if any(_is_forbidden(character) for character in value):
        raise CloudEventError(f"the CloudEvents attribute {name} holds a character that is not allowed", 422)
    if name == "time" and not _is_time(value):
        raise CloudEventError("the CloudEvents attribute time is not an RFC 3339 timestamp", 422)
    size_bytes = len(value.encode())
    if size_bytes > VALUE_BYTES_MAX:
        raise CloudEventError(f"the CloudEvents attribute {name} has more than {VALUE_BYTES_MAX} bytes", 422)
    return size_bytes


def _is_forbidden(character: str) -> bool:
    """Return whether a character is a control character, a surrogate or a noncharacter (CloudEvents type
    ``String``).
    """
    code = ord(character)
    return unicodedata.category(character) in ("Cc", "Cs") or 0xFDD0 <= code <= 0xFDEF or code & 0xFFFE == 0xFFFE


def _is_time(text: str) -> bool:
    match = _TIME.fullmatch(text)
    if match is None:
        return False
    day, minute, second, offset = match.groups()
    if second == "60":  # a leap second is legal RFC 3339; Python's clock has none
        second = "59"
    try:
        datetime.fromisoformat(f"{day}T{minute}:{second}{offset or '+00:00'}")
    except ValueError:
        return False
    return True
