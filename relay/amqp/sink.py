"""AMQP sink: events become confirmed, persistent messages on a durable topic exchange.

The promise (``window="record"``): in order per key and at least once. Only the one message of a key whose confirmation
did not arrive is repeated. A relay that dies between confirmation and purge repeats the records that it had not purged.
A key's record is purged before its next record is handed to ``send``, so repeats are adjacent (RR-01).

A message counts as sent once the broker has confirmed it. A message that no queue would take is not sent: its topic
waits, durably and in order, until a queue is bound. Then the hold's next probe passes and the rest follows (RQ-01,
F26).

The broker's answers and their results:

===================================  =================================================================================
confirmed                            acknowledged
returned (no queue is bound)         refusal of the topic, "unroutable"
exchange missing, not authorised     refusal of the topic, "exchange_unusable"
too large, malformed                 refusal of the record
nack (queue full: reject-publish)    SinkUnavailable: back-pressure (RQ-02)
blocked (memory or disk alarm)       SinkUnavailable after a short wait; the other sinks go on (RQ-11, F25)
connection lost, no answer           SinkUnavailable; outcome unknown, sent again (RQ-04)
===================================  =================================================================================

A closed channel ends all messages that are under way on it, and often the connection too: the client library keeps
writing, and the broker treats frames on a closed channel as a client's error. So the sink is then opened again and
sends one record at a time until a batch has passed. A refusal then concerns a known record.

If the sink fails after some records of a batch were confirmed, it returns a receipt for them; the next send raises the
failure. So confirmed records are purged and not sent again.

The fence is an exclusive lock queue on the publishing connection; see :mod:`relay.amqp.link`.
"""

from __future__ import annotations

from relay.amqp.link import AmqpOptions, Link
from relay.amqp.message import Unsendable, message_of, routing_key_of
from relay.amqp.window import pass_through_window
from relay.record import Record
from relay.sink import Batch, Features, Receipt, Refusal, SinkUnavailable, Term

__all__ = ["AmqpOptions", "AmqpSink"]


class AmqpSink:
    """The adapter of :class:`relay.sink.Sink` for RabbitMQ and other AMQP 0-9-1 brokers with confirms."""

    def __init__(self, options: AmqpOptions) -> None:
        self.name = "amqp"
        self.features = Features(window="record", batch_records_max=options.window_records_max)
        self._options = options
        self._link: Link | None = None
        self._failure: SinkUnavailable | None = None
        self._careful = False

    async def open(self, term: Term) -> None:
        """Connect, take the lock queue and check that the broker confirms. Raise SinkUnavailable.

        A live predecessor keeps the lock, so this fails until it is closed or its heartbeat has expired.
        """
        await self.close()
        lock = f"hookwire.lock.{self._options.incarnation}.{term.sink}.{term.group}"
        self._link = await Link.connect(self._options)
        try:
            await self._link.take_lock(lock)
            await self._link.prepare(lock)
        except BaseException:
            await self.close()
            raise

    async def send(self, batch: Batch) -> Receipt:
        """Send messages of many keys, at most one per key unconfirmed (RQ-08). Raise SinkUnavailable."""
        link = self._usable()
        await link.unblocked()
        link.forget_refused_exchanges()
        records_max = 1 if self._careful else self._options.window_records_max
        alone = records_max == 1 or len(batch.records) == 1

        async def publish(record: Record) -> Refusal | None:
            try:
                message = message_of(
                    record, batch.term.number, own_headers=self._options.own_headers,
                    attributes=self._options.attributes,
                )  # fmt: skip
                routing_key = routing_key_of(record)
            except Unsendable as unsendable:
                return unsendable.refusal
            return await link.publish(record, message, routing_key, alone=alone)

        passage = await pass_through_window(batch.records, publish, records_max=records_max)
        self._failure = passage.failure
        self._careful = link.channel_was_closed or (self._careful and passage.failure is not None)
        if passage.failure is not None and not passage.acknowledged and not passage.refused:
            raise passage.failure
        return Receipt(passage.acknowledged, passage.refused)

    def _usable(self) -> Link:
        if self._failure is not None:
            raise self._failure
        if self._link is None:
            raise SinkUnavailable("the AMQP sink is not open")
        return self._link

    async def close(self) -> None:
        """Close the connection and so free the lock."""
        link, self._link, self._failure = self._link, None, None
        if link is not None:
            await link.close()
