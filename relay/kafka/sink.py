"""Kafka sink: events become records of one Kafka topic per topic, on the partition of their key, in order.

Two modes::

    transactional   one Kafka transaction per batch: its records and its number, the progress marker

      open ---> fence the predecessor by our two transactional ids, and end its open transaction
                producer with the first id that is free
                read the marker: the number of the last batch that was committed
      send ---> begin, records, marker, commit          in the order of the calls; the next one is laid out meanwhile

    idempotent      no fence and no marker: the lease is asked before each request

      open ---> producer; waits until a former request without an answer cannot arrive any more
      send ---> records

A topic is judged by metadata before a transaction begins: its name, our right to write, and its limits. Its partitions
need leaders and enough replicas in sync. So a topic that was refused costs no transaction until metadata says that it
takes records. The broker's errors and their results:

=========================================  ===========================================================================
topic missing, illegal, not authorised,    refusal of the topic
without a leader or replicas in sync
record too large; record without a key     refusal of the record, before anything is sent
for a compacted topic
a batch is refused for its contents        the transaction is aborted, and the producer goes on. The records that the
                                           answer names are refused (KIP-467). Where it names none, the topic is, and
                                           its records then travel one by one until the refused one is found
no answer for a while, and metadata says   refusal of the topic, and reopen: the request may still arrive
that the topic takes no records, or
another topic has its answer
another producer has our id                Fenced
anything else, or no answer in time        SinkUnavailable; in idempotent mode, if some of the records were kept, a
                                           receipt for those, and reopen
=========================================  ===========================================================================

In transactional mode a batch is committed whole or not at all. A read of the marker may lag on brokers before 4.0; that
can repeat the last batch of a term, never lose one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from event.partition import Partitioner
from relay.kafka.admin import KafkaAdmin
from relay.kafka.batches import BatchLayout, KafkaBatch, Packer, waves
from relay.kafka.error import blame, described, sink_error, translated
from relay.kafka.fence import fenced_id
from relay.kafka.headers import Headers
from relay.kafka.options import KafkaOptions
from relay.kafka.producer import UNANSWERED, KafkaProducer
from relay.kafka.refused_batch import RefusedBatch
from relay.kafka.topic import KafkaTopic, TopicUnusable, Unusable
from relay.kafka.topics import AbsentTopics, KafkaTopics
from relay.record import Record
from relay.sink import Batch, Features, Fenced, Receipt, Refusal, SinkUnavailable, Term

__all__ = ["KafkaOptions", "KafkaSink"]

_TRANSACTION_SECONDS = 0.015
"""The least time between the beginnings of two small transactions. Each of them takes four round trips, and a record
in the log of each partition, of the transactions and of the marker's group."""
_FRESH_SECONDS = 1.0  # a refusal by limits that were read longer ago has them read again
_DOUBT_SECONDS = 1.0  # without an answer for so long, the topics are described
_SILENT_SECONDS = 3.0  # without an answer for so long, a topic is at fault if another one has been answered
_ALIVE_SECONDS = 10.0  # how long an answer shows that the cluster answers
_NO_ANSWER = "Kafka gave no answer for the topic {} within {:.0f} s, while it answers for others"
_MAY_ARRIVE = "the last request for the Kafka topic {} has no answer, and may still arrive"
_Failed = Sequence[tuple[KafkaBatch, BaseException]]


