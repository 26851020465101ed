"""AMQP sink: events become confirmed, persistent messages on a durable topic exchange.

Guarantee (``window="record"``): in order per key and at least once. A message is repeated if its confirmation did not
arrive, or if the relay ended before it purged the record. ``send`` gets a key's next record only after the purge of the
previous record, so a repetition directly follows its original.

A message counts as sent once the broker has confirmed it. If no queue is bound for a message, its topic waits durably
and in order until a probe reaches a queue.

The broker's answers and their results:

===================================  =================================================================================
confirmed                            acknowledged
returned (no queue is bound)         refusal of the topic, "unroutable"
exchange missing, not authorised     refusal of the topic, "exchange_unusable" or "refused_by_broker"
too large, malformed                 refusal of the record
nack (queue full: reject-publish)    refusal of the topic, "queue_full": back-pressure on it alone
no answer for this one alone         refusal of the topic, "unconfirmed": a queue has failed; its outcome is unknown
blocked (memory or disk alarm)       SinkUnavailable after a short wait; other sinks continue
connection lost, no answer           SinkUnavailable; the outcome is unknown, so it is sent again
another virtual host is unusable     refusal of the topic, "vhost_unavailable"; see :mod:`relay.amqp.other_vhosts`
===================================  =================================================================================

When the broker closes a channel, all messages in flight on it fail. The text names the exchange or the size of the one
to blame, and the others are sent again on a new channel (:mod:`relay.amqp.closing`). Where it names none, the sink
sends one record at a time until a batch has passed, so that a refusal concerns a known record. If the connection fails
too, the sink is opened again.

If the sink fails after some records of a batch were confirmed, it returns a receipt for these records. The next send
raises the failure. So confirmed records are purged and not sent again.

A record of a mirror that was read from the mirrored exchange itself is not sent: the exchange has it already.

The fence is an exclusive lock queue on the publishing connection; see :mod:`relay.amqp.link`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from event.digest import short_digest
from relay.amqp.link import AmqpOptions, Link
from relay.amqp.message import Unsendable, message_of, routing_key_of
from relay.amqp.other_vhosts import OtherVhosts
from relay.amqp.suspects import Suspects
from relay.amqp.window import Passage, pass_through_window
from relay.record import Record
from relay.sink import Batch, Features, Receipt, Refusal, SinkUnavailable, Term
from relay.source import FROM_MIRROR_HEADER

__all__ = ["AmqpOptions", "AmqpSink"]

_PROBE_SECONDS = 2.0
"""How long a probe waits for its confirmation. Other topics wait behind it."""


class AmqpSink:
    """The adapter of :class:`relay.sink.Sink` for RabbitMQ and other AMQP 0-9-1 brokers with publisher confirms."""

    def __init__(self, options: AmqpOptions) -> None:
        self.name = "amqp"
        self.features = Features(window="record", batch_records_max=options.window_records_max)
        self._options = options
        self._link: Link | None = None
        self._failure: SinkUnavailable | None = None
        self._careful = False
        self._suspects = Suspects()
        self._elsewhere = OtherVhosts(options)

    async def open(self, term: Term) -> None:
        """Connect, take the lock queue and check that the broker confirms messages. Raise SinkUnavailable.

        This fails until the predecessor has closed its connection or has missed its heartbeats.
        """
        await self.close()
        lock = f"hookwire.lock.{self._options.incarnation}.{_named(term.sink)}.{term.group}"
        self._link = await Link.connect(self._options, self._suspects)
        try:
            await self._link.take_lock(lock)
            await self._link.prepare(lock, self._options.exchange)
            self._elsewhere.open(lock)
        except BaseException:
            await self.close()
            raise

    async def send(self, batch: Batch) -> Receipt:
        """Send a batch with at most one unconfirmed message per key. Raise SinkUnavailable."""
        link = self._usable()
        await link.unblocked()
        link.forget_refused_exchanges()
        self._elsewhere.begin_batch()
        first_alone = 1 if batch.is_probe else 0
        passage = await self._pass(link, batch, batch.records[:first_alone], _PROBE_SECONDS)
        if passage.failure is None:
            passage.extend(await self._pass(link, batch, passage.left_of(batch.records[first_alone:])))
        self._failure = passage.failure
        self._careful = link.channel_was_closed or (self._careful and passage.failure is not None)
        if passage.failure is not None and not passage.acknowledged and not passage.refused:
            raise passage.failure
        return Receipt(passage.acknowledged, passage.refused)

    async def _pass(
        self, link: Link, batch: Batch, records: Sequence[Record], seconds_max: float = math.inf
    ) -> Passage:
        """Send some records of a batch: one at a time where the cause of a closed channel is searched."""
        seconds = min(seconds_max, self._options.publish_seconds)
        records_max = 1 if self._careful else self._options.window_records_max
        alone = records_max == 1 or len(records) == 1

        async def publish(record: Record) -> Refusal | None:
            if record.amqp_exchange_type is not None and FROM_MIRROR_HEADER in record.headers:
                return None
            try:
                message = message_of(
                    record, batch.term.number, own_headers=self._options.own_headers,
                    attributes=self._options.attributes,
                )  # fmt: skip
                routing_key = routing_key_of(record)
            except Unsendable as unsendable:
                return unsendable.refusal
            vhost = record.amqp_vhost
            if vhost is None or vhost == self._options.vhost:
                return await link.publish(record, message, routing_key, alone=alone, seconds=seconds)
            return await self._elsewhere.publish(vhost, record, message, routing_key, alone=alone, seconds=seconds)

        return await pass_through_window(records, publish, records_max=records_max)

    def _usable(self) -> Link:
        if self._failure is not None:
            raise self._failure
        if self._link is None:
            raise SinkUnavailable("the AMQP sink is not open")
        return self._link

    async def close(self) -> None:
        """Close the connection, which frees the lock."""
        link, self._link, self._failure = self._link, None, None
        await self._elsewhere.close()
        if link is not None:
            await link.close()


def _named(sink: str) -> str:
    """Return the part of the lock queue's name that stands for a sink. No queue's name may have the quotes of a table's
    name, so this is its hash.
    """
    return sink if sink.isalnum() and sink.isascii() else short_digest(sink)
