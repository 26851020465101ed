"""Consumed message: remember its failures between deliveries, and print it as a line of JSON."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import OrderedDict

from aio_pika import DeliveryMode, Message
from aio_pika.abc import AbstractIncomingMessage

__all__ = ["Memory", "buried", "line_of"]

_REMEMBERED_MAX = 10_000


class Memory:
    """Failures so far, and settled messages whose acknowledgement may be lost; the oldest is forgotten.

    ``count``: how many messages were settled, done or dead.
    """

    def __init__(self) -> None:
        self.count = 0
        self._failures: OrderedDict[str, int] = OrderedDict()
        self._settled: OrderedDict[str, None] = OrderedDict()

    def attempt(self, message: AbstractIncomingMessage) -> int:
        """Return the number of this attempt, from 1. A quorum queue also counts the attempts of other consumers and
        before restarts.
        """
        counted = message.headers.get("x-delivery-count", 0)
        by_broker = counted if isinstance(counted, int) else 0
        return max(self._failures.get(_identity(message), 0), by_broker) + 1

    def failed(self, message: AbstractIncomingMessage, attempt: int) -> None:
        """Remember a failure."""
        self._failures[_identity(message)] = attempt
        self._failures.move_to_end(_identity(message))
        if len(self._failures) > _REMEMBERED_MAX:
            self._failures.popitem(last=False)

    def settled(self, message: AbstractIncomingMessage) -> None:
        """Remember that the message is settled, before it is acknowledged."""
        self.count += 1
        self._failures.pop(_identity(message), None)
        self._settled[_identity(message)] = None
        if len(self._settled) > _REMEMBERED_MAX:
            self._settled.popitem(last=False)

    def is_settled(self, message: AbstractIncomingMessage) -> bool:
        """Return whether this is another delivery of a message that was settled here.

        A replay is a new message, and is run.
        """
        return bool(message.redelivered) and _identity(message) in self._settled


def buried(message: AbstractIncomingMessage, attempts: int, reason: str) -> Message:
    """Return a copy for the queue of dead messages, with the reason in its headers."""
    told: dict[str, str | int | None] = {
        "hookwire-attempts": attempts,
        "hookwire-failure": reason,
        "hookwire-routing-key": message.routing_key,
    }
    return Message(
        message.body,
        headers={**message.headers, **told},
        content_type=message.content_type,
        content_encoding=message.content_encoding,
        delivery_mode=DeliveryMode.PERSISTENT,
        message_id=message.message_id,
        timestamp=message.timestamp,
        correlation_id=message.correlation_id,
        type=message.type,
    )


def line_of(message: AbstractIncomingMessage, *, body: bool, **more: object) -> str:
    """Return one line of JSON about a message, with its body (as text where it is UTF-8) if asked."""
    line: dict[str, object] = {
        "event_id": message.message_id,
        "topic": message.headers.get("hookwire-topic", message.routing_key),
        "key": message.headers.get("hookwire-key"),
        "sequence": message.headers.get("hookwire-sequence"),
        "content_type": message.content_type,
        "size_bytes": len(message.body),
        **more,
    }
    if body:
        try:
            line["body"] = message.body.decode()
        except UnicodeDecodeError:
            line["body_base64"] = base64.b64encode(message.body).decode()
    return json.dumps(line, ensure_ascii=False, default=str)


def _identity(message: AbstractIncomingMessage) -> str:
    """Return the event's id. For a message of another program without an id, return a digest of its parts."""
    return message.message_id or hashlib.sha256(f"{message.routing_key}\n".encode() + message.body).hexdigest()
