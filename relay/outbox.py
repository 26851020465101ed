"""Outbox: the verbs of goharvest without the mark: claim and purge, and the manifests of batches.

Claims re-read from the lowest record that is not in flight, never from a cursor. So they find a lower id that commits
later. To keep that cheap under a held xmin each shard has a low-water mark:

1. note m, the value of the id sequence;
2. in a later statement draw our own transaction id Y;
3. once every transaction before Y has ended, that snapshot sees every id below m that can exist.
   Then the shard's mark moves to its lowest record at or below m, or behind m.

Rows purged after that lie above the marks, and claims read past them until the marks move again. So the marks move
about once a second, or earlier: when reading past purged rows has cost as much as a move. So the cost of a claim does
not depend on the age of a held snapshot, nor on the rate of records.

Marks, and the ids of records in flight, are true of one origin: a run of the server, a database, a sequence. A
crash may take back ids that were drawn and not stored. A promoted standby or a restored server may take back stored ids
too. Therefore the basis of a mark is on disk before the mark moves. Each statement that gets ids from memory names
their origin. It fails where another server answers, and the harvester starts anew.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

import structlog

from db.errors import Refused
from db.pool import Database, Row
from event.identity import format_event_id
from relay.election.port import LeadershipLost
from relay.record import Record, record_from_row
from relay.sink import Batch, Term

__all__ = ["LowWater", "Outbox"]

_log = structlog.get_logger(__name__)

_PER_SHARD_MIN = 64
_WALKED_MAX = 2_000  # number of purged records whose reading takes as long as moving the marks
_UNOWED_MAX = 10_000
"""So many ids are remembered that do not follow a carried one. Beyond that, the marks have to move first."""
_UNSETTLED = 0.05  # share of the usual pause between two moves, while no mark is safe yet
_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(slots=True)
class _Horizon:
    """A low-water candidate: waiting for every transaction older than ``xid`` to end."""

    mark: int
    xid: str


class LowWater(NamedTuple):
    """In ``shards`` shards no record is left below ``id``, and none can appear there. ``origin`` is the origin of the
    id.
    """

    shards: int
    id: int
    origin: UUID


class Outbox:
    """The records that one sink is owed, for the owner of a set of shards."""

    def __init__(
        self, database: Database, sink: str, incarnation: str, *, payload: bool, horizon_seconds: float = 1.0
    ) -> None:
        self._database = database
        self._sink = sink
        self._incarnation = incarnation
        self._payload = payload
        self._horizon_seconds = horizon_seconds
        self.shards: frozenset[int] = frozenset()
        """The shards of its latest term."""
        self._origin: UUID | None = None
        self._low: dict[int, int] = {}
        self._horizon: _Horizon | None = None
        self._settled: _Horizon | None = None
        self._horizon_at = 0.0
        self._passed = 0
        self._walked = 0
        self._numbered = 0
        self._carried_through: int | None = None
        self._drawn = 0
        self._unowed: set[int] = set()
        self._per_shard = _PER_SHARD_MIN
        self.took_all = False
        """Whether the last claim returned all records of its snapshot that were not in flight."""

    def begin(self, shards: Sequence[int]) -> None:
        """Start a term over these shards: trust no earlier state, and start every mark at zero."""
        self.shards = frozenset(shards)
        self._low = dict.fromkeys(shards, 0)
        self._horizon = self._settled = None
        self._horizon_at = 0.0
        self._passed = self._walked = self._numbered = 0
        self._carried_through = None
        self._drawn = 0
        self._unowed.clear()

    async def recognise(self) -> bool:
        """Read the origin of the ids from now on; return whether it is still the known one."""
        before, self._origin = self._origin, await self._database.fetchval("outbox.origin")
        if before != self._origin:
            self._unowed.clear()
        return before == self._origin

    @property
    def low_water(self) -> LowWater | None:
        """Return the lowest mark of this term; None before there is one."""
        if self._origin is None or not self._low:
            return None
        return LowWater(len(self._low), min(self._low.values()), self._origin)

    def is_carried_through(self, last_id: int, origin: UUID) -> bool:
        """Return whether no record up to the last drawn id is owed or can still appear. A last id below one that was
        drawn before the poll means that ids begin anew.
        """
        if origin != self._origin or self._carried_through is None:
            return False
        return self._drawn <= last_id <= self._carried_through

    def note_poll(self) -> None:
        """Note that all ids which are carried now were drawn before the next poll."""
        if self._carried_through is not None:
            self._drawn = self._carried_through

    def pass_by(self, ids: Iterable[int], origin: UUID) -> None:
        """Note events whose commit owed no sink a record. Those that follow a carried id without a gap are carried. Ids
        of another origin are ignored, and all ids before the first term.
        """
        if origin != self._origin:
            return
        if len(self._unowed) >= _UNOWED_MAX:
            self._unowed.clear()
        self._unowed.update(ids)
        self._carry_on()

    def _carry_on(self) -> None:
        while self._carried_through is not None and self._carried_through + 1 in self._unowed:
            self._carried_through += 1
            self._unowed.remove(self._carried_through)

    async def claim(self, term: Term, in_flight: Collection[int], limit: int, bytes_max: int) -> list[Record]:
        """Return the lowest records that are not in flight, in id order. The list is also empty when the term is over.

        It has at most ``limit`` records, and ends with the record that crosses ``bytes_max`` of payload. Raises
        :class:`db.errors.Refused` where the ids have another origin than those known here.
        """
        per_shard = min(self._per_shard, limit)
        where = [self._sink, list(self._low), list(self._low.values()), list(in_flight), per_shard]
        whose = [term.group, term.number, limit]
        if self._payload:
            rows = await self._owed(await self._read("outbox.claim", *where, *whose, bytes_max, self._origin))
            records = [record_from_row(row, self._incarnation) for row in rows]
        else:
            rows = await self._owed(await self._read("outbox.claim_heads", *where, *whose, self._origin))
            records = [_head(row, self._incarnation) for row in rows]
        self._adapt(records, limit, bytes_max)
        few = len(records) < min(_PER_SHARD_MIN, limit)
        self.took_all = few and sum(len(record.payload) for record in records) < bytes_max
        await self._ensure_topics(rows)
        return records

    async def _read(self, name: str, *args: object) -> Sequence[Row]:
        """Run a claim. Count the rows that it may have read past: all that were claimed since the marks moved."""
        rows = await self._database.fetch_fenced(name, *args)
        self._walked += self._passed
        self._passed += len(rows)
        return rows

    async def _owed(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the records that still have an event. Report and purge the others."""
        orphans = [row for row in rows if row["topic"] is None]
        if not orphans:
            return rows
        _log.error("events_lost", sink=self._sink, records=len(orphans), first=orphans[0]["id"])
        shards, ids = [row["shard"] for row in orphans], [row["id"] for row in orphans]
        await self._database.execute("outbox.purge", self._sink, shards, ids, self._origin)
        return [row for row in rows if row["topic"] is not None]

    def _adapt(self, records: Sequence[Record], limit: int, bytes_max: int) -> None:
        """Read more records per shard when few shards hold the backlog. Read fewer when half as many would fill a
        claim.
        """
        if len(records) == limit:
            shards = len({record.shard for record in records})
            if shards * self._per_shard >= 2 * limit:
                self._per_shard = max(self._per_shard // 2, _PER_SHARD_MIN)
        elif len(records) >= self._per_shard and sum(len(record.payload) for record in records) < bytes_max:
            self._per_shard = min(self._per_shard * 4, limit)

    async def _ensure_topics(self, rows: Sequence[Row]) -> None:
        unknown = {(row["tenant"], row["topic"]) for row in rows if not row["topic_known"]}
        if unknown:
            await self._database.execute(
                "outbox.ensure_topics", [tenant for tenant, _ in unknown], [topic for _, topic in unknown]
            )

    async def purge(self, batch: Batch, acknowledged: Sequence[Record]) -> None:
        """Delete records that the broker has confirmed, with the batch's manifest; may be repeated."""
        shards, ids = [r.shard for r in acknowledged], [r.id for r in acknowledged]
        if batch.number is None:
            await self._database.execute("outbox.purge", self._sink, shards, ids, self._origin)
        else:
            await self._database.fetchval(
                "manifest.purge", self._sink, shards, ids, batch.term.group, batch.number, batch.term.layout,
                self._origin,
            )  # fmt: skip

    @property
    def next_number(self) -> int | None:
        """Return the number that the next manifest will have; None before the first one of this life of the sink."""
        return self._numbered + 1 if self._numbered else None

    async def write_manifest(self, term: Term, records: Sequence[Record], before: Sequence[Batch] = ()) -> Batch:
        """Number a batch and store its contents. Also purge the whole batches ``before`` it, which the broker has
        confirmed. Raise :class:`LeadershipLost` when the term is over. Raise :class:`db.errors.HeldBack` where a
        required standby lacks the manifest: after a failover the broker would know a batch that the database does not.
        """
        mark = await self._database.fence_mark()
        confirmed = [record for batch in before for record in batch.records]
        number = await self._database.fetchval(
            "manifest.write", self._sink, term.group, term.number, [r.shard for r in records],
            [r.id for r in records], self._numbered, self._origin, [r.shard for r in confirmed],
            [r.id for r in confirmed], [batch.number for batch in before], term.layout,
        )  # fmt: skip
        if number is None or number != (self.next_number or number):
            raise LeadershipLost(f"term {term.number} of {self._sink}/{term.group} is over")
        self._numbered = number
        await self._database.pass_fence(mark)
        return Batch(term, records, number)

    async def settle_manifests(self, term: Term, committed: int) -> int:
        """Resolve the manifests of a predecessor, or of our own lost producer; return how many records had been
        published.
        """
        row = await self._database.fetchrow("manifest.settle", self._sink, term.group, term.number, committed)
        return int(row["records"]) if row else 0

    async def assert_term(self, term: Term) -> Term:
        """Read the term again after the broker's fence; raises :class:`LeadershipLost` when it moved."""
        row = await self._database.fetchrow("term.current", self._sink, term.group)
        if row is None or row["term"] != term.number:
            raise LeadershipLost(f"term {term.number} of {self._sink}/{term.group} is over")
        return replace(
            term, layout=row["layout"], batch_no=row["batch_no"], groups=row["groups"], order_scope=row["order_scope"]
        )

    async def advance_low_water(self) -> None:
        """Move the marks up when it is safe. Called between claims, it acts about once a second, more often in a drain,
        and soon again while no safe mark is known.
        """
        now = time.monotonic()
        if now < self._horizon_at and self._walked < _WALKED_MAX:
            return
        self._horizon_at = now + self._horizon_seconds
        if self._origin is None:
            await self.recognise()
        if self._horizon is None:
            mark = await self._database.fetchval("outbox.mark_horizon")
            if self._settled is not None and mark < self._settled.mark:  # a claim without rows may not check it
                raise Refused("55000", f"event ids begin anew at {mark}, below the mark {self._settled.mark}")
            xid = await self._database.fetchval("outbox.draw_xid")
            self._horizon = _Horizon(mark, xid)
        horizon = self._horizon
        if await self._move_marks(horizon, horizon):
            self._settled, self._horizon = horizon, None
            self._passed = self._walked = 0
            self._note_carried(horizon.mark if min(self._low.values()) > horizon.mark else None)
            return
        self._walked //= 2  # so look again soon
        if self._settled is None:
            self._horizon_at = now + self._horizon_seconds * _UNSETTLED
        elif min(self._low.values()) <= self._settled.mark:
            await self._move_marks(self._settled, horizon)

    def _note_carried(self, mark: int | None) -> None:
        """Note up to which id nothing is owed; None: something is. Events that were passed by may be further on."""
        if mark is None:
            self._carried_through = None
            return
        self._drawn = max(self._drawn, mark)
        self._carried_through = carried = max(mark, self._carried_through or 0)
        self._unowed = {one for one in self._unowed if one > carried}
        self._carry_on()

    async def _move_marks(self, upto: _Horizon, waiting: _Horizon) -> bool:
        """Move each shard's mark to its lowest record at or below this horizon, or behind it. Return False when that is
        not safe yet, or another term has begun meanwhile, which has another horizon.
        """
        rows = await self._database.fetch(
            "outbox.low_water", self._sink, list(self._low), list(self._low.values()), upto.xid, upto.mark,
            self._origin,
        )  # fmt: skip
        if not rows or self._horizon is not waiting:
            return False
        self._low.update((row["shard"], max(row["low"], self._low[row["shard"]])) for row in rows)
        return True


def _head(row: Row, incarnation: str) -> Record:
    """Return a record without contents, for a sink that reads the event in its own statement."""
    return Record(
        id=row["id"], shard=row["shard"], event_id=format_event_id(incarnation, row["id"]), tenant=row["tenant"],
        topic=row["topic"], key=row["key"], sequence=None, content_type=None, headers={}, payload=b"",
        accepted_at=_EPOCH,
    )  # fmt: skip
