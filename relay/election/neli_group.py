"""One membership in the election's consumer group, from joining to leaving or to the first failure that ends it.

The client's background tasks end for good at an unexpected error (RK-10), so a membership is never repaired: the
election makes a new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import TopicAlreadyExistsError, TopicAuthorizationFailedError, for_code

from relay.election.neli_beat import beat_of, value_of
from relay.election.neli_core import Assigned, Confirm, Confirmed, Heard, Input, Revoked, SendBeat
from relay.election.neli_options import NeliOptions
from relay.kafka.error import close_client, described, stop_client, translated
from relay.kafka.options import KafkaOptions
from relay.sink import SinkError, SinkUnavailable
from runtime.cancellation import TaskGroup

__all__ = ["Membership"]

_LOG_APPEND_TIME = 1
_POLL_SECONDS = 0.2
_REPLICAS = 3
_STOP_SECONDS = 3.0


class Membership:
    """One membership. ``hear`` gets each input for the machine; ``barrier`` waits until a rebalance may go on.

    Methods raise :class:`relay.sink.SinkUnavailable`.
    """

    def __init__(
        self, kafka: KafkaOptions, options: NeliOptions, hear: Callable[[Input], None],
        barrier: Callable[[], Awaitable[None]],
    ) -> None:  # fmt: skip
        times = options.times
        self._kafka = kafka
        self._options = options
        self._hear = hear
        self._listener = _Listener(hear, barrier)
        self._consumer = AIOKafkaConsumer(
            **kafka.client("neli"),
            group_id=options.topic,
            enable_auto_commit=False,
            auto_offset_reset="latest",
            session_timeout_ms=int(times.session_seconds * 1000),
            # The answer to a heartbeat announces a rebalance, and other members have stopped for it already (RO-06).
            heartbeat_interval_ms=int(min(times.session_seconds / 12, 0.2) * 1000),
            rebalance_timeout_ms=int(times.rebalance_seconds * 1000),
            max_poll_interval_ms=int(times.rebalance_seconds * 3000),
            # Assign partitions in turns, because role j belongs to partition j mod M. With fewer roles than partitions,
            # only the first partitions have roles. An assignor of blocks would give these to one member (RO-05).
            partition_assignment_strategy=(RoundRobinPartitionAssignor,),
            retry_backoff_ms=50,
        )
        self._producer = AIOKafkaProducer(**kafka.client("neli-beat"), acks="all", retry_backoff_ms=50)
        self._offsets: dict[tuple[int, int], int] = {}
        self._asked: dict[int, Confirm] = {}
        self._is_asked = asyncio.Event()
        self._sent: set[asyncio.Future[Any]] = set()

    async def join(self) -> int:
        """Connect, check that the topic exists and join; return its number of partitions."""
        await _ensure_topic(self._kafka, self._options)
        with translated("joining the election"):
            async with asyncio.timeout(self._kafka.request_seconds):
                await self._producer.start()
                partitions = await self._producer.partitions_for(self._options.topic)
                self._consumer.subscribe([self._options.topic], listener=self._listener)
                return len(partitions)

    async def heartbeat(self) -> None:
        """Read beats and ask the coordinator, until cancelled."""
        with translated("attending the election"):
            await self._consumer.start()
            try:
                async with TaskGroup() as tasks:
                    tasks.create_task(self._confirm(), name="neli confirmations")
                    while True:
                        read = await self._consumer.getmany(timeout_ms=int(_POLL_SECONDS * 1000))
                        for records in read.values():
                            for record in records:
                                self._read(record)
            except BaseExceptionGroup as failed:
                raise failed.exceptions[0] from failed

    def _read(self, record: Any) -> None:
        if record.timestamp_type != _LOG_APPEND_TIME:
            # The topic was created without this setting; a sender's own clock proves nothing (RK-09).
            raise SinkUnavailable(f"the topic {record.topic} must have message.timestamp.type=LogAppendTime")
        beat = beat_of(record.value)
        if beat is not None:
            self._offsets = {key: at for key, at in self._offsets.items() if key[0] != record.partition}
            self._offsets[record.partition, beat.number] = record.offset + 1
            self._hear(Heard(record.partition, beat, record.timestamp))

    def confirm(self, question: Confirm) -> None:
        """Ask the coordinator; of several questions about a partition the last one counts."""
        self._asked[question.partition] = question
        self._is_asked.set()

    async def _confirm(self) -> None:
        while True:
            await self._is_asked.wait()
            self._is_asked.clear()
            asked, self._asked = self._asked, {}
            for number, question in asked.items():
                offset = self._offsets.get((number, question.number))
                if offset is None:
                    continue
                # A failed commit answers nothing; the machine then fences the leader in time.
                with suppress(SinkError), translated("confirming a beat"):
                    # A commit names our member id and generation: the coordinator refuses it from a former member.
                    await self._consumer.commit({TopicPartition(self._options.topic, number): offset})
                    self._hear(Confirmed(number, question.number))

    async def beat(self, beat: SendBeat) -> None:
        """Hand a beat to the producer; reading it back shows whether it arrived."""
        with suppress(SinkError), translated("sending a beat"):
            async with asyncio.timeout(self._options.times.beat_seconds):
                sent = await self._producer.send(self._options.topic, value_of(beat.beat), partition=beat.partition)
            self._sent.add(sent)
            sent.add_done_callback(self._forget)

    def _forget(self, sent: asyncio.Future[Any]) -> None:
        self._sent.discard(sent)
        if not sent.cancelled():
            sent.exception()

    async def leave(self) -> None:
        """Leave the group, so that the others need not wait for our session to end. Bounded in time; never raises."""
        for client in (self._consumer, self._producer):
            await stop_client(client, _STOP_SECONDS)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """It only reports: the client would swallow its exceptions (RK-04)."""

    def __init__(self, hear: Callable[[Input], None], barrier: Callable[[], Awaitable[None]]) -> None:
        self._hear = hear
        self._barrier = barrier

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        self._hear(Revoked())
        await self._barrier()

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self._hear(Assigned(frozenset(partition.partition for partition in assigned)))


async def _ensure_topic(kafka: KafkaOptions, options: NeliOptions) -> None:
    """Create the election's topic unless it is there; the brokers stamp its records (RK-09).

    Do not mention the topic before that: brokers that create topics by themselves would create it without the stamps.
    """
    admin = AIOKafkaAdminClient(**kafka.client("neli-admin"))
    with translated("creating the election's topic"):
        try:
            async with asyncio.timeout(kafka.request_seconds):
                await admin.start()
                brokers = len((await admin.describe_cluster())["brokers"])
                topic = NewTopic(
                    options.topic, num_partitions=options.partitions, replication_factor=min(_REPLICAS, brokers),
                    topic_configs={"message.timestamp.type": "LogAppendTime", "retention.ms": "3600000"},
                )  # fmt: skip
                answer = await admin.create_topics([topic])
        finally:
            await close_client(admin._client, 1.0)
    error = for_code(answer.topic_errors[0][1])
    # Without the right to create it, an existing topic may still be used; joining shows that.
    if error.errno and error not in (TopicAlreadyExistsError, TopicAuthorizationFailedError):
        raise SinkUnavailable(f"the topic {options.topic} could not be created: {described(error())}")
