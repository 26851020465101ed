"""Refusals: records of Kafka and messages of AMQP that were refused, and that a person has published again or skipped.

A record that holds its key is settled before those behind it. They are published in their order then, in transactions
that lock the partition's offset. So no later record of the key is taken before the last of them is gone. If one of them
cannot be an event either, it holds the key from then on.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from db.errors import Refused
from db.pool import Database, Row
from event.event import Draft
from event.identity import own_prefixes
from hub.intake.kept_messages import content_of
from hub.intake.messages import events_of_message
from hub.intake.records import events_of, refusal_of
from relay.kafka.source.incoming import read_record
from relay.source import IntakeRefused, SourceRoute

__all__ = ["KeyIsHeld", "NoRefusal", "NoSource", "RefusalOutcome", "Refusals"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WITHOUT_TIME: Final = -1
_ROWS: Final = 20
_SECONDS: Final = 20.0


class NoRefusal(LookupError):
    """There is no such record: it was published or skipped, or its time is over."""


class KeyIsHeld(Exception):
    """An earlier refused record of the key has to be settled first; ``holder`` is its number."""

    def __init__(self, holder: int) -> None:
        super().__init__(f"refusal_{holder} holds its key")
        self.holder = holder


class NoSource(LookupError):
    """The settings of this process name no such source, so its topic is not known; the text is its name."""


@dataclass(slots=True)
class RefusalOutcome:
    """What a settled record has become: the numbers of its events. ``released`` records behind it were published.
    ``held_by`` is the number of the record that holds the key now; None if the key is open.
    """

    events: list[int] = field(default_factory=list)
    released: int = 0
    held_by: int | None = None


@dataclass(frozen=True, slots=True)
class _Kept:
    """A record as a consumer would return it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]


