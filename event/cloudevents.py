"""The CloudEvents 1.0 bindings: HTTP (binary, structured, batch), Kafka, AMQP 0-9-1 (WH-C01..WH-C10).

    plain       no CloudEvent: body and content type as they are; a part of the required ``ce-`` headers counts as none
    binary      attributes as ``ce-`` headers, body = data
    structured  one event as a JSON object, ``application/cloudevents+json``
    batch       a JSON array of events, ``application/cloudevents-batch+json``
    opaque      a CloudEvents media type in a format that we do not read (avro, protobuf): stored and passed on as
                bytes with its content type, never wrapped, never taken apart

The codec has no opinion about keys and idempotency beyond this: ``partitionkey`` fills the key when the publisher
gives no other, and a CloudEvent's identity (source, id) fills ``idempotency_key``; an ``Idempotency-Key`` of the
publisher's own replaces it (``dataclasses.replace``).

AMQP: the official binding is for AMQP 1.0.  We write ``cloudEvents_`` headers, which RabbitMQ shows to 1.0 clients as
application properties, and read ``cloudEvents:`` and Knative's ``ce-`` too, one kind per message (WH-C09).
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
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
    format_time,
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
    "decode_amqp",
    "decode_http",
    "decode_kafka",
    "detect",
    "encode_amqp",
    "encode_batch",
    "encode_binary",
    "encode_kafka",
    "encode_structured",
    "is_opaque",
]

STRUCTURED_TYPE = "application/cloudevents+json"
BATCH_TYPE = "application/cloudevents-batch+json"
BATCH_EVENTS_MAX = 1_000
_STRUCTURED_PREFIX = "application/cloudevents"
_BATCH_PREFIX = "application/cloudevents-batch"
_KAFKA_PREFIX = "ce_"
_AMQP_PREFIX = "cloudEvents_"
_AMQP_PREFIXES_READ = (_AMQP_PREFIX, "cloudEvents:", HEADER_PREFIX)


class Mode(StrEnum):
    """How a message carries CloudEvents; see the module's docstring."""

    PLAIN = "plain"
    BINARY = "binary"
    STRUCTURED = "structured"
    BATCH = "batch"
    OPAQUE = "opaque"


class HttpMessage(NamedTuple):
    """What is to be sent: the header fields that the mode calls for (lower-case names) and the body."""

    headers: dict[str, str]
    body: bytes


def detect(content_type: str | None, attribute_names: Iterable[str]) -> Mode:
    """Tell the mode from the content type and the attribute names found in headers, in the order of WH-C06."""
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
) -> list[Draft]:
    """Read the event (or the batch, which may be empty) of one HTTP request.

    ``headers`` are raw fields as ASGI gives them; only ``ce-*`` and ``content-type`` are looked at, and each may come
    once.  ``topic`` and ``key`` are taken as legal.  Raises CloudEventError.
    """
    encoded = _ce_headers(headers)
    mode = detect(content_type, encoded)
    if mode is Mode.BATCH:
        _check_charset(content_type)
        batch = json_format.read_batch(body, events_max=batch_events_max)
        return [_draft_of_batch(topic, key, position, parts) for position, parts in enumerate(batch)]
    attributes = {name: decode_header_value(value) for name, value in encoded.items()} if mode is Mode.BINARY else {}
    return [_decode(mode, topic, key, Parts(attributes, content_type, body))]


def decode_kafka(topic: str, key: bytes | None, headers: Iterable[tuple[str, bytes]], value: bytes | None) -> Draft:
    """Read a Kafka record: binary or structured mode, else a plain event; there is no batch mode (WH-C08).

    A tombstone (value None) is an event with an empty payload.  Raises CloudEventError.
    """
    attributes: dict[str, str] = {}
    content_type: str | None = None
    for name, raw in headers:
        lower = name.lower()
        if lower == "content-type":
            content_type = _utf8(raw)
        elif lower.startswith(_KAFKA_PREFIX):
            _add_once(attributes, lower.removeprefix(_KAFKA_PREFIX), _utf8(raw))
    parts = Parts(attributes, content_type, value or b"")
    return _decode_message(topic, None if key is None else _utf8(key), parts)


def decode_amqp(
    topic: str, key: str | None, content_type: str | None, headers: Mapping[str, object], body: bytes
) -> Draft:
    """Read an AMQP 0-9-1 message: binary or structured mode, else a plain event.  Raises CloudEventError."""
    attributes: dict[str, str] = {}
    prefixes: set[str] = set()
    for name, value in headers.items():
        prefix = next((prefix for prefix in _AMQP_PREFIXES_READ if name.startswith(prefix)), None)
        if prefix is not None:
            prefixes.add(prefix)
            _add_once(attributes, name.removeprefix(prefix), _amqp_text(value))
    if len(prefixes) > 1:
        raise CloudEventError("a message uses one prefix for its CloudEvents headers")
    return _decode_message(topic, key, Parts(attributes, content_type, body))


