"""PartitionReader: takes the records of one partition for as long as it is assigned to this process."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import CorruptRecordException, IllegalStateError, NoOffsetForPartitionError, OffsetOutOfRangeError

from db.errors import DatabaseError
from relay.kafka.error import translated
from relay.kafka.source.identity import why_another
from relay.kafka.source.incoming import KafkaRecord, read_record
from relay.kafka.source.metrics import KafkaSourceMetrics
from relay.kafka.source.offsets import SourceOffsets
from relay.sink import SinkUnavailable
from relay.source import BEHIND, BatchIntake, IntakeRefused, IntakeUnavailable, SourcePlace, SourceRecord, Taken
from runtime.cancellation import TaskGroup
from runtime.pause import pause
from runtime.trouble import Trouble

__all__ = ["PartitionOptions", "PartitionReader"]

_log = structlog.get_logger(__name__)
_POLL_SECONDS = 0.5
_PAUSE_SECONDS = (0.2, 5.0)
_UNREADABLE = (CorruptRecordException, NoOffsetForPartitionError)


@dataclass(frozen=True, slots=True)
class PartitionOptions:
    """At most ``records_max`` records are taken at once, and none while ``backlog_max`` events wait for their fan-out.
    A body has at most ``body_bytes_max`` bytes.
    """

    records_max: int
    body_bytes_max: int
    backlog_max: int


class _Waits(Exception):
    """The partition cannot go on now; the text says why."""


class _Revoked(Exception):
    """The partition was assigned to another process."""


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
        self._consumer = consumer
        self._intake = intake
        self._offsets = offsets
        self._metrics = metrics
        self._options = options
        self._begin = begin
        self._flows = flows
        self._is_known = False
        self._ending = asyncio.Event()
        self._fetching: asyncio.Task[None] | None = None
        self._trouble = Trouble("kafka_source_waits", "kafka_source_goes_on")

    @property
    def trouble(self) -> str | None:
        """Return why it does not go on, in one line; None while it does."""
        return self._trouble.last_error if self._trouble.lasts else None

    def end(self) -> None:
        """Fetch no more. A fetch that waits for a rebalance would hold this rebalance up, so it is cancelled."""
        self._ending.set()
        if self._fetching is not None:
            self._fetching.cancel()

    async def run(self) -> None:
        """Read until the end. Raise SinkUnavailable if the consumer cannot go on, and all its partitions with it."""
        seconds, seconds_max = _PAUSE_SECONDS
        while not self._ending.is_set():
            try:
                await self._go_on()
                await self._read()
                seconds = _PAUSE_SECONDS[0]
            except (DatabaseError, IntakeUnavailable, _Waits) as error:
                self._trouble.tell(error, source=self.place.source, partition=self.place.partition)
                await pause(self._ending, seconds)
                seconds = min(seconds * 2, seconds_max)
            except _Revoked:
                return

    async def _go_on(self) -> None:
        """Go to the offset in the database. At first, look whether it is still the same partition."""
        place = await self._offsets.get(self.place.partition)
        if place is None:
            await self._begin()
            place = await self._offsets.get(self.place.partition)
        if place is None:
            raise _Waits("its offset was deleted at this moment")
        if not self._is_known:
            with translated(f"reading {self.place.source}"), _assigned():
                if reason := await why_another(self._consumer, self.partition, place):
                    raise _Waits(reason)
            self._is_known = True
        self.next_offset = place.next_offset
        with _assigned():
            self._consumer.seek(self.partition, place.next_offset)

    async def _read(self) -> None:
        """Take records until the offset has to be read again, or the end. The next ones are fetched meanwhile."""
        fetched = await self._fetch()
        while not self._ending.is_set():
            while not self._flows() and not self._ending.is_set():
                await pause(self._ending, _POLL_SECONDS)
            async with TaskGroup() as tasks:
                ahead = tasks.create_task(self._fetch_ahead())
                goes_on = await self._take(*fetched)
                if isinstance(goes_on, Exception) or not goes_on:
                    ahead.cancel()
            if isinstance(goes_on, Exception):
                raise goes_on
            if not goes_on or ahead.cancelled():
                return
            next_fetched = ahead.result()
            if isinstance(next_fetched, Exception):
                raise next_fetched
            fetched = next_fetched

    async def _take(self, records: Sequence[SourceRecord], position: int) -> bool | Exception:
        """Take records until all are taken; return False if the offset has to be read again, or why they are not."""
        assert self.next_offset is not None, "it was read before"
        try:
            while records or position > self.next_offset:
                if self._ending.is_set():
                    return False
                taken = await self._intake.take(self.place, self.next_offset, position, records)
                if taken.count == 0 and (records or taken.next_offset != position):
                    return False
                self._note(records, taken)
                records = records[taken.count :]
                self.next_offset = taken.next_offset
        except IntakeUnavailable as error:
            return error
        self._over()
        return True

    async def _fetch_ahead(self) -> tuple[Sequence[SourceRecord], int] | Exception:
        """Fetch; return an error, which must not disturb the records in hand."""
        try:
            return await self._fetch()
        except (SinkUnavailable, _Waits, _Revoked) as error:
            return error

    async def _fetch(self) -> tuple[Sequence[SourceRecord], int]:
        """Return the next records, and the position behind them."""
        self._fetching = asyncio.current_task()
        try:
            with translated(f"reading {self.place.source}"), _assigned():
                fetched = await self._getmany()
                position: int = await self._consumer.position(self.partition)
        finally:
            self._fetching = None
        records = [read_record(record, self._options.body_bytes_max) for record in fetched]
        return records, position

    async def _getmany(self) -> Sequence[KafkaRecord]:
        try:
            found = await self._consumer.getmany(
                self.partition, timeout_ms=int(_POLL_SECONDS * 1000), max_records=self._options.records_max
            )
        except OffsetOutOfRangeError:
            await self._leave_hole()
            return ()
        except _UNREADABLE as error:
            raise _Waits(f"its records cannot be read: {error}") from error
        fetched: Sequence[KafkaRecord] = found.get(self.partition, ())
        return fetched

    async def _leave_hole(self) -> None:
        """Go to the first record that is left, where retention has removed those that were not taken."""
        first = (await self._consumer.beginning_offsets([self.partition]))[self.partition]
        assert self.next_offset is not None, "it was read before"
        if first <= self.next_offset:
            self._is_known = False
            raise _Waits("its offset is behind the end of the log")
        _log.warning(
            "kafka_source_hole", source=self.place.source, partition=self.place.partition, first=self.next_offset,
            next=first, hint="retention has removed these records before they were taken",
        )  # fmt: skip
        self._consumer.seek(self.partition, first)

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
        if taken.count:
            self.last_record_at = records[taken.count - 1].raw.at

    def _over(self) -> None:
        self._trouble.over(source=self.place.source, partition=self.place.partition)

    def age_seconds(self) -> float:
        """Return the age of the record that was taken last; 0 without one."""
        at = self.last_record_at
        return max((datetime.now(UTC) - at).total_seconds(), 0.0) if at is not None else 0.0


@contextmanager
def _assigned() -> Iterator[None]:
    try:
        yield
    except IllegalStateError:
        raise _Revoked from None