class Refusals:
    """What all sources have refused. ``topic_of`` returns the topic of a Kafka source, or None. ``queues`` has the
    route of a queue.
    """

    def __init__(
        self, database: Database, incarnation: str, topic_of: Callable[[str], str | None], body_bytes_max: int,
        queues: Mapping[str, SourceRoute] | None = None,
    ) -> None:  # fmt: skip
        self._database = database
        self._incarnation = incarnation
        self._own_ids = own_prefixes(incarnation)
        self._topic_of = topic_of
        self._queues = queues or {}
        self._body_bytes_max = body_bytes_max

    async def retry(self, number: int, actor: str, reason: str | None) -> RefusalOutcome:
        """Publish a record after all, with those behind it; forget them.

        Raises ``NoRefusal``, ``NoSource``, ``KeyIsHeld``, ``IntakeRefused`` if it still cannot be an event, and
        ``DatabaseError``.
        """
        async with self._database.joined() as session:
            await session.fetchval("source.lock_partition_of", number)
            row = await session.fetchrow("source.refusal", number)
            if row is None:
                raise NoRefusal
            holder = await session.fetchval("source.holder", number)
            if holder is not None:
                raise KeyIsHeld(holder)
            events = await self._publish(row)
            await self._settle(number, actor, "source.retry", reason)
        return await self._release(number, row, events)

    async def give_up(self, number: int, actor: str, reason: str | None) -> RefusalOutcome:
        """Forget a record for good, and publish those behind it.

        Raises ``NoRefusal``, ``NoSource``, ``DatabaseError``.
        """
        async with self._database.joined() as session:
            await session.fetchval("source.lock_partition_of", number)
            row = await session.fetchrow("source.refusal", number)
            if row is None:
                raise NoRefusal
            is_first = await session.fetchval("source.holder", number) is None
            if row["held_keys"] is not None:
                self._topic(row)  # those behind it are published
            await self._settle(number, actor, "source.give_up", reason)
        return await self._release(number, row, []) if is_first else RefusalOutcome()

    async def _publish(self, row: Row) -> list[int]:
        """Publish the events of a record in the transaction that this task has joined; return their numbers."""
        if row["kind"] == "amqp":
            drafts, left_out = await self._events_of_message(row), None
        else:
            record = read_record(_kept(row), self._body_bytes_max)
            found, _ = await events_of(record, self._topic(row), self._incarnation, self._own_ids)
            drafts, left_out = found or [], "kafka"
        return [
            await self._database.fetchval(
                "source.publish", draft.topic, draft.key, draft.content_type, json.dumps(dict(draft.headers)),
                draft.payload, left_out,
            )
            for draft in drafts
        ]  # fmt: skip

    async def _events_of_message(self, row: Row) -> list[Draft]:
        """Return the events of a message, by the route of its queue as it is now."""
        route = self._queues.get(row["source"])
        if route is None:
            raise NoSource(row["source"])
        message = content_of(row["headers"], row["value"])
        if message is None or route.rabbithub_exchange or route.shared:
            why = "its properties cannot be read" if message is None else "its messages go to RabbitHub's subscribers"
            raise IntakeRefused("refused", f"{why}: publish it by hand, then skip it")
        if len(message.body) > self._body_bytes_max:
            raise IntakeRefused("too_large", f"the body has more than {self._body_bytes_max} bytes")
        return await events_of_message(route.topic or message.routing_key, message)

    def _topic(self, row: Row) -> str:
        topic = self._topic_of(row["source"])
        if topic is None:
            raise NoSource(row["source"])
        return topic

    async def _settle(self, number: int, actor: str, action: str, reason: str | None) -> None:
        if not await self._database.fetchval("source.settle_refusal", number, actor, action, reason):
            raise NoRefusal

    async def _release(self, number: int, first: Row, events: list[int]) -> RefusalOutcome:
        """Publish the records that have waited for the keys of the first one, for some time at most."""
        settled = RefusalOutcome(events)
        if first["held_keys"] is None:
            return settled
        lane = _Lane(first["source"], first["partition"], set(first["held_keys"]), number)
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + _SECONDS
        while lane.keys - lane.blocked and loop.time() < ends_at:
            async with self._database.joined() as session:
                await session.fetchval("source.lock_partition", lane.source, lane.partition)
                place = lane.source, lane.partition
                rows = await session.fetch("source.behind", *place, lane.after, [*lane.keys], _ROWS)
                if not rows:
                    return settled
                for row in rows:
                    if not await self._release_one(lane, row, settled):
                        break
        behind = await self._database.fetch("source.behind", lane.source, lane.partition, number, [*lane.keys], 1)
        settled.held_by = behind[0]["id"] if behind else None
        return settled

    async def _release_one(self, lane: _Lane, row: Row, settled: RefusalOutcome) -> bool:
        """Publish a record, or leave it where it waits for another one; return False if more keys are open now."""
        lane.after = row["id"]
        keys = set(row["held_keys"])
        if keys & lane.blocked or await self._database.fetchval("source.holder", row["id"]) is not None:
            lane.blocked |= keys
            return True
        try:
            async with self._database.transaction() as savepoint:
                await self._publish(row)
                await savepoint.execute("source.release", row["id"])
        except (IntakeRefused, Refused) as error:
            refused = error if isinstance(error, IntakeRefused) else refusal_of(error)
            await self._database.execute("source.refuse_again", row["id"], refused.reason, refused.detail)
            lane.blocked |= keys
            return True
        settled.released += 1
        is_new = not keys <= lane.keys
        lane.keys |= keys
        return not is_new


@dataclass(slots=True)
class _Lane:
    """The keys that are released, up to the record ``after``; those in ``blocked`` are held by a record anew."""

    source: str
    partition: int
    keys: set[str]
    after: int
    blocked: set[str] = field(default_factory=set)


def _kept(row: Row) -> _Kept:
    flat = json.loads(row["headers"])
    pairs = zip(itertools.islice(flat, 0, None, 2), itertools.islice(flat, 1, None, 2), strict=True)
    at = row["record_at"]
    milliseconds = _WITHOUT_TIME if at is None else round((at - _EPOCH).total_seconds() * 1000)
    return _Kept(
        row["source"], row["partition"], row["record_offset"], milliseconds, row["key"], row["value"],
        [(name, base64.b64decode(value)) for name, value in pairs],
    )  # fmt: skip
