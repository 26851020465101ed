"""KafkaSource: the service that reads one Kafka topic, with the other processes of its consumer group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

import structlog
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import IllegalStateError, KafkaError
from typing_extensions import override

from db.errors import DatabaseError
from relay.kafka.connection_check import check_connection
from relay.kafka.error import stop_client, translated
from relay.kafka.options import KafkaOptions
from relay.kafka.source.metrics import KafkaSourceMetrics
from relay.kafka.source.offsets import SourceOffsets
from relay.kafka.source.reader import PartitionOptions, PartitionReader
from relay.kafka.source.route import KafkaRoute
from relay.sink import SinkUnavailable
from relay.source import BatchIntake, SourcePlace
from runtime.cancellation import TaskGroup, end_if_cancelled
from runtime.pause import pause
from runtime.trouble import Trouble

__all__ = ["KafkaSource"]

_log = structlog.get_logger(__name__)
_PAUSE_SECONDS = (0.2, 10.0)
_REPORT_SECONDS = 2.0
_STOP_SECONDS = 3.0
_IDLE_MILLISECONDS = 10**12
"""Without end: the client would leave its group for ever, when it has no partition or its readers wait."""
_SESSION_MILLISECONDS = 6_000
"""The least that brokers accept by default: after it, the partitions of a killed process go to the others."""
_HEARTBEAT_MILLISECONDS = 1_000
"""A heartbeat learns of a rebalance."""
_FETCH_BYTES_MAX = 16 * 1024 * 1024
_FETCH_WAIT_MILLISECONDS = 50
"""How long a broker may keep a fetch open. The client has one fetch for each broker at a time. While a partition is
taken, the fetch is for the others, and the next records of this partition have to wait for its end.
"""


class KafkaSource:
    """A named service that reads one topic and reconnects after each loss."""

    def __init__(
        self, options: KafkaOptions, route: KafkaRoute, intake: BatchIntake, offsets: SourceOffsets,
        metrics: KafkaSourceMetrics, reader_options: PartitionOptions,
    ) -> None:  # fmt: skip
        self.name = f"kafka source {route.source}"
        self._options = options
        self._route = route
        self._intake = intake
        self._offsets = offsets
        self._metrics = metrics
        self._reader_options = reader_options
        self._group = route.group or f"hookwire-{options.installation}-{route.source}"
        self._stopping = asyncio.Event()
        self._is_paused = False
        self._is_behind = False
        self._session: _Session | None = None
        self._trouble = Trouble("kafka_source_waits", "kafka_source_goes_on")
        self._slow = Trouble("kafka_source_slowed", "kafka_source_goes_on")

    @property
    def source(self) -> str:
        """Return the name of the source."""
        return self._route.source

    @property
    def state(self) -> str:
        """Return the state in one word or two: connecting, reading, idle (without a partition), paused, backing off,
        stopped.
        """
        if self._stopping.is_set():
            return "stopped"
        if self._is_paused:
            return "paused"
        if self._trouble.lasts or (self._session is not None and self._session.trouble):
            return "backing off"
        if self._session is None:
            return "connecting"
        return "reading" if self._session.readers else "idle"

    @property
    def last_error(self) -> str:
        """Return the last error, in one line."""
        return (self._session.trouble if self._session is not None else "") or self._trouble.last_error

    def stop(self) -> None:
        """Fetch no more. Records in hand are still taken."""
        self._stopping.set()
        if self._session is not None:
            self._session.end()

    async def run(self) -> None:
        """Read until stopped."""
        seconds, seconds_max = _PAUSE_SECONDS
        while not self._stopping.is_set():
            try:
                self._is_paused = await self._offsets.is_paused()
                if self._is_paused:
                    await pause(self._stopping, _REPORT_SECONDS)
                else:
                    await self._look_at_backlog()
                    await self._consume()
                seconds = _PAUSE_SECONDS[0]
            except* (SinkUnavailable, DatabaseError) as errors:
                end_if_cancelled()
                self._trouble.tell(_first(errors), source=self.source)
            await pause(self._stopping, seconds)
            seconds = min(seconds * 2, seconds_max)
        self._metrics.forget(self.source)

    async def _consume(self) -> None:
        """Read with one consumer until stopped or paused. Raise SinkUnavailable or DatabaseError, maybe in a group."""
        async with TaskGroup() as tasks:
            session = _Session(self._make_reader, tasks)
            try:
                async with self._started(session) as consumer:
                    self._session = session
                    if self._stopping.is_set():
                        session.end()
                    while not session.ended.is_set():
                        await pause(session.ended, _REPORT_SECONDS)
                        if not session.ended.is_set():  # no reader has failed: the consumer may read what it was given
                            self._trouble.over(source=self.source)
                        await self._report(consumer, session)
                        with suppress(DatabaseError):  # the readers tell of it
                            await self._look_at_backlog()
                            if await self._offsets.is_paused():
                                session.end()
                    await session.drained()
                    await self._report(consumer, session)
            finally:
                self._session = None
                session.end()

    async def _look_at_backlog(self) -> None:
        """Hold the readers up while the relay is behind: records wait in Kafka as well as in the database."""
        most = self._reader_options.backlog_max
        self._is_behind = await self._offsets.is_behind()
        if self._is_behind:
            self._slow.tell(RuntimeError(f"about {most} events wait for their fan-out"), source=self.source)
        else:
            self._slow.over(source=self.source)

    def _make_reader(self, consumer: AIOKafkaConsumer, number: int) -> PartitionReader:
        route = self._route
        place = SourcePlace(self.source, number, route.topic, route.refused == "hold", route.header)
        return PartitionReader(
            consumer, place, self._intake, self._offsets, self._metrics, self._reader_options,
            lambda: self._begin(consumer), lambda: not self._is_behind,
        )  # fmt: skip

    @asynccontextmanager
    async def _started(self, session: _Session) -> AsyncIterator[AIOKafkaConsumer]:
        consumer = AIOKafkaConsumer(
            **self._options.client("source"), group_id=self._group, enable_auto_commit=False, auto_offset_reset="none",
            isolation_level="read_committed", session_timeout_ms=_SESSION_MILLISECONDS,
            heartbeat_interval_ms=_HEARTBEAT_MILLISECONDS, max_poll_interval_ms=_IDLE_MILLISECONDS,
            fetch_max_bytes=_FETCH_BYTES_MAX,
            fetch_max_wait_ms=_FETCH_WAIT_MILLISECONDS,
        )  # fmt: skip
        session.consumer = consumer
        consumer.subscribe([self.source], listener=session)
        try:
            try:
                with translated("connecting"):
                    await consumer.start()
            except SinkUnavailable as error:
                answer = await check_connection(self._options)
                raise SinkUnavailable(str(error) if answer.ok else answer.detail) from error
            yield consumer
        finally:
            await stop_client(consumer, _STOP_SECONDS)

    async def _begin(self, consumer: AIOKafkaConsumer) -> None:
        """Note where the partitions begin that were never read; those of a topic that was read begin at the front."""
        known = await self._offsets.known()
        with translated(f"looking for {self.source}"):
            numbers = consumer.partitions_for_topic(self.source) or set()
            new = [TopicPartition(self.source, number) for number in sorted(numbers - known)]
            is_from_end = self._route.start == "latest" and not known
            firsts = await (consumer.end_offsets(new) if is_from_end else consumer.beginning_offsets(new))
        await self._offsets.begin({partition.partition: first for partition, first in firsts.items()})

    async def _report(self, consumer: AIOKafkaConsumer, session: _Session) -> None:
        """Report to the database, to the metrics, and to the group for tools that show its lag."""
        readers = session.readers
        ends = [_end(consumer, reader) for reader in readers]
        lags = [
            0 if end is None or reader.next_offset is None else max(end - reader.next_offset, 0)
            for reader, end in zip(readers, ends, strict=True)
        ]
        ages = [reader.age_seconds() for reader, lag in zip(readers, lags, strict=True) if lag]
        self._metrics.partitions.labels(self.source).set(len(readers))
        self._metrics.lag.labels(self.source).set(sum(lags))
        self._metrics.age_seconds.labels(self.source).set(max(ages, default=0.0))
        if not readers:
            return
        with suppress(DatabaseError):  # the readers tell of it
            await self._offsets.report(
                [(r.place.partition, end, r.rate(), r.trouble) for r, end in zip(readers, ends, strict=True)]
            )
        taken = {reader.partition: reader.next_offset for reader in readers if reader.next_offset is not None}
        with suppress(KafkaError, SinkUnavailable), translated("committing"):
            await consumer.commit(taken)


class _Session(ConsumerRebalanceListener):  # type: ignore[misc]
    """The readers of one consumer. It follows the assignments of the group."""

    def __init__(
        self, make_reader: Callable[[AIOKafkaConsumer, int], PartitionReader], tasks: asyncio.TaskGroup
    ) -> None:
        self.ended = asyncio.Event()
        self.consumer: AIOKafkaConsumer | None = None
        self._make_reader = make_reader
        self._tasks: asyncio.TaskGroup = tasks
        self._running: dict[PartitionReader, asyncio.Task[None]] = {}

    @property
    def readers(self) -> list[PartitionReader]:
        """Return the readers of the partitions that are assigned."""
        return list(self._running)

    @property
    def trouble(self) -> str:
        """Return why a partition does not go on; '' while all do."""
        found = ((reader.place.partition, reader.trouble) for reader in self._running)
        return next((f"partition {number}: {text}" for number, text in found if text), "")

    def end(self) -> None:
        """Fetch no more."""
        self.ended.set()
        for reader in self._running:
            reader.end()

    async def drained(self) -> None:
        """Wait for a while until the readers have taken the records in hand."""
        if self._running:
            await asyncio.wait(self._running.values(), timeout=_STOP_SECONDS)

    @override
    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Finish the records in hand before others may read on. A database that hangs must not hold the group up; the
        offset in the database refuses what comes too late.
        """
        for reader in self._running:
            reader.end()
        await self.drained()
        self._running.clear()

    @override
    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Begin to read."""
        if self.ended.is_set():
            return
        for number in sorted(partition.partition for partition in assigned):
            reader = self._make_reader(self.consumer, number)
            self._running[reader] = self._tasks.create_task(reader.run())


def _end(consumer: AIOKafkaConsumer, reader: PartitionReader) -> int | None:
    try:
        end: int | None = consumer.last_stable_offset(reader.partition)
    except IllegalStateError:
        return None
    return end if end is not None and end >= 0 else None


def _first(errors: BaseExceptionGroup[Any]) -> BaseException:
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
