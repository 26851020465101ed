"""LatestRequests: the last requests at each door, for people who look for a fault.

They are kept in memory and written once a second, so a sender pays for no statement, and a flood of wrong signatures
costs one. What a process had not written when it was killed is lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import ClassVar, Final, Literal

from db.errors import DatabaseError
from db.pool import Database, Row
from runtime.periodic import Periodic

__all__ = ["LATEST_MAX", "InboundRequest", "LatestRequests"]

LATEST_MAX: Final = 20
_BODY_BYTES: Final = 4_096
_TEXT_MAX: Final = 200
Outcome = Literal["accepted", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundRequest:
    """A request that was judged. ``body`` is that of a refused one."""

    source: str
    outcome: Outcome
    address: str
    size_bytes: int
    delivery_id: str | None = None
    event_id: int | None = None
    topic: str | None = None
    reason: str | None = None
    detail: str | None = None
    body: bytes | None = None


class LatestRequests(Periodic):
    """Keeps the last requests of each door and outcome, :data:`LATEST_MAX` of them."""

    name = "inbound requests"
    expected: ClassVar = (DatabaseError,)
    failure = "inbound_requests_not_kept"

    def __init__(self, database: Database, interval_seconds: float = 1.0) -> None:
        super().__init__(interval_seconds)
        self._database = database
        self._new: dict[tuple[str, Outcome], deque[tuple[datetime, InboundRequest]]] = {}

    def add(self, request: InboundRequest) -> None:
        """Keep a request at a door that exists, and the first 4,096 bytes of its body."""
        place = self._new.setdefault((request.source, request.outcome), deque(maxlen=LATEST_MAX))
        if request.body is not None:
            request = replace(request, body=request.body[:_BODY_BYTES])
        place.append((datetime.now(UTC), request))

    async def once(self) -> int:
        """Write what has come since the last round; return how many."""
        found = [pair for place in self._new.values() for pair in place]
        self._new.clear()
        if found:
            requests = [request for _, request in found]
            await self._database.execute(
                "inbound.keep_requests",
                [one.source for one in requests],
                [one.outcome for one in requests],
                [at for at, _ in found],
                [one.address for one in requests],
                [one.size_bytes for one in requests],
                [_short(one.delivery_id) for one in requests],
                [one.event_id for one in requests],
                [one.topic for one in requests],
                [one.reason for one in requests],
                [_short(one.detail) for one in requests],
                LATEST_MAX,
                [one.body for one in requests],
            )
        return len(found)

    async def of(self, source: str, outcome: Outcome, *, with_bodies: bool) -> Sequence[Row]:
        """Return the last requests of a door, newest first."""
        return await self._database.fetch("inbound.requests", source, outcome, with_bodies)


def _short(text: str | None) -> str | None:
    """Return a text that the database can store, and that a page can show."""
    return None if text is None else text.replace("\0", "\ufffd")[:_TEXT_MAX]