def encode_binary(event: Event, *, source: str | None = None, event_type: str = DEFAULT_TYPE) -> HttpMessage:
    """One event for HTTP in binary mode; ``source`` and ``event_type`` serve events published without attributes.

    An opaque event keeps its content type and gets no ``ce-`` headers.
    """
    headers = {} if event.content_type is None else {"content-type": event.content_type}
    if not is_opaque(event):
        attributes = attributes_of(event, source=source, event_type=event_type)
        headers |= {HEADER_PREFIX + name: encode_header_value(value) for name, value in attributes.items()}
    return HttpMessage(headers, event.payload)


def encode_structured(event: Event, *, source: str | None = None, event_type: str = DEFAULT_TYPE) -> HttpMessage:
    """One event for HTTP in structured mode (JSON); an opaque event is structured already and goes as it is."""
    if is_opaque(event):
        return encode_binary(event)
    body = json_format.write_one(_parts(event, source, event_type))
    return HttpMessage({"content-type": STRUCTURED_TYPE}, body)


def encode_batch(events: Sequence[Event], *, source: str | None = None, event_type: str = DEFAULT_TYPE) -> HttpMessage:
    """Several events as one JSON array.  ValueError for an opaque event: it cannot be a member, send it alone."""
    if any(is_opaque(event) for event in events):
        raise ValueError("an event in a CloudEvents format that we do not read cannot be put into a batch")
    body = json_format.write_batch([_parts(event, source, event_type) for event in events])
    return HttpMessage({"content-type": BATCH_TYPE}, body)


def encode_kafka(event: Event, *, source: str | None = None, event_type: str = DEFAULT_TYPE) -> list[tuple[str, bytes]]:
    """Record headers of binary mode: ``ce_<name>`` in UTF-8 and ``content-type``; key and value are the event's.

    An event without data has an empty value, not null: null would be a tombstone on a compacted topic (WH-C08).
    """
    headers = [] if event.content_type is None else [("content-type", event.content_type.encode())]
    if not is_opaque(event):
        attributes = attributes_of(event, source=source, event_type=event_type)
        headers += [(_KAFKA_PREFIX + name, value.encode()) for name, value in attributes.items()]
    return headers


def encode_amqp(event: Event, *, source: str | None = None, event_type: str = DEFAULT_TYPE) -> dict[str, str]:
    """Message headers of binary mode, ``cloudEvents_<name>``; the content type is the message's own property."""
    if is_opaque(event):
        return {}
    attributes = attributes_of(event, source=source, event_type=event_type)
    return {_AMQP_PREFIX + name: value for name, value in attributes.items()}


def _decode_message(topic: str, key: str | None, parts: Parts) -> Draft:
    mode = detect(parts.content_type, parts.attributes)
    if mode is Mode.BATCH:
        mode = Mode.OPAQUE  # no batch mode on a broker
    return _decode(mode, topic, key, parts)


def _decode(mode: Mode, topic: str, key: str | None, parts: Parts) -> Draft:
    if mode is Mode.STRUCTURED:
        _check_charset(parts.content_type)
        return _draft(topic, key, json_format.read_one(parts.payload))
    if mode is Mode.BINARY:
        attributes = dict(parts.attributes)
        declared = attributes.pop("datacontenttype", None)  # no such header in binary mode; the real one wins
        return _draft(topic, key, Parts(attributes, parts.content_type or declared or None, parts.payload))
    check_content_type(parts.content_type or None)
    return Draft(topic=topic, payload=parts.payload, key=key, content_type=parts.content_type or None)


def _draft_of_batch(topic: str, key: str | None, position: int, parts: Parts) -> Draft:
    try:
        return _draft(topic, key, parts)
    except CloudEventError as error:
        raise CloudEventError(f"event {position} of the batch: {error.detail}", error.status_hint) from error


def _draft(topic: str, key: str | None, parts: Parts) -> Draft:
    """Make a draft of a CloudEvent, judging its attributes."""
    check_attributes(parts.attributes)
    check_content_type(parts.content_type)
    if (parts.content_type or "").lower().startswith(_STRUCTURED_PREFIX):
        raise CloudEventError("an event whose data is itself a CloudEvent could not travel in binary mode", 422)
    partition_key = parts.attributes.get("partitionkey")
    if key is None and partition_key:
        try:
            key = validate_key(partition_key)
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
    """The ``ce-`` fields by attribute name, values still encoded."""
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
    """Whether it is a CloudEvent in a format that we do not read: it goes as it is, and alone."""
    return (event.content_type or "").strip().lower().startswith(_STRUCTURED_PREFIX)


def _utf8(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CloudEventError("a key or header is not UTF-8", 422) from error


def _amqp_text(value: object) -> str:
    """The canonical text of an AMQP field value; aio-pika gives timestamps as datetime."""
    match value:
        case str():
            return value
        case bytes():
            return _utf8(value)
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case datetime() if value.tzinfo is not None:
            return format_time(value)
    raise CloudEventError(f"a CloudEvents header has the type {type(value).__name__}", 422)
