"""RefusedQueue: ``<queue>.refused``, where a source keeps messages that cannot be events, for a person to look at.

A kept message has the body, properties and headers of the refused message. The broker would act on an expiration, a
user and further routing keys, so they become headers. The message stays until a person removes it. It is published with
confirms and mandatory routing. Only then the source acknowledges the refused message; a copy may be kept twice.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from aio_pika import DeliveryMode, Message

from relay.amqp.error import line_of, translated
from relay.amqp.topology import declare_missing
from relay.sink import SinkUnavailable

if TYPE_CHECKING:
    from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage

    from relay.source import IntakeRefused

__all__ = ["KeptNote", "QueueMissing", "RefusedQueue", "refused_queue_of"]

_ANSWER_SECONDS: Final = 10.0
_KEPT_SECONDS: Final = 86_400.0  # so long the verdict tells of a kept message
_ACTED_ON: Final = frozenset({"cc", "bcc"})
_PROPERTIES: Final = (
    "content_type", "content_encoding", "priority", "correlation_id", "reply_to", "message_id", "timestamp", "type",
    "app_id",
)  # fmt: skip


class QueueMissing(SinkUnavailable):
    """The queue is missing and cannot be declared, so the hub keeps refused messages itself."""


class RefusedQueue:
    """The queue for refused messages of one source, on one connection. It is declared when it is first needed."""

    def __init__(self, connection: AbstractConnection, queue: str) -> None:
        self._connection = connection
        self._queue = queue
        self._channel: AbstractChannel | None = None
        self._is_ensured = False
        self._opening = asyncio.Lock()

    async def ensure(self) -> None:
        """Declare the queue if it is missing. Raise QueueMissing, or SinkUnavailable for a lost connection."""
        name = refused_queue_of(self._queue)

        async def queue(channel: AbstractChannel, passive: bool) -> None:
            await channel.declare_queue(name, durable=True, passive=passive)

        try:
            with translated(f"the queue {name} for refused messages cannot be declared"):
                async with asyncio.timeout(_ANSWER_SECONDS):
                    await declare_missing(self._connection, queue)
        except SinkUnavailable as error:
            if self._connection.is_closed:
                raise
            cure = f"declare it as durable, or add refused=reject to {self._queue} in HOOKWIRE_AMQP_SOURCES"
            raise QueueMissing(f"{error}; {cure}") from error
        self._is_ensured = True

    async def keep(self, message: AbstractIncomingMessage, refused: IntakeRefused) -> None:
        """Return when the broker has stored a copy. Raise QueueMissing or SinkUnavailable."""
        name = refused_queue_of(self._queue)
        channel = await self._opened()
        try:
            with translated(f"a refused message cannot be kept in the queue {name}"):
                async with asyncio.timeout(_ANSWER_SECONDS):
                    await channel.default_exchange.publish(_copy(message, refused), name, mandatory=True)
        except SinkUnavailable:
            self._is_ensured = False
            raise

    async def _opened(self) -> AbstractChannel:
        async with self._opening:
            if not self._is_ensured:
                await self.ensure()
            if self._channel is None or self._channel.is_closed:
                with translated("no channel for refused messages"):
                    async with asyncio.timeout(_ANSWER_SECONDS):
                        channel = self._connection.channel(publisher_confirms=True, on_return_raises=True)
                        await channel.initialize()
                        self._channel = channel
            return self._channel


def refused_queue_of(queue: str) -> str:
    """Return the name of the queue that keeps a queue's refused messages."""
    return f"{queue}.refused"


def _copy(message: AbstractIncomingMessage, refused: IntakeRefused) -> Message:
    return Message(
        message.body,
        headers=_headers(message, refused),
        delivery_mode=DeliveryMode.PERSISTENT,
        **{name: getattr(message, name) for name in _PROPERTIES},
    )


def _headers(message: AbstractIncomingMessage, refused: IntakeRefused) -> dict[str, Any]:
    """Return the message's headers, and the hub's: the reason, and the properties that the copy must not have."""
    own = {
        "reason": refused.reason,
        "detail": line_of(str(refused)),
        "exchange": message.exchange or "",
        "routing-key": message.routing_key or "",
        "expiration": None if message.expiration is None else str(message.expiration),
        "user-id": message.user_id,
        **{name.lower(): value for name, value in message.headers.items() if name.lower() in _ACTED_ON},
    }
    kept = {name: value for name, value in message.headers.items() if name.lower() not in _ACTED_ON}
    return kept | {f"x-refused-{name}": value for name, value in own.items() if value is not None}


class KeptNote:
    """A note about messages that were kept for people. ``text`` says how many, when the last came, why and where."""

    def __init__(self) -> None:
        self.text = ""
        self._count = 0
        self._until = 0.0

    def add(self, reason: str, place: str) -> None:
        """Note one more message, why it was refused, and where it is."""
        self._count += 1
        self._until = time.monotonic() + _KEPT_SECONDS
        noun = "message was" if self._count == 1 else "messages were"
        moment = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        self.text = f"{self._count:,} refused {noun} kept, the latest at {moment} in {place}: {reason}"

    def is_recent(self) -> bool:
        """Return whether the last one was kept within a day."""
        return time.monotonic() < self._until
