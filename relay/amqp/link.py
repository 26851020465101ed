"""AMQP link: one connection with its lock queue and its publishing channel.

::

    connect --> take_lock --> prepare --> publish ... publish --> close
                   |                        |
                   | RESOURCE_LOCKED:       | returned: no queue is bound, its topic waits
                   | a predecessor lives,   | nack: a bound queue is full, its topic waits
                   | try again              | no answer for it alone: the queue has failed, its topic waits
                   |                        | channel closed: the record that it was closed for is refused; the
                   |                        | others are sent again on a new channel
                   v                        | no answer, connection lost:
             SinkUnavailable                v
                                      SinkUnavailable

The fence: the lock queue is exclusive to the connection that publishes. A relay that loses the connection loses
the lock too, and a relay without the lock does not publish. So this module never uses aio-pika's robust connection,
which reconnects by itself and would publish without the lock.

This module and :mod:`relay.amqp.connection_check` translate all exceptions of the client, by :mod:`relay.amqp.error`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, Protocol, cast

import aio_pika
import structlog
from aio_pika.abc import AbstractChannel, AbstractConnection
from aio_pika.exceptions import AMQPChannelError, ChannelInvalidStateError, DeliveryError, PublishError

from relay.amqp.closing import Closing
from relay.amqp.connection_check import connect
from relay.amqp.error import line_of, translated
from relay.amqp.name import NAME_RULE, is_exchange_name, is_queue_name
from relay.amqp.options import AmqpOptions
from relay.amqp.suspects import Suspects
from relay.record import Record
from relay.sink import Refusal, SinkUnavailable

__all__ = ["DEFAULT_EXCHANGE", "AmqpOptions", "Link", "close_in_time"]

_log = structlog.get_logger(__name__)
DEFAULT_EXCHANGE: Final = "amq.default"
"""Name of AMQP's default exchange in a topic's settings; it routes a message to the queue named by the routing key."""
_LOCK_POLL_SECONDS = 0.2
_CLOSE_SECONDS = 3.0
_EXCHANGES_KNOWN_MAX = 1000
_CLOSINGS_MAX = 5  # of the channel, for other messages, while one message is sent
_FULL = (
    "basic.nack: a queue that is bound to {} is full (x-max-length with reject-publish) or has failed; "
    "consume from it, or raise its x-max-length"
)
_CONFIGURE = "grant the user the configure and write permissions for ^hookwire\\.lock\\."
_UNCONFIRMED = (
    "no confirmation within {:g} s from a queue that is bound to {}, while the broker confirmed another message; "
    "look at that queue: a quorum queue needs most of its nodes"
)
_lingering: set[asyncio.Future[None]] = set()


class _ChannelClosed(Exception):
    """The broker closed the channel; ``text`` is its reason, such as "NOT_FOUND - no exchange ..."."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class _Publisher(Protocol):
    """The channel of aiormq. Its publish need not wait until the socket's buffer is empty after each message.

    This saves a fifth of the processor time. The size of a batch bounds the buffer.
    """

    async def basic_publish(
        self, body: bytes, *, exchange: str, routing_key: str, properties: object, mandatory: bool,
        timeout: float, wait: bool,
    ) -> object: ...  # fmt: skip


