"""Map Kafka errors to the relay's. aiokafka's exceptions end here. aiokafka raises ``KafkaError`` for a
broker's error, and ``OSError`` and ``TimeoutError`` for a network error. Its own code raises others where its view of
the cluster is empty or an answer is missing. ``AssertionError`` ("Did we not perform bootstrap?") means that all
brokers are fenced, and ``RuntimeError`` of the event loop a lost connection. ``EOFError``, ``KeyError`` and
``AttributeError`` occur too. All of them mean that the cluster cannot be used at the moment. An exception that was
raised in our own code is not the client's and passes; see :mod:`db.foreign`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, errors
from aiokafka.client import AIOKafkaClient

from db.foreign import origin
from relay.kafka.refused_batch import RefusedBatch
from relay.kafka.topic import TopicUnusable
from relay.sink import Fenced, SinkError, SinkUnavailable

__all__ = ["Blame", "blame", "close_client", "described", "sink_error", "stop_client", "thrown_at", "translated"]

Blame = Literal["record", "topic", "sink"]

_FENCED = (errors.ProducerFenced, errors.InvalidProducerEpoch)
_TOPIC = (errors.TopicAuthorizationFailedError, errors.InvalidTopicError, TopicUnusable)
_RECORD = (
    errors.MessageSizeTooLargeError,
    errors.RecordListTooLargeError,
    errors.CorruptRecordException,
    errors.InvalidTimestampError,
    errors.UnsupportedForMessageFormatError,
    errors.PolicyViolationError,
    errors.UnknownError,  # every code above 79, among them "invalid record"
)

# uvloop's RuntimeError for a write to a peer that has gone before the client has seen it; asyncio's own loop has none.
_HAS_GONE = "the handler is closed"


def blame(error: BaseException) -> Blame:
    """Return the cause of a refused Kafka batch: the record, the topic, or in any other case the broker."""
    cause = error.error if isinstance(error, RefusedBatch) else type(error)
    if issubclass(cause, _TOPIC):
        return "topic"
    return "record" if issubclass(cause, _RECORD) else "sink"


def described(error: BaseException) -> str:
    """Return one safe line: the error's name and the broker's description, without our data."""
    if isinstance(error, RefusedBatch | TopicUnusable):
        return str(error)
    detail = getattr(error, "description", "") or str(error) or "no answer in time"
    return f"{type(error).__name__}: {detail}".replace("\n", " ")[:300]


def sink_error(error: BaseException) -> SinkError:
    """Return the port's error for an exception of aiokafka."""
    cause = error.error if isinstance(error, RefusedBatch) else type(error)
    return Fenced(described(error)) if issubclass(cause, _FENCED) else SinkUnavailable(described(error))


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Map aiokafka's exceptions onto the port's; ``doing`` names the action that took too long.

    Raises :class:`Fenced`, :class:`SinkUnavailable`.
    """
    try:
        yield
    except TimeoutError as error:
        raise SinkUnavailable(f"Kafka gave no answer in time: {doing}") from error
    except (errors.KafkaError, OSError) as error:
        raise sink_error(error) from error
    except Exception as error:
        if isinstance(error, RuntimeError) and _HAS_GONE in str(error):
            raise SinkUnavailable("the connection to Kafka has gone") from error
        if place := thrown_at(error):
            raise SinkUnavailable(f"the Kafka client failed: {described(error)} (in {place})") from error
        raise


def thrown_at(error: BaseException) -> str:
    """Return where aiokafka itself raised an error; "" for our own error."""
    return origin(error, "aiokafka")


async def close_client(client: AIOKafkaClient, seconds: float) -> None:
    """Disconnect within so many seconds. A peer that reads nothing would keep the socket open, so its unsent bytes are
    dropped.

    The task that updates the metadata may have failed with a lost connection. The client raises that error when it is
    closed, before it closes any connection. It is then closed without that task.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            try:
                with translated("closing"):
                    await client.close()
            except SinkUnavailable:
                client._sync_task = None
                await client.close()


async def stop_client(client: AIOKafkaConsumer | AIOKafkaProducer, seconds: float) -> None:
    """Stop within so many seconds; where that failed, disconnect within as many more. Never raise a Kafka error.
    Disconnecting is the last step of stopping, so an earlier failure or time-out leaves the sockets open.
    """
    with suppress(SinkError), translated("stopping"):
        async with asyncio.timeout(seconds):
            await client.stop()
            return
    await close_client(client.client if isinstance(client, AIOKafkaProducer) else client._client, seconds)
