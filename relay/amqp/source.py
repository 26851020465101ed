"""AMQP source: messages of a queue become events. A message is acknowledged after the COMMIT of its event.

::

    connect --> declare if missing -------> consume --> read --> intake: COMMIT --> acknowledge
       ^                                      |           |          |
       |  connection, channel or queue lost   |           |          '-- unavailable: again after a pause
       +--------------------------------------+           '-- refused for good: kept in <queue>.refused --> acknowledge

The source holds at most ``prefetch`` messages. If a connection is lost, or the process stops, the broker delivers the
unacknowledged messages again. A message id that is stored already causes no second event (`hub.intake`); a message
without an id may become two events.

A queue that is shared with AMQP's consumers is declared at the start. It is consumed while it has a subscriber, one
message at a time.

Messages of one key are stored one after the other, in the order of the queue. Other messages continue meanwhile.

Somebody may delete the exchange, and nothing tells the source. So every few seconds it looks for the exchange, declares
a missing one, and binds the queue again.

The type of an exchange that RabbitHub has, too, is RabbitHub's. Until that is known, only an existing one is bound.

A missing queue is declared as durable. An existing queue is not changed. A refused message is kept in the queue
``<queue>.refused`` (:mod:`relay.amqp.refused_queue`). While that queue is missing and cannot be declared, the hub's
store keeps refused messages. A route with ``refused="reject"`` leaves refused messages to the broker.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import structlog
from aio_pika.exceptions import AMQPChannelError
from prometheus_client import CollectorRegistry, Counter, Gauge

from relay.amqp.connection_check import connect
from relay.amqp.decoding import tolerate_unreadable
from relay.amqp.error import line_of, translated
from relay.amqp.incoming import read_incoming
from relay.amqp.link import close_in_time
from relay.amqp.options import AmqpOptions
from relay.amqp.refused_queue import KeptNote, QueueMissing, RefusedQueue, refused_queue_of
from relay.amqp.topology import declare_missing
from relay.sink import SinkUnavailable
from relay.source import (
    Intake,
    IntakeBusy,
    IntakeRefused,
    IntakeResult,
    IntakeUnavailable,
    RefusalStore,
    RefusedMessage,
    SourceMessage,
    SourceRoute,
)
from runtime.cancellation import TaskGroup, end_if_cancelled
from runtime.pause import pause
from runtime.trouble import Trouble

if TYPE_CHECKING:
    from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage

__all__ = ["AmqpSource", "SourceMetrics"]

_log = structlog.get_logger(__name__)
_ANSWER_SECONDS = 10.0
_PAUSE_SECONDS = (0.2, 10.0)
_BIND_SECONDS = 5.0
_BUSY_SECONDS = 0.1
_UNWANTED_SECONDS = 1.0
_HUB = "source_refusals"
"""The table that keeps a refused message where no queue can."""
_INTAKE_SECONDS = (0.2, 1.0)  # the database is asked every second anyway


class SourceMetrics:
    """Counts of the messages of each queue, by outcome."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.taken = Counter(
            "hookwire_amqp_source_messages_total", "Messages of a queue that were acknowledged, by outcome.",
            ["queue", "outcome"], registry=registry,
        )  # fmt: skip
        self.refused = Counter(
            "hookwire_amqp_source_refused_total", "Messages of a queue that cannot be events, by reason.",
            ["queue", "reason"], registry=registry,
        )  # fmt: skip
        self.left_out = Counter(
            "hookwire_amqp_source_headers_left_out_total", "Headers that events of a queue lack, by reason.",
            ["queue", "reason"], registry=registry,
        )  # fmt: skip
        self.connected = Gauge(
            "hookwire_amqp_source_connected", "1 while the queue is consumed.", ["queue"], registry=registry
        )


