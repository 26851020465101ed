"""AMQP window: many unconfirmed messages at once, but never two of one key (RQ-08).

A broker confirms, returns or refuses each message separately. If two messages of a key were in flight and the first was
returned, the second might be in the queue already. So each key is a lane: a record is sent after the previous record of
its key was confirmed. Several lanes run concurrently::

    key a   1 ----ok--> 4 ----ok--> 7          each worker takes a lane and sends it to its end;
    key b   2 --refused                        the number of workers is the window
    (none)  3 ----ok-->                        a record without a key is a lane of its own

A refusal ends its lane (scope "record") or all lanes of its topic (scope "topic": the topic waits). Confirmed records
of other keys of that topic still count as sent. A failure of the sink ends all lanes. It is returned together with the
confirmed records, so that they are not sent again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field

from relay.record import Record
from relay.sink import Refusal, SinkUnavailable
from runtime.cancellation import TaskGroup

__all__ = ["Passage", "Publish", "pass_through_window"]

Publish = Callable[[Record], Awaitable[Refusal | None]]
"""Sends one record. Returns None once it is confirmed, or its refusal. Raises SinkUnavailable for any other outcome."""


@dataclass(slots=True)
class Passage:
    """The results of a batch. A record without a result was not sent, or was not confirmed: send it again."""

    acknowledged: list[Record] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    failure: SinkUnavailable | None = None
    halted_topics: set[tuple[str, str]] = field(default_factory=set)

    def left_of(self, records: Sequence[Record]) -> Sequence[Record]:
        """Return the records that do not wait behind a refused one of before."""
        keys = {(r.record.tenant, r.record.topic, r.record.key) for r in self.refused if r.record.key is not None}
        return [
            record
            for record in records
            if (record.tenant, record.topic) not in self.halted_topics
            and (record.tenant, record.topic, record.key) not in keys
        ]

    def extend(self, later: Passage) -> None:
        """Add the results of a later passage."""
        self.acknowledged += later.acknowledged
        self.refused += later.refused
        self.failure = later.failure
        self.halted_topics |= later.halted_topics


async def pass_through_window(records: Sequence[Record], publish: Publish, *, records_max: int) -> Passage:
    """Send records with at most ``records_max`` unconfirmed at a time, and return the results."""
    passage = Passage()
    lanes = _lanes(records)
    queue = iter(lanes)
    async with TaskGroup() as window:
        for _ in range(min(len(lanes), records_max)):
            window.create_task(_walk(queue, publish, passage))
    passage.acknowledged.sort(key=lambda record: record.id)
    return passage


def _lanes(records: Sequence[Record]) -> list[list[Record]]:
    lanes: dict[tuple[str, str, str] | int, list[Record]] = {}
    for record in records:
        lane = record.id if record.key is None else (record.tenant, record.topic, record.key)
        lanes.setdefault(lane, []).append(record)
    return list(lanes.values())


async def _walk(lanes: Iterator[list[Record]], publish: Publish, passage: Passage) -> None:
    for lane in lanes:
        for record in lane:
            if passage.failure is not None:
                return
            topic = record.tenant, record.topic
            if topic in passage.halted_topics:
                break
            try:
                refusal = await publish(record)
            except SinkUnavailable as failure:
                passage.failure = passage.failure or failure
                return
            if refusal is None:
                passage.acknowledged.append(record)
                continue
            if topic not in passage.halted_topics:
                passage.refused.append(refusal)
            if refusal.scope == "topic":
                passage.halted_topics.add(topic)
            break
