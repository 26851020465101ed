"""Harvester: for one partition group of a sink, claim records, send them, purge acknowledged records.

::

    lease, from relay.sink_relay --> open sink --> read the term again --> settle manifests --> stream --+
          ^                        ^  ^                                                      |     |
          |                        |  +------------ the sink asks to be reopened -------------+     |
          |                        +--- back off <--- SinkUnavailable, DatabaseError ---------------+
          +------------------------- asked for, LeadershipLost, Fenced -------------------------------------+

The order of a take-over matters. "Read the term again" is needed because a broker grants its fence to the last
caller. A leader that wakes up late could fence the rightful one; it detects that here and stops.

Several batches may be in flight (``features.overlap``); the next claim skips their records. Acknowledged records that
could not be purged yet also stay in memory. This term does not send them again.

A receipt that leaves records open is a setback. Batches claimed before it may hold later records of the same keys, so
they go back unsent. The next claim waits until their manifests are gone and the holds exist. A later number must not be
committed while an earlier manifest stands.

Held records are probed after claims (`relay.holds.probes`), while nothing is in flight.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

import structlog

from db.errors import DatabaseError
from relay.election.port import Election, LeadershipLost, Lease
from relay.holds.hold import Holds
from relay.holds.probes import HoldProbes
from relay.key_order import one_topic_of_each_key, refusals_by_key, rounds_by_key
from relay.metrics import RelayMetrics
from relay.observer import Observer
from relay.outbox import LowWater, Outbox
from relay.record import Record
from relay.sink import Batch, Fenced, Receipt, Refusal, Sink, SinkUnavailable, Term
from relay.sink_trouble import SinkTrouble
from relay.unpurged import Acknowledged, Unpurged
from runtime.cancellation import TaskGroup, end_if_cancelled
from runtime.pause import pause
from runtime.semaphore import all_of
from runtime.wake import Wake

__all__ = ["Harvester", "HarvesterOptions", "MarkerAhead"]

_log = structlog.get_logger(__name__)


class MarkerAhead(Exception):
    """The broker has committed a batch that this database never wrote: a restored or cloned database."""


@dataclass(frozen=True, slots=True)
class HarvesterOptions:
    """Times of a harvester. ``linger_seconds``: the least pause between two claims, unless much waits. So a slow steady
    flow goes in batches, and a first event at once. ``backoff_seconds_max``: the longest pause while a broker is down.
    ``database_seconds``: the pause while the database fails. ``refused_seconds``: the pause between two checks of a
    progress marker that is ahead.
    """

    linger_seconds: float = 0.005
    backoff_seconds_first: float = 0.2
    backoff_seconds_max: float = 5.0
    database_seconds: float = 0.5
    refused_seconds: float = 30.0


class Harvester:
    """Carries the records of one partition group of a sink, a term at a time. ``state`` is one word for people."""

    def __init__(
        self, sink: Sink, outbox: Outbox, holds: Holds, wake: Wake, metrics: RelayMetrics, options: HarvesterOptions,
        observer: Observer | None = None,
    ) -> None:  # fmt: skip
        self.state = "standby"
        self._sink = sink
        self._outbox = outbox
        self._holds = holds
        self._wake = wake
        self._metrics = metrics
        self._options = options
        self._observer = observer or Observer(sink.name)
        self._trouble = SinkTrouble()
        self._turn = asyncio.Lock()
        self._asked = asyncio.Event()
        self._backoff_seconds = options.backoff_seconds_first
        self._rest: list[Record] = []
        self._setbacks = 0
        self._answered = asyncio.Event()
        self._reopening = False
        self._in_flight: dict[int, Record] = {}
        self._unpurged = Unpurged(sink, outbox, holds, metrics)
        self._probes = HoldProbes(sink.features, holds, wake, self._send_held, self._is_over)

    @property
    def last_error(self) -> str:
        """Return the last error, in one line."""
        return self._trouble.last_error

    @property
    def in_flight(self) -> Mapping[int, Record]:
        """Return the records in flight, by id."""
        return self._in_flight

    @property
    def low_water(self) -> LowWater | None:
        """Return the low-water mark of its shards; None while it does not lead them."""
        return self._outbox.low_water if self.state == "leading" else None

    def on_commit(self, shards: frozenset[int]) -> None:
        """Look for new records, which a commit has left in these shards. A leader looks only where some are its own."""
        if self.state != "leading" or not self._outbox.shards.isdisjoint(shards):
            self._wake.notify()

    @property
    def shards(self) -> frozenset[int]:
        """Return the shards that it leads, also while the broker is away."""
        return frozenset() if self.state == "standby" else self._outbox.shards

    def on_poll(self, last_id: int, origin: UUID, *, holds_are_due: bool) -> None:
        """Apply the due poller's result: the last id drawn, its origin, and whether a hold is due for a probe."""
        if holds_are_due:
            self._probes.soon(is_known=True)
        if holds_are_due or not self._outbox.is_carried_through(last_id, origin):
            self._wake.poll()
        self._outbox.note_poll()

    def pass_by(self, ids: Sequence[int], origin: UUID) -> None:
        """Note events that are owed to no sink, and the origin of their ids, so that a poll does not look for them."""
        self._outbox.pass_by(ids, origin)

    async def lead(self, election: Election, lease: Lease) -> None:
        """Hold a lease until it is asked for or lost. Finish and purge the records in flight when it is asked for. One
        term at a time: this process may get a lease again while it is still leaving it.
        """
        leader_id = _leader_id(lease.term)
        try:
            async with election.hold(lease), self._turn:
                self._asked, lease.notify = lease.asked, self._wake.notify
                self._metrics.term(self._sink.name, lease.term.group, lease.term.number)
                self._unpurged.forget()
                self._observer.acquired(leader_id)
                await self._govern(lease.term)
        except LeadershipLost as over:
            end_if_cancelled()
            self._observer.fenced(leader_id, str(over))
        finally:
            self._observer.revoked(leader_id)
            self._trouble.forget()
            self.state = "standby"

    async def _govern(self, term: Term) -> None:
        """Relay until the lease is asked for; open the sink anew after a failure of the broker or the database."""
        self._backoff_seconds = self._options.backoff_seconds_first
        while not self._asked.is_set():
            try:
                await self._serve(term)
            except Fenced as over:
                end_if_cancelled()
                # The process that fenced us may be a former leader. Acquire again, for a term above its own.
                self._observer.fenced(_leader_id(term), str(over))
                await pause(self._asked, self._options.backoff_seconds_first)
                return
            except MarkerAhead as finding:
                # Only a person can resolve it; the other sinks go on meanwhile.
                self.state = "refused"
                self._report(term, finding)
                await pause(self._asked, self._options.refused_seconds)
            except (SinkUnavailable, DatabaseError) as error:
                end_if_cancelled()
                self.state = "backing off"
                self._report(term, error)
                await pause(self._asked, self._seconds_after(error))

    def _seconds_after(self, error: SinkUnavailable | DatabaseError) -> float:
        if isinstance(error, DatabaseError):
            return self._options.database_seconds
        seconds = self._backoff_seconds
        self._backoff_seconds = min(seconds * 2, self._options.backoff_seconds_max)
        return seconds

    async def _serve(self, term: Term) -> None:
        """Serve one life of the sink, from open to close."""
        try:
            term = await self._take_over(term)
            self.state = "leading"
            await self._stream(term)
        finally:
            self._in_flight.clear()
            self._metrics.in_flight(self._sink.name, term.group, 0)
            await self._sink.close()

    async def _take_over(self, term: Term) -> Term:
        # The cause of the reopening may have been another database: trust no low-water mark.
        self._outbox.begin(term.shards)
        if not await self._outbox.recognise():
            self._unpurged.forget()  # their ids may now belong to other events
        committed = await self._sink.open(term)
        end_if_cancelled()
        term = await self._outbox.assert_term(term)
        if committed is not None:
            if committed > term.batch_no:
                raise MarkerAhead(
                    f"{self._sink.name} has committed batch {committed}, this database has written only "
                    f"{term.batch_no}: it was restored or cloned; see docs/how-to/restore.md"
                )
            published = await self._outbox.settle_manifests(term, committed)
            if published:
                _log.info("manifest_settled", sink=self._sink.name, records=published)
        await self._unpurged.purge_all()
        await self._holds.begin(term)
        # Otherwise the first claims would read all rows that were purged and not vacuumed.
        await self._outbox.advance_low_water()
        return term

    async def _stream(self, term: Term) -> None:
        """Claim and send until stopped or reopening; ends when nothing is in flight."""
        slots = asyncio.Semaphore(self._overlap(term))
        self._reopening = False
        self._rest = []
        was_notified = False
        setbacks = self._setbacks
        try:
            async with TaskGroup() as carriers:
                while not self._is_over():
                    # Claim first, so that an event after a quiet hour does not wait.
                    await slots.acquire()
                    if setbacks != self._setbacks:
                        slots.release()
                        setbacks = await self._recovered(term, slots)
                        continue
                    batch = await self._next_batch(term, carriers)
                    if batch is not None and not was_notified:
                        self._wake.busy()  # more may come from transactions without a notification
                    lingers_until = time.monotonic() + self._pause_seconds(batch)
                    if batch is None:
                        slots.release()
                    else:
                        self._answered.clear()
                        carriers.create_task(self._carry(batch, setbacks, slots), name=f"{self._sink.name} batch")
                    await self._outbox.advance_low_water()
                    await self._probes.probe(term, slots, self._overlap(term), is_busy=batch is not None)
                    # Records after a setback are not in flight, but still owed.
                    if batch is None and not self._in_flight and setbacks == self._setbacks and not self._is_over():
                        self._trouble.over(sink=self._sink.name, group=term.group)
                    if batch is None or (was_notified and self._outbox.took_all and term.order_scope != "key"):
                        # All visible records are in flight: the next claim can wait for the next event.
                        was_notified = await self._wake.wait()
                    if self._is_small(batch):
                        # Pause after an empty claim too, because most notifications are for other groups.
                        await asyncio.sleep(lingers_until - time.monotonic())
                        if batch is not None and self._sink.features.small_batch_seconds:
                            await self._answered.wait()
        except BaseExceptionGroup as failed:
            raise _foremost(failed) from failed

    async def _recovered(self, term: Term, slots: asyncio.Semaphore) -> int:
        """Wait until the manifests of all unsent batches are gone, and the holds for refused records exist. Return the
        number of setbacks.
        """
        async with all_of(slots, self._overlap(term)):
            return self._setbacks

    def _is_small(self, batch: Batch | None) -> bool:
        return batch is None or len(batch.records) * 4 < self._sink.features.batch_records_max

    def _pause_seconds(self, batch: Batch | None) -> float:
        """Return how long to wait for the next claim after a small batch, or after none."""
        least = 0.0 if batch is None else self._sink.features.small_batch_seconds
        return max(self._options.linger_seconds, least)

    def _overlap(self, term: Term) -> int:
        """Return how many batches may be in flight: only one where keys are in order across topics."""
        return self._sink.features.overlap if term.order_scope == "topic_key" else 1

    def _is_over(self) -> bool:
        return self._asked.is_set() or self._reopening

    async def _next_batch(self, term: Term, carriers: TaskGroup) -> Batch | None:
        """Claim, set aside the records behind holds, number the rest."""
        features = self._sink.features
        while not self._is_over():
            records, self._rest = self._rest, []
            records = records or await self._outbox.claim(
                term, self._in_flight, features.batch_records_max, features.batch_bytes_max
            )
            if not records:
                return None
            if self._holds.any_active:
                records = await self._set_aside(term, records)
            if term.order_scope == "key" and not features.purges:
                records = one_topic_of_each_key(records)
            if records:
                self._in_flight.update((record.id, record) for record in records)
                self._metrics.in_flight(self._sink.name, term.group, len(self._in_flight))
                if not features.manifests:
                    return Batch(term, records)
                return await self._unpurged.begin_manifest(term, records, carriers)
        return None

    async def _set_aside(self, term: Term, records: list[Record]) -> list[Record]:
        """Move records that wait behind a hold to the side table; return the rest."""
        waiting = self._holds.set_aside(records)
        if not waiting:
            return records
        await self._holds.place(term, (), waiting)
        held = {record.id for record in waiting}
        return [record for record in records if record.id not in held]

    async def _send_held(self, term: Term, records: Sequence[Record]) -> Receipt:
        """Send records of holds, as a probe. No other manifest is being written, because nothing is in flight."""
        batch = Batch(term, records)
        if self._sink.features.manifests:
            batch = await self._unpurged.write_manifest(term, records)
        return await self._send(replace(batch, is_probe=True), held=True)

    async def _carry(self, batch: Batch, setbacks: int, slots: asyncio.Semaphore) -> None:
        """Send one batch and record its outcome. Do not send it if a setback has come since its claim began."""
        receipt = await self._send(batch) if setbacks == self._setbacks else await self._left_unsent(batch)
        if receipt.refused:
            refusals = refusals_by_key(batch, receipt)
            await self._holds.place(batch.term, refusals)
            self._probes.soon(is_known=False)
            self._rest = [] if receipt.acknowledged or receipt.reopen else _without(batch.records, refusals)
        slots.release()
        if self._joins_next(batch, receipt):
            await self._unpurged.purge_soon(Acknowledged(batch, batch.records))
        for record in batch.records:
            self._in_flight.pop(record.id, None)
        self._metrics.in_flight(self._sink.name, batch.term.group, len(self._in_flight))
        if len(receipt.acknowledged) < len(batch.records):
            self._wake.notify()

    def _joins_next(self, batch: Batch, receipt: Receipt) -> bool:
        """Return whether the next manifest may purge the batch. With the window "record" each round is purged before
        the next.
        """
        is_whole = len(receipt.acknowledged) == len(batch.records)
        return batch.number is not None and is_whole and self._sink.features.window == "batch"

    async def _send(self, batch: Batch, *, held: bool = False) -> Receipt:
        """Send a batch, round by round; ends with the first round that was not acknowledged whole."""
        acknowledged: list[Record] = []
        for part in self._rounds(batch):
            try:
                receipt = await self._sink.send(part)
            except SinkUnavailable:
                self._metrics.unsettled(self._sink.name, part.term.group, len(part.records))
                raise
            self._note(part, receipt)
            if held or not self._joins_next(part, receipt):
                await self._unpurged.purge(Acknowledged(part, receipt.acknowledged, held=held))
            acknowledged += receipt.acknowledged
            if len(receipt.acknowledged) < len(part.records):
                return Receipt(acknowledged, receipt.refused)
        return Receipt(acknowledged)

    async def _left_unsent(self, batch: Batch) -> Receipt:
        self._note(batch, Receipt(()))
        await self._unpurged.purge(Acknowledged(batch, ()))
        return Receipt(())

    def _rounds(self, batch: Batch) -> Iterable[Batch]:
        """Return the batch. For a sink with the window "record", return rounds: the first record of each key, then the
        second, and so on.

        Each round is purged before the next is sent. So at most one record of a key is ever acknowledged and not yet
        purged. A crash repeats only that record, so its copies are neighbours.
        """
        features = self._sink.features
        return (batch,) if features.window == "batch" or features.purges else rounds_by_key(batch)

    def _note(self, batch: Batch, receipt: Receipt) -> None:
        """Apply a receipt at once, before anything else can run."""
        self._answered.set()
        if len(receipt.acknowledged) < len(batch.records):
            self._setbacks += 1
        self._trouble.hear(receipt, len(batch.records), sink=self._sink.name, group=batch.term.group)
        if receipt.acknowledged:
            self._backoff_seconds = self._options.backoff_seconds_first
            self._metrics.acknowledged(self._sink.name, batch.term.group, len(receipt.acknowledged))
            self._observer.acknowledged(len(receipt.acknowledged))
        if receipt.refused:
            self._metrics.refused(self._sink.name, batch.term.group, len(receipt.refused))
        for refusal, count in _first_of_each_kind(receipt.refused):
            _log.warning(
                "record_refused", sink=self._sink.name, event_id=refusal.record.event_id, records=count,
                topic=refusal.record.topic, scope=refusal.scope, reason=refusal.reason, detail=refusal.detail,
            )  # fmt: skip
        if receipt.trouble is not None:
            unsettled = len(batch.records) - len(receipt.acknowledged) - len(receipt.refused)
            self._metrics.unsettled(self._sink.name, batch.term.group, unsettled)
            self._metrics.failed(self._sink.name, batch.term.group)
        if receipt.reopen:
            self._reopening = True
            self._wake.notify()

    def _report(self, term: Term, error: Exception) -> None:
        self._metrics.failed(self._sink.name, term.group)
        self._trouble.tell(error, sink=self._sink.name, group=term.group)