class AmqpSource:
    """A background service that consumes one queue and reconnects after each loss."""

    def __init__(
        self, options: AmqpOptions, route: SourceRoute, intake: Intake, metrics: SourceMetrics, prefetch: int,
        body_bytes_max: int, store: RefusalStore,
    ) -> None:  # fmt: skip
        self.name = f"amqp source {route.queue}"
        self._options = options.in_vhost(route.vhost) if route.vhost else options
        self._route = route
        self._intake = intake
        self._metrics = metrics
        self._prefetch = 1 if route.shared else prefetch
        self._body_bytes_max = body_bytes_max
        self._stopping = asyncio.Event()
        self._session: _Session | None = None
        self._store = store
        self._trouble = Trouble("amqp_source_waits", "amqp_source_goes_on")
        self._kept = KeptNote()
        tolerate_unreadable()
        metrics.connected.labels(route.queue).set(0)

    @property
    def queue(self) -> str:
        """Return the name of the queue."""
        return self._route.queue

    @property
    def state(self) -> str:
        """Return the state in one word: connecting, reading, refusing, backing off, stopped. It is refusing for a day
        after it has kept a message that it refused.
        """
        if self._stopping.is_set():
            return "stopped"
        if self._trouble.lasts:
            return "backing off"
        return "connecting" if self._session is None else "refusing" if self._kept.is_recent() else "reading"

    @property
    def last_error(self) -> str:
        """Return the last error, in one line; while it is refusing, what it has kept."""
        return self._kept.text if self.state == "refusing" else self._trouble.last_error

    def stop(self) -> None:
        """Begin no more messages. Messages that were begun are still stored and acknowledged."""
        self._stopping.set()
        if self._session is not None:
            self._session.end()

    async def run(self) -> None:
        """Consume until stopped."""
        seconds, seconds_max = _PAUSE_SECONDS
        is_declared = not self._route.shared
        while not self._stopping.is_set():
            try:
                if not is_declared:
                    await self._declare_shared()
                    is_declared = True
                if self._route.shared and not await self._intake.is_wanted(self._route):
                    await pause(self._stopping, _UNWANTED_SECONDS)
                    continue
                await self._consume()
                seconds = _PAUSE_SECONDS[0]
            except (SinkUnavailable, IntakeUnavailable) as error:
                end_if_cancelled()
                self._trouble.tell(error, queue=self._route.queue)
            except _ConsumerLost as lost:
                self._trouble.tell(lost, queue=self._route.queue)
                seconds = _PAUSE_SECONDS[0]
            await pause(self._stopping, seconds)
            seconds = min(seconds * 2, seconds_max)

    async def _declare_shared(self) -> None:
        """Declare the queue, because what is POSTed waits there for a consumer. Raise SinkUnavailable."""
        queue = self._route.queue
        async with _connected(self._options, f"hookwire source {queue}") as connection:
            with translated(f"cannot declare the AMQP queue {queue}"):
                async with asyncio.timeout(_ANSWER_SECONDS):
                    await _declare(connection, self._route)
        end_if_cancelled()
        self._trouble.over(queue=queue)

    async def _consume(self) -> None:
        """Consume on one connection until stopped. Raise SinkUnavailable, or _ConsumerLost after it was consumed."""
        queue, route = self._route.queue, self._route
        if not route.exchange_type:
            route = replace(route, exchange_type=await self._intake.exchange_type(route))
        async with _connected(self._options, f"hookwire source {queue}") as connection:
            refused = RefusedQueue(connection, queue)
            session = self._session = _Session(self._take, refused)
            connection.close_callbacks.add(lambda _, error=None: session.end(error))
            with translated(f"cannot consume the AMQP queue {queue}"):
                async with asyncio.timeout(_ANSWER_SECONDS):
                    is_bound = await _declare(connection, route)
                    channel = connection.channel()
                    channel.close_callbacks.add(lambda _, error=None: session.end(error))
                    await channel.initialize()
                    await channel.set_qos(prefetch_count=self._prefetch)
                    underlay = await channel.get_underlay_channel()
                    underlay.on_consumer_cancel_callbacks.add(lambda _: session.end())
                    await (await channel.get_queue(queue)).consume(session.arrive)
            end_if_cancelled()
            self._trouble.over(queue=queue)
            self._metrics.connected.labels(queue).set(1)
            try:
                if self._stopping.is_set():
                    session.end()
                async with TaskGroup() as tasks:
                    if is_bound:
                        tasks.create_task(self._keep_bound(connection, session, route))
                    await session.run(self._read)
            finally:
                self._session = None
                self._metrics.connected.labels(queue).set(0)
            if not self._stopping.is_set() and not session.is_unwanted:
                raise _ConsumerLost(f"the AMQP queue {queue} is no longer consumed: {session.reason}")

    async def _keep_bound(self, connection: AbstractConnection, session: _Session, route: SourceRoute) -> None:
        """Look for the exchange, and bind the queue again, until the session ends. A failure does not end it: messages
        that are in the queue go on.
        """
        has_failed = False
        while True:
            await pause(session.ended, _BIND_SECONDS)
            if session.ended.is_set():
                return
            try:
                with translated(f"cannot bind the AMQP queue {self._route.queue}"):
                    async with asyncio.timeout(_ANSWER_SECONDS):
                        await _bind(connection, route)
            except SinkUnavailable as error:
                end_if_cancelled()
                if connection.is_closed:
                    session.end(error)
                self._trouble.tell(error, queue=route.queue)
                has_failed = True
            else:
                if has_failed:
                    self._trouble.over(queue=route.queue)
                has_failed = False

    def _read(self, message: AbstractIncomingMessage) -> SourceMessage | IntakeRefused:
        try:
            return read_incoming(message, self._body_bytes_max)
        except IntakeRefused as refused:
            return refused

    async def _take(
        self, session: _Session, message: AbstractIncomingMessage, read: SourceMessage | IntakeRefused
    ) -> None:
        """Store and acknowledge one message, or refuse it. Retry until the session ends if the hub cannot store it."""
        seconds, seconds_max = _INTAKE_SECONDS
        while not session.ended.is_set():
            try:
                if isinstance(read, IntakeRefused):
                    raise read
                taken = await self._intake.take(self._route, read)
            except IntakeRefused as refused:
                if await self._refuse(session, message, refused):
                    return
            except IntakeBusy as busy:
                if busy.nobody:
                    session.give_back()
                seconds = _BUSY_SECONDS
            except IntakeUnavailable as error:
                self._trouble.tell(error, queue=self._route.queue)
            else:
                self._trouble.over(queue=self._route.queue)
                await self._acknowledge(message, taken)
                return
            await pause(session.ended, seconds)
            seconds = min(seconds * 2, seconds_max)

    async def _acknowledge(self, message: AbstractIncomingMessage, taken: IntakeResult) -> None:
        queue = self._route.queue
        if await _settled(message.ack()):
            self._metrics.taken.labels(queue, taken.outcome).inc()
            for reason in taken.left_out:
                self._metrics.left_out.labels(queue, reason).inc()
        if taken.outcome == "returned" and message.exchange != self._route.rabbithub_exchange:
            _log.warning("amqp_source_loop", queue=queue, message_id=message.message_id)

    async def _refuse(self, session: _Session, message: AbstractIncomingMessage, refused: IntakeRefused) -> bool:
        """Keep a message, or leave it to the broker. Return whether it is settled, not before it is kept."""
        queue, kept_in = self._route.queue, None
        if self._route.refused == "keep":
            kept_in = refused_queue_of(queue)
            try:
                try:
                    await session.refused.keep(message, refused)
                except QueueMissing as missing:
                    end_if_cancelled()
                    _log.warning("amqp_source_no_refused_queue", queue=queue, error=str(missing))
                    await self._store.keep(RefusedMessage(queue, refused, message.body, _content(message)))
                    kept_in = _HUB
            except (SinkUnavailable, IntakeUnavailable) as error:
                end_if_cancelled()
                self._trouble.tell(error, queue=queue)
                return False
        if await _settled(message.reject(requeue=False) if kept_in is None else message.ack()):
            self._metrics.refused.labels(queue, refused.reason).inc()
            if kept_in not in {None, _HUB}:  # the hub itself tells what it keeps, until a person has settled it
                self._kept.add(refused.reason, kept_in)
            told = {"reason": refused.reason, "detail": refused.detail, "kept_in": kept_in}
            _log.warning("amqp_source_refused", queue=queue, **told)
        return True


