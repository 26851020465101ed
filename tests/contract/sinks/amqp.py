"""The AMQP sink at the harness, on a real broker."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import aio_pika
import pytest
from aio_pika.abc import AbstractIncomingMessage, AbstractQueue

from relay.amqp.sink import AmqpOptions, AmqpSink
from relay.record import Record
from runtime.port import free_port
from tests.contract.sinks.harness import Kept, SinkAdapter


class Harness:
    refused_bytes = 0  # 128 MiB, and then the broker closes the channel: see tests/relay/amqp/test_sink.py

    def __init__(self, url: str, lease: str, queue: AbstractQueue) -> None:
        self._options = AmqpOptions(url, incarnation=lease, exchange=lease, lock_seconds=0.5)
        self._queue = queue
        self._taken: list[AbstractIncomingMessage] = []
        self.sinks: list[AmqpSink] = []

    def sink(self) -> AmqpSink:
        self.sinks.append(AmqpSink(self._options))
        return self.sinks[-1]

    def unreachable(self) -> AmqpSink:
        return AmqpSink(replace(self._options, url=f"amqp://127.0.0.1:{free_port()}/"))

    def homeless(self, record: Record) -> Record:
        return record._replace(amqp_exchange=f"{self._options.exchange}.missing")

    async def kept(self, topic: str) -> list[Kept]:
        while (message := await self._queue.get(no_ack=True, fail=False)) is not None:
            self._taken.append(message)
        return [_kept(message) for message in self._taken if message.routing_key == topic]


def _kept(message: AbstractIncomingMessage) -> Kept:
    headers: dict[str, object] = {**message.headers}
    key, sequence, term = (headers.get(f"hookwire-{name}") for name in ("key", "sequence", "term"))
    assert isinstance(key, str | None)
    assert isinstance(sequence, int | None)
    assert isinstance(term, int)
    return Kept(key, message.body, str(headers["hookwire-event-id"]), sequence, term)


@asynccontextmanager
async def _harness(request: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    """A lease, an exchange and a queue of its own: nothing of an earlier test is seen."""
    url, lease = request.getfixturevalue("rabbitmq").url, f"harness-{secrets.token_hex(4)}"
    async with await aio_pika.connect(url) as connection, connection.channel() as channel:
        exchange = await channel.declare_exchange(lease, "topic", durable=True)
        queue = await channel.declare_queue(lease, durable=True)
        await queue.bind(exchange, "#")
        harness = Harness(url, lease, queue)
        yield harness
        for sink in harness.sinks:
            await sink.close()
        await queue.delete(if_unused=False, if_empty=False)
        await exchange.delete()


ADAPTERS = [SinkAdapter("amqp", _harness, fence="first", overlaps=False, manifests=False, refuses_large=False)]
