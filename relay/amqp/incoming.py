"""Parsing of AMQP messages that become events; :mod:`relay.amqp.message` builds messages from events.

============================  ==================================================================================
body, ``content_type``        unchanged; a type that no event can have is left out
``message_id``                the message's identity, which detects repetitions
``cloudEvents_<name>``        CloudEvents attributes; also ``cloudEvents:<name>`` and ``ce-<name>``
``hookwire-key``              the ordering key; without it, the CloudEvents attribute ``partitionkey``
``hookwire-hops``             the number of hubs that the message has passed
``correlation_id``, ...       ``x-amqp-correlation-id``, ``x-amqp-type``, ``x-amqp-app-id``, ``x-amqp-reply-to``
other headers                 lower-case names, and text: see :mod:`relay.amqp.incoming_header`
left out                      another hub's ``hookwire-*`` headers, and headers of the broker (``x-death``)
============================  ==================================================================================

A message is refused only if its body is too large, if its key cannot be a key, or if its properties cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aio_pika.abc import AbstractIncomingMessage

from event.hops import HOPS_HEADER
from event.tombstone import TOMBSTONE_HEADER, is_tombstone
from event.topic import TopicError, key_or_digest, validate_key
from relay.amqp.decoding import UNREADABLE
from relay.amqp.incoming_header import OTHER_HUBS, MessageHeaders, text_of
from relay.source import IntakeRefused, SourceMessage

__all__ = ["read_incoming"]

_ATTRIBUTE_PREFIXES: Final = ("cloudevents_", "cloudevents:", "ce-")
_KEY = "hookwire-key"
_BROKERS: Final = ("x-death", "x-first-death-", "x-last-death-", "x-delivery-count", "x-received-from")
_BROKERS_EXACTLY: Final = frozenset({"cc", "bcc"})
_PROPERTIES: Final = ("correlation_id", "type", "app_id", "reply_to", "content_encoding")


def read_incoming(message: AbstractIncomingMessage, body_bytes_max: int) -> SourceMessage:
    """Return the content of one message. Raise ``IntakeRefused`` if it cannot become an event."""
    if UNREADABLE in message.headers:
        raise IntakeRefused("properties", f"its properties cannot be read: {message.headers[UNREADABLE]!s}")
    if len(message.body) > body_bytes_max:
        raise IntakeRefused("too_large", f"the body has {len(message.body)} bytes, more than {body_bytes_max}")
    headers = MessageHeaders()
    headers.add_all(_properties(message))
    headers.add_publishers(message.headers.items(), _ATTRIBUTE_PREFIXES, _is_passed_over)
    content_type = headers.content_type(message.content_type)
    key = _key(message, headers.kept)
    _check_tombstone(message, headers, key)
    return SourceMessage(
        message.exchange or "",
        message.routing_key or "",
        message.message_id or "",
        key,
        headers.hops(str(message.headers.get(HOPS_HEADER) or "0")),
        content_type,
        headers.kept,
        message.body,
        tuple(headers.left_out),
    )


def _is_passed_over(name: str) -> bool:
    return name in OTHER_HUBS or name in _BROKERS_EXACTLY or name.startswith(_BROKERS)


def _properties(message: AbstractIncomingMessage) -> Iterator[tuple[str, object]]:
    for name in _PROPERTIES:
        value = getattr(message, name)
        if value:
            yield "content-encoding" if name == "content_encoding" else f"x-amqp-{name.replace('_', '-')}", value


def _key(message: AbstractIncomingMessage, headers: dict[str, str]) -> str | None:
    given = message.headers.get(_KEY)
    if isinstance(given, dict | list):
        raise IntakeRefused("key", "the header hookwire-key is a table or a list; use text")
    if given is None:
        partition_key = headers.get("ce-partitionkey")
        return key_or_digest(partition_key) if partition_key else None
    key = text_of(given)
    try:
        return validate_key(key) if key else None
    except TopicError as error:
        raise IntakeRefused("key", str(error)) from None


def _check_tombstone(message: AbstractIncomingMessage, headers: MessageHeaders, key: str | None) -> None:
    """Leave out the header of a tombstone from a message that is none: it needs a key and an empty body."""
    if TOMBSTONE_HEADER in headers.kept and (not is_tombstone(headers.kept) or message.body or key is None):
        del headers.kept[TOMBSTONE_HEADER]
        headers.left_out.append("tombstone")
