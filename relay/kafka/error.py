"""What a Kafka error means for the relay (RO-08), and the edge where aiokafka's exceptions end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, errors
from aiokafka.client import AIOKafkaClient

from relay.sink import Fenced, SinkError, SinkUnavailable

__all__ = ["Blame", "blame", "close_client", "described", "sink_error", "stop_client", "translated"]

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
    """The same in the port's words."""
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
    except RuntimeError as error:
        if _HAS_GONE not in str(error):
            raise
        raise SinkUnavailable("the connection to Kafka has gone") from error


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
