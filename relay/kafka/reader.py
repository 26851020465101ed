"""Read a Kafka topic once, to verify a relay's output: every partition, from its first record, as committed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import UnknownTopicOrPartitionError

from relay.kafka.error import stop_client, translated
from relay.kafka.options import KafkaOptions
from relay.sink import SinkUnavailable

__all__ = ["KafkaArrival", "KafkaReader"]

_POLL_SECONDS = 0.2
_STOP_SECONDS = 3.0


class KafkaArrival(NamedTuple):
    """One record as it lies in Kafka."""

    key: str | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]


class KafkaReader:
    """Reads one topic, within ``async with``. It joins no consumer group, so it moves no offsets. Raises
    SinkUnavailable.
    """

    def __init__(self, options: KafkaOptions, topic: str) -> None:
        self._options = options
        self._topic = topic
        self._consumer: AIOKafkaConsumer | None = None

    async def __aenter__(self) -> KafkaReader:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def arrivals(self) -> AsyncIterator[KafkaArrival | None]:
        """Yield records as they come, in each partition's order; yield None whenever none came for a moment. Wait for a
        topic that does not exist yet.
        """
        while not await self._open():
            await asyncio.sleep(_POLL_SECONDS)
            yield None
        assert self._consumer is not None, "_open returned True"
        while True:
            with translated(f"reading {self._topic}"):
                fetched = await self._consumer.getmany(timeout_ms=int(_POLL_SECONDS * 1000))
            for messages in fetched.values():
                for message in messages:
                    key = None if message.key is None else message.key.decode(errors="replace")
                    yield KafkaArrival(key, message.value, message.headers)
            if not fetched:
                yield None

    async def _open(self) -> bool:
        """Begin at the first record of every partition; return False while the topic does not exist."""
        self._consumer = AIOKafkaConsumer(
            self._topic, **self._options.client("reader"), isolation_level="read_committed", enable_auto_commit=False,
            auto_offset_reset="earliest",
        )  # fmt: skip
        try:
            with translated("connecting"):
                await self._consumer.start()
        except SinkUnavailable as error:
            await self._close()
            if isinstance(error.__cause__, UnknownTopicOrPartitionError):
                return False
            raise
        return True

    async def _close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await stop_client(consumer, _STOP_SECONDS)
