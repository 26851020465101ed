"""PartitionReader: takes the records of one partition for as long as it is assigned to this process."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition

from db.errors import DatabaseError
from relay.kafka.error import translated
from relay.kafka.source.identity import why_another
from relay.kafka.source.metrics import KafkaSourceMetrics
from relay.kafka.source.offsets import SourceOffsets
from relay.kafka.source.prefetch import POLL_SECONDS, BehindTheEnd, PartitionRevoked, PartitionWaits, Prefetch, assigned
from relay.sink import SinkUnavailable
from relay.source import BEHIND, BatchIntake, IntakeRefused, IntakeUnavailable, SourcePlace, SourceRecord, Taken
from runtime.cancellation import TaskGroup
from runtime.pause import pause
from runtime.trouble import Trouble

__all__ = ["PartitionOptions", "PartitionReader"]

_log = structlog.get_logger(__name__)
_PAUSE_SECONDS = (0.2, 5.0)


@dataclass(frozen=True, slots=True)
class PartitionOptions:
    """At most ``records_max`` records are taken at once, and none while ``backlog_max`` events wait for their fan-out.
    A body has at most ``body_bytes_max`` bytes.
    """

    records_max: int
    body_bytes_max: int
    backlog_max: int


class PartitionReader:
    """One partition. ``run`` ends after :meth:`end`, once the records in hand are taken. ``begin`` notes where
    partitions begin that were never read. Records are taken while ``flows`` returns True.
    """

    def __init__(
        self, consumer: AIOKafkaConsumer, place: SourcePlace, intake: BatchIntake, offsets: SourceOffsets,
        metrics: KafkaSourceMetrics, options: PartitionOptions, begin: Callable[[], Awaitable[None]],
        flows: Callable[[], bool],
    ) -> None:  # fmt: skip
        self.place = place
        self.partition = TopicPartition(place.source, place.partition)
        self.next_offset: int | None = None
        self.last_record_at: datetime | None = None
        self._counted = 0
        self._counts_since = time.monotonic()
        self._consumer = consumer
        self._intake = intake
        self._offsets = offsets
        self._metrics = metrics
        self._options = options
        self._begin = begin
        self._flows = flows
        self._is_known = False
        self._ending = asyncio.Event()
        self._prefetch: Prefetch | None = None
        self._trouble = Trouble("kafka_source_waits", "kafka_source_goes_on")

    @property
    def trouble(self) -> str | None:
        """Return why it does not go on, in one line; None while it does."""
        return self._trouble.last_error if self._trouble.lasts else None

    def end(self) -> None:
        """Fetch no more."""
        self._ending.set()
        if self._prefetch is not None:
            self._prefetch.stop()

    async def run(self) -> None:
        """Read until the end. Raise SinkUnavailable if the consumer cannot go on, and all its partitions with it."""
        seconds, seconds_max = _PAUSE_SECONDS
        while not self._ending.is_set():
            try:
                await self._go_on()
                await self._read()
                seconds = _PAUSE_SECONDS[0]
            except (DatabaseError, IntakeUnavailable, PartitionWaits) as error:
                self._is_known = self._is_known and not isinstance(error, BehindTheEnd)
                self._trouble.tell(error, source=self.place.source, partition=self.place.partition)
                await pause(self._ending, seconds)
                seconds = min(seconds * 2, seconds_max)
            except PartitionRevoked:
                return

    async def _go_on(self) -> None:
        """Go to the offset in the database. At first, look whether it is still the same partition."""
        place = await self._offsets.get(self.place.partition)
        if place is None:
            await self._begin()
            place = await self._offsets.get(self.place.partition)
        if place is None:
            raise PartitionWaits("its offset was deleted at this moment")
        if not self._is_known:
            with translated(f"reading {self.place.source}"), assigned():
                if reason := await why_another(self._consumer, self.partition, place):
                    raise PartitionWaits(reason)
            self._is_known = True
        self.next_offset = place.next_offset
        with assigned():
            self._consumer.seek(self.partition, place.next_offset)

    async def _read(self) -> None:
        """Take records until the offset has to be read again, or the end."""
        assert self.next_offset is not None, "it was read before"
        options = self._options
        prefetch = Prefetch(
            self._consumer, self.partition, self.next_offset, options.records_max, options.body_bytes_max
        )
        self._prefetch = prefetch
        async with TaskGroup() as tasks:
            fetching = tasks.create_task(prefetch.run())
            error = await self._take_from(prefetch)
            fetching.cancel()
        if error is not None:
            raise error

    async def _take_from(self, prefetch: Prefetch) -> Exception | None:
        """Take what is fetched; return an error, which must not cancel the task that has it."""
        try:
            while not self._ending.is_set():
                while not self._flows() and not self._ending.is_set():
                    await pause(self._ending, POLL_SECONDS)
                if not await self._take(*await prefetch.next()):
                    break
        except (IntakeUnavailable, SinkUnavailable, PartitionWaits, PartitionRevoked) as error:
            return error
        return None

    async def _take(self, records: Sequence[SourceRecord], position: int) -> bool:
        """Take records until all are taken; return False if the offset has to be read again, or at the end."""
        assert self.next_offset is not None, "it was read before"
        while records or position > self.next_offset:
            if self._ending.is_set():
                return False
            taken = await self._intake.take(self.place, self.next_offset, position, records)
            if taken.count == 0 and (records or taken.next_offset != position):
                return False
            self._note(records, taken)
            records = records[taken.count :]
            self.next_offset = taken.next_offset
        self._over()
        return True

    def _note(self, records: Sequence[SourceRecord], taken: Taken) -> None:
        source = self.place.source
        refused = [
            (record.offset, outcome)
            for record, outcome in zip(records, taken.outcomes, strict=False)
            if isinstance(outcome, IntakeRefused)
        ]
        passed = Counter(outcome for outcome in taken.outcomes if not isinstance(outcome, IntakeRefused))
        for metric, counts in (
            (self._metrics.taken, passed),
            (self._metrics.refused, Counter(outcome.reason for _, outcome in refused)),
            (self._metrics.left_out, Counter(taken.left_out)),
        ):
            for label, count in counts.items():
                metric.labels(source, label).inc(count)
        for offset, outcome in refused:
            if outcome.reason != BEHIND:
                _log.warning(
                    "kafka_source_refused", source=source, partition=self.place.partition, offset=offset,
                    reason=outcome.reason, detail=outcome.detail,
                )  # fmt: skip
        self._counted += taken.count
        if taken.count:
            self.last_record_at = records[taken.count - 1].raw.at

    def _over(self) -> None:
        self._trouble.over(source=self.place.source, partition=self.place.partition)

    def rate(self) -> float:
        """Return how many records a second were taken since the last call."""
        now = time.monotonic()
        found = self._counted / max(now - self._counts_since, 1e-3)
        self._counted, self._counts_since = 0, now
        return round(found, 1)

    def age_seconds(self) -> float:
        """Return the age of the record that was taken last; 0 without one."""
        at = self.last_record_at
        return max((datetime.now(UTC) - at).total_seconds(), 0.0) if at is not None else 0.0
