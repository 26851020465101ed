"""AMQP sink against one message at a time, on the same broker, queue and connection settings (RQ-09).

    python -m benchmarks.amqp --messages 5000 --rounds 3

Both send persistent 100-byte messages with publisher confirms to a durable queue. The yardstick waits for each
confirmation before it sends the next message, as a naive relay does. The sink is built as in production and keeps 500
keys unconfirmed. A third row shows the cost of order: ten keys, hence ten unconfirmed messages. Rounds alternate. The
output has each median and its ratio to the yardstick. The broker is that at HOOKWIRE_TEST_AMQP_URL, or it is booted
for the run.
"""

import argparse
import asyncio
import os
import resource
import secrets
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import aio_pika
from aio_pika import DeliveryMode, Message
from aio_pika.abc import AbstractChannel

from relay.amqp.sink import AmqpOptions, AmqpSink
from relay.record import Record
from relay.sink import Batch, Term
from scripts.servers.fleet import take_server

BODY = b"x" * 100
TERM = Term("amqp", 0, 1, 1, 0)


def records(count: int, keys: int) -> list[Record]:
    accepted_at = datetime.now(UTC)
    return [
        Record(
            id=number, shard=0, event_id=f"evt_abcdefgh_{number}", tenant="default", topic="bench",
            key=f"key {number % keys}", sequence=number, content_type="application/octet-stream", headers={},
            payload=BODY, accepted_at=accepted_at,
        )
        for number in range(1, count + 1)
    ]  # fmt: skip


async def one_by_one(channel: AbstractChannel, exchange_name: str, messages: int) -> None:
    exchange = await channel.get_exchange(exchange_name)
    for number in range(messages):
        message = Message(BODY, delivery_mode=DeliveryMode.PERSISTENT, message_id=f"evt_abcdefgh_{number}")
        await exchange.publish(message, "bench", mandatory=True, timeout=5)


async def in_windows(sink: AmqpSink, messages: int, keys: int) -> None:
    waiting, size = records(messages, keys), sink.features.batch_records_max
    for first in range(0, messages, size):
        batch = waiting[first : first + size]
        assert len((await sink.send(Batch(TERM, batch))).acknowledged) == len(batch)


async def measured(messages: int, work: Callable[[], Awaitable[None]]) -> tuple[float, float]:
    """Return messages per second, and CPU microseconds per message in this process."""
    cpu, wall = cpu_seconds(), time.perf_counter()
    await work()
    return messages / (time.perf_counter() - wall), (cpu_seconds() - cpu) / messages * 1e6


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def run(url: str, messages: int, rounds: int) -> None:
    name = f"bench-{secrets.token_hex(4)}"
    connection = await aio_pika.connect(url, heartbeat=3)
    channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
    sink = AmqpSink(AmqpOptions(url, name, exchange=name))
    await sink.open(TERM)
    queue = await channel.declare_queue(name, durable=True)
    await queue.bind(name, "#")
    contenders: dict[str, Callable[[], Awaitable[None]]] = {
        "one by one": lambda: one_by_one(channel, name, messages),
        "hookwire, 500 keys": lambda: in_windows(sink, messages, 500),
        "hookwire, 10 keys": lambda: in_windows(sink, messages, 10),
    }
    figures: dict[str, list[tuple[float, float]]] = {contender: [] for contender in contenders}
    for _ in range(rounds):
        for contender, work in contenders.items():
            figures[contender].append(await measured(messages, work))
            await queue.purge()
    await sink.close()
    await channel.queue_delete(name)
    await channel.exchange_delete(name)
    await connection.close()
    report(figures, messages)


def report(figures: dict[str, list[tuple[float, float]]], messages: int) -> None:
    medians = {name: statistics.median(rate for rate, _ in rows) for name, rows in figures.items()}
    print(f"{messages} persistent, confirmed messages of {len(BODY)} bytes to one durable queue, loopback")
    for name, rows in figures.items():
        cpu = statistics.median(microseconds for _, microseconds in rows)
        ratio = medians[name] / medians["one by one"]
        print(f"{name:20} {medians[name]:8,.0f} messages/s {cpu:6.0f} us CPU  {ratio:5.1f} x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--messages", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hookwire-bench-") as folder:
        server = take_server("rabbitmq", Path(folder), os.environ)
        try:
            asyncio.run(run(server.address, options.messages, options.rounds))
        finally:
            server.discard()


if __name__ == "__main__":
    main()
