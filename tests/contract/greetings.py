"""Each greeting of a foreign server by the product, from connecting to use.

``greet`` connects to a port of loopback, is ready to work and disconnects. Where the peer is not what it should be, it
raises the room's own word for trouble, within the time that its options give it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple

from app.bridges.script import Script
from app.cli.consume.message import Memory
from app.cli.consume.options import ConsumeOptions
from app.cli.consume.session import ConsumeSession, Lost
from db.direct import connect_direct
from db.errors import DatabaseError
from db.pool import PoolOptions, open_database
from relay.amqp import connection_check as amqp_check
from relay.amqp.options import AmqpOptions
from relay.amqp.sink import AmqpSink
from relay.election.neli_core import Assigned, Input
from relay.election.neli_group import Membership
from relay.election.neli_options import NeliOptions
from relay.kafka import connection_check as kafka_check
from relay.kafka.admin import KafkaAdmin
from relay.kafka.options import KafkaOptions
from relay.kafka.reader import KafkaReader
from relay.kafka.sink import KafkaSink
from relay.sink import Sink, SinkError, SinkUnavailable, Term
from runtime.cancellation import TaskGroup
from tests.waiting import until

TROUBLE = (SinkError, Lost, DatabaseError)
"""What the rooms above an adapter are ready for. Anything else ends the process."""

_TOPIC = "greeting"


class Peer(NamedTuple):
    """Where the server is, how long it may take for an answer, and a name that no other greeting uses meanwhile."""

    port: int
    seconds: float
    name: str


class Greeting(NamedTuple):
    """``server``: the fixture whose server is greeted."""

    name: str
    server: str
    greet: Callable[[Peer], Awaitable[None]]


async def _open(sink: Sink) -> None:
    try:
        await sink.open(Term(sink.name, 0, 1, 1, 0))
    finally:
        await sink.close()


# --- AMQP -------------------------------------------------------------------------------------------------------


def _amqp(peer: Peer) -> AmqpOptions:
    url = f"amqp://guest:guest@127.0.0.1:{peer.port}/"
    return AmqpOptions(
        url, secrets.token_hex(4), exchange=_TOPIC, connect_seconds=peer.seconds, publish_seconds=peer.seconds
    )


async def _amqp_sink(peer: Peer) -> None:
    await _open(AmqpSink(_amqp(peer)))


async def _amqp_doctor(peer: Peer) -> None:
    await amqp_check.check_connection(_amqp(peer))


async def _consume(peer: Peer) -> None:
    url = f"amqp://guest:guest@127.0.0.1:{peer.port}/"
    options = ConsumeOptions(url, f"{_TOPIC}-{peer.name}", _TOPIC, command=["true"])
    script = Script(["true"], timeout_seconds=None, quiet_stdout=True)
    session = ConsumeSession(options, script, Memory(), lambda _: None)
    running = asyncio.create_task(session.run())
    await until(lambda: session.ready or running.done())
    session.end()
    await running


# --- Kafka ------------------------------------------------------------------------------------------------------


def _kafka(peer: Peer, mode: Literal["transactional", "idempotent"] = "transactional") -> KafkaOptions:
    return KafkaOptions(f"127.0.0.1:{peer.port}", peer.name, mode=mode, request_seconds=peer.seconds)


async def _kafka_transactional(peer: Peer) -> None:
    await _open(KafkaSink(_kafka(peer)))


async def _kafka_idempotent(peer: Peer) -> None:
    await _open(KafkaSink(_kafka(peer, "idempotent")))


async def _kafka_doctor(peer: Peer) -> None:
    answer = await kafka_check.check_connection(_kafka(peer))
    if not answer.ok:
        raise SinkUnavailable(answer.detail)


async def _kafka_admin(peer: Peer) -> None:
    admin = KafkaAdmin(_kafka(peer))
    try:
        await admin.start()
        await admin.describe([_TOPIC])
        await admin.limits([_TOPIC])
    finally:
        await admin.close()


async def _kafka_reader(peer: Peer) -> None:
    async with KafkaReader(_kafka(peer), _TOPIC) as reader:
        await anext(reader.arrivals())


async def _election(peer: Peer) -> None:
    """Until the group has let us in. Where it does not, the client asks for ever, and so it is ended."""
    is_member = asyncio.Event()

    def hear(happened: Input) -> None:
        if isinstance(happened, Assigned):
            is_member.set()

    member = Membership(_kafka(peer), NeliOptions("me", peer.name, partitions=1), hear, _open_barrier)
    try:
        await member.join()
        async with asyncio.timeout(4 * peer.seconds), TaskGroup() as tasks:
            heartbeat = tasks.create_task(member.heartbeat())
            await is_member.wait()
            heartbeat.cancel()
    except TimeoutError:
        raise SinkUnavailable("the group has let nobody in") from None
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from failed
    finally:
        await member.leave()


async def _open_barrier() -> None:
    """Nobody has to stop before a rebalance."""


# --- PostgreSQL -------------------------------------------------------------------------------------------------


def _postgres(peer: Peer) -> PoolOptions:
    url = f"postgresql://postgres@127.0.0.1:{peer.port}/postgres"
    return PoolOptions(url, connect_seconds=peer.seconds, connections_min=1)


async def _postgres_pool(peer: Peer) -> None:
    database = await open_database(_postgres(peer))
    try:
        await database.fetchval("check.server")
    finally:
        await database.aclose()


async def _postgres_direct(peer: Peer) -> None:
    connection = await connect_direct(_postgres(peer))
    try:
        await connection.fetchval("check.server")
    finally:
        await connection.aclose()


GREETINGS = [
    Greeting("amqp-sink", "rabbitmq", _amqp_sink),
    Greeting("amqp-doctor", "rabbitmq", _amqp_doctor),
    Greeting("consume", "rabbitmq", _consume),
    Greeting("kafka-transactional", "kafka", _kafka_transactional),
    Greeting("kafka-idempotent", "kafka", _kafka_idempotent),
    Greeting("kafka-doctor", "kafka", _kafka_doctor),
    Greeting("kafka-admin", "kafka", _kafka_admin),
    Greeting("kafka-reader", "kafka", _kafka_reader),
    Greeting("kafka-election", "kafka", _election),
    Greeting("postgres-pool", "postgres18", _postgres_pool),
    Greeting("postgres-direct", "postgres18", _postgres_direct),
]
