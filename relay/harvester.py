"""Harvester: for one sink, claim what is owed, send it, purge what was acknowledged.

::

    stand for election --> open sink --> read the term again --> settle manifests --> stream
          ^                    ^                                                        |
          |                    +---- back off <---- SinkUnavailable, DatabaseError -----+
          +------------------------- Deposed, Fenced -----------------------------------+

The order of a take-over is RO-04's. "Read the term again" is needed because a broker grants its fence to
whoever asks last: a leader that wakes up late could fence the rightful one; it finds out here and steps down.

Several batches may be in flight (``features.overlap``); the next claim skips them in memory. What was
acknowledged but could not be purged yet stays in memory too and is not sent again by this reign.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from db.errors import DatabaseError
from relay.election import Deposed, Election
from relay.hold import Hold, Holds
from relay.metrics import RelayMetrics
from relay.outbox import Outbox
from relay.record import Record
from relay.sink import Batch, Fenced, Receipt, Sink, SinkUnavailable, Term
from relay.wake import Wake

__all__ = ["Harvester", "HarvesterOptions", "MarkerAhead"]

_log = structlog.get_logger(__name__)


class MarkerAhead(Exception):  # noqa: N818 - a finding, for a person to resolve
    """The broker has committed a batch that this database never wrote: a restored or cloned database (RP-10)."""


@dataclass(frozen=True, slots=True)
class HarvesterOptions:
    """``shards``: which of the 64 this harvester owns; ``linger_seconds``: the pause after a small batch, so that
    an even trickle is carried in batches; ``backoff_seconds_max``: the longest pause while a broker is down."""

    shards: Sequence[int]
    linger_seconds: float = 0.002
    backoff_seconds_first: float = 0.2
    backoff_seconds_max: float = 5.0


class Harvester:
    """Carries one sink's records for as long as :meth:`run` runs. ``state`` is one word for people."""

    def __init__(
        self, sink: Sink, election: Election, outbox: Outbox, holds: Holds, wake: Wake,
        metrics: RelayMetrics, options: HarvesterOptions,
    ) -> None:  # fmt: skip
        self.name = f"harvester {sink.name}"
        self.state = "standby"
        self.last_error = ""
        self._sink = sink
        self._election = election
        self._outbox = outbox
        self._holds = holds
        self._wake = wake
        self._metrics = metrics
        self._options = options
        self._stopping = asyncio.Event()
        self._in_flight: dict[int, Record] = {}
        self._unpurged: dict[int, tuple[Batch, list[Record]]] = {}

    def stop(self) -> None:
        """Soft stop: finish what is in flight, purge it, free the seat."""
        self._stopping.set()
        self._wake.ring()

    async def run(self) -> None:
        """Stand, reign, stand again, until stopped."""
        while not self._stopping.is_set():
            try:
                await self._one_reign()
            except (Deposed, Fenced) as over:
                _log.warning("leader_fenced", sink=self._sink.name, reason=str(over))
                await self._pause(self._options.backoff_seconds_first)
            except DatabaseError as error:
                self._report(error)
                await self._pause(self._options.backoff_seconds_max / 5)
        self.state = "stopped"

    async def _one_reign(self) -> None:
        self.state = "standby"
        term = await self._elected()
        if term is None:
            return
        self._metrics.term(self._sink.name, term.number)
        self._outbox.begin(self._options.shards)
        self._unpurged.clear()
        async with self._election.reign(term):
            await self._govern(term)

    async def _elected(self) -> Term | None:
        """The term, or None when we were stopped first."""
        campaign = asyncio.ensure_future(self._election.campaign())
        stopped = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({campaign, stopped}, return_when=asyncio.FIRST_COMPLETED)
            return campaign.result() if campaign.done() else None
        finally:
            for task in (campaign, stopped):
                task.cancel()
            await asyncio.gather(campaign, stopped, return_exceptions=True)

    async def _govern(self, term: Term) -> None:
        """Open the sink and stream, again and again while the broker or the database fails."""
        backoff = self._options.backoff_seconds_first
        while not self._stopping.is_set():
            try:
                term = await self._take_over(term)
                backoff = self._options.backoff_seconds_first
                self.state = "leading"
                await self._stream(term)
            except (SinkUnavailable, DatabaseError) as error:
                self.state = "backing off"
                self._report(error)
                await self._pause(backoff)
                backoff = min(backoff * 2, self._options.backoff_seconds_max)
            finally:
                self._in_flight.clear()
                await self._sink.close()

    async def _take_over(self, term: Term) -> Term:
        committed = await self._sink.open(term)
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
        for number, (batch, records) in list(self._unpurged.items()):
            await self._outbox.purge(batch, records)
            del self._unpurged[number]
        await self._holds.begin()
        return term

    async def _stream(self, term: Term) -> None:
        slots = asyncio.Semaphore(self._sink.features.overlap)
        try:
            async with asyncio.TaskGroup() as carriers:
                while not self._stopping.is_set():
                    await slots.acquire()
                    batch = await self._next_batch(term)
                    if batch is None:
                        slots.release()
                        await self._idle(term, slots)
                        continue
                    carriers.create_task(self._carry(batch, slots), name=f"{self._sink.name} batch")
                    if len(batch.records) * 4 < self._sink.features.batch_records_max:
                        await asyncio.sleep(self._options.linger_seconds)
        except BaseExceptionGroup as failed:
            raise _foremost(failed) from failed

    async def _next_batch(self, term: Term) -> Batch | None:
        """Claim, set aside what must wait behind a hold, number the rest."""
        records = await self._outbox.claim(term, self._in_flight, self._sink.features.batch_records_max)
        waiting = [record for record in records if self._holds.covering(record) is not None]
        if waiting:
            await self._holds.place(term, (), waiting)
            held = {record.id for record in waiting}
            records = [record for record in records if record.id not in held]
        if not records:
            return None
        self._wake.busy()
        return await self._numbered(term, records)

    async def _numbered(self, term: Term, records: Sequence[Record]) -> Batch:
        if self._sink.features.manifests:
            batch = await self._outbox.write_manifest(term, records)
        else:
            batch = Batch(term, records)
        self._in_flight.update((record.id, record) for record in records)
        return batch

    async def _carry(self, batch: Batch, slots: asyncio.Semaphore) -> None:
        receipt = await self._sink.send(batch)
        await self._settle(batch, receipt)
        for record in batch.records:
            self._in_flight.pop(record.id, None)
        slots.release()

    async def _settle(self, batch: Batch, receipt: Receipt) -> None:
        acknowledged = list(receipt.acknowledged)
        self._metrics.acknowledged(self._sink.name, len(acknowledged))
        if not self._sink.features.purges and (acknowledged or batch.number is not None):
            self._unpurged[id(batch)] = (batch, acknowledged)
            await self._outbox.purge(batch, acknowledged)
            del self._unpurged[id(batch)]
        if receipt.refused:
            self._metrics.refused(self._sink.name, len(receipt.refused))
            for refusal in receipt.refused:
                _log.warning(
                    "record_refused", sink=self._sink.name, event_id=refusal.record.event_id,
                    topic=refusal.record.topic, scope=refusal.scope, reason=refusal.reason, detail=refusal.detail,
                )  # fmt: skip
            await self._holds.place(batch.term, receipt.refused)

    async def _idle(self, term: Term, slots: asyncio.Semaphore) -> None:
        """Nothing to claim: the moment for holds, the low-water mark, and waiting."""
        await self._outbox.advance_low_water()
        for hold, attempts in await self._holds.due():
            await self._drain(term, hold, attempts, slots)
        await self._wake.wait()

    async def _drain(self, term: Term, hold: Hold, attempts: int, slots: asyncio.Semaphore) -> None:
        """Probe a hold with its oldest record, then send the rest in order; lift it when it is empty."""
        limit = 1
        while not self._stopping.is_set():
            records = await self._holds.claim(term, hold, limit)
            if not records:
                if await self._holds.lift(term, hold):
                    _log.info("hold_lifted", sink=self._sink.name, topic=hold.topic, key=hold.key)
                return
            batch = await self._numbered(term, records)
            receipt = await self._sink.send(batch)
            await self._holds.purge(receipt.acknowledged)
            if batch.number is not None:
                await self._outbox.purge(batch, receipt.acknowledged)
            self._in_flight.clear()
            self._metrics.acknowledged(self._sink.name, len(receipt.acknowledged))
            for refusal in receipt.refused:
                if hold.key == "" and refusal.scope == "record":
                    await self._holds.single_out(term, refusal, records)
                else:
                    await self._holds.postpone(hold, attempts, refusal.detail)
                    return
            limit = self._sink.features.batch_records_max

    async def _pause(self, seconds: float) -> None:
        """Wait, but not beyond a stop."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    def _report(self, error: Exception) -> None:
        self.last_error = str(error)
        self._metrics.failed(self._sink.name)
        _log.warning("relay_backs_off", sink=self._sink.name, error=str(error))


def _foremost(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Of what ended a stream: a bug first, then being deposed, then operating errors."""
    operating = (SinkUnavailable, DatabaseError)
    ranked = sorted(
        group.exceptions, key=lambda e: 2 if isinstance(e, operating) else 1 if isinstance(e, Deposed | Fenced) else 0
    )
    return ranked[0]
