"""Translation of the AMQP client's exceptions: those of aio-pika, and of aiormq and pamqp below it.

The client raises its own exceptions for failures that it expects. Other failures raise exceptions of its internals:

* ``StopAsyncIteration`` if the broker closes the connection during the handshake.
* ``RuntimeError`` if the broker closes the connection before a channel is open.
* A bare ``Exception`` for a connection that closed without a reason.

All of them mean that the broker or the connection failed. Exceptions from other code pass; see :mod:`db.foreign`.
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
    """Return one line about the failure of the connection, or "" if the error is not the client's."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, AMQPError | ChannelInvalidStateError | OSError):
        return line_of(str(error) or type(error).__name__)
    if isinstance(error, asyncio.CancelledError):
        # A connection without heartbeats cancels the tasks that wait for it. The task itself was not cancelled then.
        task = asyncio.current_task()
        return "" if task is None or task.cancelling() else "the connection was lost"
    if type(error) is Exception:
        return "the connection was closed"
    place = origin(error, *_PACKAGES)
    return line_of(f"the connection was closed ({type(error).__name__} in {place})") if place else ""


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Translate the client's exceptions to :class:`relay.sink.SinkUnavailable`, whose message begins with ``doing``."""
    try:
        yield
    except (Exception, asyncio.CancelledError) as error:
        if trouble := trouble_of(error):
            raise SinkUnavailable(f"{doing}: {trouble}") from error
        raise


def line_of(text: str) -> str:
    """Return at most 300 characters of a text, without line breaks and control characters."""
    return "".join(character if character.isprintable() else " " for character in text)[:300]
