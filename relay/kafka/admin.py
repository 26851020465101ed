"""The relay's queries of a Kafka cluster: topics, their limits, the progress marker."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from relay.kafka.connection_check import check_connection
from relay.kafka.error import close_client, described, translated
from relay.kafka.options import KafkaOptions
from relay.sink import SinkUnavailable

__all__ = ["KafkaAdmin", "TopicDescription", "TopicLimits"]

_ASK_AGAIN_SECONDS = 0.1
_LIMITS = ("max.message.bytes", "min.insync.replicas")


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic in the cluster. ``error`` is aiokafka's class for the broker's answer, None when the topic is there."""

    error: type[KafkaError] | None
    replicas: int


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """A topic's own settings."""

    message_bytes_max: int
    in_sync_replicas_min: int


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
        with translated("describing topics"):
            async with asyncio.timeout(self._options.request_seconds):
                answer = await self._client.describe_topics(sorted(names))
        return {topic["topic"]: _description(topic) for topic in answer}

    async def limits(self, names: Collection[str]) -> Mapping[str, TopicLimits]:
        """Return the limits of topics; topics without the right to read are left out."""
        resources = [ConfigResource(ConfigResourceType.TOPIC, name, dict.fromkeys(_LIMITS)) for name in sorted(names)]
        with translated("reading topic settings"):
            async with asyncio.timeout(self._options.request_seconds):
                answers = await self._client.describe_configs(resources)
        found = {}
        for error_code, _, _, name, entries in (resource for answer in answers for resource in answer.resources):
            if error_code == 0:
                settings = {entry[0]: int(entry[1]) for entry in entries}
                found[name] = TopicLimits(*(settings[limit] for limit in _LIMITS))
        return found

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


def _description(topic: Mapping[str, Any]) -> TopicDescription:
    code = topic["error_code"]
    replicas = min((len(partition["replicas"]) for partition in topic["partitions"]), default=0)
    return TopicDescription(for_code(code) if code else None, replicas)
