"""One AMQP destination that takes no messages, beside others (GW-01): nobody else waits, and the sink stays open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import aio_pika
import pytest

from relay.amqp.options import AmqpOptions
from relay.amqp.sink import AmqpSink
from relay.sink import Term
from scripts.servers.rabbitmq import RabbitServer
from tests.relay.amqp.test_sink import Broker
from tests.relay.harness import Harness, relay_harness, relay_of, running
from tests.waiting import until

BACKLOG = 250
WINDOW = 100


class Counting(AmqpSink):
    """Counts how often it is opened."""

    opened = 0

    async def open(self, term: Term) -> None:
        self.opened += 1
        await super().open(term)


class Scene:
    """The topics ``suspect``, with an exchange of its own, and ``other``."""

    def __init__(self, harness: Harness, broker: Broker) -> None:
        self.harness = harness
        self.broker = broker
        self.own = f"{broker.name}.own"
        self.sink = Counting(
            AmqpOptions(broker.server.url, broker.name, exchange=broker.name, window_records_max=WINDOW)
        )
        self.queue = self.suspects = ""
        self._others: list[int] = []

    async def begin(self) -> None:
        self.queue = await self.broker.bind("other")
        self.suspects = await self.broker.bind("suspect")
        await self.harness.connection.execute(
            "INSERT INTO hookwire.topics (name, amqp_exchange) VALUES ('suspect', $1)", self.own
        )

    async def publish(self, *keys: str | None, payload: bytes = b"x") -> None:
        await self.harness.publish(*keys, topic="suspect", payload=payload)

    async def bystanders_arrive(self, count: int = 20) -> None:
        ids = await self.harness.publish(*["key"] * count, topic="other")

        async def come() -> bool:
            self._others += await self.ids(self.queue)
            return ids == self._others[-count:]

        await until(come)

    async def ids(self, queue: str) -> list[int]:
        return [int(str(message.message_id).rpartition("_")[2]) for message in await self.broker.drain(queue)]

    async def all_wait(self, count: int) -> None:
        async def held() -> bool:
            return len(await self.harness.held()) == count

        await until(held)

    async def heals(self) -> None:
        async def carried() -> bool:
            await self.harness.probe_now()
            return not (await self.harness.owed() or await self.harness.held() or await self.harness.holds())

        await until(carried)

    async def reasons(self) -> set[tuple[str, str]]:
        """Reason and detail of the holds, without those that follow another."""
        rows = await self.harness.connection.fetch("SELECT reason, detail FROM hookwire.holds")
        return {(row["reason"], row["detail"]) for row in rows if row["reason"] != "topic_held"}


@pytest.fixture
async def scene(database_url: str, rabbitmq: RabbitServer) -> AsyncIterator[Scene]:
    async with relay_harness(database_url, "amqp") as harness:
        async with await aio_pika.connect(rabbitmq.url) as connection, connection.channel() as channel:
            broker = Broker(rabbitmq, channel)
            await channel.declare_exchange(broker.name, "topic", durable=True)
        scene = Scene(harness, broker)
        await scene.begin()
        yield scene


async def _full(scene: Scene) -> Callable[[], Awaitable[None]]:
    """A queue that takes ten messages. It is emptied at the end, again and again."""
    await scene.broker.on_channel("declare_exchange", scene.own, "fanout", durable=True)
    limits = {"x-max-length": 10, "x-overflow": "reject-publish"}
    scene.suspects = await scene.broker.bind("", scene.own, **limits)

    async def cure() -> None:
        await scene.broker.on_channel("queue_delete", scene.suspects)
        scene.suspects = await scene.broker.bind("", scene.own)

    return cure


async def _missing(scene: Scene) -> Callable[[], Awaitable[None]]:
    """An exchange that is not there."""

    async def cure() -> None:
        await scene.broker.on_channel("declare_exchange", scene.own, "fanout", durable=True)
        scene.suspects = await scene.broker.bind("", scene.own)

    return cure


async def _unroutable(scene: Scene) -> Callable[[], Awaitable[None]]:
    """An exchange to which no queue is bound."""
    await scene.broker.on_channel("declare_exchange", scene.own, "fanout", durable=True)

    async def cure() -> None:
        scene.suspects = await scene.broker.bind("", scene.own)

    return cure


async def _internal(scene: Scene) -> Callable[[], Awaitable[None]]:
    """An exchange that publishers may not use: the broker closes the channel for each message."""
    await scene.broker.on_channel("declare_exchange", scene.own, "fanout", durable=True, internal=True)
    scene.suspects = await scene.broker.bind("", scene.own)

    async def cure() -> None:
        await scene.broker.on_channel("exchange_delete", scene.own)
        await scene.broker.on_channel("declare_exchange", scene.own, "fanout", durable=True)
        await scene.broker.on_channel("queue_bind", scene.suspects, scene.own, "")

    return cure


async def _silent(scene: Scene) -> Callable[[], Awaitable[None]]:
    """A queue that is suspended: it confirms nothing, as a quorum queue without a majority."""
    await scene.broker.on_channel("declare_exchange", scene.own, "fanout", durable=True)
    scene.suspects = await scene.broker.bind("", scene.own)
    await _tell_queue(scene, "suspend")

    async def cure() -> None:
        await _tell_queue(scene, "resume")

    return cure


async def _tell_queue(scene: Scene, function: str) -> None:
    name = f'rabbit_misc:r(<<"/">>, queue, <<"{scene.suspects}">>)'
    script = f"{{ok, Queue}} = rabbit_amqqueue:lookup({name}), sys:{function}(amqqueue:get_pid(Queue))."
    await asyncio.to_thread(scene.broker.server.ctl, "eval", script)


@pytest.mark.parametrize(
    ("trouble", "reason", "says"),
    [
        (_full, "queue_full", "x-max-length"),
        (_missing, "exchange_unusable", "declare it, or change the topic's AMQP exchange"),
        (_unroutable, "unroutable", "bind one"),
        (_internal, "refused_by_broker", "internal exchange"),
        (_silent, "unconfirmed", "a quorum queue needs most of its nodes"),
    ],
)
async def test_a_destination_that_takes_nothing_waits_alone(
    trouble: Callable[[Scene], Awaitable[Callable[[], Awaitable[None]]]], reason: str, says: str, scene: Scene
) -> None:
    """GW-01: a backlog of several windows, a stream, and probes in between."""
    cure = await trouble(scene)
    await scene.publish(*[f"key {number % 7}" for number in range(BACKLOG)], *[None] * BACKLOG)
    async with running(relay_of(scene.harness, scene.sink)):
        await scene.bystanders_arrive()
        for _ in range(5):
            await scene.publish("key 1", None)
            await scene.harness.probe_now()
            await scene.bystanders_arrive(1)
        opened, reasons = scene.sink.opened, await scene.reasons()
        waiting = len(await scene.harness.held())
        await cure()
        await scene.heals()
    # Where the broker closes the channel, the client still writes to it, and the broker closes the connection: once.
    assert opened <= (2 if trouble is _internal else 1)
    assert ({found for found, _ in reasons}, waiting > BACKLOG) == ({reason}, True)
    assert all(says in detail for _, detail in reasons), reasons


async def test_an_exchange_that_is_deleted_under_way_takes_nobody_else_s_channel(scene: Scene) -> None:
    """GW-01: the broker closes the channel under all messages in flight. They are sent again on a new one."""
    cure = await _missing(scene)
    await cure()
    async with running(relay_of(scene.harness, scene.sink)):
        await scene.publish(*["key"] * 10)
        await scene.bystanders_arrive()
        await scene.broker.on_channel("exchange_delete", scene.own)
        await scene.publish(*[None] * BACKLOG)
        await scene.bystanders_arrive()
        await scene.all_wait(BACKLOG)
        [(reason, _)] = await scene.reasons()
        await cure()
        await scene.heals()
    assert reason == "exchange_unusable"


async def test_messages_that_are_too_large_hold_their_own_keys_alone(scene: Scene) -> None:
    """GW-01: the broker names the limit when it closes the channel. So it closes one channel, and not one for each."""
    cure = await _missing(scene)
    await cure()
    await asyncio.to_thread(scene.broker.server.ctl, "eval", "application:set_env(rabbit, max_message_size, 1000).")
    try:
        async with running(relay_of(scene.harness, scene.sink)):
            await scene.bystanders_arrive()
            await scene.publish(*[None] * BACKLOG, payload=bytes(2_000))
            await scene.publish("small", None)
            await scene.bystanders_arrive()
            await scene.all_wait(BACKLOG)
            small, reasons = len(await scene.ids(scene.suspects)), await scene.reasons()
            opened = scene.sink.opened
            await scene.bystanders_arrive()
            await asyncio.to_thread(
                scene.broker.server.ctl, "eval", "application:set_env(rabbit, max_message_size, 134217728)."
            )
            await scene.heals()
    finally:
        await asyncio.to_thread(
            scene.broker.server.ctl, "eval", "application:set_env(rabbit, max_message_size, 134217728)."
        )
    assert (small, {reason for reason, _ in reasons}, opened <= 2) == (2, {"refused_by_broker"}, True)
