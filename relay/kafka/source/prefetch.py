"""Prefetch: fetches the records of one partition ahead of its reader.

::

    broker --> client's buffer --> waiting records --next--> reader --> intake
                                   '--- rests while many wait

The client asks a broker for nothing while records of any of its partitions are in the client's buffer. So the prefetch
empties this buffer at once, and other partitions do not wait for the transaction of this one. The records that arrive
during a transaction are taken together by the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from traceback import walk_tb

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import IllegalStateError, OffsetOutOfRangeError

from relay.kafka.error import translated
from relay.kafka.source.identity import UNREADABLE, reset_command
from relay.kafka.source.incoming import KafkaRecord, read_record
from relay.sink import SinkUnavailable
from relay.source import RawRecord, SourceRecord

__all__ = ["POLL_SECONDS", "BehindTheEnd", "PartitionRevoked", "PartitionWaits", "Prefetch", "assigned"]

_log = structlog.get_logger(__name__)
POLL_SECONDS = 0.5
_BYTES_MAX = 2 * 1024 * 1024
_HEADER_BYTES = 140
"""What a header takes in memory beside its characters; in Kafka it may have three bytes."""


class PartitionWaits(Exception):
    """The partition cannot go on now; the text says why."""


class BehindTheEnd(PartitionWaits):
    """The log ends below the next offset: it may be another log."""


class PartitionRevoked(Exception):
    """The partition was assigned to another process."""


class Prefetch:
    """The records from the offset ``position`` on, to which the consumer was moved before.

    At most ``records_max`` are returned at once. About as many wait, or 2 MiB of them, and one fetch more. A body has
    at most ``body_bytes_max`` bytes.
    """

    def __init__(
        self, consumer: AIOKafkaConsumer, partition: TopicPartition, position: int, records_max: int,
        body_bytes_max: int,
    ) -> None:  # fmt: skip
        self._consumer = consumer
        self._partition = partition
        self._position = position
        self._records_max = records_max
        self._body_bytes_max = body_bytes_max
        self._is_single = False
        self._waiting: list[SourceRecord] = []
        self._error: Exception | None = None
        self._task: asyncio.Task[None] | None = None
        self._arrived = asyncio.Event()
        self._has_room = asyncio.Event()

    async def run(self) -> None:
        """Fetch until stopped, or until an error, which :meth:`next` raises behind the fetched records."""
        self._task = asyncio.current_task()
        try:
            while True:
                records, self._position = await self._fetch()
                self._waiting += records
                self._arrived.set()
                while self._is_full:
                    self._has_room.clear()
                    await self._has_room.wait()
        except (SinkUnavailable, PartitionWaits, PartitionRevoked) as error:
            self._error = error
            self._arrived.set()

    def stop(self) -> None:
        """Fetch no more. A fetch that waits for a rebalance would hold this rebalance up, so it is cancelled."""
        if self._task is not None:
            self._task.cancel()
        self._arrived.set()

    async def next(self) -> tuple[Sequence[SourceRecord], int]:
        """Return the next records and the position behind them, after a fetch or a stop; there may be none.

        Raises ``SinkUnavailable``, ``PartitionWaits``, ``PartitionRevoked``.
        """
        await self._arrived.wait()
        if self._error is not None and not self._waiting:
            raise self._error
        records, self._waiting = self._waiting[: self._records_max], self._waiting[self._records_max :]
        position = self._waiting[0].offset if self._waiting else self._position
        if not self._waiting and self._error is None:
            self._arrived.clear()
        self._has_room.set()
        return records, position

    @property
    def _is_full(self) -> bool:
        return len(self._waiting) >= self._records_max or sum(_size(one.raw) for one in self._waiting) >= _BYTES_MAX

    async def _fetch(self) -> tuple[Sequence[SourceRecord], int]:
        """Return the next records, and the position behind them."""
        with translated(f"reading {self._partition.topic}"), assigned():
            fetched = await self._getmany()
            position: int = await self._consumer.position(self._partition)
        return [read_record(record, self._body_bytes_max) for record in fetched], position

    async def _getmany(self) -> Sequence[KafkaRecord]:
        """Return the next records. The client drops the good ones before one that it cannot read. So after such an
        error they are read one by one.
        """
        records_max = 1 if self._is_single else self._records_max
        try:
            found = await self._consumer.getmany(
                self._partition, timeout_ms=int(POLL_SECONDS * 1000), max_records=records_max
            )
        except OffsetOutOfRangeError:
            await self._leave_hole()
            return ()
        except UNREADABLE as error:
            raise PartitionWaits(f"its records cannot be read: {error}") from error
        except UnicodeDecodeError as error:
            if self._is_single:
                raise PartitionWaits(self._about_batch(error)) from error
            self._is_single = True
            self._consumer.seek(self._partition, self._position)
            return await self._getmany()
        fetched: Sequence[KafkaRecord] = found.get(self._partition, ())
        self._is_single = self._is_single and bool(fetched)
        return fetched

    async def _leave_hole(self) -> None:
        """Go to the first record that is left, where retention has removed those that were not taken."""
        first = (await self._consumer.beginning_offsets([self._partition]))[self._partition]
        if first <= self._position:
            raise BehindTheEnd("its offset is behind the end of the log")
        _log.warning(
            "kafka_source_hole", source=self._partition.topic, partition=self._partition.partition,
            first=self._position, next=first, hint="retention has removed these records before they were taken",
        )  # fmt: skip
        self._is_single = False
        self._consumer.seek(self._partition, first)

    def _about_batch(self, error: UnicodeDecodeError) -> str:
        """Return why the client cannot read the next record. It reads none behind it in the same batch."""
        batches = (frame.f_locals.get("next_batch") for frame, _ in walk_tb(error.__traceback__))
        behind = next((batch.next_offset for batch in batches if batch is not None), self._position + 1)
        return (
            f"the name of a header is not UTF-8, in a record from the offset {self._position} to {behind - 1}. Go on "
            f"behind them by `{reset_command(self._partition)} {behind}`"
        )


@contextmanager
def assigned() -> Iterator[None]:
    """Raise ``PartitionRevoked`` where the client says that the partition is not assigned."""
    try:
        yield
    except IllegalStateError:
        raise PartitionRevoked from None


def _size(raw: RawRecord) -> int:
    headers = sum(_HEADER_BYTES + len(name) + len(value or b"") for name, value in raw.headers)
    return len(raw.key or b"") + len(raw.value or b"") + headers
