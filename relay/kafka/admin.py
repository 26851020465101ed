"""The relay's queries of a Kafka cluster: topics, their limits, the progress marker."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResourceType
from aiokafka.client import CoordinationType
from aiokafka.errors import ConcurrentTransactions, KafkaError, NoError, TopicAlreadyExistsError, for_code
from aiokafka.protocol.admin import DescribeConfigsRequest
from aiokafka.protocol.api import Request
from aiokafka.protocol.transaction import InitProducerIdRequest

from relay.kafka.connection_check import check_connection
from relay.kafka.error import close_client, described, translated
from relay.kafka.metadata import MetadataRequest, TopicDescription, description_of
from relay.kafka.options import KafkaOptions
from relay.sink import SinkUnavailable

__all__ = ["KafkaAdmin", "TopicLimits"]

_ASK_AGAIN_SECONDS = 0.1
_FENCE_AGAIN_SECONDS = 0.05
_LIMITS = ("max.message.bytes", "min.insync.replicas", "cleanup.policy")
_AGES = ("message.timestamp.before.max.ms", "message.timestamp.difference.max.ms")  # the latter before Kafka 3.6
_UNLIMITED = 2**62


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """A topic's own settings. ``age_milliseconds_max``: how old a record's timestamp may be; None: unknown."""

    message_bytes_max: int
    in_sync_replicas_min: int
    is_compacted: bool = False
    age_milliseconds_max: int | None = None


class KafkaAdmin:
    """Queries a cluster. Every method raises :class:`SinkUnavailable` when the cluster does not answer in time."""

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options
        self._client = AIOKafkaAdminClient(**options.client("admin"))

    async def start(self) -> None:
        """Connect; the error names a wrong setting where one is the cause."""
        try:
            with translated("connecting"):
                async with asyncio.timeout(self._options.request_seconds):
                    await self._client.start()
        except SinkUnavailable as error:
            answer = await check_connection(self._options)
            raise SinkUnavailable(str(error) if answer.ok else answer.detail) from error

    async def describe(self, names: Collection[str]) -> Mapping[str, TopicDescription]:
        """Describe topics. The request creates missing topics where the cluster does that by itself."""
        request = MetadataRequest(sorted(names))
        with translated("describing topics"):
            async with asyncio.timeout(self._options.request_seconds):
                answer = await self._ask(request)
        return {topic["topic"]: description_of(topic) for topic in answer.to_object()["topics"]}

    async def names(self) -> set[str]:
        """Return the names of all topics that we may see."""
        with translated("listing topics"):
            async with asyncio.timeout(self._options.request_seconds):
                return set(await self._client.list_topics())

    async def limits(self, names: Collection[str]) -> Mapping[str, TopicLimits]:
        """Return the limits of topics; topics without the right to read are left out."""
        request = DescribeConfigsRequest(
            [(ConfigResourceType.TOPIC, name, [*_LIMITS, *_AGES]) for name in sorted(names)], False
        )
        with translated("reading topic settings"):
            async with asyncio.timeout(self._options.request_seconds):
                answer = await self._ask(request)
        found = {}
        for error_code, _, _, name, entries in answer.resources:
            if error_code == 0:
                values = {entry[0]: entry[1] for entry in entries}
                message_bytes_max, in_sync_min, policy = (values[limit] for limit in _LIMITS)
                ages = [age for limit in _AGES if (age := int(values.get(limit) or _UNLIMITED)) < _UNLIMITED]
                found[name] = TopicLimits(
                    int(message_bytes_max), int(in_sync_min), "compact" in policy, min(ages, default=None)
                )
        return found

    async def _ask(self, request: Request[Any]) -> Any:
        """Ask any broker; ask the next one where that one has gone."""
        client = self._client._client
        brokers = [broker.nodeId for broker in client.cluster.brokers()]
        for broker in random.sample(brokers, len(brokers)):
            with suppress(KafkaError):
                return await client.send(broker, request)
        return await client.send(client.get_random_node(), request)

    async def fence(self, transactional_id: str, milliseconds: int, *, within_seconds: float) -> bool:
        """Fence every producer of an id, and end its open transaction. Return False if that cannot end within the time:
        a partition without a leader takes no marker. Its producer is fenced nevertheless.
        """
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=milliseconds)
        deadline = time.monotonic() + within_seconds
        with translated("fencing former producers"):
            async with asyncio.timeout(within_seconds + self._options.request_seconds * 2):
                while (error := await self._fence_once(transactional_id, request)) is not None:
                    if error is ConcurrentTransactions and time.monotonic() >= deadline:
                        return False
                    await asyncio.sleep(_FENCE_AGAIN_SECONDS)
        return True

    async def _fence_once(self, transactional_id: str, request: InitProducerIdRequest) -> type[KafkaError] | None:
        """Ask once; return None when it is done, or an error that goes away. Raise any other one."""
        client = self._client._client
        try:
            node = await client.coordinator_lookup(CoordinationType.TRANSACTION, transactional_id)
            answer = await self._client._send_request_to_node(node, request)
            error = for_code(answer.error_code)
        except KafkaError as failure:
            await client.force_metadata_update()
            error = type(failure)
        if error is not NoError and error is not ConcurrentTransactions and not error.retriable:
            raise error()
        return None if error is NoError else error

    async def ensure_topic(self, name: str, replicas: int) -> None:
        """Create a topic of one partition unless it exists."""
        topic = NewTopic(name, num_partitions=1, replication_factor=replicas)
        with translated(f"creating {name}"):
            async with asyncio.timeout(self._options.request_seconds):
                answer = await self._client.create_topics([topic])
        error = for_code(answer.topic_errors[0][1])
        if error.errno and error is not TopicAlreadyExistsError and (await self.describe([name]))[name].error:
            raise SinkUnavailable(f"the topic {name} could not be created: {described(error())}")

    async def committed(self, group: str, topic: str) -> int:
        """Return the offset that a consumer group has committed for partition 0 of a topic; 0 when it has none.

        The caller limits the wait. A coordinator that is still loading returns nothing, which does not mean that no
        offset is committed.
        """
        partition = TopicPartition(topic, 0)
        while True:
            with translated(f"reading the progress of {group}"):
                try:
                    offsets = await self._client.list_consumer_group_offsets(group, partitions=[partition])
                except KafkaError as error:
                    if not getattr(error, "retriable", False):
                        raise
                    offsets = {}
            if partition in offsets:
                return max(int(offsets[partition].offset), 0)
            await asyncio.sleep(_ASK_AGAIN_SECONDS)

    async def close(self) -> None:
        """Disconnect, within a second."""
        await close_client(self._client._client, 1.0)
