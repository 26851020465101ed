"""The CloudEvents 1.0 binding of HTTP: binary, structured, batch.

    plain       no CloudEvent, or not all required ``ce-`` headers: body and content type as they are
    binary      attributes as ``ce-`` headers, body = data
    structured  one event as a JSON object, ``application/cloudevents+json``
    batch       a JSON array of events, ``application/cloudevents-batch+json``
    opaque      a CloudEvents media type in an unsupported format (avro, protobuf): stored and sent unchanged

The codec sets keys as follows. ``partitionkey`` fills the key when the publisher gives no other. A CloudEvent's
identity (source, id) fills ``idempotency_key``; the publisher's own ``Idempotency-Key`` replaces it
(``dataclasses.replace``).

Brokers: :mod:`event.carrier` names the attributes in the headers of Kafka and AMQP 0-9-1.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from event import json_format
from event.attribute import (
    DEFAULT_TYPE,
    HEADER_PREFIX,
    REQUIRED,
    CloudEventError,
    attributes_of,
    check_attributes,
    check_content_type,
    cloudevents_identity,
    decode_header_value,
    encode_header_value,
)
from event.event import Draft, Event
from event.json_format import Parts
from event.topic import TopicError, validate_key

__all__ = [
    "BATCH_TYPE",
    "DEFAULT_TYPE",
    "STRUCTURED_TYPE",
    "CloudEventError",
    "HttpMessage",
    "Mode",
    "cloudevents_identity",
    "decode_http",
    "detect",
    "encode_binary",
    "encode_structured",
    "is_opaque",
]

STRUCTURED_TYPE = "application/cloudevents+json"
BATCH_TYPE = "application/cloudevents-batch+json"
BATCH_EVENTS_MAX = 1_000
_STRUCTURED_PREFIX = "application/cloudevents"
_BATCH_PREFIX = "application/cloudevents-batch"
_KeyOf = Callable[[str], str]


class Mode(StrEnum):
    """The way a message carries CloudEvents; see the module's docstring."""

    PLAIN = "plain"
    BINARY = "binary"
    STRUCTURED = "structured"
    BATCH = "batch"
    OPAQUE = "opaque"


class HttpMessage(NamedTuple):
    """A message to send: the header fields of the mode (lower-case names) and the body."""

    headers: dict[str, str]
    body: bytes


def detect(content_type: str | None, attribute_names: Iterable[str]) -> Mode:
    """Return the mode, from the content type and the attribute names found in headers."""
    declared = (content_type or "").strip().lower()
    if declared.startswith(_STRUCTURED_PREFIX):
        mode = Mode.BATCH if declared.startswith(_BATCH_PREFIX) else Mode.STRUCTURED
        return mode if declared.partition(";")[0].rstrip() in (STRUCTURED_TYPE, BATCH_TYPE) else Mode.OPAQUE
    return Mode.BINARY if set(REQUIRED) <= set(attribute_names) else Mode.PLAIN


def decode_http(
    topic: str,
    key: str | None,
    content_type: str | None,
    headers: Iterable[tuple[bytes, bytes]],
    body: bytes,
    *,
    batch_events_max: int = BATCH_EVENTS_MAX,
    key_of: _KeyOf = validate_key,
) -> list[Draft]:
    """Read the event (or the batch, which may be empty) of one HTTP request.

    ``headers`` are raw fields as ASGI gives them; only ``ce-*`` and ``content-type`` are looked at, and each may come
    once.  ``topic`` and ``key`` must be legal; they are not checked here. ``key_of`` makes the
    ordering key of a ``partitionkey``, or raises ``event.topic.TopicError``. Raises CloudEventError.
    """
    encoded = _ce_headers(headers)
    mode = detect(content_type, encoded)
    if mode is Mode.BATCH:
        _check_charset(content_type)
        batch = json_format.read_batch(body, events_max=batch_events_max)
        return [_draft_of_batch(topic, key, key_of, position, parts) for position, parts in enumerate(batch)]
    attributes = {name: decode_header_value(value) for name, value in encoded.items()} if mode is Mode.BINARY else {}
    return [_decode(mode, topic, key, key_of, Parts(attributes, content_type, body))]


def draft_of(
    topic: str, key: str | None, content_type: str | None, attributes: Mapping[str, str], payload: bytes
) -> Draft:
    """Make a draft of values that are decoded already. With ``attributes`` it is a CloudEvent in binary mode.

    Raises CloudEventError.
    """
    mode = Mode.BINARY if attributes else detect(content_type, ())
    if mode is Mode.BATCH:
        raise CloudEventError("a batch of CloudEvents is no event", 415)
    return _decode(mode, topic, key, validate_key, Parts(dict(attributes), content_type, payload))


