"""relay/kafka/error.py: a client of aiokafka's is stopped to the last socket, whatever it has died of, and a connection
that has gone is the broker's trouble."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from relay.kafka.error import close_client, stop_client, translated
from relay.sink import SinkUnavailable


class Connection:
    """What a client closes last."""

    is_open = True

    async def close(self, reason: object) -> None:
        self.is_open = False


def consumer_and_its_client() -> tuple[AIOKafkaConsumer, Any]:
    consumer = AIOKafkaConsumer(bootstrap_servers="localhost:1")
    return consumer, consumer._client


def producer_and_its_client() -> tuple[AIOKafkaProducer, Any]:
    producer = AIOKafkaProducer(bootstrap_servers="localhost:1")
    return producer, producer.client


@pytest.mark.parametrize("made", [consumer_and_its_client, producer_and_its_client])
async def test_what_is_stopped_after_its_connection_had_gone_leaves_no_socket(made: Any) -> None:
    """F20: its metadata task has died of what uvloop says of that, and to stop it raises that before it disconnects."""
    stopped, client = made()
    client._sync_task = asyncio.get_running_loop().create_future()
    client._sync_task.set_exception(RuntimeError("unable to perform operation on <TCP>; the handler is closed"))
    connection = client._conns[0] = Connection()
    await stop_client(stopped, 60.0)
    assert not connection.is_open


@pytest.mark.parametrize("made", [consumer_and_its_client, producer_and_its_client])
async def test_what_does_not_stop_in_time_leaves_no_socket(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped, client = made()
    connection = client._conns[0] = Connection()
    monkeypatch.setattr(stopped, "stop", asyncio.Event().wait)
    await stop_client(stopped, 0.01)
    stopped._closed = True
    assert not connection.is_open


class GoneClient:
    """A client whose metadata task has died of what uvloop says of a connection that has gone; aiokafka's own order."""

    def __init__(self) -> None:
        self._sync_task: asyncio.Future[None] | None = asyncio.get_running_loop().create_future()
        self._sync_task.set_exception(RuntimeError("unable to perform operation on <TCP>; the handler is closed"))
        self.disconnected = False

    async def close(self) -> None:
        if self._sync_task:
            await self._sync_task
        self.disconnected = True


async def test_a_client_that_had_lost_its_connection_is_closed_like_any_other() -> None:
    """F20: the process ended, and took what the other sinks were doing with it."""
    client = GoneClient()
    await close_client(client, 60.0)
    assert client.disconnected


def test_a_connection_that_has_gone_is_trouble_of_the_broker_and_any_other_bug_is_not() -> None:
    with pytest.raises(SinkUnavailable, match="gone"), translated("asking"):
        raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")
    with pytest.raises(RuntimeError, match="dictionary"), translated("asking"):
        raise RuntimeError("dictionary changed size during iteration")
