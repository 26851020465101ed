"""Hold: one key, or one topic, of one sink waits; everything else goes on.

::

      refused (record)            probe is due             nothing held is left
   key ------------------> held ---------------> draining ----------------------> lifted
   topic (destination missing)      <-----------
                                 refused again: postponed, twice as long

While a hold exists, every record of its key or topic moves from the outbox to the side table ``held``. So claims never
read past them. One harvester places, drains and lifts, in one task and under its term, so that nothing of the key can
pass the records that wait. A topic's keys belong to several partition groups; each group holds the topic for its own.

The destination of a hold is suspect. One topic is probed at a time: its own hold first, or else the oldest record of
each due hold of its keys. Those go in one batch: few of them, until the topic takes one. So a backlog of refused
records costs little more than one of them.

A policy of the topic, or else of the sink, decides about a refused record. ``hold_key`` holds its key, as drawn above.
``skip`` makes the record a dead letter, and its key goes on. ``stop`` stops the whole sink (goharvest's way). A missing
destination always holds its topic, or stops the sink.

People retry, skip and purge by statements of their own (``hold.retry``, ``hold.skip``, ``dead_letter.retry_record``);
the next query of the holds finds the result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import structlog

from db.pool import Database
from relay.election.port import LeadershipLost
from relay.record import Record, record_from_row
from relay.sink import Refusal, SinkUnavailable, Term

__all__ = ["DueTopic", "Hold", "Holds", "Policy", "SinkStopped"]

_log = structlog.get_logger(__name__)

_PROBE_SECONDS_FIRST = 2.0
_PROBE_SECONDS_TAKEN = 0.5
_PROBE_SECONDS_MAX = 300.0
_FOLLOWS = ("topic_held", "its topic waits")
"""Reason and detail of a hold for a record that follows a held one. Most such records find an active hold of their
key.
"""
_DOUBLINGS_MAX = 8  # beyond it the pause is at its maximum anyway, and a power of two outgrows a float
_TOPICS_MAX = 2  # the due topics to ask for: one is probed, and another one tells that there are more

Policy = Literal["hold_key", "skip", "stop"]


class SinkStopped(SinkUnavailable):
    """A record was refused, and the policy forbids sending anything else before it."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A held key or topic. ``key`` '' holds the whole topic; a keyless poison record has its own name as key."""

    tenant: str
    topic: str
    key: str