def encode_binary(event: Event, *, source: str | None = None, event_type: str = DEFAULT_TYPE) -> HttpMessage:
    """Encode an event for HTTP in binary mode; ``source`` and ``event_type`` serve events published without attributes.

    An opaque event keeps its content type and gets no ``ce-`` headers.
    """
    headers = {} if event.content_type is None else {"content-type": event.content_type}
    if not is_opaque(event):
        attributes = attributes_of(event, source=source, event_type=event_type)
        headers |= {HEADER_PREFIX + name: encode_header_value(value) for name, value in attributes.items()}
    return HttpMessage(headers, event.payload)


def encode_structured(event: Event, *, source: str | None = None, event_type: str = DEFAULT_TYPE) -> HttpMessage:
    """Encode an event for HTTP in structured mode (JSON). An opaque event is structured already and stays unchanged."""
    if is_opaque(event):
        return encode_binary(event)
    body = json_format.write_one(_parts(event, source, event_type))
    return HttpMessage({"content-type": STRUCTURED_TYPE}, body)


def _decode(mode: Mode, topic: str, key: str | None, key_of: _KeyOf, parts: Parts) -> Draft:
    if mode is Mode.STRUCTURED:
        _check_charset(parts.content_type)
        return _draft(topic, key, key_of, json_format.read_one(parts.payload))
    if mode is Mode.BINARY:
        attributes = dict(parts.attributes)
        declared = attributes.pop("datacontenttype", None)  # binary mode has no such header; ``content-type`` wins
        return _draft(topic, key, key_of, Parts(attributes, parts.content_type or declared or None, parts.payload))
    check_content_type(parts.content_type or None)
    return Draft(topic=topic, payload=parts.payload, key=key, content_type=parts.content_type or None)


def _draft_of_batch(topic: str, key: str | None, key_of: _KeyOf, position: int, parts: Parts) -> Draft:
    try:
        return _draft(topic, key, key_of, parts)
    except CloudEventError as error:
        raise CloudEventError(f"event {position} of the batch: {error.detail}", error.status_hint) from error


def _draft(topic: str, key: str | None, key_of: _KeyOf, parts: Parts) -> Draft:
    """Make a draft of a CloudEvent, judging its attributes."""
    check_attributes(parts.attributes)
    check_content_type(parts.content_type)
    if (parts.content_type or "").lower().startswith(_STRUCTURED_PREFIX):
        raise CloudEventError("the data of a CloudEvent must not be a CloudEvent: binary mode cannot carry it", 422)
    partition_key = parts.attributes.get("partitionkey")
    if key is None and partition_key:
        try:
            key = key_of(partition_key)
        except TopicError as error:
            raise CloudEventError(f"partitionkey: {error}", 422) from error
    headers = {HEADER_PREFIX + name: value for name, value in parts.attributes.items()}
    return Draft(
        topic=topic,
        payload=parts.payload,
        key=key,
        content_type=parts.content_type,
        headers=headers,
        idempotency_key=cloudevents_identity(headers),
    )


def _ce_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the ``ce-`` fields by attribute name, values still encoded."""
    found: dict[str, str] = {}
    content_types = 0
    for raw_name, raw_value in headers:
        name = raw_name.decode("latin-1").lower()
        if name.startswith(HEADER_PREFIX):
            _add_once(found, name.removeprefix(HEADER_PREFIX), raw_value.decode("latin-1").strip(" \t"))
        content_types += name == "content-type"
    if content_types > 1:
        raise CloudEventError("the header content-type came more than once")
    return found


def _add_once(attributes: dict[str, str], name: str, value: str) -> None:
    if name in attributes:
        raise CloudEventError(f"the CloudEvents attribute {name[:64]!a} came more than once")
    attributes[name] = value


def _check_charset(content_type: str | None) -> None:
    if not json_format.charset_is_utf8(content_type or ""):
        raise CloudEventError("CloudEvents in JSON are UTF-8", 415)


def _parts(event: Event, source: str | None, event_type: str) -> Parts:
    return Parts(attributes_of(event, source=source, event_type=event_type), event.content_type, event.payload)


def is_opaque(event: Event) -> bool:
    """Return whether the event is a CloudEvent in an unsupported format, which is sent unchanged and alone."""
    return (event.content_type or "").strip().lower().startswith(_STRUCTURED_PREFIX)