def _content(message: AbstractIncomingMessage) -> SourceMessage | None:
    """Return what can be read of a refused message, also if it is too large; None if its properties cannot be read."""
    try:
        return read_incoming(message, len(message.body))
    except IntakeRefused:
        return None


class _ConsumerLost(Exception):
    """The connection, the channel or the queue is lost."""


class _Session:
    """The messages of one connection. ``take`` stores and settles one message."""

    def __init__(
        self,
        take: Callable[[_Session, AbstractIncomingMessage, SourceMessage | IntakeRefused], Coroutine[Any, Any, None]],
        refused: RefusedQueue,
    ) -> None:
        self.refused = refused
        self.ended = asyncio.Event()
        self.reason = "the broker ended it"
        self.is_unwanted = False
        self._take = take
        self._inbox: asyncio.Queue[AbstractIncomingMessage | None] = asyncio.Queue()  # bounded by the prefetch count
        self._lanes: dict[str, deque[tuple[AbstractIncomingMessage, SourceMessage]]] = {}

    def end(self, error: BaseException | None = None) -> None:
        """Begin no more messages. A second call has no effect."""
        if error is not None and not self.ended.is_set():
            self.reason = line_of(str(error) or type(error).__name__)
        self.ended.set()
        self._inbox.put_nowait(None)

    def give_back(self) -> None:
        """End, because nobody wants the messages any more. The broker gives them to others when the connection ends."""
        self.is_unwanted = True
        self.end()

    async def arrive(self, message: AbstractIncomingMessage) -> None:
        """Queue a delivery. The client calls this for each."""
        self._inbox.put_nowait(message)

    async def run(self, read: Callable[[AbstractIncomingMessage], SourceMessage | IntakeRefused]) -> None:
        """Process messages until :meth:`end`, then wait for the messages that were begun."""
        async with TaskGroup() as tasks:
            while (message := await self._inbox.get()) is not None and not self.ended.is_set():
                found = read(message)
                if isinstance(found, IntakeRefused) or found.key is None:
                    tasks.create_task(self._take(self, message, found))
                elif found.key in self._lanes:
                    self._lanes[found.key].append((message, found))
                else:
                    self._lanes[found.key] = deque([(message, found)])
                    tasks.create_task(self._walk(found.key))

    async def _walk(self, key: str) -> None:
        """Process the messages of one key, one after the other."""
        lane = self._lanes[key]
        try:
            while lane:
                await self._take(self, *lane.popleft())
        finally:
            del self._lanes[key]


