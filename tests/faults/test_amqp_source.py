"""The AMQP source under kills and outages: each message with an id is one event, never none and never two (FM-03)."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from pathlib import Path

import aio_pika
import asyncpg
import pytest

from app.chaos.child import Child
from scripts.servers.rabbitmq import RabbitServer
from tests.waiting import until

DEADLINE_SECONDS = 60.0
COMMAND = ("serve", "--role", "source")


class Feed:
    """A queue on the broker, the child that reads it, and the events in its database."""

    def __init__(self, server: RabbitServer, database_url: str, folder: Path) -> None:
        self.queue = f"feed-{secrets.token_hex(4)}"
        self.server = server
        self._database_url = database_url
        self._sent = 0
        settings = {
            "DATABASE_URL": database_url, "DATA_DIR": str(folder / "data"), "AMQP_SOURCE_URL": server.url,
            "AMQP_SOURCES": f"{self.queue}?topic=feed", "LOG_FORMAT": "json",
        }  # fmt: skip
        self.child = Child("source", folder, settings, command=COMMAND)

    async def declare(self) -> None:
        async with await aio_pika.connect(self.server.url) as connection, connection.channel() as channel:
            await channel.declare_queue(self.queue, durable=True)

    async def publish(self, count: int) -> None:
        """Messages with ids, persistent; returns when the broker has handled them all."""
        connection = await aio_pika.connect(self.server.url)
        async with connection, connection.channel(publisher_confirms=False) as channel:
            for number in range(self._sent, self._sent + count):
                await channel.default_exchange.publish(_message(number), self.queue)
            await channel.declare_queue(self.queue, passive=True)  # answered behind all of them
        self._sent += count

    async def events(self) -> Counter[int]:
        """How often each number is an event."""
        connection = await asyncpg.connect(self._database_url)
        try:
            rows = await connection.fetch("SELECT payload FROM hookwire.events WHERE topic = 'feed'")
        finally:
            await connection.close()
        return Counter(int(row["payload"]) for row in rows)

    async def concluded(self, seconds_max: float = DEADLINE_SECONDS) -> Counter[int]:
        """The events, once the queue is empty and nothing in it waits for an acknowledgement."""

        async def holds() -> object:
            return len(await self.events()) >= self._sent

        await until(holds, seconds_max)
        code, _ = await self.child.drain(DEADLINE_SECONDS)
        async with await aio_pika.connect(self.server.url) as connection, connection.channel() as channel:
            left = (await channel.declare_queue(self.queue, passive=True)).declaration_result.message_count
        assert (code, left) == (0, 0), self.child.log_tail()
        return await self.events()


def _message(number: int) -> aio_pika.Message:
    about = {"message_id": f"m{number}", "delivery_mode": aio_pika.DeliveryMode.PERSISTENT}
    return aio_pika.Message(b"%d" % number, headers={"hookwire-key": f"k{number % 50}"}, **about)  # type: ignore[arg-type]


def once_each(count: int) -> Counter[int]:
    return Counter(range(count))


@pytest.mark.parametrize("at", [1, 3])
async def test_a_kill_between_commit_and_acknowledgement_makes_one_event_of_each_message(
    database_url: str, rabbitmq: RabbitServer, tmp_path: Path, at: int
) -> None:
    """FM-03: the broker delivers again what was not acknowledged, and its id says that it is stored."""
    feed = Feed(rabbitmq, database_url, tmp_path)
    await feed.declare()
    await feed.publish(300)
    await feed.child.start(f"publish.after_commit:kill@{at}", wait=False)
    killed = await feed.child.ended(DEADLINE_SECONDS)
    stored = len(await feed.events())
    await feed.child.start(wait=False)
    found = await feed.concluded()

    assert (killed, stored > 0, found) == (-9, True, once_each(300))


@pytest.mark.fault
async def test_a_broker_that_restarts_while_it_is_read_costs_nothing(
    database_url: str, rabbitmq: RabbitServer, tmp_path: Path
) -> None:
    """FM-03, GU-20: the queue's declaration is on the disk before the kill."""
    feed = Feed(rabbitmq, database_url, tmp_path)
    await feed.declare()
    await asyncio.to_thread(rabbitmq.sync_declarations)
    await feed.publish(2_000)
    await feed.child.start(wait=False)

    async def holds() -> object:
        return len(await feed.events()) >= 100

    await until(holds, DEADLINE_SECONDS)
    await asyncio.to_thread(rabbitmq.kill)
    await asyncio.to_thread(rabbitmq.start)
    await feed.publish(100)
    found = await feed.concluded()

    assert (found, list(feed.child.crashes)) == (once_each(2_100), [])


@pytest.mark.slow
@pytest.mark.timeout(1_800)
async def test_a_hundred_thousand_messages_and_kills_are_as_many_events(
    database_url: str, rabbitmq: RabbitServer, tmp_path: Path
) -> None:
    """FM-03."""
    feed = Feed(rabbitmq, database_url, tmp_path)
    await feed.declare()
    await feed.publish(100_000)
    for number in range(5):
        await feed.child.start(f"publish.after_commit:kill@{50 + 40 * number}", wait=False)
        await feed.child.ended(600)
    await feed.child.start(wait=False)
    found = await feed.concluded(900)

    assert found == once_each(100_000)
