"""Consume session: one connection to the broker, from the declaration of the queue to the loss of any part of it.

::

    declare --> deliveries --> inbox --> workers (one per concurrent run) --> acknowledge, give back or bury
                    |                        |
                    |  lost, or ended        |  idle workers go home; the others finish their run first, so that we
                    +------------------------+  never run a message twice at the same time

Nothing is acknowledged in advance: messages that are in the inbox when the session ends return to the queue by
themselves.
"""

from __future__ import annotations

import asyncio
import math
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage
from aio_pika.exceptions import (
    AMQPChannelError,
    AuthenticationError,
    ChannelNotFoundEntity,
    ProbableAuthenticationError,
)

from app.bridges.script import Script, ScriptOutcome, environment_of
from app.cli.consume.message import Memory, buried, line_of
from app.cli.consume.options import ConsumeOptions
from relay.amqp.decoding import tolerate_unreadable
from relay.amqp.error import trouble_of
from runtime.cancellation import end_if_cancelled
from runtime.pause import pause

__all__ = ["ConsumeSession", "Lost"]

_ANSWER_SECONDS = 10.0
_CLOSE_SECONDS = 3.0
_closing: set[asyncio.Future[None]] = set()


class Lost(Exception):
    """The broker, our channel or our queue is gone. ``exit_code`` is set if another try would be refused too."""

    def __init__(self, text: str, *, exit_code: int | None = None) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class ConsumeSession:
    """One session, which runs once. ``ready`` is set when messages can arrive."""

    def __init__(self, options: ConsumeOptions, script: Script, memory: Memory, say: Callable[[str], None]) -> None:
        self.ready = False
        self._options = options
        self._script = script
        self._memory = memory
        self._say = say
        self._ended = asyncio.Event()
        self._loss = ""
        self._idle: set[asyncio.Task[Any]] = set()
        self._printing = asyncio.Lock()

    def end(self) -> None:
        """Begin nothing more; runs that have begun are finished and acknowledged."""
        self._ended.set()
        for worker in self._idle:
            worker.cancel()

    def _lose(self, loss: str) -> None:
        self._loss = self._loss or ("" if self._ended.is_set() else loss)
        self.end()

    async def run(self) -> None:
        """Consume until ended or until enough messages are settled; raises :class:`Lost`."""
        async with _connection(self._options) as connection:
            await _declare(connection, self._options)
            await self._consume(connection)
        if self._loss:
            raise Lost(self._loss)

    async def _consume(self, connection: AbstractConnection) -> None:
        inbox: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()  # bounded by the prefetch count
        channel = connection.channel(publisher_confirms=True, on_return_raises=True)
        connection.close_callbacks.add(lambda _, error: self._lose(f"the connection was lost: {error or 'closed'}"))
        channel.close_callbacks.add(lambda _, error: self._lose(f"the channel was closed: {error or 'closed'}"))
        with _edge("cannot consume"):
            async with asyncio.timeout(_ANSWER_SECONDS):
                await channel.initialize()
                await channel.set_qos(prefetch_count=self._options.concurrency)
                queue = await channel.get_queue(self._options.queue)
                underlay = await channel.get_underlay_channel()
                underlay.on_consumer_cancel_callbacks.add(lambda _: self._lose("the queue was deleted"))
                await queue.consume(inbox.put)
        end_if_cancelled()
        self.ready = True
        self._say(f"consumes {queue.name}: messages can arrive")
        room = None if self._options.count is None else asyncio.Semaphore(self._options.count - self._memory.count)
        async with asyncio.TaskGroup() as workers:
            for _ in range(self._options.concurrency):
                workers.create_task(self._work(inbox, channel, room))

    async def _work(
        self, inbox: asyncio.Queue[AbstractIncomingMessage], channel: AbstractChannel, room: asyncio.Semaphore | None
    ) -> None:
        try:
            while not self._ended.is_set():
                with self._idling():
                    if room is not None:
                        await room.acquire()
                    message = await inbox.get()
                if not await self._handle(message, channel) and room is not None:
                    room.release()
                if self._memory.count == self._options.count:
                    self.end()
        except Lost as lost:
            self._lose(str(lost))

    @contextmanager
    def _idling(self) -> Iterator[None]:
        """Mark this worker as idle while the block runs, so that the end of the session may cancel it.

        A message that it has just got returns to the queue by itself.
        """
        worker = asyncio.current_task()
        assert worker is not None
        self._idle.add(worker)
        try:
            yield
        finally:
            self._idle.discard(worker)

    async def _handle(self, message: AbstractIncomingMessage, channel: AbstractChannel) -> bool:
        """Process one message; return whether it is settled. Raises :class:`Lost`."""
        if self._memory.is_settled(message):
            await _acknowledge(message)
            return False  # it was counted when it was settled
        attempt = self._memory.attempt(message)
        outcome = await self._run(message, attempt)
        if outcome.done:
            self._memory.settled(message)
            await self._report(message, "done", attempt, outcome)
            await _acknowledge(message)
            return True
        if self._script.killed or attempt < (self._options.attempts_max or math.inf):
            await self._give_back(message, attempt, outcome)
            return False
        await self._dead_letter(message, channel, attempt, outcome)
        return True

    async def _give_back(self, message: AbstractIncomingMessage, attempt: int, outcome: ScriptOutcome) -> None:
        """Return a message to the queue after a pause. A program that was killed by a stop does not count as failed."""
        if not self._script.killed:
            self._memory.failed(message, attempt)
            await self._report(message, "failed", attempt, outcome)
            await self._pause(attempt)
        with _edge("cannot give a message back"):
            async with asyncio.timeout(_ANSWER_SECONDS):
                await message.nack(requeue=True)

    async def _dead_letter(
        self, message: AbstractIncomingMessage, channel: AbstractChannel, attempt: int, outcome: ScriptOutcome
    ) -> None:
        """Publish a copy to the queue of dead messages, then acknowledge the original after the broker's confirm."""
        with _edge("cannot dead-letter a message"):
            await channel.default_exchange.publish(
                buried(message, attempt, outcome.reason), self._options.dead_queue, timeout=_ANSWER_SECONDS
            )
        self._memory.settled(message)
        await self._report(message, "dead", attempt, outcome)
        await _acknowledge(message)

    async def _run(self, message: AbstractIncomingMessage, attempt: int) -> ScriptOutcome:
        if self._options.print_bodies:
            return await self._print(line_of(message, body=True) if self._options.json_lines else message.body)
        variables = environment_of(message.message_id, message.routing_key, message.content_type, message.headers)
        return await self._script.run(message.body, {**variables, "HOOKWIRE_ATTEMPT": str(attempt)})

    async def _report(
        self, message: AbstractIncomingMessage, became: str, attempt: int, outcome: ScriptOutcome
    ) -> None:
        if not outcome.done:
            name = message.message_id or message.routing_key
            self._say(f"{name!a:.200}: attempt {attempt} failed, {outcome.reason}; {_NEXT[became]}")
        if self._options.json_lines and not self._options.print_bodies:
            line = line_of(
                message, body=False, outcome=became, attempt=attempt, exit_status=outcome.exit_status,
                reason=outcome.reason, seconds=round(outcome.seconds, 3),
            )  # fmt: skip
            await self._print(line)

    async def _print(self, text: str | bytes) -> ScriptOutcome:
        """Write one line to standard output; without a reader the session ends."""
        raw = text if isinstance(text, bytes) else text.encode(errors="surrogateescape")
        try:
            async with self._printing:
                await asyncio.to_thread(_write, raw + b"\n")
        except BrokenPipeError:
            self.end()
            return ScriptOutcome(None, 0.0, "standard output is closed")
        return ScriptOutcome(0, 0.0, "")

    async def _pause(self, attempt: int) -> None:
        """Wait before a message is returned, twice as long each time, but not beyond the end of the session."""
        seconds = min(self._options.retry_seconds_first * 2.0 ** min(attempt - 1, 60), self._options.retry_seconds_max)
        await pause(self._ended, seconds)


