"""The ports in memory: a sink with a broker behind it, and a lease whose holder the caller names. For tests.

They keep every rule of :mod:`relay.sink` and :mod:`relay.election.port`, and pass the same conformance suite as the
real ones. Tests control them: faults are attributes of :class:`MemoryBroker`, set at any time::

    broker.missing.add("orders")     that topic has no destination until it is removed again
    broker.record_bytes_max = 10     anything larger is refused for itself
    broker.down = True               open and send raise SinkUnavailable
    broker.answers_lost = 1          the next batch is kept, but its sender never learns it
    broker.valve.clear()              batches wait, in flight, until the valve is set again
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from relay.election.port import Lease, holding
from relay.record import Record
from relay.sink import Batch, Features, Fenced, Receipt, Refusal, SinkUnavailable, Term

__all__ = ["Kept", "MemoryBroker", "MemoryElection", "MemorySink"]


class Kept(NamedTuple):
    """One record in the broker's log, and the term of its sender."""

    term: int
    record: Record


_Lease = tuple[int, int]
"""Layout and group."""


class MemoryBroker:
    """The state that outlives every sink: the log, the fence and the last committed batch of each group, and the
    planned faults.
    """

    def __init__(self) -> None:
        self.log: list[Kept] = []
        self.epochs: Counter[_Lease] = Counter()
        self.committed: dict[_Lease, int] = {}
        self.down = False
        self.answers_lost = 0
        self.missing: set[str] = set()
        self.record_bytes_max: int | None = None
        self.valve = asyncio.Event()
        self.valve.set()

    def ids(self, key: str | None = None, topic: str | None = None) -> list[int]:
        """Return the ids in the log, in order; of one key, of one topic, or all."""
        return [
            kept.record.id
            for kept in self.log
            if (key is None or kept.record.key == key) and (topic is None or kept.record.topic == topic)
        ]

    def judge(self, record: Record) -> Refusal | None:
        """Return whether the broker takes a record."""
        if record.topic in self.missing:
            return Refusal(record, "topic", "topic_missing", f"there is no topic {record.topic}")
        if self.record_bytes_max is not None and len(record.payload) > self.record_bytes_max:
            return Refusal(record, "record", "too_large", f"more than {self.record_bytes_max} bytes")
        return None


class MemorySink:
    """The adapter of :class:`relay.sink.Sink` for a :class:`MemoryBroker`; opening it fences every earlier one."""

    def __init__(self, broker: MemoryBroker, features: Features | None = None, name: str = "kafka") -> None:
        self.name = name
        self.features = features or Features(window="batch", batch_records_max=100, overlap=2)
        self._broker = broker
        self._epoch = 0
        self._lease = (0, 0)
        self._setbacks = 0
        self._broken = True
        self._turn = asyncio.Lock()

    async def open(self, term: Term) -> int | None:
        """Take the fence, with any term's number: a broker grants it to the last caller."""
        if self._broker.down:
            raise SinkUnavailable("the broker in memory is down")
        self._lease = (term.layout, term.group)
        self._broker.epochs[self._lease] += 1
        self._epoch = self._broker.epochs[self._lease]
        self._broken = False
        return self._broker.committed.get(self._lease, 0) if self.features.manifests else None

    async def send(self, batch: Batch) -> Receipt:
        """Store the records in the order of the calls, or refuse them."""
        if not self._epoch:
            raise SinkUnavailable("the sink in memory is not open")
        setbacks = self._setbacks
        async with self._turn:
            await asyncio.sleep(0)  # other calls begin meanwhile, as with any broker that takes its time
            await self._broker.valve.wait()
            if self._broken or setbacks != self._setbacks:
                receipt = Receipt((), reopen=self._broken)
            else:
                receipt = await self._kept(batch)
            if len(receipt.acknowledged) < len(batch.records):
                self._setbacks += 1
            return receipt

    async def _kept(self, batch: Batch) -> Receipt:
        try:
            await batch.written()
        except BaseException:
            self._broken = True
            raise
        return self._keep(batch)

    def _keep(self, batch: Batch) -> Receipt:
        broker = self._broker
        if broker.down:
            self._broken = True
            raise SinkUnavailable("the broker in memory is down")
        if self._epoch < broker.epochs[self._lease]:
            self._broken = True
            raise Fenced("another sink was opened later")
        taken, refused = _divided(batch.records, broker.judge)
        if refused and batch.number is not None:
            return Receipt((), refused)
        broker.log.extend(Kept(batch.term.number, record) for record in taken)
        if batch.number is not None:
            broker.committed[self._lease] = batch.number
        if broker.answers_lost:
            broker.answers_lost -= 1
            self._broken = True
            raise SinkUnavailable("the answer of the broker in memory was lost")
        return Receipt(taken, refused)

    async def close(self) -> None:
        """Forget the fence's epoch; the broker keeps its records."""
        self._epoch = 0
        self._broken = True


def _divided(
    records: Sequence[Record], judge: Callable[[Record], Refusal | None]
) -> tuple[list[Record], list[Refusal]]:
    """Return the records to keep, and one refusal for each key or topic that has to wait from there on."""
    taken: list[Record] = []
    refused: list[Refusal] = []
    waiting: set[tuple[str, str, str | None]] = set()
    for record in records:
        whole_topic, own_key = (record.tenant, record.topic, ""), (record.tenant, record.topic, record.key)
        if whole_topic in waiting or (record.key is not None and own_key in waiting):
            continue
        refusal = judge(record)
        if refusal is None:
            taken.append(record)
            continue
        refused.append(refusal)
        waiting.add(whole_topic if refusal.scope == "topic" else own_key)
    return taken, refused


class MemoryElection:
    """The one lease of a sink, in memory. Its holder can lose the leadership or be asked to leave.

    ``grant`` makes the term of a new lease; by default terms count up from 1 without a database.
    """

    def __init__(self, grant: Callable[[], Awaitable[Term]] | None = None, sink: str = "kafka") -> None:
        self.terms: list[Term] = []
        self.free = asyncio.Event()
        self.free.set()
        self._grant = grant
        self._sink = sink
        self._held: Lease | None = None

    async def acquire(self) -> Lease:
        """Wait until the lease is free, then take it."""
        while not self.free.is_set():  # all waiting tasks are woken
            await self.free.wait()
        self.free.clear()
        try:
            term = await self._grant() if self._grant else Term(self._sink, 0, len(self.terms) + 1, 1, 0)
        except BaseException:
            self.free.set()
            raise
        self.terms.append(term)
        self._held = Lease(term)
        return self._held

    @asynccontextmanager
    async def hold(self, lease: Lease) -> AsyncIterator[None]:
        """Keep the lease until the block ends or :meth:`lose_leadership` is called; then it is free."""
        try:
            async with holding(lease):
                yield
        finally:
            self._held = None
            self.free.set()

    async def end_candidacy(self) -> None:
        """Do nothing: no other process takes part."""

    def trusted(self, group: int) -> bool:
        """Return whether the lease is held and not lost."""
        return self._held is not None and self._held.term.group == group and not self._held.lost.is_set()

    def lose_leadership(self) -> None:
        """End the present term, as a lease that could not be renewed does."""
        if self._held is not None:
            self._held.lose("the test ended the leadership")

    def ask(self) -> None:
        """Ask the holder to leave, as a relay that joins does."""
        if self._held is not None:
            self._held.ask()
