"""Kafka sink: events become records of one Kafka topic per topic, on the partition of their key, in order.

Two modes::

    transactional   one Kafka transaction per batch: its records and its number, the progress marker (RR-06)

      open ---> producer with our transactional id: fences the predecessor, resolves its open transaction
                read the marker: the number of the last batch that was committed
      send ---> begin, records, marker, commit          in the order of the calls; the next one is laid out meanwhile

    idempotent      no fence and no marker: the lease is asked before each request (RR-02)

      open ---> producer; waits until a former request without an answer cannot arrive any more (RK-16)
      send ---> records

The broker's errors and their results:

=========================================  ===========================================================================
topic missing, illegal, not authorised     refusal of the topic
record larger than the topic takes         refusal of the record, before anything is sent
a batch is refused for its contents       reopen; its records travel in batches half as large until the one that is
                                           refused is alone: refusal of the record (RO-08)
another producer has our id                Fenced (RK-25)
anything else, or no answer in time        SinkUnavailable; in idempotent mode, if some of the records were kept, a
                                           receipt for those, and reopen
=========================================  ===========================================================================

In transactional mode a batch is committed whole or not at all. A read of the marker may lag on brokers before 4.0; that
can repeat the last batch of a term, never lose one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from event.partition import Partitioner
from relay.kafka.admin import KafkaAdmin
from relay.kafka.batches import BatchLayout, KafkaBatch, Packer, waves
from relay.kafka.error import blame, described, sink_error, translated
from relay.kafka.headers import Headers
from relay.kafka.options import KafkaOptions
from relay.kafka.producer import KafkaProducer
from relay.kafka.topics import KafkaTopics
from relay.record import Record
from relay.sink import Batch, Features, Fenced, Receipt, Refusal, SinkError, SinkUnavailable, Term

__all__ = ["KafkaOptions", "KafkaSink"]

_TRANSACTION_SECONDS = 0.02
"""The least time between the beginnings of two small transactions. Each of them takes five round trips, and a record
in the log of each partition, of the transactions and of the marker's group."""


@dataclass(slots=True)
class _Life:
    """One producer and its state. ``setbacks`` counts the calls that left records open; ``over``: the sink must be
    reopened.
    """

    admin: KafkaAdmin
    producer: KafkaProducer
    topics: KafkaTopics
    packer: Packer
    progress_group: str
    laying_out: asyncio.Lock = field(default_factory=asyncio.Lock)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    setbacks: int = 0
    over: bool = False