_NEXT = {"failed": "it will be given back", "dead": "it is dead"}


def _write(raw: bytes) -> None:
    try:
        sys.stdout.buffer.write(raw)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # Buffered output must not fail a second time when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


async def _acknowledge(message: AbstractIncomingMessage) -> None:
    with _edge("cannot acknowledge"):
        async with asyncio.timeout(_ANSWER_SECONDS):
            await message.ack()


@asynccontextmanager
async def _connection(options: ConsumeOptions) -> AsyncIterator[AbstractConnection]:
    try:
        context = options.tls.context() if options.url.startswith("amqps://") else None
    except ValueError as error:
        raise Lost(str(error), exit_code=2) from error
    tolerate_unreadable()
    with _edge("no AMQP broker"):
        async with asyncio.timeout(_ANSWER_SECONDS):
            connection = await aio_pika.connect(
                options.url, ssl_context=context, heartbeat=options.heartbeat_seconds,
                name=f"hookwire consume {options.queue}",
            )  # fmt: skip
    try:
        yield connection
    finally:
        # The library's close() ignores a cancellation. So it may end later, at the latest when the connection misses
        # its heartbeats.
        closing = asyncio.ensure_future(connection.close())
        _closing.add(closing)
        closing.add_done_callback(_closing.discard)
        await asyncio.wait({closing}, timeout=_CLOSE_SECONDS)


