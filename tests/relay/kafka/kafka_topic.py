"""Reading and making Kafka topics in tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import MessageSizeTooLargeError
from aiokafka.protocol.admin import CreateAclsRequest, DeleteAclsRequest

from tests.waiting import until


class Message(NamedTuple):
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, str]
    timestamp_ms: int


async def read_committed(bootstrap: str, topic: str) -> list[Message]:
    """All that a read-committed consumer gets of a topic, partition by partition; [] for a topic that is not there.

    Reads to the end of what is written now; a transaction that is still open there must be resolved within 20 s.
    """
    async with _consumer(bootstrap, "read_uncommitted") as writers_view:
        if topic not in await writers_view.topics():
            return []
        async with kafka_admin(bootstrap) as admin:
            [described] = await admin.describe_topics([topic])
        partitions = [TopicPartition(topic, number) for number in range(len(described["partitions"]))]
        ends = await writers_view.end_offsets(partitions)
    async with _consumer(bootstrap, "read_committed") as consumer:
        consumer.assign(partitions)
        return [message for partition in partitions for message in await _until(consumer, partition, ends[partition])]


async def _until(consumer: AIOKafkaConsumer, partition: TopicPartition, end: int) -> list[Message]:
    # The position also moves over control records and over what was aborted.
    messages: list[Message] = []
    async with asyncio.timeout(45):
        while await consumer.position(partition) < end:
            fetched = await consumer.getmany(partition, timeout_ms=50)
            messages += [
                Message(m.partition, m.key, m.value, {k: v.decode() for k, v in m.headers}, m.timestamp)
                for m in fetched.get(partition, ())
            ]
    return messages


@asynccontextmanager
async def _consumer(bootstrap: str, isolation: str) -> AsyncIterator[AIOKafkaConsumer]:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level=isolation, enable_auto_commit=False, auto_offset_reset="earliest",
        fetch_max_wait_ms=50,
    )  # fmt: skip
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


@asynccontextmanager
async def kafka_admin(bootstrap: str) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def make_topic(
    bootstrap: str, name: str, partitions: int = 4, brokers: Sequence[int] = (), **settings: str
) -> None:
    """Create a topic; settings are written with underscores: ``max_message_bytes="1000"``.

    ``brokers``: who keeps every partition, its leader first; none named: one broker each, whichever.
    """
    configuration = {setting.replace("_", "."): value for setting, value in settings.items()}
    async with kafka_admin(bootstrap) as admin:
        if brokers:
            places = {number: list(brokers) for number in range(partitions)}
            topic = NewTopic(name, -1, -1, replica_assignments=places, topic_configs=configuration)
        else:
            topic = NewTopic(name, num_partitions=partitions, replication_factor=1, topic_configs=configuration)
        answer = await admin.create_topics([topic])
        assert answer.topic_errors[0][1] == 0, answer

        async def holds() -> object:
            return not (await admin.describe_topics([name]))[0]["error_code"]

        await until(holds, 45)


async def alter_topic(bootstrap: str, name: str, **settings: str) -> None:
    """Give a topic these settings and no other; the broker goes by them a moment later."""
    configuration = {setting.replace("_", "."): value for setting, value in settings.items()}
    async with kafka_admin(bootstrap) as admin:
        answers = await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, configuration)])
        assert answers[0].resources[0][0] == 0, answers


async def ask_for_message_bytes_max(bootstrap: str, name: str, limit: int) -> None:
    """Change a topic's limit; the broker goes by it a moment later."""
    await alter_topic(bootstrap, name, max_message_bytes=str(limit))


_TOPIC, _LITERAL, _ALL, READ, WRITE, _DENY, _ALLOW = (
    2,
    3,
    2,
    3,
    4,
    2,
    3,
)  # Kafka's ResourceType, PatternType, AclOperation ...


async def deny(bootstrap: str, name: str, what: int) -> None:
    """Nobody may do that with a topic any more, everybody may do all else; the broker has to be one that authorises."""
    async with kafka_admin(bootstrap) as admin:
        for operation, permission in ((_ALL, _ALLOW), (what, _DENY)):
            request = CreateAclsRequest(_TOPIC, name, _LITERAL, "User:ANONYMOUS", "*", operation, permission)
            answer = await admin._send_request(request)
            assert [error for error, _ in answer.creation_responses] == [0], answer


async def allow(bootstrap: str, name: str, what: int) -> None:
    """Take that back."""
    async with kafka_admin(bootstrap) as admin:
        request = DeleteAclsRequest(_TOPIC, name, _LITERAL, "User:ANONYMOUS", "*", what, _DENY)
        answer = await admin._send_request(request)
        assert [(error, len(found)) for error, _, found in answer.filter_responses] == [(0, 1)], answer


async def set_message_bytes_max(bootstrap: str, name: str, limit: int) -> None:
    """Change a topic's limit and wait until the broker goes by it; writes records of ``PROBE`` to find out.

    What the broker says of its settings changes a moment before it acts on them.
    """
    await ask_for_message_bytes_max(bootstrap, name, limit)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:

        async def is_in_force() -> bool:
            return await _takes(producer, name, limit - 500) and not await _takes(producer, name, limit + 500)

        await until(is_in_force)


PROBE = b"probe"


async def _takes(producer: AIOKafkaProducer, topic: str, size: int) -> bool:
    try:
        await producer.send_and_wait(topic, PROBE.ljust(size), b"probe", partition=0)
    except MessageSizeTooLargeError:
        return False
    return True
