"""AMQP notifications: ids of tasks from a durable queue on AMQP's default exchange (JB-22, JB-23).

Workers compete on one queue. Each worker holds at most ``prefetch`` ids without an acknowledgement. It acknowledges an
id after the task's claim is committed, not after the run, which may exceed the broker's delivery timeout (JB-28).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import structlog
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from aio_pika.exceptions import AMQPError, ChannelInvalidStateError

from relay.amqp.connection_check import connect
from relay.amqp.options import AmqpOptions
from relay.amqp.topology import declare_missing
from relay.sink import SinkUnavailable
from runtime.cancellation import end_if_cancelled

__all__ = ["TASK_QUEUE", "AmqpNotifications"]

_log = structlog.get_logger(__name__)
TASK_QUEUE = "task_queue"
_PAUSE_SECONDS = (0.5, 10.0)
_ANSWER_SECONDS = 10.0
_ID_BYTES_MAX = 200


class AmqpNotifications:
    """Consumes the ids in one queue."""

    def __init__(self, options: AmqpOptions, queue: str = TASK_QUEUE, prefetch: int = 50) -> None:
        self._options = options
        self._queue = queue
        self._prefetch = prefetch

    async def listen(self, notified: Callable[[str, Callable[[], object]], None]) -> None:
        """Consume until cancelled; reconnect after each loss. ``notified`` gets an id and its acknowledge function."""
        pause, pause_max = _PAUSE_SECONDS
        while True:
            try:
                await self._consume(notified)
                pause = _PAUSE_SECONDS[0]
            except (SinkUnavailable, AMQPError, ChannelInvalidStateError, OSError, TimeoutError) as error:
                end_if_cancelled()
                _log.warning("task_notifications_lost", error=str(error) or type(error).__name__, hint="workers poll")
            await asyncio.sleep(pause)
            pause = min(pause * 2, pause_max)

    async def _consume(self, notified: Callable[[str, Callable[[], object]], None]) -> None:
        connection = await connect(self._options, "hookwire work")
        lost = asyncio.Event()
        connection.close_callbacks.add(lambda *_: lost.set())
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                channel = await connection.channel()
                channel.close_callbacks.add(lambda *_: lost.set())
                await channel.set_qos(prefetch_count=self._prefetch)
                await declare_missing(connection, self._declare)
                queue = await channel.get_queue(self._queue)

                async def arrived(message: AbstractIncomingMessage) -> None:
                    notified(_id_of(message), lambda: _acknowledged(message))

                await queue.consume(arrived)
            # Before Python 3.12, wait_for() loses a cancellation that comes together with the broker's answer.
            end_if_cancelled()
            await lost.wait()
        finally:
            with suppress(AMQPError, OSError, TimeoutError):
                async with asyncio.timeout(3):
                    await connection.close()

    async def _declare(self, channel: AbstractChannel, passive: bool) -> None:
        await channel.declare_queue(self._queue, durable=True, passive=passive)


def _id_of(message: AbstractIncomingMessage) -> str:
    """Return the id in the body, or '' for an invalid body, which makes the worker poll."""
    if len(message.body) > _ID_BYTES_MAX:
        return ""
    text = message.body.decode("utf-8", "replace")
    return text if text.isprintable() else ""


async def _acknowledged(message: AbstractIncomingMessage) -> None:
    """Acknowledge a message. If its channel is closed, it is delivered again, and its task is claimed by then."""
    with suppress(AMQPError, ChannelInvalidStateError, OSError):
        await message.ack()
