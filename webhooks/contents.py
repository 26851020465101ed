"""Contents: events by number, read once and shared by all their deliveries (WH-I02)."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from db.pool import Database
from event.event import Draft, Event

__all__ = ["Contents"]


class Stored(Protocol):
    """The values that a commit adds to a draft."""

    @property
    def id(self) -> int:
        """Return the row's number."""
        ...

    @property
    def sequence(self) -> int | None:
        """Return the position within the key; None where the topic keeps no order."""
        ...

    @property
    def accepted_at(self) -> datetime:
        """Return the database's time stamp."""
        ...


class Contents:
    """A cache of events, least recently used first out, bounded by bytes of payloads and headers."""

    def __init__(self, database: Database, incarnation: str, bytes_max: int = 32 * 1024 * 1024) -> None:
        self._database = database
        self._incarnation = incarnation
        self._bytes_max = bytes_max
        self._bytes = 0
        self._events: OrderedDict[int, Event] = OrderedDict()

    async def get(self, ids: Iterable[int], bytes_max: int) -> tuple[dict[int, Event], set[int]]:
        """Return events by number, and the numbers of events that no longer exist (their retention has ended). Numbers
        in neither were not read. The lowest numbers are read, up to the one that crosses ``bytes_max`` of payload and
        headers; cached events do not count.
        """
        wanted = set(ids)
        found = {}
        lost = set()
        for id_ in wanted:
            event = self._events.get(id_)
            if event is not None:
                self._events.move_to_end(id_)
                found[id_] = event
        missing = wanted - found.keys()
        if missing:
            rows = await self._database.fetch("delivery.events", list(missing), bytes_max)
            lost = missing - {row["id"] for row in rows}
            for row in rows:
                if row["payload"] is None:
                    continue
                event = Event(
                    id=row["id"],
                    incarnation=self._incarnation,
                    topic=row["topic"],
                    key=row["key"],
                    content_type=row["content_type"],
                    headers=json.loads(row["headers"]) if row["headers"] != "{}" else {},
                    payload=row["payload"],
                    accepted_at=row["accepted_at"],
                    sequence=row["id"] if row["ordered"] else None,
                )
                found[event.id] = event
                self._remember(event)
        return found, lost

    def remember_stored(self, draft: Draft, stored: Stored) -> None:
        """Keep an event that this process has just committed, so that it need not be read back."""
        self._remember(
            Event(
                stored.id, self._incarnation, draft.topic, draft.key, draft.content_type, draft.headers,
                draft.payload, stored.accepted_at, stored.sequence,
            )
        )  # fmt: skip

    def _remember(self, event: Event) -> None:
        if event.id in self._events:
            return
        self._events[event.id] = event
        # 512: roughly the memory of an event beside its payload and headers.
        self._bytes += event.size_bytes + 512
        while self._bytes > self._bytes_max:
            _, oldest = self._events.popitem(last=False)
            self._bytes -= oldest.size_bytes + 512
