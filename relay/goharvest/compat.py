"""Compat mode: goharvest's own table relayed to Kafka, by goharvest's rules and without its ceiling.

::

    acquire the lease ---> new identity ----> open sink --> purge confirmed rows ------> mark, send, purge, mark ...
          ^                     ^                                                            |          |
          |                     +-- back off <-- SinkUnavailable, DatabaseError -------------+          |
          +----------------------------- LeadershipLost, Fenced -----------------------------------------------+

* A row leaves the table only after Kafka has confirmed it; one statement deletes a batch.
* The key alone is the unit of order, also across topics. A batch is sent in *rounds*, and within a round a key
  has records of one topic only. The next round is sent when the last is confirmed. Where the sink's window is "record",
  a round has one record of each key and is purged before the next. A repeat after a lost answer then follows the
  original directly, as with goharvest.
* A record that Kafka refuses parks its key; the row stays, unmarked, and is tried again after 2 to 300 seconds. All
  other keys go on.
* After any unknown outcome the identity is new. Everything that was not purged is marked and sent again from the lowest
  id.

The table is a port, :mod:`relay.goharvest.outbox_table`: goharvest's table, or any other table, whose columns are then
mapped. Both may lie in PostgreSQL, or in MariaDB or MySQL.

The lease lies in the same database; the fence is Kafka's transactional id and, for marks, the term's row. goharvest
knows neither, so run only one of the two at a time: they share the table, not the leadership.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import structlog

from db.errors import DatabaseError
from relay.election.port import Election, LeadershipLost, next_lease
from relay.goharvest.outbox_table import OutboxTable, lane_of
from relay.observer import Observer
from relay.record import Record
from relay.sink import Batch, Fenced, Receipt, Refusal, Sink, SinkUnavailable, Term
from relay.sink_trouble import SinkTrouble
from runtime.cancellation import end_if_cancelled
from runtime.wake import Wake

__all__ = ["CompatHarvester", "CompatOptions", "rounds"]

_log = structlog.get_logger(__name__)
_PROBE_SECONDS = 0.25  # between two queries of the parked keys


@dataclass(frozen=True, slots=True)
class CompatOptions:
    """Options, with goharvest's names in parentheses. ``batch_records_max``: rows of one mark (``markQueryRecords``).
    ``backoff_seconds_first``: the first pause after a failure (``ioErrorBackoff``), doubled up to
    ``backoff_seconds_max``. ``poll_seconds_min`` and ``max``: the pause while the table is empty (``markBackoff``),
    doubled while it stays empty.
    """

    batch_records_max: int = 2_000
    backoff_seconds_first: float = 0.5
    backoff_seconds_max: float = 5.0
    poll_seconds_min: float = 0.01
    poll_seconds_max: float = 0.5


class _Carried(NamedTuple):
    """How a batch ended. ``moves``: a record was sent, or a key was parked. ``reopen``: the sink has to be reopened."""

    sent: list[Record]
    moves: bool
    reopen: bool


class CompatHarvester:
    """Relays one table for as long as :meth:`run` runs. ``state`` is one word for people."""

    def __init__(
        self, table: OutboxTable, sink: Sink, election: Election, observer: Observer, options: CompatOptions
    ) -> None:
        self.name = f"harvester {table.name}"
        self.sink_name = table.name
        self.state = "standby"
        self.in_flight: dict[int, Record] = {}
        self._table = table
        self._sink = sink
        self._election = election
        self._observer = observer
        self._trouble = SinkTrouble()
        self._options = options
        self._wake = Wake(options.poll_seconds_min, options.poll_seconds_max)
        self._stopping = asyncio.Event()
        self._asked = asyncio.Event()
        self._backoff_seconds = options.backoff_seconds_first
        self._unpurged: set[int] = set()
        self._probe_at = 0.0

    @property
    def last_error(self) -> str:
        """Return the last error, in one line."""
        return self._trouble.last_error

    def stop(self) -> None:
        """Soft stop: finish the batch in flight, purge it, free the lease."""
        self._stopping.set()
        self._wake.notify()

    async def run(self) -> None:
        """Acquire a lease, lead, acquire again, until stopped."""
        while not self._stopping.is_set():
            self.state = "standby"
            try:
                await self._one_term()
            except (LeadershipLost, Fenced) as over:
                end_if_cancelled()
                self._observer.fenced(self._table.leader_id, str(over))
                self._trouble.forget()
                await self._pause()
            except DatabaseError as error:
                end_if_cancelled()
                self._observer.fenced(self._table.leader_id, str(error))
                self._trouble.tell(error, outbox=self._table.name)
                await self._pause(error)
        self.state = "stopped"

    async def _one_term(self) -> None:
        lease = await next_lease(self._election, self._stopping)
        if lease is None:
            return
        lease.notify = self._wake.notify
        self._asked = lease.asked
        self._unpurged.clear()
        self._table.begin()
        async with self._election.hold(lease):
            self._observer.acquired(self._table.leader_id)
            await self._govern(lease.term)
            if self._stopping.is_set():
                await self._election.end_candidacy()  # or this process gets the released lease again
        self._observer.revoked(self._table.leader_id)

    def _is_over(self) -> bool:
        return self._stopping.is_set() or self._asked.is_set()

    async def _govern(self, term: Term) -> None:
        """Serve, again and again while Kafka or the database fails or the sink has to be reopened."""
        while not self._is_over():
            try:
                await self._serve(term)
            except (SinkUnavailable, DatabaseError) as error:
                end_if_cancelled()
                self.state = "backing off"
                self._trouble.tell(error, outbox=self._table.name)
                await self._pause(error)
            if not self._is_over():
                before = self._table.leader_id
                self._table.refresh()
                self._observer.refreshed(before, self._table.leader_id)

    async def _serve(self, term: Term) -> None:
        """Serve one life of the sink, from open to close."""
        try:
            await self._sink.open(term)
            self.state = "leading"
            await self._purge(())
            while not self._is_over():
                if not await self._probe(term) or not await self._relay(term):
                    return
        finally:
            self.in_flight.clear()
            await self._sink.close()

    async def _probe(self, term: Term) -> bool:
        """Try the parked keys that are due; return False when the sink has to be reopened."""
        if time.monotonic() < self._probe_at:
            return True
        self._probe_at = time.monotonic() + _PROBE_SECONDS
        due = await self._table.mark_due(term)
        carried = await self._carry(term, due.records)
        freed = [*due.gone, *(lane_of(record) for record in carried.sent)]
        if freed:
            await self._table.unpark(freed)
        return not carried.reopen

    async def _relay(self, term: Term) -> bool:
        """Mark, send and purge one batch; wait if there is none, or the sink did nothing with it. Return False when the
        sink has to be reopened.
        """
        records = await self._table.mark(term, self._options.batch_records_max)
        if not records:
            self._trouble.over(outbox=self._table.name)
            await self._wake.wait()
            return True
        carried = await self._carry(term, records)
        if carried.moves:
            self._wake.busy()
        elif not carried.reopen:
            await self._wake.wait()
        return not carried.reopen

    async def _carry(self, term: Term, records: Sequence[Record]) -> _Carried:
        """Send marked records round by round, and free the rest."""
        self.in_flight = {record.id: record for record in records}
        sent: list[Record] = []
        stuck: set[str] = set()
        reopen = moves = False
        for turn in rounds(records, self._sink.features.window):
            ready = [record for record in turn if lane_of(record) not in stuck]
            receipt = await self._send(term, ready)
            await self._settle(term, len(ready), receipt)
            sent += receipt.acknowledged
            moves = moves or bool(receipt.acknowledged or receipt.refused)
            done = {record.id for record in receipt.acknowledged}
            stuck.update(lane_of(record) for record in ready if record.id not in done)
            if reopen := receipt.reopen:
                break
        left = self.in_flight.keys() - {record.id for record in sent}
        if left:
            await self._table.reset(left)
        self.in_flight.clear()
        return _Carried(sent, moves, reopen)

    async def _send(self, term: Term, records: Sequence[Record]) -> Receipt:
        """Send one round. Where a topic is refused, refuse the first record of each of its keys."""
        faults = {record.id: fault for record in records if (fault := self._table.fault(record)) is not None}
        broken = [record for record in records if record.id in faults]
        keys = {lane_of(record) for record in broken}
        sound = [record for record in records if lane_of(record) not in keys]
        refusals = [Refusal(r, "record", *faults[r.id]) for r in broken]
        receipt = await self._sink.send(Batch(term, sound)) if sound else Receipt(())
        done = {record.id for record in receipt.acknowledged}
        for refusal in receipt.refused:
            same = [r for r in sound if r.topic == refusal.record.topic and r.id not in done]
            group = same if refusal.scope == "topic" else [refusal.record]
            refusals += [Refusal(r, refusal.scope, refusal.reason, refusal.detail) for r in group]
        firsts = {lane_of(refusal.record): refusal for refusal in reversed(refusals)}
        return Receipt(receipt.acknowledged, list(firsts.values()), receipt.reopen, receipt.trouble)

    async def _settle(self, term: Term, sent: int, receipt: Receipt) -> None:
        """Purge the records that Kafka confirmed, and park those that it refused."""
        if receipt.acknowledged:
            self._observer.acknowledged(len(receipt.acknowledged))
            self._backoff_seconds = self._options.backoff_seconds_first
            await self._purge([record.id for record in receipt.acknowledged])
        self._trouble.hear(receipt, sent, outbox=self._table.name)
        for refusal in receipt.refused:
            _log.warning(
                "compat_record_refused", outbox=self._table.name, id=refusal.record.event_id,
                topic=refusal.record.topic, reason=refusal.reason, detail=refusal.detail,
            )  # fmt: skip
        if receipt.refused:
            await self._table.park(term, receipt.refused)

    async def _purge(self, ids: Sequence[int]) -> None:
        """Delete confirmed rows. Remember their ids until the database has confirmed the deletion."""
        self._unpurged.update(ids)
        if self._unpurged:
            await self._table.purge(self._unpurged)
            self._unpurged.clear()

    async def _pause(self, error: Exception | None = None) -> None:
        """Wait until the pause or the relay ends; double the next pause, unless the database failed."""
        if isinstance(error, DatabaseError):
            self._backoff_seconds = self._options.backoff_seconds_first
        ends_at = time.monotonic() + self._backoff_seconds
        self._backoff_seconds = min(self._backoff_seconds * 2, self._options.backoff_seconds_max)
        while not self._stopping.is_set() and time.monotonic() < ends_at:
            await self._wake.wait()


def rounds(records: Sequence[Record], window: Literal["batch", "record"]) -> Iterator[list[Record]]:
    """Return records in id order, cut so that within one round a key has records of one topic only, or one
    record.
    """
    last: dict[str, tuple[int, str]] = {}
    cut: list[list[Record]] = []
    for record in records:
        number, topic = last.get(lane_of(record), (-1, ""))
        number += number < 0 or window == "record" or topic != record.topic
        last[lane_of(record)] = number, record.topic
        if number == len(cut):
            cut.append([])
        cut[number].append(record)
    yield from cut
