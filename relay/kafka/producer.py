"""A Kafka producer that is used until its first failure: aiokafka's, with time limits and a close that sends nothing.

After a batch that failed for good, the next one of its partition would be out of sequence for ever. So a producer is
discarded at the first failure and never repaired (RK-15). aiokafka cannot close without flushing and without waiting
for an unreachable broker (RK-27). :meth:`KafkaProducer.discard` therefore ends its sender task itself, and the version
is pinned to 0.14.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from aiokafka import AIOKafkaProducer, OffsetAndMetadata, TopicPartition

from relay.kafka.batches import KafkaBatch
from relay.kafka.error import close_client, translated
from relay.kafka.options import KafkaOptions

__all__ = ["KafkaProducer"]

_ANSWER_SECONDS = 1.0  # when discarding: the wait for answers to requests that were sent
_DISCARD_SECONDS = 0.5
_UNANSWERED = TimeoutError("Kafka gave no answer in time: waiting for acknowledgements")


class KafkaProducer:
    """A producer. Methods raise :class:`relay.sink.Fenced` and :class:`relay.sink.SinkUnavailable`.

    With a ``transactional_id``, starting it fences every earlier producer of that id, and sending is done between
    :meth:`begin` and :meth:`commit`.
    """

    def __init__(self, options: KafkaOptions, transactional_id: str | None) -> None:
        self._options = options
        self._producer = AIOKafkaProducer(
            **options.client("producer"),
            acks="all",
            enable_idempotence=True,
            transactional_id=transactional_id,
            transaction_timeout_ms=int(options.transaction_seconds * 1000),
            compression_type=None if options.compression == "none" else options.compression,
            max_batch_size=options.batch_bytes * 2,  # never reached: our batches end earlier, by our own count
            retry_backoff_ms=20,
        )
        self._unanswered: list[asyncio.Future[Any]] = []

    async def start(self) -> None:
        """Connect and get a producer id. The broker then ends a transaction that a predecessor left open."""
        with translated("starting a producer"):
            async with asyncio.timeout(self._options.request_seconds * 2):
                await self._producer.start()

    @property
    def brokers(self) -> int:
        """Return how many brokers the cluster has."""
        return len(self._producer.client.cluster.brokers())

    def partitions(self, topic: str) -> int:
        """Return how many partitions a topic has, by the latest metadata; 0 when nothing is known of it."""
        return len(self._producer.client.cluster.partitions_for_topic(topic) or ())

    async def learn(self, topic: str) -> int:
        """Follow the metadata of an existing topic; return the number of its partitions."""
        with translated(f"reading the metadata of {topic}"):
            async with asyncio.timeout(self._options.request_seconds):
                return len(await self._producer.partitions_for(topic))

    def new_builder(self) -> Any:
        """Return an empty batch of aiokafka's."""
        return self._producer.create_batch()

    async def begin(self) -> None:
        """Open a transaction."""
        with translated("opening a transaction"):
            await self._producer.begin_transaction()

    async def submit(self, batches: Sequence[KafkaBatch]) -> None:
        """Send batches, at most one of each partition; :meth:`answers` waits for the results."""
        with translated("handing over a batch"):
            async with asyncio.timeout(self._options.request_seconds):
                for batch in batches:
                    batch.builder.close()
                    future = await self._producer.send_batch(batch.builder, batch.topic, partition=batch.partition)
                    self._unanswered.append(future)

    async def answers(self, seconds: float | None = None) -> list[BaseException | None]:
        """Wait for all submitted batches, for at most ``seconds``. Return for each None (the broker keeps it) or its
        error. A batch without an answer may still get one; :meth:`discard` waits for it.
        """
        await asyncio.wait(self._unanswered, timeout=seconds)
        answers = [future.exception() if future.done() else _UNANSWERED for future in self._unanswered]
        self._unanswered = [future for future in self._unanswered if not future.done()]
        return answers

    async def mark(self, group: str, topic: str, number: int) -> None:
        """Make a batch's number the committed offset of a consumer group, within the transaction (RR-06)."""
        with translated("marking progress"):
            offsets = {TopicPartition(topic, 0): OffsetAndMetadata(number, "")}
            await self._producer.send_offsets_to_transaction(offsets, group)

    async def commit(self) -> None:
        """Commit the transaction. After :class:`relay.sink.SinkUnavailable` the outcome is unknown."""
        with translated("committing"):
            await self._producer.commit_transaction()

    async def discard(self) -> bool:
        """End the producer within a few seconds, and send nothing more. Return False if a request got no answer.

        An open transaction is left to the next producer of the same id, or to its time-out.
        """
        if self._unanswered:
            await asyncio.wait(self._unanswered, timeout=_ANSWER_SECONDS)
        all_answered = all(future.done() for future in self._unanswered)
        sender = self._producer._sender.sender_task
        for _ in range(2):  # the sender survives one cancellation while it waits for a coordinator
            if sender is not None and not sender.done():
                sender.cancel()
            await close_client(self._producer.client, _DISCARD_SECONDS)
            if sender is not None:
                await asyncio.wait([sender], timeout=_DISCARD_SECONDS)
        self._producer._closed = True
        self._retrieve()
        return all_answered

    def _retrieve(self) -> None:
        """Retrieve the exceptions of futures that no task awaits. Otherwise asyncio logs them later (RK-21)."""
        undrained = self._producer._message_accumulator._batches.values()
        waiters = [batch._drain_waiter for batches in undrained for batch in batches]
        transaction_end = self._producer._txn_manager.wait_for_transaction_end()
        if transaction_end is not None:
            waiters.append(transaction_end)
        for future in [*self._unanswered, *waiters]:
            if not future.done():
                future.cancel()
            elif not future.cancelled():
                future.exception()
        self._unanswered.clear()
