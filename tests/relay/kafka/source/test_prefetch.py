"""relay/kafka/source/prefetch.py: what is fetched while a transaction runs, without a broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import CorruptRecordException

from relay.kafka.source.prefetch import PartitionWaits, Prefetch
from tests.relay.kafka.source.test_incoming import Record
from tests.waiting import until

PARTITION = TopicPartition("stock", 3)


class Consumer:
    """Stands for the client: each fetch returns the next of ``answers``; then it waits."""

    def __init__(self, *answers: Sequence[int] | Exception) -> None:
        self.answers = list(answers)
        self._position = 0

    async def getmany(self, *_: object, timeout_ms: int, max_records: int) -> dict[TopicPartition, list[Any]]:
        if not self.answers:
            await asyncio.Event().wait()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        self._position = answer[-1] + 1
        return {PARTITION: [Record(offset=offset, value=b"v" * 1_000) for offset in answer]}

    async def position(self, _: TopicPartition) -> int:
        return self._position


class Log(Consumer):
    """Each record is a batch, and one fetch has all of them. Like the client, it drops the records before the bad one,
    and stays where it was.
    """

    def __init__(self, bad: int) -> None:
        super().__init__()
        self._bad = bad

    async def getmany(self, *_: object, timeout_ms: int, max_records: int) -> dict[TopicPartition, list[Any]]:
        first = self._position
        offsets = range(first, first + max_records)
        if self._bad in offsets:
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
        self._position = offsets.stop
        return {PARTITION: [Record(offset=offset) for offset in offsets]}

    def seek(self, _: TopicPartition, offset: int) -> None:
        self._position = offset


@asynccontextmanager
async def feeding(consumer: Consumer, records_max: int) -> AsyncIterator[Prefetch]:
    prefetch = Prefetch(consumer, PARTITION, 0, records_max, 10_000)  # type: ignore[arg-type]
    task = asyncio.create_task(prefetch.run())
    yield prefetch
    task.cancel()


async def taken(prefetch: Prefetch) -> tuple[list[int], int]:
    records, position = await prefetch.next()
    return [record.offset for record in records], position


async def test_what_was_fetched_during_a_transaction_is_returned_together() -> None:
    consumer = Consumer([0], [1], [4, 5])
    async with feeding(consumer, 100) as prefetch:
        await until(lambda: not consumer.answers)
        found = await taken(prefetch)

    assert found == ([0, 1, 4, 5], 6)


async def test_at_most_so_many_are_returned_and_the_feed_rests_meanwhile() -> None:
    """The position behind the first records is the next record's offset."""
    consumer = Consumer([0, 1, 7], [8], [9])
    async with feeding(consumer, 2) as prefetch:
        first = await taken(prefetch)
        rests = len(consumer.answers)
        second = await taken(prefetch)
        await until(lambda: not consumer.answers)

    assert (first, rests, second) == (([0, 1], 7), 2, ([7], 8))


async def test_an_error_of_a_fetch_comes_behind_the_records() -> None:
    consumer = Consumer([0], CorruptRecordException())
    async with feeding(consumer, 100) as prefetch:
        await until(lambda: not consumer.answers)
        first = await taken(prefetch)
        with pytest.raises(PartitionWaits, match="cannot be read"):
            await taken(prefetch)

    assert first == ([0], 1)


async def test_the_good_records_before_one_that_cannot_be_read_are_returned() -> None:
    """The command that the error names skipped them, as they come in the same fetch."""
    found: list[int] = []
    async with feeding(Log(bad=2), 100) as prefetch:
        while len(found) < 2:
            found += (await taken(prefetch))[0]
        with pytest.raises(PartitionWaits, match="from the offset 2 to 2"):
            await taken(prefetch)

    assert found == [0, 1]
