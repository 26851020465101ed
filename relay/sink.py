"""Sink: the port behind which Kafka, AMQP and the webhook fan-out look alike to the harvester.

Life of a sink under one term::

    open(term) ---> send(batch) ... send(batch) ---> close()
       ^               |  raises Fenced: another term is in force; close and re-elect
       |               |  raises SinkUnavailable: back off, close
       +---------------+

Rules of the port, proven for every adapter by ``tests/contract/test_sink_port.py``:

* ``send`` is called from one task and in order; with ``features.overlap`` > 1 it may be called again before the
  previous call has returned. A later call's record must not overtake a record of the same key that a call did not
  acknowledge.
* ``acknowledged`` means: the broker has confirmed that it keeps the record. Nothing else may leave the outbox.
* A record that the broker refused, or whose destination is missing, comes back as a :class:`Refusal`. Then no later
  record of that key (or of that topic) in the batch has been acknowledged.
* With manifests a batch is committed whole or not at all, because its number stands for all its records. It is
  committed only after :meth:`Batch.written` has returned. The caller removes the manifest of a batch that was not
  committed before it sends another one.
* A refusal concerns its record, or its topic, and no other one: the next call sends the others.
* After SinkUnavailable, OutcomeUnknown or cancellation the sink is closed and opened again before it is used.
* ``open`` fences every predecessor out *before* it returns and may be called again with the same term.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from relay.record import Record

__all__ = [
    "SHARDS", "Batch", "Features", "Fenced", "OrderScope", "Receipt", "Refusal", "Sink", "SinkError", "SinkUnavailable",
    "Term",
]  # fmt: skip

SHARDS = 64
OrderScope = Literal["topic_key", "key"]


@dataclass(frozen=True, slots=True)
class Term:
    """One term over (sink, partition group). ``number`` rises with every change of owner.

    ``layout`` is its numbered layout, and ``groups`` the sink's number of groups in it. ``order_scope`` "key":
    a key is one lane across all topics.
    """

    sink: str
    group: int
    number: int
    layout: int
    batch_no: int
    groups: int = 1
    order_scope: OrderScope = "topic_key"

    @property
    def shards(self) -> Sequence[int]:
        """Return the group's share of the 64 virtual shards: shard s belongs to group s mod N."""
        return range(self.group, SHARDS, self.groups)


@dataclass(frozen=True, slots=True)
class Features:
    """The guarantees and needs of an adapter.

    ``window``: after a failure, "batch" may repeat a whole unacknowledged batch; "record" repeats at most one
    unconfirmed record of each key. ``manifests``: every batch is numbered and written down before it is
    committed, and ``open`` returns the number of the last one that was committed. ``payload``: send needs the
    events' contents. ``purges``: send removes the outbox rows itself, in its own transaction. ``overlap``: batches in
    flight. A batch ends at ``batch_records_max`` records, or with the record that crosses ``batch_bytes_max`` of
    payload. ``small_batch_seconds``: the least time between the beginnings of a small batch and the next, where even a
    small batch costs the broker much. Records gather meanwhile. 0: a small batch costs little.
    """

    window: Literal["batch", "record"]
    batch_records_max: int
    batch_bytes_max: int = 8 * 1024 * 1024
    overlap: int = 1
    manifests: bool = False
    payload: bool = True
    purges: bool = False
    small_batch_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Batch:
    """Records in id order; ``number`` is the manifest's number, None for sinks without manifests. ``is_probe``: its
    topic or key was refused, so the sink looks up its destination anew, and waits less for an answer. ``writing``: the
    manifest is still being written; None: it is stored.
    """

    term: Term
    records: Sequence[Record]
    number: int | None = None
    is_probe: bool = False
    writing: Awaitable[object] | None = None

    async def written(self) -> None:
        """Wait until the manifest is stored; raise the error that kept it from being stored."""
        if self.writing is not None:
            await asyncio.shield(self.writing)


class SinkError(Exception):
    """Base of the exceptions of a sink."""


class SinkUnavailable(SinkError):
    """The broker is down, blocked or unreachable, or an answer never came: back off and open again."""


class Fenced(SinkError):
    """A later term is in force at the broker: give up this term and acquire a lease again. Never a crash."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record that this sink will not take as it is.

    ``scope`` "record": the record itself is at fault, its key must wait. "topic": the destination is (missing
    exchange, not authorised, unroutable), the whole topic must wait. ``detail`` is one safe line.
    """

    record: Record
    scope: Literal["record", "topic"]
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """The outcome of a batch. A record in neither list was not sent and is claimed again.

    ``reopen``: the sink cannot go on as it is (an aborted transaction, a producer that is out of step). Until it is
    closed and opened again it answers every call with an empty receipt, so that nothing overtakes the open records.
    ``trouble`` is the error that stopped the rest; without any acknowledged record it would be
    :class:`SinkUnavailable`.
    """

    acknowledged: Sequence[Record]
    refused: Sequence[Refusal] = field(default=())
    reopen: bool = False
    trouble: SinkUnavailable | None = None


class Sink(Protocol):
    """The port. ``name`` is the sink's name in the outbox."""

    name: str
    features: Features

    async def open(self, term: Term) -> int | None:
        """Fence predecessors out and get ready.

        Returns the number of the last committed batch for sinks with manifests, otherwise None.
        Raises :class:`Fenced`, :class:`SinkUnavailable`.
        """
        ...

    async def send(self, batch: Batch) -> Receipt:
        """Send records; raises :class:`Fenced`, :class:`SinkUnavailable`."""
        ...

    async def close(self) -> None:
        """Release connections within a few seconds; idempotent, never raises an operating error."""
        ...