async def _settled(answer: Awaitable[None]) -> bool:
    """Return whether an acknowledgement or rejection was sent. Otherwise the broker delivers the message again."""
    try:
        with translated("cannot settle a message"):
            async with asyncio.timeout(_ANSWER_SECONDS):
                await answer
    except SinkUnavailable:
        end_if_cancelled()
        return False
    return True


async def _declare(connection: AbstractConnection, route: SourceRoute) -> bool:
    """Declare the queue and exchange if they are missing. Leave existing ones, which may have other arguments.

    Return whether the queue was bound.
    """
    dead = refused_queue_of(route.queue)
    rule = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    is_plain = route.shared  # other programs declare it without arguments

    async def queue(channel: AbstractChannel, passive: bool) -> None:
        if not (passive or is_plain):
            await channel.declare_queue(dead, durable=True)
        await channel.declare_queue(
            route.queue, durable=True, passive=passive, arguments=None if passive or is_plain else dict(rule)
        )

    await declare_missing(connection, queue)
    return bool(route.exchange) and await _bind(connection, route)


async def _bind(connection: AbstractConnection, route: SourceRoute) -> bool:
    """Declare a missing exchange of a known type, and bind the queue. Return False for a user who may not bind.

    That user may have a queue that is bound already; the protocol cannot tell.
    """

    async def exchange(channel: AbstractChannel, passive: bool) -> None:
        is_known = bool(route.exchange_type)
        await channel.declare_exchange(
            route.exchange, route.exchange_type or "topic", durable=True, passive=passive or not is_known
        )

    await declare_missing(connection, exchange)
    try:
        async with connection.channel() as channel:
            await (await channel.get_queue(route.queue)).bind(route.exchange, route.binding_key)
    except AMQPChannelError as refused:
        if not str(refused).startswith("ACCESS_REFUSED"):
            raise
        _log.warning("amqp_source_unbound", queue=route.queue, exchange=route.exchange, error=line_of(str(refused)))
        return False
    return True


@asynccontextmanager
async def _connected(options: AmqpOptions, name: str) -> AsyncIterator[AbstractConnection]:
    connection = await connect(options, name)
    try:
        yield connection
    finally:
        await close_in_time(connection)
