"""Hold: one key, or one topic, of one sink waits; everything else goes on (RO-08).

::

      refused (record)            probe is due             nothing held is left
   key ------------------> held ---------------> draining ----------------------> lifted
   topic (destination missing)      <-----------
                                 refused again: postponed, twice as long

While a hold exists, every record of its key or topic moves from the outbox to the side table ``held``. So claims never
read past them. One harvester places, drains and lifts, in one task and under its term, so that nothing of the key can
pass the records that wait. A topic's keys belong to several partition groups; each group holds the topic for its own.

A policy of the topic, or else of the sink, decides about a refused record. ``hold_key`` holds its key, as drawn above.
``skip`` makes the record a dead letter, and its key goes on. ``stop`` stops the whole sink (goharvest's way). A missing
destination always holds its topic, or stops the sink.

People retry, skip and purge by statements of their own (``hold.retry``, ``hold.skip``, ``dead_letter.retry_record``);
the next query of the holds finds the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import structlog

from db.pool import Database
from relay.election.port import LeadershipLost
from relay.record import Record, record_from_row
from relay.sink import Refusal, SinkUnavailable, Term

__all__ = ["Hold", "Holds", "Policy", "SinkStopped"]

_log = structlog.get_logger(__name__)

_PROBE_SECONDS_FIRST = 2.0
_PROBE_SECONDS_MAX = 300.0
_FOLLOWS = ("topic_held", "its topic waits")
"""Reason and detail of a hold for a record that follows a held one. Most such records find an active hold of their
key.
"""
_DOUBLINGS_MAX = 8  # beyond it the pause is at its maximum anyway, and a power of two outgrows a float


Policy = Literal["hold_key", "skip", "stop"]


class SinkStopped(SinkUnavailable):
    """A record was refused, and the policy forbids sending anything else before it."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A held key or topic. ``key`` '' holds the whole topic; a keyless poison record has its own name as key."""

    tenant: str
    topic: str
    key: str


_Lane = tuple[str, str, str]


def _key_hold(record: Record) -> Hold:
    # A control character can't occur in a publisher's key, so this name is free.
    return Hold(record.tenant, record.topic, record.key if record.key is not None else f"\x1f{record.id}")


