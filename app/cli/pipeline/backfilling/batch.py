"""Batch: some events of a backfill in their order, and what becomes of each."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from db.pool import Database
from event.attribute import HEADER_PREFIX
from event.carrier import KAFKA_PREFIX
from event.event import Event

if TYPE_CHECKING:
    from pipeline.selection import ArchivedEvent

__all__ = ["EVENTS_MAX", "Portion", "batches", "erased_among", "event_of", "judged"]

EVENTS_MAX: Final = 256
_BYTES_MAX: Final = 8 * 1024 * 1024


@dataclass(slots=True)
class Portion:
    """The events to send, and the numbers of those with which the run is done, by what became of them."""

    events: Sequence[Event]
    sent: list[int] = field(default_factory=list)
    erased: list[int] = field(default_factory=list)
    unwanted: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)

    def lanes(self) -> Iterable[Sequence[Event]]:
        """Return the events in groups: those of a key are sent one after the other, every other one on its own.

        The lanes of live deliveries, too, have a key each, whatever its topic.
        """
        lanes: dict[str | int, list[Event]] = {}
        for event in self.events:
            lanes.setdefault(event.id if event.key is None else event.key, []).append(event)
        return lanes.values()


def event_of(archived: ArchivedEvent, incarnation: str, topics: Mapping[str, str]) -> Event:
    """Return an archived event as it was published, under its old id. ``topics``: the hub's, by Kafka's."""
    assert archived.accepted_at is not None, "read from the lake"
    headers = {
        HEADER_PREFIX + name.removeprefix(KAFKA_PREFIX) if name.startswith(KAFKA_PREFIX) else name: value
        for name, value in archived.headers.items()
    }
    return Event(
        archived.number, incarnation, topics[archived.topic], archived.key, archived.content_type, headers,
        archived.payload, archived.accepted_at, archived.sequence,
    )  # fmt: skip


def batches(events: Iterator[Event]) -> Iterator[list[Event]]:
    """Yield the events in batches, bounded in events and bytes; a batch has at least one event."""
    batch: list[Event] = []
    size = 0
    for event in events:
        if batch and (len(batch) >= EVENTS_MAX or size + event.size_bytes > _BYTES_MAX):
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += event.size_bytes
    if batch:
        yield batch


async def judged(
    database: Database, events: Sequence[Event], subscription: int, *, has_filter: bool, done: Collection[int] = ()
) -> Portion:
    """Return the batch of those events that are to be sent: neither erased, nor unwanted, nor ``done`` before.

    Any note of an erasure counts: of the hub, of which the lake may know nothing yet, and of the lake.
    """
    left = [event for event in events if event.id not in done]
    erased = await erased_among(database, [event.id for event in left])
    kept = [event for event in left if event.id not in erased]
    passed = await _passed(database, kept, subscription) if has_filter and kept else {event.id for event in kept}
    return Portion(
        [event for event in kept if event.id in passed],
        erased=sorted(erased),
        unwanted=[event.id for event in kept if event.id not in passed],
    )


async def erased_among(database: Database, numbers: Sequence[int]) -> set[int]:
    """Return those of these events that the database notes as erased."""
    return {row["event_id"] for row in await database.fetch("backfill.erased", numbers)}


async def _passed(database: Database, events: Sequence[Event], subscription: int) -> set[int]:
    rows = await database.fetch(
        "backfill.passed",
        subscription,
        [event.id for event in events],
        [event.topic for event in events],
        [event.key for event in events],
        [event.accepted_at for event in events],
        [event.content_type for event in events],
        [json.dumps(dict(event.headers)) for event in events],
        [event.payload for event in events],
    )
    return {row["id"] for row in rows}