class Link:
    """An open connection, used by one sink and closed once."""

    def __init__(self, connection: AbstractConnection, options: AmqpOptions, suspects: Suspects) -> None:
        self.channel_was_closed = False
        self._suspects = suspects
        self._closing: Closing | None = None
        self._connection = connection
        self._options = options
        self._channel: AbstractChannel | None = None
        self._opening = asyncio.Lock()
        self._judging = asyncio.Lock()
        self._testing = asyncio.Lock()
        self._exchanges: dict[str, str] = {}
        """Exchange -> '' if it is usable, otherwise the reason."""
        self._queues: set[str] = set()
        self._lock = ""
        self._confirmed_at = 0.0
        """When the last confirmed test message was sent, by the clock of the event loop."""

    @classmethod
    async def connect(cls, options: AmqpOptions, suspects: Suspects) -> Link:
        """Connect and return the link. Raise SinkUnavailable."""
        return cls(await connect(options, f"hookwire {options.incarnation}"), options, suspects)

    async def take_lock(self, name: str) -> None:
        """Declare the exclusive lock queue. Raise SinkUnavailable if another relay holds it for ``lock_seconds``."""
        deadline = asyncio.get_running_loop().time() + self._options.lock_seconds
        while True:
            try:
                async with self._throwaway() as channel:
                    await channel.declare_queue(name, exclusive=True, arguments={"x-max-length": 1})
                return
            except _ChannelClosed as closed:
                if not closed.text.startswith("RESOURCE_LOCKED"):
                    cure = f"; {_CONFIGURE}" if closed.text.startswith("ACCESS_REFUSED") else ""
                    raise SinkUnavailable(f"cannot take the AMQP lock queue: {closed.text}{cure}") from closed
                if asyncio.get_running_loop().time() >= deadline:
                    raise SinkUnavailable(f"another relay still holds the AMQP lock queue {name}") from closed
            await asyncio.sleep(_LOCK_POLL_SECONDS)

    async def prepare(self, lock: str, exchange: str | None = None) -> None:
        """Declare the sink's exchange, if one is given; publish two test messages to the lock queue.

        Raise SinkUnavailable.

        A broker that is short of memory or disk accepts connections, declarations and the first message of a
        connection. It blocks the connection at the second message. Two test messages detect this before any record.
        """
        if exchange is not None and (reason := await self._judge_exchange(exchange)):
            raise SinkUnavailable(f"cannot use the AMQP exchange {exchange}: {reason}")
        self._lock = lock
        channel = await self._publishing_channel()
        with translated("the AMQP broker confirms no message, it may be short of memory or disk"):
            for _ in range(2):
                await self._publish_test_message(channel)

    async def _publish_test_message(self, channel: AbstractChannel) -> None:
        """Publish a message to the lock queue, which keeps one."""
        await channel.default_exchange.publish(
            aio_pika.Message(b""), self._lock, mandatory=True, timeout=self._options.publish_seconds
        )

    async def _confirm_another(self, channel: AbstractChannel) -> None:
        """Wait until the broker has confirmed a test message that is sent from now on. Raise TimeoutError."""
        now = asyncio.get_running_loop().time
        since = now()
        async with self._testing:
            if self._confirmed_at < since:
                sent = now()
                await self._publish_test_message(channel)
                self._confirmed_at = sent

    async def unblocked(self) -> None:
        """Wait while the broker blocks this connection. Raise SinkUnavailable after the time."""
        transport = self._connection.transport
        if transport is None:
            raise SinkUnavailable("the AMQP connection is closed")
        with translated("the AMQP broker blocks publishers, it is short of memory or disk"):
            async with asyncio.timeout(self._options.blocked_seconds):
                await transport.ready()

    def forget_refused_exchanges(self) -> None:
        """Forget which exchanges were unusable, so that the next message checks them again."""
        if len(self._exchanges) > _EXCHANGES_KNOWN_MAX:
            self._exchanges.clear()
        self._exchanges = {name: reason for name, reason in self._exchanges.items() if not reason}

    async def _judge_queue(self, queue: str) -> str:
        """Use a queue for the default exchange as it is; declare a missing one as durable. Return why not, or ''."""
        if queue in self._queues:
            return ""
        if not is_queue_name(queue):
            return NAME_RULE

        async def declare(channel: AbstractChannel, passive: bool) -> None:
            await channel.declare_queue(queue, durable=True, passive=passive)

        try:
            await self._declare_missing(declare)
        except _ChannelClosed as closed:
            return line_of(closed.text)
        self._queues.add(queue)
        return ""

    async def _declare_missing(self, declare: Callable[[AbstractChannel, bool], Awaitable[None]]) -> None:
        """Check passively, then declare what is missing. Raise _ChannelClosed, or SinkUnavailable."""
        try:
            async with self._throwaway() as channel:
                await declare(channel, True)
        except _ChannelClosed as closed:
            if not closed.text.startswith("NOT_FOUND"):
                raise
            async with self._throwaway() as channel:
                await declare(channel, False)

    async def publish(
        self, record: Record, message: aio_pika.Message, routing_key: str, *, alone: bool, seconds: float
    ) -> Refusal | None:
        """Send one message and return None once the broker has confirmed it, or its refusal. Raise SinkUnavailable.

        ``seconds`` is how long to wait for the confirmation. If the broker closes the channel for another message, this
        one is sent again. ``alone``: no other message is in flight, so it is this one. Where the cause is unknown,
        :attr:`channel_was_closed` makes the sink send one record at a time.
        """
        what = self._exchange_of(record), routing_key, len(message.body)
        for _ in range(_CLOSINGS_MAX):
            if not alone and (refusal := self._suspects.refusal(record, *what)):
                return refusal
            if reason := await self._judge(record, routing_key):
                return Refusal(record, "topic", "exchange_unusable", reason)
            channel = await self._publishing_channel()
            try:
                refusal = await self._publish_on(channel, record, message, routing_key, seconds)
            except _ChannelClosed as closed:
                closing = self._noted(Closing.of(closed.text), alone=alone)
                if alone:
                    return closing.refusal(record)
                if not closing.names_the_message:
                    break
            else:
                self._suspects.taken(*what)
                return refusal
        self.channel_was_closed = True
        raise SinkUnavailable(f"the AMQP broker closed the channel: {line_of(closing.text)}")

    def _noted(self, closing: Closing, *, alone: bool) -> Closing:
        """Note why a channel was closed. A message that comes too late gets no reason; the last one stands for it."""
        self._exchanges.clear()
        self._queues.clear()
        if closing.names_the_message:
            self._closing = closing
            self._suspects.learn(closing)
        return closing if alone else self._closing or closing

    def _exchange_of(self, record: Record) -> str:
        exchange = record.amqp_exchange or self._options.exchange
        return "" if exchange == DEFAULT_EXCHANGE else exchange

    async def _judge(self, record: Record, routing_key: str) -> str:
        """Return the reason why a record's exchange cannot be used, or ''."""
        if exchange := self._exchange_of(record):
            return await self._judge_exchange(exchange, record.amqp_exchange_type)
        # A mirror may use existing queues only, because a caller's routing key must not create a queue.
        return "" if record.amqp_exchange_type else await self._judge_queue(routing_key)

    async def _publish_on(
        self, channel: AbstractChannel, record: Record, message: aio_pika.Message, routing_key: str, seconds: float
    ) -> Refusal | None:
        exchange = self._exchange_of(record)
        there = f"the exchange {exchange or DEFAULT_EXCHANGE} for the routing key {routing_key}"
        with translated("the AMQP broker did not confirm"):
            publisher = cast(_Publisher, await channel.get_underlay_channel())
            try:
                await publisher.basic_publish(
                    message.body, exchange=exchange, routing_key=routing_key, properties=message.properties,
                    mandatory=True, timeout=seconds, wait=False,
                )  # fmt: skip
            except PublishError:
                return Refusal(record, "topic", "unroutable", line_of(f"no queue is bound to {there}; bind one"))
            except DeliveryError:
                return Refusal(record, "topic", "queue_full", line_of(_FULL.format(there)))
            except TimeoutError:
                await self._confirm_another(channel)
                return Refusal(record, "topic", "unconfirmed", line_of(_UNCONFIRMED.format(seconds, there)))
            except AMQPChannelError as closed:
                raise _ChannelClosed(str(closed)) from closed
            except ChannelInvalidStateError as closed:
                if self._connection.is_closed:
                    raise
                raise _ChannelClosed(str(closed)) from closed
        return None

    async def _judge_exchange(self, exchange: str, declared_type: str | None = None) -> str:
        """Return the reason why an exchange cannot be used, or ''.

        An existing exchange is used as it is. Missing ones are declared if they are the sink's own or those of mirrors.
        """
        if exchange in self._exchanges:
            return self._exchanges[exchange]
        if not is_exchange_name(exchange):
            return NAME_RULE
        if exchange == self._options.exchange:
            declared_type = "topic"

        async def declare(channel: AbstractChannel, passive: bool) -> None:
            await channel.declare_exchange(
                exchange, declared_type or "topic", durable=True, passive=passive or declared_type is None
            )

        async with self._judging:
            if exchange not in self._exchanges:
                try:
                    await self._declare_missing(declare)
                    self._exchanges[exchange] = ""
                except _ChannelClosed as closed:
                    self._exchanges[exchange] = Closing.of(closed.text).line()
            return self._exchanges[exchange]

    async def _publishing_channel(self) -> AbstractChannel:
        channel = self._channel
        if channel is None or channel.is_closed:
            async with self._opening:
                channel = self._channel
                if channel is None or channel.is_closed:
                    channel = self._channel = await self._open_channel()
        return channel

    async def _open_channel(self) -> AbstractChannel:
        """Open a channel with confirms on which an unroutable message raises instead of counting as sent."""
        with translated("cannot open an AMQP channel"):
            async with asyncio.timeout(self._options.publish_seconds):
                channel = self._connection.channel(publisher_confirms=True, on_return_raises=True)
                await channel.initialize()
        return channel

    @asynccontextmanager
    async def _throwaway(self) -> AsyncIterator[AbstractChannel]:
        """Yield a channel for one declaration. A failed declaration closes its channel, so no other call shares it."""
        channel = await self._open_channel()
        with translated("the AMQP broker did not answer"):
            async with asyncio.timeout(2 * self._options.publish_seconds):
                try:
                    yield channel
                except AMQPChannelError as closed:
                    raise _ChannelClosed(str(closed)) from closed
                await channel.close()

    async def close(self) -> None:
        """Close the connection, which frees the lock. Stop waiting after three seconds. Never raise."""
        await close_in_time(self._connection)


async def close_in_time(connection: AbstractConnection) -> None:
    """Close a connection. Stop waiting after three seconds. Never raise.

    The library's close() ignores a cancellation. So it runs in a task of its own, which ends at the latest when the
    connection misses its heartbeats.
    """
    closing = asyncio.ensure_future(connection.close())
    _lingering.add(closing)
    closing.add_done_callback(_forget)
    await asyncio.wait({closing}, timeout=_CLOSE_SECONDS)


def _forget(closing: asyncio.Future[None]) -> None:
    _lingering.discard(closing)
    if not closing.cancelled() and (error := closing.exception()) is not None:
        _log.info("amqp_close_failed", error=line_of(str(error)))