class DueTopic(NamedTuple):
    """A topic with holds whose probe is due. ``is_whole``: the topic itself is held, and due."""

    tenant: str
    topic: str
    is_whole: bool


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
        not pass it.
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
        rows = []
        for refusal in await self.give_up(term, refusals):
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

    async def give_up(self, term: Term, refusals: Iterable[Refusal]) -> list[Refusal]:
        """Apply the policies: give records up on ``skip``, raise :class:`SinkStopped` on ``stop``. Return the refusals
        to hold.
        """
        refusals = list(refusals)
        policies = await self._policies({(r.record.tenant, r.record.topic) for r in refusals})
        skipped: list[Refusal] = []
        remaining: list[Refusal] = []
        for refusal in refusals:
            record = refusal.record
            policy = policies.get((record.tenant, record.topic)) or self._default_policy
            if policy == "stop":
                raise SinkStopped(f"stopped at {record.event_id} of {record.topic}: {refusal.reason}: {refusal.detail}")
            (skipped if policy == "skip" and refusal.scope == "record" else remaining).append(refusal)
        if skipped:
            await self._dead_letter(term, skipped)
        return remaining

    async def _policies(self, topics: Collection[tuple[str, str]]) -> dict[tuple[str, str], Policy | None]:
        if not topics:
            return {}
        rows = await self._database.fetch(
            "hold.policies", [tenant for tenant, _ in topics], [name for _, name in topics]
        )
        return {(row["tenant"], row["name"]): row["on_refused"] for row in rows}

    async def _dead_letter(self, term: Term, refusals: Sequence[Refusal]) -> None:
        records = [refusal.record for refusal in refusals]
        buried = await self._database.fetch(
            "hold.dead_letter", self._sink, term.group, term.number,
            [r.shard for r in records], [r.id for r in records],
            [r.tenant for r in records], [r.topic for r in records], [r.key for r in records],
            [refusal.reason for refusal in refusals], [refusal.detail for refusal in refusals],
        )  # fmt: skip
        if not buried:
            raise LeadershipLost(f"term {term.number} of {self._sink}/{term.group} is over")

    async def due(self, term: Term) -> list[DueTopic]:
        """Return the topics whose probe is due for longest, at most two."""
        rows = await self._database.fetch("hold.due", self._sink, term.group, _TOPICS_MAX)
        return [DueTopic(row["tenant"], row["topic"], row["is_whole"]) for row in rows]

    async def heads(self, term: Term, due: DueTopic, limit: int, bytes_max: int) -> dict[Hold, Record | None]:
        """Return up to ``limit`` due holds of a topic's keys, each with its oldest record, in order; None: it has none.
        ``bytes_max`` bounds their payload.
        """
        rows = await self._database.fetch_fenced(
            "hold.heads", self._sink, due.tenant, due.topic, term.group, term.number, limit, bytes_max
        )
        holds = [Hold(due.tenant, due.topic, row["hold"]) for row in rows]
        # Another process may have added a hold, to replay a dead letter.
        self._stand(holds)
        events = [{name: value for name, value in row.items() if name != "hold"} for row in rows]
        records = [
            record_from_row(event, self._incarnation) if event["topic"] is not None else None for event in events
        ]
        await self._forget_lost([event["id"] for event in events if event["topic"] is None and event["id"] is not None])
        return dict(zip(holds, records, strict=True))

    async def _forget_lost(self, ids: Sequence[int]) -> None:
        """Report and purge records whose event was deleted."""
        if ids:
            _log.error("events_lost", sink=self._sink, records=len(ids), first=ids[0])
            await self._database.execute("hold.purge", self._sink, ids)

    async def claim(self, term: Term, hold: Hold, limit: int, bytes_max: int) -> list[Record]:
        """Return the oldest records that wait behind a hold, in order: up to ``limit``, or ``bytes_max`` of payload."""
        rows = await self._database.fetch_fenced(
            "hold.claim", self._sink, hold.tenant, hold.topic, hold.key, term.group, term.number, limit, bytes_max
        )
        self._stand([hold])
        await self._forget_lost([row["id"] for row in rows if row["topic"] is None])
        return [record_from_row(row, self._incarnation) for row in rows if row["topic"] is not None]

    async def purge(self, records: Sequence[Record]) -> None:
        """Delete held records that the broker has confirmed."""
        await self._database.execute("hold.purge", self._sink, [record.id for record in records])

    async def postpone(
        self, term: Term, due: DueTopic, refusals: Mapping[str, Refusal], *, was_taken: bool = False
    ) -> None:
        """Postpone the next probe of keys of a topic, each with its refusal. The pause doubles each time. It is short
        if records before the refused one were taken: such a queue is full only now and then.
        """
        await self._database.execute(
            "hold.postpone", self._sink, term.group, due.tenant, due.topic, list(refusals),
            [refusal.reason for refusal in refusals.values()], [refusal.detail for refusal in refusals.values()],
            _PROBE_SECONDS_FIRST, _PROBE_SECONDS_MAX, _DOUBLINGS_MAX, _PROBE_SECONDS_TAKEN if was_taken else 0.0,
        )  # fmt: skip

    async def single_out(self, term: Term, refusals: Sequence[Refusal]) -> None:
        """Move the keys of poison records of one topic, with all their waiting records, out of the topic's hold into
        holds of their own.
        """
        holds = [_key_hold(refusal.record) for refusal in refusals]
        await self._database.execute(
            "hold.rekey", self._sink, term.group, term.number, holds[0].tenant, holds[0].topic,
            [hold.key for hold in holds], [refusal.reason for refusal in refusals],
            [refusal.detail for refusal in refusals], _PROBE_SECONDS_FIRST,
            [refusal.record.id for refusal in refusals if refusal.record.key is None],
        )  # fmt: skip
        self._stand(holds)

    async def lift(self, term: Term, holds: Sequence[Hold]) -> list[Hold]:
        """End the empty ones of these holds of one topic; return those with records behind them."""
        if not holds:
            return []
        rows = await self._database.fetch(
            "hold.lift",
            self._sink,
            holds[0].tenant,
            holds[0].topic,
            [hold.key for hold in holds],
            term.group,
            term.number,
        )
        lifted = {row["key"] for row in rows}
        for hold in holds:
            if hold.key in lifted:
                self._active_holds.pop(self._lane(hold), None)
        if lifted:
            _log.info("hold_lifted", sink=self._sink, topic=holds[0].topic, key=min(lifted), holds=len(lifted))
        return [hold for hold in holds if hold.key not in lifted]