@dataclass(slots=True)
class _Life:
    """One producer and its state. ``setbacks`` counts the calls that left records open; ``over``: the sink must be
    reopened. ``knows_the_silent``: the topics whose requests have no answer are known, and wait.
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
    knows_the_silent: bool = False


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
        self._absent = AbsentTopics(options.topic_wait_seconds)
        self._alone: set[str] = set()
        self._answered: dict[str, float] = {}
        self._silent: dict[str, float] = {}
        self._partitioner = Partitioner(options.partitioner)

    async def open(self, term: Term) -> int | None:
        """Start a producer; in transactional mode it fences its predecessors and the progress marker is returned.

        In idempotent mode it may wait first, for up to ``request_seconds``, until an earlier request cannot arrive any
        more. Raises :class:`Fenced`, :class:`SinkUnavailable`.
        """
        await self.close()
        await asyncio.sleep(max(self._silent_until - time.monotonic(), 0))
        admin = KafkaAdmin(self._options)
        try:
            await admin.start()
            is_fenced = self._options.mode == "transactional"
            transactional_id = await fenced_id(admin, self._options, _scope(term)) if is_fenced else None
            life = self._life = self._new_life(term, admin, transactional_id)
            await life.producer.start()
            return await self._progress(life) if self.features.manifests else None
        except BaseException:
            await self.close()
            await admin.close()
            raise

    def _new_life(self, term: Term, admin: KafkaAdmin, transactional_id: str | None) -> _Life:
        options = self._options
        producer = KafkaProducer(options, transactional_id)
        topics = KafkaTopics(admin, producer, options, self._absent)
        headers = Headers(term.number, own=options.own_headers)
        packer = Packer(producer.new_builder, headers, self._partitioner, options.batch_bytes, self._alone)
        progress_group = f"hookwire.{options.installation}.progress.{_scope(term)}"
        return _Life(admin, producer, topics, packer, progress_group)

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
        if batch.is_probe:
            life.topics.forget(set(names))
        topics = self._with_silent(await life.topics.resolve(set(names)))
        layout = life.packer.pack(batch.records, [topics[name] for name in names])
        refused = {refusal.record.id for refusal in layout.refused if refusal.scope == "record"}
        doubtful = {name for record, name in zip(batch.records, names, strict=True) if record.id in refused}
        doubtful = {name for name in doubtful if _is_stale(topics[name])}
        if doubtful:
            # The limits may have been changed since they were read.
            life.topics.forget(doubtful)
            topics_now = {**topics, **await life.topics.resolve(doubtful)}
            if topics_now != topics:
                layout = life.packer.pack(batch.records, [topics_now[name] for name in names])
        return layout

    def _with_silent(self, topics: Mapping[str, KafkaTopic | Unusable]) -> dict[str, KafkaTopic | Unusable]:
        """Return the topics. While an earlier request for a topic may still arrive, without a fence against it, the
        topic is unusable.
        """
        now = time.monotonic()
        self._silent = {name: until for name, until in self._silent.items() if until > now}
        silent = {name for name in self._silent if isinstance(topics.get(name), KafkaTopic)}
        return {**topics, **{name: Unusable("no_answer", _MAY_ARRIVE.format(name)) for name in silent}}

    async def _deliver(self, life: _Life, batch: Batch, layout: BatchLayout) -> Receipt:
        if self._options.mode == "idempotent":
            return await self._produce(life, batch, layout)
        if not layout.partitions or (layout.refused and batch.number is not None):
            return Receipt((), layout.refused)
        with translated("waiting for acknowledgements"):
            async with asyncio.timeout(self._options.delivery_seconds):
                return await self._commit(life, batch, layout)

    async def _produce(self, life: _Life, batch: Batch, layout: BatchLayout) -> Receipt:
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
                answers = await self._answers(life, wave, deadline, is_probe=batch.is_probe)
            except SinkUnavailable as trouble:
                if not acknowledged:
                    raise
                return Receipt(acknowledged, layout.refused, reopen=True, trouble=trouble)
            acknowledged += [r for b, error in zip(wave, answers, strict=True) if error is None for r in b.records]
            if failed := _failed(wave, answers):
                return await self._refused(life, failed, acknowledged, layout.refused)
        self._passed(layout)
        return Receipt(acknowledged, layout.refused)

    async def _commit(self, life: _Life, batch: Batch, layout: BatchLayout) -> Receipt:
        producer, deadline = life.producer, time.monotonic() + self._options.delivery_seconds
        await producer.begin()
        for position, wave in enumerate(waves(layout.partitions)):
            if position == 0 and batch.number is not None:
                # The marker is written while the records are sent; both are committed together.
                producer.mark(life.progress_group, self._options.progress_topic, batch.number)
            await producer.submit(wave)
            answers = await self._answers(life, wave, deadline, is_probe=batch.is_probe)
            if failed := _failed(wave, answers):
                return await self._refused(life, failed, (), ())
        if batch.number is not None:
            await producer.marked()
            await batch.written()
        await producer.commit()
        self._passed(layout)
        if layout.refused:
            return Receipt([r for lane in layout.partitions for b in lane for r in b.records], layout.refused)
        return Receipt(batch.records)

    async def _answers(
        self, life: _Life, wave: Sequence[KafkaBatch], deadline: float, *, is_probe: bool
    ) -> list[BaseException | None]:
        """Wait for the answers to a wave. A topic whose batch has none, and which takes no records, fails its batch."""
        began_at = time.monotonic()
        while True:
            answers = await life.producer.answers(min(_DOUBT_SECONDS, max(deadline - time.monotonic(), 0.0)))
            now = time.monotonic()
            self._answered.update(
                (batch.topic, now) for batch, answer in zip(wave, answers, strict=True) if answer is not UNANSWERED
            )
            silent = {batch.topic for batch, answer in zip(wave, answers, strict=True) if answer is UNANSWERED}
            if not silent or now >= deadline:
                return answers
            found = await life.topics.unusable(silent)
            if not found and now - began_at >= _SILENT_SECONDS:
                found = self._silenced(life, silent, now, is_probe=is_probe)
            if found:
                return [
                    TopicUnusable(found[batch.topic]) if answer is UNANSWERED and batch.topic in found else answer
                    for batch, answer in zip(wave, answers, strict=True)
                ]

    def _silenced(self, life: _Life, silent: Set[str], now: float, *, is_probe: bool) -> Mapping[str, Unusable]:
        """Return these topics as unusable if Kafka answers for others, or if only they are tried. Raise SinkUnavailable
        where the transaction cannot begin.
        """
        if life.producer.waits_for_coordinator:
            raise SinkUnavailable("the last transaction cannot end, or its coordinator does not answer")
        self._answered = {topic: at for topic, at in self._answered.items() if now - at < _ALIVE_SECONDS}
        if not is_probe and silent >= self._answered.keys():
            return {}
        return {topic: Unusable("no_answer", _NO_ANSWER.format(topic, _SILENT_SECONDS)) for topic in silent}

    async def _refused(
        self, life: _Life, failed: _Failed, acknowledged: Sequence[Record], refused: Sequence[Refusal]
    ) -> Receipt:
        """Return the receipt for failed Kafka batches; raise their error where it concerns the broker and not the
        records.
        """
        verdicts = [sink_error(error) for _, error in failed]
        if fenced := next((verdict for verdict in verdicts if isinstance(verdict, Fenced)), None):
            raise fenced
        refusals = [*refused, *(refusal for batch, error in failed for refusal in self._judged(batch, error))]
        life.topics.forget({batch.topic for batch, error in failed if blame(error) != "sink"})
        troubles = [v for v, (_, error) in zip(verdicts, failed, strict=True) if blame(error) == "sink"]
        trouble = next((one for one in troubles if isinstance(one, SinkUnavailable)), None)
        if not acknowledged and not refusals:
            raise verdicts[0]
        goes_on = trouble is None and await life.producer.refused(failed)
        if trouble is None and self._options.mode == "idempotent":
            until = time.monotonic() + self._options.request_seconds
            self._silent.update((b.topic, until) for b, error in failed if isinstance(error, TopicUnusable))
            life.knows_the_silent = True
        return Receipt(acknowledged, refusals, reopen=not goes_on, trouble=trouble)

    def _judged(self, batch: KafkaBatch, error: BaseException) -> list[Refusal]:
        """Return the refusals of a failed batch: of the records that the broker names, else of one alone, else of the
        topics. Records whose culprit is not known then travel alone, so that the next answer names it.
        """
        culprit = blame(error)
        if culprit == "sink":
            return []
        if culprit == "record" and isinstance(error, RefusedBatch):
            named = sorted(position for position in error.records if position < len(batch.records))
            if not named and len(batch.records) == 1:
                named = [0]
            if named:
                return _first_of_each_key(
                    Refusal(batch.records[n], "record", "refused_by_broker", error.line(n)) for n in named
                )
            self._alone.add(batch.topic)
        reason = error.why.reason if isinstance(error, TopicUnusable) else "topic_refused"
        firsts = {(record.tenant, record.topic): record for record in reversed(batch.records)}
        return [Refusal(record, "topic", reason, described(error)) for record in firsts.values()]

    def _passed(self, layout: BatchLayout) -> None:
        """Note that whole batches of these topics were kept."""
        if self._alone:
            self._alone.difference_update(batch.topic for lane in layout.partitions for batch in lane)

    async def close(self) -> None:
        """Discard the producer, within a few seconds and without sending waiting records."""
        life, self._life = self._life, None
        if life is None:
            return
        life.over = True
        all_answered = await life.producer.discard()
        await life.admin.close()
        if not all_answered and not life.knows_the_silent and self._options.mode == "idempotent":
            self._silent_until = time.monotonic() + self._options.request_seconds


def _scope(term: Term) -> str:
    return f"{term.layout}.{term.group}"


def _is_stale(topic: KafkaTopic | Unusable) -> bool:
    return isinstance(topic, KafkaTopic) and time.monotonic() - topic.read_at > _FRESH_SECONDS


def _failed(wave: Sequence[KafkaBatch], answers: Sequence[BaseException | None]) -> _Failed:
    return [(batch, answer) for batch, answer in zip(wave, answers, strict=True) if answer is not None]


def _first_of_each_key(refusals: Iterable[Refusal]) -> list[Refusal]:
    """Return the first refusal of each key: its later records wait behind it. Each record without a key is its own."""
    firsts: dict[tuple[str, str, str | int], Refusal] = {}
    for refusal in refusals:
        record = refusal.record
        firsts.setdefault((record.tenant, record.topic, record.id if record.key is None else record.key), refusal)
    return list(firsts.values())
