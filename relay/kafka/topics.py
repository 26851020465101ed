"""Kafka topics: their partitions and limits, or why they cannot be used. The sink waits once for a missing topic,
because some brokers create topics by themselves. After that it asks without waiting, so that a missing topic delays
only its own records. All such waits take at most a two-hundredth of the time, because every record waits with them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from dataclasses import replace

import structlog
from aiokafka import errors

from relay.kafka.admin import KafkaAdmin, TopicLimits
from relay.kafka.metadata import TopicDescription
from relay.kafka.options import KafkaOptions
from relay.kafka.producer import KafkaProducer
from relay.kafka.topic import KafkaTopic, Unusable, fragility

__all__ = ["AbsentTopics", "KafkaTopics"]

_log = structlog.get_logger(__name__)

_ASK_AGAIN_SECONDS = 0.1
_TIME_PER_WAIT = 200.0  # seconds after which a second of waiting is granted again
_WAYS: Mapping[type[errors.KafkaError], tuple[str, str]] = {
    errors.UnknownTopicOrPartitionError: (
        "topic_missing", "does not exist; create it, or let the brokers do so by auto.create.topics.enable",
    ),
    errors.InvalidTopicError: (
        "topic_invalid", "has a name that Kafka does not take; give the topic another by its setting kafka_topic",
    ),
    errors.TopicAuthorizationFailedError: (
        "topic_not_authorised", "may not be described by this user; grant DESCRIBE and WRITE on it",
    ),
}  # fmt: skip
_FINAL = (errors.InvalidTopicError, errors.TopicAuthorizationFailedError)


class AbsentTopics:
    """The topics that did not appear in time, and how many seconds of waiting are left. It outlives a producer."""

    def __init__(self, seconds: float) -> None:
        self.names: set[str] = set()
        self._seconds = self._left = seconds
        self._at = time.monotonic()

    def patience(self, names: Collection[str]) -> float:
        """Return how long to wait for these topics: not at all if none of them is new."""
        now = time.monotonic()
        self._left, self._at = min(self._left + (now - self._at) / _TIME_PER_WAIT, self._seconds), now
        return 0.0 if self.names.issuperset(names) else self._left

    def waited(self, seconds: float) -> None:
        """Count a wait."""
        self._left = max(self._left - seconds, 0.0)


class KafkaTopics:
    """The topics known during one life of the producer."""

    def __init__(self, admin: KafkaAdmin, producer: KafkaProducer, options: KafkaOptions, absent: AbsentTopics) -> None:
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
            if topic is None or partitions == 0 or not self._producer.has_leaders(name):
                strange.append(name)
                continue
            if partitions != topic.partitions:
                topic = self._known[name] = replace(topic, partitions=partitions)
            found[name] = topic
        if strange:
            found.update(await self._look_up(strange))
        return found

    async def unusable(self, names: Collection[str]) -> Mapping[str, Unusable]:
        """Return those of these topics that take no records now, without waiting for any."""
        described = await self._admin.describe(names)
        self._absent.names.update(_not_yet(described))
        found = await self._judge(described)
        return {name: topic for name, topic in found.items() if isinstance(topic, Unusable)}

    def forget(self, names: Collection[str]) -> None:
        """Ask for the limits of these topics again before they are used next."""
        for name in names:
            self._known.pop(name, None)

    async def _look_up(self, names: Collection[str]) -> Mapping[str, KafkaTopic | Unusable]:
        found = await self._judge(await self._wait_for(names))
        for name, topic in found.items():
            if isinstance(topic, Unusable):
                self._known.pop(name, None)
            else:
                found[name] = self._known[name] = replace(topic, partitions=await self._producer.learn(name))
        return found

    async def _judge(self, described: Mapping[str, TopicDescription]) -> dict[str, KafkaTopic | Unusable]:
        there = [name for name, description in described.items() if description.error is None]
        limits = await self._admin.limits(there) if there else {}
        unknown = TopicLimits(self._options.message_bytes_default, 0)
        return {name: self._judged(name, one, limits.get(name, unknown)) for name, one in described.items()}

    def _judged(self, name: str, description: TopicDescription, limits: TopicLimits) -> KafkaTopic | Unusable:
        if unusable := _why_unusable(name, description, limits):
            return unusable
        weakness = fragility(self._producer.brokers, description.replicas, limits.in_sync_replicas_min)
        if weakness:
            _log.warning("kafka_topic_fragile", topic=name, weakness=weakness)
        return KafkaTopic(
            name, 0, limits.message_bytes_max, limits.is_compacted, time.monotonic(), limits.age_milliseconds_max
        )

    async def _wait_for(self, names: Collection[str]) -> Mapping[str, TopicDescription]:
        """Describe topics; ask again for some time about those that the broker may be creating. The time begins with
        the first answer: our request makes a broker create a topic, and a busy broker may answer late.
        """
        described = dict(await self._admin.describe(names))
        pending = _not_yet(described)
        began_at = time.monotonic()
        deadline = began_at + self._absent.patience(pending)
        while pending and time.monotonic() < deadline:
            await asyncio.sleep(_ASK_AGAIN_SECONDS)
            described.update(await self._admin.describe(pending))
            pending = _not_yet(described)
        self._absent.waited(time.monotonic() - began_at)
        self._absent.names.difference_update(names)
        self._absent.names.update(pending)
        return described


def _not_yet(described: Mapping[str, TopicDescription]) -> set[str]:
    """Return topics that may still appear: missing ones, and those whose partitions get their leaders."""
    return {
        name
        for name, one in described.items()
        if (one.error is not None and one.error not in _FINAL) or (one.error is None and one.leaderless)
    }


def _why_unusable(name: str, description: TopicDescription, limits: TopicLimits) -> Unusable | None:
    """Return why a topic takes no records, or None."""
    reason, what = "", ""
    if description.error is not None:
        other = ("topic_unavailable", f"is not available: {description.error.__name__}")
        reason, what = _WAYS.get(description.error, other)
    elif not description.may_write:
        reason, what = "topic_not_authorised", "may not be written to by this user; grant WRITE on it"
    elif description.leaderless:
        numbers = ", ".join(map(str, description.leaderless[:5]))
        reason, what = "no_leader", f"has no leader for partition {numbers}; start the brokers that keep it"
    elif description.in_sync < limits.in_sync_replicas_min:
        reason = "not_enough_replicas"
        what = (
            f"has {description.in_sync} replicas in sync, and min.insync.replicas is {limits.in_sync_replicas_min}; "
            "start the brokers that keep it"
        )
    return Unusable(reason, f"the Kafka topic {name} {what}") if reason else None
