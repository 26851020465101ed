"""What a Kafka error means for the relay (RO-08), and the edge where aiokafka's exceptions end.

aiokafka raises ``KafkaError`` for what the brokers say, and ``OSError`` and ``TimeoutError`` for what the network does.
Others leave its internals where its picture of the cluster is empty or an answer is missing: ``AssertionError`` ("Did
we not perform bootstrap?") while all brokers are fenced, ``RuntimeError`` of the event loop for a connection that has
gone, ``EOFError``, ``KeyError`` or ``AttributeError``. All of them mean that the cluster cannot be used at the moment.
An exception that was raised in our own code is not the client's and passes; see :mod:`db.foreign`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, errors
from aiokafka.client import AIOKafkaClient

from db.foreign import origin
from relay.sink import Fenced, SinkError, SinkUnavailable

__all__ = ["Blame", "blame", "close_client", "described", "sink_error", "stop_client", "thrown_at", "translated"]

Blame = Literal["record", "topic", "sink"]

_FENCED = (errors.ProducerFenced, errors.InvalidProducerEpoch)
_TOPIC = (errors.TopicAuthorizationFailedError, errors.InvalidTopicError)
_RECORD = (
    errors.MessageSizeTooLargeError,
    errors.RecordListTooLargeError,
    errors.CorruptRecordException,
    errors.InvalidTimestampError,
    errors.UnsupportedForMessageFormatError,
    errors.PolicyViolationError,
    errors.UnknownError,  # every code above 79, among them "invalid record" (RK-24)
)

# uvloop's RuntimeError for a write to a peer that has gone before the client has seen it; asyncio's own loop has none.
_HAS_GONE = "the handler is closed"


def blame(error: BaseException) -> Blame:
    """Whom a refused Kafka batch tells against. Whoever is not known to be the record or the topic is the broker."""
    if isinstance(error, _TOPIC):
        return "topic"
    return "record" if isinstance(error, _RECORD) else "sink"


def described(error: BaseException) -> str:
    """One safe line: the error's name and the broker's standing description of it, nothing of our data."""
    detail = getattr(error, "description", "") or str(error)
    return f"{type(error).__name__}: {detail}".replace("\n", " ")[:300]


def sink_error(error: BaseException) -> SinkError:
    """Return the same in the port's words."""
    return Fenced(described(error)) if isinstance(error, _FENCED) else SinkUnavailable(described(error))


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Map what aiokafka raises onto the port's exceptions; ``doing`` says what took too long.

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
    """Return where aiokafka itself raised an error; "" for an error of ours."""
    return origin(error, "aiokafka")


async def close_client(client: AIOKafkaClient, seconds: float) -> None:
    """Disconnect, within so many seconds: a peer that reads nothing keeps a socket open; it goes with its buffer.

    The task that looks after the metadata may have died of a connection that had gone. The client raises that when it
    is closed, and before it closes any connection, so it is then closed without that task.
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
    """Stop, within so many seconds, and disconnect within as many more where that failed; never raises what Kafka does.

    Disconnecting is the last step of stopping, so what fails before it, or takes too long, leaves the sockets open.
    """
    with suppress(SinkError), translated("stopping"):
        async with asyncio.timeout(seconds):
            await client.stop()
            return
    await close_client(client.client if isinstance(client, AIOKafkaProducer) else client._client, seconds)
