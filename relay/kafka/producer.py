"""A Kafka producer: aiokafka's, with time limits, refusals that cost nothing else, and a close that sends nothing.

aiokafka numbers a batch when it sends it. After a refused batch, the next one of its partition would be out of sequence
for ever. A broker that refuses a batch for its records or its topic has kept nothing of it. So :meth:`refused` takes
the number back, and the producer goes on. That is safe only if the answer is the one to the first try: an earlier try
may have been kept. After any other failure the producer is discarded and never repaired.

aiokafka cannot close without flushing and without waiting for an unreachable broker.
:meth:`KafkaProducer.discard` therefore ends its sender task itself, and the version is pinned to 0.14.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from aiokafka import AIOKafkaProducer, OffsetAndMetadata, TopicPartition

from relay.kafka.batches import KafkaBatch
from relay.kafka.error import close_client, translated
from relay.kafka.options import KafkaOptions
from relay.kafka.refused_batch import RefusedBatch, keep_refusals
from relay.sink import SinkUnavailable

__all__ = ["UNANSWERED", "KafkaProducer"]

_ANSWER_SECONDS = 1.0  # when discarding: the wait for answers to requests that were sent
_DISCARD_SECONDS = 0.5
UNANSWERED = TimeoutError("Kafka gave no answer in time: waiting for acknowledgements")
"""The result of a batch that has no answer yet."""


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
        self._wave: list[asyncio.Future[Any]] = []
        self._marking: asyncio.Future[None] | None = None

    async def start(self) -> None:
        """Connect and get a producer id. The broker then ends a transaction that a predecessor left open."""
        keep_refusals(self._producer)
        _mark_first(self._producer._sender)
        _retrieve_failures(self._producer._sender)
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

    def has_leaders(self, topic: str) -> bool:
        """Return whether each partition of a topic has a leader, by the latest metadata."""
        available = self._producer.client.cluster.available_partitions_for_topic(topic)
        return len(available or ()) == self.partitions(topic)

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
        self._marking = None
        with translated("opening a transaction"):
            await self._producer.begin_transaction()

    async def submit(self, batches: Sequence[KafkaBatch]) -> None:
        """Send batches, at most one of each partition; :meth:`answers` waits for the results."""
        with translated("handing over a batch"):
            async with asyncio.timeout(self._options.request_seconds):
                self._wave = []
                for batch in batches:
                    batch.builder.close()
                    future = await self._producer.send_batch(batch.builder, batch.topic, partition=batch.partition)
                    self._wave.append(future)

    async def answers(self, seconds: float | None = None) -> list[BaseException | None]:
        """Wait for the batches that were submitted last, for at most ``seconds``. Return for each None (the broker
        keeps it), its error, or :data:`UNANSWERED`; it may be asked again for those.
        """
        await asyncio.wait(self._wave, timeout=seconds)
        return [future.exception() if future.done() else UNANSWERED for future in self._wave]

    async def refused(self, batches: Sequence[tuple[KafkaBatch, BaseException]]) -> bool:
        """Go on after these batches failed, and abort the open transaction. Return False where that is not safe, and
        the producer has to be discarded.
        """
        if not all(isinstance(error, RefusedBatch) and error.was_tried_once for _, error in batches):
            return False
        transactions = self._producer._txn_manager
        if transactions.transactional_id is not None:
            # In any other state the client has forgotten which partitions the broker added.
            if not transactions.is_in_transaction():
                return False
            with translated("aborting a transaction"):
                await self._producer.abort_transaction()
        for batch, _ in batches:
            partition = TopicPartition(batch.topic, batch.partition)
            transactions.increment_sequence_number(partition, -len(batch.records))
        return True

    def mark(self, group: str, topic: str, number: int) -> None:
        """Begin to make a batch's number the committed offset of a consumer group, within the transaction."""
        transactions = self._producer._txn_manager
        if transactions.is_in_transaction():
            offsets = {TopicPartition(topic, 0): OffsetAndMetadata(number, "")}
            self._marking = transactions.add_offsets_to_txn(offsets, group)

    async def marked(self) -> None:
        """Wait until the broker has the mark."""
        with translated("marking progress"):
            if self._marking is None:
                raise SinkUnavailable("the transaction has failed")
            await asyncio.shield(self._marking)

    @property
    def waits_for_coordinator(self) -> bool:
        """Return whether partitions wait to be added to the transaction, for example because the last cannot end.

        Return True also while the marker has no answer: no record is sent before it.
        """
        transactions = self._producer._txn_manager
        return bool(transactions.partitions_to_add() or transactions._pending_txn_offsets)

    async def commit(self) -> None:
        """Commit the transaction. After :class:`relay.sink.SinkUnavailable` the outcome is unknown."""
        with translated("committing"):
            await self._producer.commit_transaction()

    async def discard(self) -> bool:
        """End the producer within a few seconds, and send nothing more. Return False if a request got no answer.

        An open transaction is left to the next producer of the same id, or to its time-out.
        """
        if self._wave:
            await asyncio.wait(self._wave, timeout=_ANSWER_SECONDS)
        all_answered = all(future.done() for future in self._wave)
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
        """Retrieve the exceptions of futures that no task awaits. Otherwise asyncio logs them later."""
        undrained = self._producer._message_accumulator._batches.values()
        waiters = [batch._drain_waiter for batches in undrained for batch in batches]
        transaction_end = self._producer._txn_manager.wait_for_transaction_end()
        if transaction_end is not None:
            waiters.append(transaction_end)
        marking = [self._marking] if self._marking is not None else []
        for future in [*self._wave, *marking, *waiters]:
            if future.done():
                _retrieve_failure(future)
            else:
                future.cancel()
        self._wave = []


def _mark_first(sender: Any) -> None:
    """Write the marker of a transaction before its records are sent. aiokafka sends both at the same time.

    Before it stores either, a broker asks the coordinator whether the transaction has the partition. If it is asked
    again meanwhile, it forgets the first question, and one of the two requests has to be repeated after a pause. The
    partitions and the group of the marker are added by two requests on one connection, without a wait in between.
    """
    add_partitions, transactions = sender._do_add_partitions_to_txn, sender._txn_manager

    async def adding(partitions: set[TopicPartition]) -> None:
        # The sender looks for records that it may send when this has ended.
        group = transactions.consumer_group_to_add()
        if group is None:
            await add_partitions(partitions)
            return
        requests = add_partitions(partitions), sender._do_add_offsets_to_txn(group)
        for outcome in await asyncio.gather(*requests, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
        if (marker := transactions.offsets_to_commit()) is not None:
            await sender._do_txn_offset_commit(*marker)

    sender._do_add_partitions_to_txn = adding


def _retrieve_failures(sender: Any) -> None:
    """Retrieve the exception of each request. A sender that ends leaves the other requests behind."""
    produce, ask = sender._send_produce_req, sender._maybe_do_transactional_request

    def asking() -> asyncio.Task[None] | None:
        task: asyncio.Task[None] | None = ask()
        if task is not None:
            task.add_done_callback(_retrieve_failure)
        return task

    async def producing(*batches: Any) -> None:
        task = asyncio.current_task()
        assert task is not None, "the sender makes a task of each request"
        task.add_done_callback(_retrieve_failure)
        await produce(*batches)

    sender._send_produce_req, sender._maybe_do_transactional_request = producing, asking


def _retrieve_failure(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()
