"""Kafka topics: their partitions and largest message, or why they cannot be used. The sink waits once for
a missing topic, because some brokers create topics by themselves. After that it asks without waiting, so that a missing
topic delays only its own records.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping

import structlog
from aiokafka import errors

from relay.kafka.admin import KafkaAdmin, TopicDescription, TopicLimits
from relay.kafka.options import KafkaOptions
from relay.kafka.producer import KafkaProducer
from relay.kafka.topic import KafkaTopic, Unusable, fragility

__all__ = ["KafkaTopics"]

_log = structlog.get_logger(__name__)

_ASK_AGAIN_SECONDS = 0.1
_REASONS = {
    errors.UnknownTopicOrPartitionError: "topic_missing",
    errors.InvalidTopicError: "topic_invalid",
    errors.TopicAuthorizationFailedError: "topic_not_authorised",
}
_FINAL = (errors.InvalidTopicError, errors.TopicAuthorizationFailedError)


class KafkaTopics:
    """The topics known during one life of the producer. ``absent`` are the topics that did not appear in time; it
    outlives the producer.
    """

    def __init__(self, admin: KafkaAdmin, producer: KafkaProducer, options: KafkaOptions, absent: set[str]) -> None:
        self._admin = admin
        self._producer = producer
        self._options = options
        self._absent = absent
        self._known: dict[str, KafkaTopic] = {}

    async def resolve(self, names: Collection[str]) -> Mapping[str, KafkaTopic | Unusable]:
        """Look up the present state of topics (RK-23); raise :class:`SinkUnavailable` when the cluster does not
        answer.
        """
        found: dict[str, KafkaTopic | Unusable] = {}
        strange = []
        for name in names:
            topic, partitions = self._known.get(name), self._producer.partitions(name)
            if topic is None or partitions == 0:
                strange.append(name)
                continue
            if partitions != topic.partitions:
                topic = self._known[name] = KafkaTopic(name, partitions, topic.message_bytes_max)
            found[name] = topic
        if strange:
            found.update(await self._look_up(strange))
        return found

    def forget(self, names: Collection[str]) -> None:
        """Ask for the limits of these topics again before they are used next."""
        for name in names:
            self._known.pop(name, None)

    async def _look_up(self, names: Collection[str]) -> Mapping[str, KafkaTopic | Unusable]:
        described = await self._wait_for(names)
        there = [name for name, description in described.items() if description.error is None]
        limits = await self._admin.limits(there) if there else {}
        found: dict[str, KafkaTopic | Unusable] = {}
        for name, description in described.items():
            if description.error is not None:
                found[name] = _unusable(name, description.error)
                continue
            limit = limits.get(name, TopicLimits(self._options.message_bytes_default, 0))
            partitions = await self._producer.learn(name)
            found[name] = self._known[name] = KafkaTopic(name, partitions, limit.message_bytes_max)
            weakness = fragility(self._producer.brokers, description.replicas, limit.in_sync_replicas_min)
            if weakness:
                _log.warning("kafka_topic_fragile", topic=name, weakness=weakness)
        return found

    async def _wait_for(self, names: Collection[str]) -> Mapping[str, TopicDescription]:
        """Describe topics; ask again for some time about those that the broker may be creating. The time begins with
        the first answer: our request makes a broker create a topic, and a busy broker may answer late.
        """
        described = dict(await self._admin.describe(names))
        pending = _not_yet(described)
        deadline = time.monotonic() + (0.0 if self._absent.issuperset(names) else self._options.topic_wait_seconds)
        while pending and time.monotonic() < deadline:
            await asyncio.sleep(_ASK_AGAIN_SECONDS)
            described.update(await self._admin.describe(pending))
            pending = _not_yet(described)
        self._absent.difference_update(names)
        self._absent.update(pending)
        return described


def _not_yet(described: Mapping[str, TopicDescription]) -> set[str]:
    """Return missing topics that may still appear."""
    return {name for name, one in described.items() if one.error is not None and one.error not in _FINAL}


def _unusable(name: str, error: type[errors.KafkaError]) -> Unusable:
    reason = _REASONS.get(error, "topic_unavailable")
    return Unusable(reason, f"Kafka topic {name}: {error.__name__}")
