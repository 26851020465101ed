"""AMQP sink: events become confirmed, persistent messages on a durable topic exchange.

What it promises (``window="record"``): per key in order, at least once, and what it repeats is always the one message
of a key whose confirmation did not arrive. (A relay that dies between confirmation and purge repeats what it had not
purged; for adjacent repeats only, RR-01, a key's record is purged before its next is handed to ``send``.) Nothing
counts as sent before the broker has confirmed it, and a message that no queue would take is not sent at all: the
exchange without a bound queue makes every topic wait, durably and in order, until somebody binds one; then the hold's
next probe goes through and the rest follows (RQ-01, F26).

What the broker says, and what follows:

===================================  =================================================================================
confirmed                            acknowledged
returned (no queue is bound)         refusal of the topic, "unroutable"
exchange missing, not authorised     refusal of the topic, "exchange_unusable"
too large, malformed                 refusal of the record
nack (queue full: reject-publish)    SinkUnavailable: back-pressure (RQ-02)
blocked (memory or disk alarm)       SinkUnavailable after a short wait; the other sinks go on (RQ-11, F25)
connection lost, no answer           SinkUnavailable; outcome unknown, sent again (RQ-04)
===================================  =================================================================================

A closed channel ends all messages that are under way on it, and often the connection too: the client library writes
on, and the broker takes frames on a closed channel for a broken client. So after one the sink is opened again and
sends one record at a time, until a batch has passed: then the broker's verdict falls on the record that deserves it.

A batch in which some records were confirmed before the sink failed is reported as a receipt; the failure is raised
by the next send. So what was confirmed is purged, and is not sent a second time.

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
    """The adapter of :class:`relay.sink.Sink` for RabbitMQ and its kin (AMQP 0-9-1 with confirms)."""

    def __init__(self, options: AmqpOptions) -> None:
        self.name = "amqp"
        self.features = Features(window="record", batch_records_max=options.window_records_max)
        self._options = options
        self._link: Link | None = None
        self._failure: SinkUnavailable | None = None
        self._careful = False

    async def open(self, term: Term) -> None:
        """Connect, take the lock queue, see that the broker confirms; raises SinkUnavailable.

        A predecessor that is alive keeps the lock, so this fails until it is closed or its heartbeat has ended it.
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
        """Send with many keys and at most one message per key unconfirmed (RQ-08); raises SinkUnavailable."""
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
        """Drop the connection and with it the lock."""
        link, self._link, self._failure = self._link, None, None
        if link is not None:
            await link.close()