def _leader_id(term: Term) -> str:
    """Return the name of a term in events."""
    return f"{term.sink}/{term.group}/{term.number}"


def _foremost(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error of a stream: a bug, then a lost leadership, then operating errors."""
    operating = (SinkUnavailable, DatabaseError)
    ranked = sorted(
        group.exceptions,
        key=lambda e: 2 if isinstance(e, operating) else 1 if isinstance(e, LeadershipLost | Fenced) else 0,
    )
    return ranked[0]


def _without(records: Sequence[Record], refusals: Sequence[Refusal]) -> list[Record]:
    """Return the records that the refusal of others kept from being sent. They are the next batch. A new claim could
    bring another refused record each time, and then nothing would ever be sent.
    """
    refused = {refusal.record.id for refusal in refusals}
    return [record for record in records if record.id not in refused]


def _first_of_each_kind(refusals: Sequence[Refusal]) -> list[tuple[Refusal, int]]:
    """Return the first refusal of each topic, scope and reason, with their number."""
    kinds = Counter((r.record.tenant, r.record.topic, r.scope, r.reason) for r in refusals)
    firsts = {(r.record.tenant, r.record.topic, r.scope, r.reason): r for r in reversed(refusals)}
    return [(firsts[kind], count) for kind, count in kinds.items()]
