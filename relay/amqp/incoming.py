"""Parsing of AMQP messages that become events; :mod:`relay.amqp.message` builds messages from events.

============================  ==================================================================================
body, ``content_type``        unchanged
``message_id``                the message's identity, which detects repetitions
``cloudEvents_<name>``        CloudEvents attributes; also ``cloudEvents:<name>`` and ``ce-<name>``
``hookwire-key``              the ordering key; without it, the CloudEvents attribute ``partitionkey``
``hookwire-hops``             the number of hubs that the message has passed
other headers                 text, numbers, booleans and times become text; their names become lower case
``correlation_id``, ...       ``x-amqp-correlation-id``, ``x-amqp-type``, ``x-amqp-app-id``, ``x-amqp-reply-to``
left out                      another hub's ``hookwire-*`` headers, and headers of the broker (``x-death``)
============================  ==================================================================================

A message is refused for a header that some sink cannot carry: a table, a list, a control character, or too many bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Final

from aio_pika.abc import AbstractIncomingMessage

from event.attribute import CloudEventError, check_content_type
from event.hops import HOPS_HEADER
from event.timestamp import format_timestamp
from event.tombstone import TOMBSTONE_HEADER, is_tombstone
from event.topic import TopicError, validate_key
from relay.amqp.decoding import UNREADABLE
from relay.source import IntakeRefused, SourceMessage

__all__ = ["read_incoming"]

_HEADERS_MAX = 64
_HEADERS_BYTES_MAX = 16_384
_NAME = re.compile(r"[a-z0-9_.-]{1,200}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ATTRIBUTE_PREFIXES: Final = ("cloudevents_", "cloudevents:", "ce-")
_KEY = "hookwire-key"
_OTHER_HUBS: Final = frozenset(
    {f"hookwire-{name}" for name in ("event-id", "topic", "term", "accepted-at", "sequence", "key", "hops")}
)
_BROKERS: Final = ("x-death", "x-first-death-", "x-last-death-", "x-delivery-count", "x-received-from")
_BROKERS_EXACTLY: Final = frozenset({"cc", "bcc"})
_PROPERTIES: Final = ("correlation_id", "type", "app_id", "reply_to", "content_encoding")


def read_incoming(message: AbstractIncomingMessage, body_bytes_max: int) -> SourceMessage:
    """Return the content of one message. Raise ``IntakeRefused`` if it cannot become an event."""
    if UNREADABLE in message.headers:
        raise IntakeRefused("properties", f"its properties cannot be read: {message.headers[UNREADABLE]!s}")
    if len(message.body) > body_bytes_max:
        raise IntakeRefused("too_large", f"the body has {len(message.body)} bytes, more than {body_bytes_max}")
    try:
        check_content_type(message.content_type)
    except CloudEventError as error:
        raise IntakeRefused("content_type", error.detail) from None
    headers = _headers(message)
    key = _key(message, headers)
    if TOMBSTONE_HEADER in headers and (not is_tombstone(headers) or message.body or key is None):
        raise IntakeRefused("tombstone", "a tombstone has a key, an empty body and the header hookwire-tombstone: true")
    return SourceMessage(
        message.exchange or "",
        message.routing_key or "",
        message.message_id or "",
        key,
        str(message.headers.get(HOPS_HEADER) or "0"),
        message.content_type or None,
        headers,
        message.body,
    )


def _headers(message: AbstractIncomingMessage) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in (*_named(message), *_properties(message)):
        text = _text(name, value)
        if name in headers or not _NAME.fullmatch(name) or _CONTROL.search(text):
            detail = f"the header {name[:80]!a} occurs twice, has an invalid name, or holds a control character"
            raise IntakeRefused("header", detail)
        headers[name] = text
    if len(headers) > _HEADERS_MAX or sum(len(n) + len(v.encode()) for n, v in headers.items()) > _HEADERS_BYTES_MAX:
        detail = f"there are more than {_HEADERS_MAX} headers, or they have more than {_HEADERS_BYTES_MAX} bytes"
        raise IntakeRefused("headers_too_large", detail)
    return headers


def _named(message: AbstractIncomingMessage) -> Iterator[tuple[str, object]]:
    """Yield the publisher's headers under the hub's names for them."""
    for given, value in message.headers.items():
        name = given.lower()
        if name in _OTHER_HUBS or name in _BROKERS_EXACTLY or name.startswith(_BROKERS) or value is None:
            continue
        if name.startswith("hookwire-") and name != TOMBSTONE_HEADER:
            raise IntakeRefused("header", f"the header {name[:80]!a} is the hub's own; leave it out")
        prefix = next((prefix for prefix in _ATTRIBUTE_PREFIXES if name.startswith(prefix)), None)
        yield (name if prefix is None else f"ce-{name.removeprefix(prefix)}"), value


def _properties(message: AbstractIncomingMessage) -> Iterator[tuple[str, object]]:
    for name in _PROPERTIES:
        value = getattr(message, name)
        if value:
            yield "content-encoding" if name == "content_encoding" else f"x-amqp-{name.replace('_', '-')}", value


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float | Decimal):
        return str(value)
    if isinstance(value, datetime):
        return format_timestamp(value)
    if isinstance(value, bytes | bytearray):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            raise IntakeRefused("header", f"the header {name[:80]!a} is not UTF-8") from None
    raise IntakeRefused("header", f"the header {name[:80]!a} is a table or a list; use text")


def _key(message: AbstractIncomingMessage, headers: dict[str, str]) -> str | None:
    given = message.headers.get(_KEY)
    key = headers.get("ce-partitionkey") if given is None else _text(_KEY, given)
    if not key:
        return None
    try:
        return validate_key(key)
    except TopicError as error:
        raise IntakeRefused("key", str(error)) from None
