"""The edge where exceptions of the AMQP client end: aio-pika, and aiormq and pamqp below it.

The client raises its own exceptions for what it expects. For what it does not expect, others leave its internals, such
as ``StopAsyncIteration`` where the broker closed the connection during the handshake, ``RuntimeError`` where it closed
before a channel was opened, and a bare ``Exception`` for a connection that closed without a reason. All of them mean
that the broker or the connection failed. An exception that was raised in our own code is not the client's and passes;
see :mod:`db.foreign`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from aio_pika.exceptions import AMQPError, ChannelInvalidStateError

from db.foreign import origin
from relay.sink import SinkUnavailable

__all__ = ["line_of", "translated", "trouble_of"]

_PACKAGES = ("aio_pika", "aiormq", "pamqp")


def trouble_of(error: BaseException) -> str:
    """Return what happened to the connection, in one line; "" for an error that is not the client's."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, AMQPError | ChannelInvalidStateError | OSError):
        return line_of(str(error) or type(error).__name__)
    if isinstance(error, asyncio.CancelledError):
        # A connection that died of its heartbeat cancels the tasks that wait on it. That is not our cancellation.
        task = asyncio.current_task()
        return "" if task is None or task.cancelling() else "the connection was lost"
    if type(error) is Exception:
        return "the connection was closed"
    place = origin(error, *_PACKAGES)
    return line_of(f"the connection was closed ({type(error).__name__} in {place})") if place else ""


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Map what the client raises to :class:`relay.sink.SinkUnavailable`; ``doing`` begins its text."""
    try:
        yield
    except (Exception, asyncio.CancelledError) as error:
        if trouble := trouble_of(error):
            raise SinkUnavailable(f"{doing}: {trouble}") from error
        raise


def line_of(text: str) -> str:
    """Return one safe line of at most 300 characters."""
    return "".join(character if character.isprintable() else " " for character in text)[:300]