async def _declare(connection: AbstractConnection, options: ConsumeOptions) -> None:
    """Create the missing queues and exchanges. Leave existing ones, which may have other arguments."""

    async def exchange(channel: AbstractChannel, passive: bool) -> None:
        await channel.declare_exchange(options.exchange, "topic", durable=True, passive=passive)

    async def queue(name: str, channel: AbstractChannel, passive: bool) -> None:
        await channel.declare_queue(name, durable=True, passive=passive)

    await _ensure(connection, exchange)
    await _ensure(connection, partial(queue, options.queue))
    if options.attempts_max is not None:
        await _ensure(connection, partial(queue, options.dead_queue))
    async with _channel(connection) as channel:
        bound = await channel.get_queue(options.queue)
        for pattern in options.bindings:
            await bound.bind(options.exchange, pattern)


async def _ensure(
    connection: AbstractConnection, declare: Callable[[AbstractChannel, bool], Awaitable[object]]
) -> None:
    """Check passively, then declare a missing queue or exchange on a new channel: a failed check closes the channel."""
    with suppress(_Missing):
        async with _channel(connection) as channel:
            await declare(channel, True)
        return
    async with _channel(connection) as channel:
        await declare(channel, False)


class _Missing(Exception):
    """The broker knows no exchange or queue of that name."""


@asynccontextmanager
async def _channel(connection: AbstractConnection) -> AsyncIterator[AbstractChannel]:
    with _edge("cannot declare"):
        async with asyncio.timeout(_ANSWER_SECONDS):
            channel = connection.channel()
            await channel.initialize()
            try:
                yield channel
            except ChannelNotFoundEntity as error:
                raise _Missing(str(error)) from error
            await channel.close()


@contextmanager
def _edge(doing: str) -> Iterator[None]:
    """Map the exceptions of the client library to :class:`Lost`."""
    try:
        yield
    except (Exception, asyncio.CancelledError) as error:
        if trouble := trouble_of(error):
            raise Lost(f"{doing}: {trouble}", exit_code=_exit_code(error)) from error
        raise


def _exit_code(error: BaseException) -> int | None:
    """Return the exit code for an error that another try would raise too; None for any other."""
    if isinstance(error, AMQPChannelError):
        return 2
    return 3 if isinstance(error, AuthenticationError | ProbableAuthenticationError) else None