class Holds:
    """The holds of one partition group of a sink, as its leader knows them."""

    def __init__(self, database: Database, sink: str, incarnation: str, default_policy: Policy = "hold_key") -> None:
        self._database = database
        self._sink = sink
        self._incarnation = incarnation
        self._default_policy = default_policy
        self._active_holds: dict[_Lane, Hold] = {}
        self._is_across_topics = False

    @property
    def any_active(self) -> bool:
        """Return whether there is an active hold."""
        return bool(self._active_holds)

    async def begin(self, term: Term) -> None:
        """Read the holds at the start of a term."""
        rows = await self._database.fetch("hold.open", self._sink, term.group)
        self._is_across_topics = term.order_scope == "key"
        self._active_holds = {}
        self._stand(Hold(row["tenant"], row["topic"], row["key"]) for row in rows)

    def _stand(self, holds: Iterable[Hold]) -> None:
        for hold in holds:
            self._active_holds.setdefault(self._lane(hold), hold)

    def _lane(self, hold: Hold) -> _Lane:
        """Return the records that it holds: a topic, a key of a topic, or a key in all topics."""
        return (hold.tenant, "" if hold.key and self._is_across_topics else hold.topic, hold.key)

    def _hold_of(self, refusal: Refusal) -> Hold:
        """Return the hold for a refusal: of the whole topic, or of a key where keys are in order across topics."""
        record = refusal.record
        by_topic = refusal.scope == "topic" and not (self._is_across_topics and record.key is not None)
        hold = Hold(record.tenant, record.topic, "") if by_topic else _key_hold(record)
        return self._active_holds.get(self._lane(hold), hold)

    def covering(self, record: Record) -> Hold | None:
        """Return the hold that a record has to wait behind, or None. It may be a new hold of the key, to be placed.

        The key's hold takes precedence: older records of the key may wait behind it, and they are drained after the
        topic's.
        """
        key = _key_hold(record)
        if (hold := self._active_holds.get(self._lane(key))) is not None:
            return hold
        topic = self._active_holds.get(self._lane(Hold(record.tenant, record.topic, "")))
        return key if topic is not None and self._is_across_topics and record.key is not None else topic

    def set_aside(self, records: Iterable[Record]) -> list[Record]:
        """Return the records, in id order, that have to wait behind a hold. Where keys are in order across topics, a
        record that would wait with its topic waits with its key instead. Later records of the key in other topics must
        not pass it (RG-10).
        """
        waiting = []
        for record in records:
            if (hold := self.covering(record)) is not None:
                self._stand([hold])
                waiting.append(record)
        return waiting

    async def place(self, term: Term, refusals: Iterable[Refusal], followers: Sequence[Record] = ()) -> None:
        """Move refused records, and records that follow an active hold, to the side table.

        A policy may give a refused record up instead, or raise :class:`SinkStopped`.
        """
        remaining = [r for r in refusals if not await self.given_up(term, r)]
        rows = []
        for refusal in remaining:
            refused = self._hold_of(refusal)
            self._stand([refused])
            rows.append((refused, refusal.record, refusal.reason, refusal.detail))
        rows += [(hold, record, *_FOLLOWS) for record in followers if (hold := self.covering(record)) is not None]
        if not rows:
            return
        moved = await self._database.fetch(
            "hold.place", self._sink, term.group, term.number,
            [hold.tenant for hold, *_ in rows], [hold.topic for hold, *_ in rows], [hold.key for hold, *_ in rows],
            [record.shard for _, record, *_ in rows], [record.id for _, record, *_ in rows],
            [reason for *_, reason, _ in rows], [detail for *_, detail in rows], _PROBE_SECONDS_FIRST,
        )  # fmt: skip
        if not moved:
            raise LeadershipLost(f"term {term.number} of {self._sink}/{term.group} is over")

    async def given_up(self, term: Term, refusal: Refusal) -> bool:
        """Apply the policy: give the record up on ``skip``, raise :class:`SinkStopped` on ``stop``. Return whether it
        was given up.
        """
        record = refusal.record
        policy = await self._database.fetchval("hold.policy", record.tenant, record.topic) or self._default_policy
        if policy == "stop":
            raise SinkStopped(f"stopped at {record.event_id} of {record.topic}: {refusal.reason}: {refusal.detail}")
        if policy != "skip" or refusal.scope == "topic":
            return False
        buried = await self._database.fetch(
            "hold.dead_letter", self._sink, term.group, term.number, record.shard, record.id, record.tenant,
            record.topic, record.key, refusal.reason, refusal.detail,
        )  # fmt: skip
        if not buried:
            raise LeadershipLost(f"term {term.number} of {self._sink}/{term.group} is over")
        return True

    async def due(self, term: Term) -> list[tuple[Hold, int]]:
        """Return the holds whose probe is due, each with the number of its probes."""
        rows = await self._database.fetch("hold.open", self._sink, term.group)
        # Another process may have added a hold, to replay a dead letter. Keep all known holds: a hold that is being
        # placed is not in the table yet.
        self._stand(Hold(r["tenant"], r["topic"], r["key"]) for r in rows)
        return [(Hold(r["tenant"], r["topic"], r["key"]), r["attempts"]) for r in rows if r["due"]]

    async def claim(self, term: Term, hold: Hold, limit: int, bytes_max: int) -> list[Record]:
        """Return the oldest records that wait behind a hold, in order: up to ``limit``, or ``bytes_max`` of payload."""
        rows = await self._database.fetch(
            "hold.claim", self._sink, hold.tenant, hold.topic, hold.key, term.group, term.number, limit, bytes_max
        )
        orphans = [row["id"] for row in rows if row["topic"] is None]
        if orphans:
            _log.error("events_lost", sink=self._sink, records=len(orphans), first=orphans[0])
            await self._database.execute("hold.purge", self._sink, orphans)
        return [record_from_row(row, self._incarnation) for row in rows if row["topic"] is not None]

    async def purge(self, records: Sequence[Record]) -> None:
        """Delete held records that the broker has confirmed."""
        await self._database.execute("hold.purge", self._sink, [record.id for record in records])

    async def postpone(self, term: Term, hold: Hold, attempts: int, detail: str) -> None:
        """Postpone the next probe; the pause doubles each time."""
        doublings = min(attempts, _DOUBLINGS_MAX)
        delay = min(_PROBE_SECONDS_FIRST * 2**doublings, _PROBE_SECONDS_MAX)
        await self._database.execute(
            "hold.postpone", self._sink, term.group, hold.tenant, hold.topic, hold.key, detail, delay
        )

    async def single_out(self, term: Term, refusal: Refusal) -> None:
        """Move a poison record's key, with all its waiting records, out of its topic's hold into its own hold."""
        hold = _key_hold(refusal.record)
        await self._database.execute(
            "hold.rekey", self._sink, term.group, term.number, hold.tenant, hold.topic, hold.key,
            refusal.reason, refusal.detail, _PROBE_SECONDS_FIRST,
        )  # fmt: skip
        self._stand([hold])

    async def lift(self, term: Term, hold: Hold) -> bool:
        """End an empty hold; return False when new records wait behind it."""
        lifted = await self._database.fetchval(
            "hold.lift", self._sink, hold.tenant, hold.topic, hold.key, term.group, term.number
        )
        if lifted:
            self._active_holds.pop(self._lane(hold), None)
        return bool(lifted)