class KafkaSink:
    """The adapter of :class:`relay.sink.Sink` for Apache Kafka.

    ``trusted`` returns whether our lease still holds by our own clock; the idempotent mode asks it before each request.
    """

    def __init__(self, options: KafkaOptions, trusted: Callable[[], bool] = lambda: True) -> None:
        self.name = "kafka"
        self.features = Features(
            window=options.window,
            batch_records_max=options.batch_records_max,
            # With the window "record", a second batch could hold a key's next record.
            overlap=2 if options.window == "batch" else 1,
            manifests=options.mode == "transactional" and options.manifests,
            small_batch_seconds=_TRANSACTION_SECONDS if options.mode == "transactional" else 0.0,
        )
        self._options = options
        self._trusted = trusted
        self._life: _Life | None = None
        self._silent_until = 0.0
        self._absent_topics: set[str] = set()
        self._suspects: dict[int, int] = {}
        self._partitioner = Partitioner(options.partitioner)

    async def open(self, term: Term) -> int | None:
        """Start a producer; in transactional mode it fences its predecessors and the progress marker is returned.

        In idempotent mode it may wait first, for up to ``request_seconds``, until an earlier request cannot arrive any
        more. Raises :class:`Fenced`, :class:`SinkUnavailable`.
        """
        await self.close()
        await asyncio.sleep(max(self._silent_until - time.monotonic(), 0))
        life = self._life = self._new_life(term)
        try:
            await life.admin.start()
            await life.producer.start()
            return await self._progress(life) if self.features.manifests else None
        except BaseException:
            await self.close()
            raise

    def _new_life(self, term: Term) -> _Life:
        options = self._options
        scope = f"{term.layout}.{term.group}"
        transactional_id = f"hookwire.{options.installation}.{scope}" if options.mode == "transactional" else None
        admin, producer = KafkaAdmin(options), KafkaProducer(options, transactional_id)
        topics = KafkaTopics(admin, producer, options, self._absent_topics)
        headers = Headers(term.number, own=options.own_headers)
        packer = Packer(producer.new_builder, headers, self._partitioner, options.batch_bytes, self._suspects)
        return _Life(admin, producer, topics, packer, f"hookwire.{options.installation}.progress.{scope}")

    async def _progress(self, life: _Life) -> int:
        with translated("reading the progress marker"):
            async with asyncio.timeout(self._options.request_seconds * 2):
                await life.admin.ensure_topic(self._options.progress_topic, min(life.producer.brokers, 3))
                return await life.admin.committed(life.progress_group, self._options.progress_topic)

    async def send(self, batch: Batch) -> Receipt:
        """Send in the order of the calls; a call that began before another's setback sends nothing.

        Raises :class:`Fenced`, :class:`SinkUnavailable`.
        """
        life = self._life
        if life is None:
            raise SinkUnavailable("the Kafka sink is not open")
        setbacks = life.setbacks
        try:
            # Keep the order: the first call to lay out is the first to send.
            async with life.laying_out:
                layout = await self._lay_out(life, batch)
                await life.turn.acquire()
            try:
                receipt = Receipt((), reopen=life.over)
                if not life.over and setbacks == life.setbacks:
                    receipt = await self._deliver(life, batch, layout)
                if len(receipt.acknowledged) < len(batch.records):
                    life.setbacks += 1
                life.over |= receipt.reopen
                return receipt
            finally:
                life.turn.release()
        except BaseException:
            life.over = True
            raise

    async def _lay_out(self, life: _Life, batch: Batch) -> BatchLayout:
        prefix = self._options.topic_prefix
        names = [record.kafka_topic or prefix + record.topic for record in batch.records]
        topics = await life.topics.resolve(set(names))
        layout = life.packer.pack(batch.records, [topics[name] for name in names])
        too_large = {refusal.record.id for refusal in layout.refused if refusal.reason == "too_large"}
        if too_large:
            # The limit may have been raised since it was read.
            doubtful = {name for record, name in zip(batch.records, names, strict=True) if record.id in too_large}
            life.topics.forget(doubtful)
            topics_now = {**topics, **await life.topics.resolve(doubtful)}
            if topics_now != topics:
                layout = life.packer.pack(batch.records, [topics_now[name] for name in names])
        return layout

    async def _deliver(self, life: _Life, batch: Batch, layout: BatchLayout) -> Receipt:
        if self._options.mode == "idempotent":
            return await self._produce(life, layout)
        with translated("waiting for acknowledgements"):
            async with asyncio.timeout(self._options.delivery_seconds):
                return await self._commit(life, batch, layout)

    async def _produce(self, life: _Life, layout: BatchLayout) -> Receipt:
        """Send in idempotent mode. Acknowledged records stay so even if others fail: there is no transaction."""
        acknowledged: list[Record] = []
        deadline = time.monotonic() + self._options.delivery_seconds
        for wave in waves(layout.partitions):
            if not self._trusted():
                raise Fenced("the lease has run out by our own clock")
            if time.monotonic() >= deadline:
                return Receipt(acknowledged, layout.refused)  # the rest was not sent, and is claimed again
            try:
                await life.producer.submit(wave)
            except SinkUnavailable as trouble:
                if not acknowledged:
                    raise
                return Receipt(acknowledged, layout.refused, reopen=True, trouble=trouble)
            failed = []
            answers = await life.producer.answers(max(deadline - time.monotonic(), 0.0))
            for kafka_batch, error in zip(wave, answers, strict=True):
                if error is None:
                    acknowledged += kafka_batch.records
                else:
                    failed.append((kafka_batch, error))
            if failed:
                return self._judge(failed, acknowledged, layout.refused)
        self._suspects.clear()
        return Receipt(acknowledged, layout.refused)

    async def _commit(self, life: _Life, batch: Batch, layout: BatchLayout) -> Receipt:
        if layout.refused and batch.number is not None:
            return Receipt((), layout.refused, reopen=True)
        if not layout.partitions:
            return Receipt((), layout.refused)
        producer = life.producer
        await producer.begin()
        unmarked: SinkError | None = None
        for position, wave in enumerate(waves(layout.partitions)):
            await producer.submit(wave)
            if position == 0 and batch.number is not None:
                # Write the marker while the records are sent; both are committed together.
                unmarked = await self._mark(life, batch.number)
            failed = [(b, error) for b, error in zip(wave, await producer.answers(), strict=True) if error is not None]
            if failed:
                return self._judge(failed, (), ())
        if unmarked is not None:
            raise unmarked
        await producer.commit()
        self._suspects.clear()
        if layout.refused:
            return Receipt([r for lane in layout.partitions for b in lane for r in b.records], layout.refused)
        return Receipt(batch.records)

    async def _mark(self, life: _Life, number: int) -> SinkError | None:
        """Write the marker; return its error instead of raising it, because the errors of the records are more
        precise.
        """
        try:
            await life.producer.mark(life.progress_group, self._options.progress_topic, number)
        except SinkError as error:
            return error
        return None

    def _judge(
        self,
        failed: Sequence[tuple[KafkaBatch, BaseException]],
        acknowledged: Sequence[Record],
        refused: Sequence[Refusal],
    ) -> Receipt:
        """Judge failed Kafka batches; raise their error where it concerns the broker and not the records."""
        verdicts = [sink_error(error) for _, error in failed]
        if fenced := next((verdict for verdict in verdicts if isinstance(verdict, Fenced)), None):
            raise fenced
        blamed = [(batch, error, blame(error)) for batch, error in failed]
        refusals = [*refused]
        for batch, error, culprit in blamed:
            if culprit == "topic":
                firsts = {(record.tenant, record.topic): record for record in reversed(batch.records)}
                refusals += [Refusal(r, "topic", "topic_refused", described(error)) for r in firsts.values()]
            elif culprit == "record" and len(batch.records) == 1:
                refusals.append(Refusal(batch.records[0], "record", "refused_by_broker", described(error)))
        suspicious = [batch for batch, _, culprit in blamed if culprit == "record"]
        if suspicious:
            self._search(suspicious)
        troubles = [
            verdict
            for verdict, (_, _, culprit) in zip(verdicts, blamed, strict=True)
            if culprit == "sink" and isinstance(verdict, SinkUnavailable)
        ]
        if acknowledged or refusals or suspicious:
            return Receipt(acknowledged, refusals, reopen=True, trouble=troubles[0] if troubles else None)
        raise verdicts[0]

    def _search(self, batches: Sequence[KafkaBatch]) -> None:
        """Halve the batches that hold a record which the broker refuses; once a record is alone, the search is over."""
        self._suspects.clear()
        if all(len(batch.records) > 1 for batch in batches):
            for batch in batches:
                share = len(batch.records) // 2
                self._suspects.update((record.id, share) for record in batch.records)

    async def close(self) -> None:
        """Discard the producer, within a few seconds and without sending waiting records."""
        life, self._life = self._life, None
        if life is None:
            return
        life.over = True
        all_answered = await life.producer.discard()
        await life.admin.close()
        if not all_answered and self._options.mode == "idempotent":
            self._silent_until = time.monotonic() + self._options.request_seconds
