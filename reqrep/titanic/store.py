"""The port of Titanic's store: requests that outlive the caller, the worker and the broker (9/TSP, TI-01 to TI-20).

A request is accepted once, executed at least once and answered once::

                accept              claim                settle
    (nothing) ---------> pending ----------> leased ---------------> answered
                            ^                   |                        |
                            '-- release, or ----'                        |
                                the lease ends                           |
    (unknown) <----------------- close, or expire (not while leased) ----'

The adapters:

* :mod:`reqrep.titanic.memory_store`: nothing survives the process.
* :mod:`reqrep.titanic.file_store`: one append-only file; a broker needs no database.
* ``reqrep.titanic.postgresql_store``: the hub's database. It is the only module of this room that imports ``db``, and
  only the composition in ``app`` imports it. Its tables also hold requests that came by HTTP and by SQL.

``tests/contract/test_request_store_port.py`` is the suite for each of them; ``tests/contract/request_stores.py`` lists
the adapters.

**Durable before the answer.** ``accept``, ``settle`` and ``close`` return after the change is as durable as the
adapter promises. A call that raised changed nothing that a later call could see, except where the adapter cannot know:
then it raises :class:`StoreUnavailable`, and the caller may repeat ``settle`` and ``close`` with the same arguments.

**Order.** Requests of one service are claimed in the order in which they were accepted, except those that were
released. Services do not wait for each other (TI-19).

Opening and closing belong to the adapters. Methods are coroutines of one event loop and may run concurrently; an
adapter may let concurrent calls share one commit. A call that is cancelled may or may not have taken effect.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from reqrep.frames import Frames

__all__ = [
    "AcceptedRequest",
    "ClaimedRequest",
    "Receipt",
    "RequestAnswer",
    "RequestState",
    "RequestStore",
    "Settled",
    "StoreCounts",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "is_request_id",
    "require_frames",
    "require_request",
    "require_room",
]

_ID_CHARACTERS = 32
_HEXADECIMAL = frozenset("0123456789abcdef")


class StoreError(Exception):
    """The store could not do it; nothing was lost. TSP answers 500, HTTP 503. The text says what cures it."""


class StoreFull(StoreError):
    """No room for a new request: the disk is full, or a limit is reached. Accepted requests stay."""


class StoreUnavailable(StoreError):
    """The store does not answer at present, as a database that restarts. The same call may succeed later."""


class RequestState(StrEnum):
    """PENDING: accepted and not answered, leased or not. UNKNOWN: never accepted, closed, or expired (TI-05)."""

    PENDING = "pending"
    ANSWERED = "answered"
    UNKNOWN = "unknown"


class Settled(StrEnum):
    """What became of a reply.

    STORED: it is the reply of the request, now or by an earlier call with the same receipt. STALE: another claim holds
    or answered the request; this reply is discarded (TI-12). UNKNOWN: the request was closed or expired; the reply is
    discarded and the id stays unknown (TI-17).
    """

    STORED = "stored"
    STALE = "stale"
    UNKNOWN = "unknown"


class Receipt(NamedTuple):
    """The right of one claim to answer. ``fence`` rises with each claim of a request and is never used again."""

    id: str
    fence: int


@dataclass(frozen=True, slots=True)
class AcceptedRequest:
    """A request to store. ``body``: one frame or more, any of which may be empty (TI-14).

    ``service``: the target, not empty. ``user``: the authenticated client, or empty; it travels with the request.
    """

    service: str
    body: Frames
    user: str = ""


@dataclass(frozen=True, slots=True)
class ClaimedRequest:
    """A request that the claimer may execute until its lease ends. ``attempts`` counts its claims, with this one."""

    receipt: Receipt
    request: AcceptedRequest
    attempts: int


@dataclass(frozen=True, slots=True)
class RequestAnswer:
    """The state of a request; ``reply`` holds the frames of an answered one and is empty otherwise."""

    state: RequestState
    reply: Frames = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """How many requests the store holds. ``pending`` includes the leased ones."""

    pending: int
    leased: int
    answered: int


class RequestStore(Protocol):
    """Requests and their replies. Each method raises :class:`StoreUnavailable` when the store cannot be reached."""

    async def accept(self, request: AcceptedRequest) -> str:
        """Store a request and return its id: 32 lower-case hexadecimal characters, unguessable, never used again.

        Storing and queueing is one step (TI-09), and it is durable when this returns (TI-07). Raise ValueError when
        the service is empty or the body has no frame, :class:`StoreFull` when there is no room.
        """

    async def claim(self, limits: Mapping[str, int], lease_seconds: float) -> list[ClaimedRequest]:
        """Lease at most so many pending requests of each service, the oldest first; return them.

        A request whose lease ended is pending again and comes before younger ones. A claimed request is given to no
        other claimer until the lease ends or it is released. Never waits: return an empty list when nothing is due.
        """

    async def extend(self, receipts: Collection[Receipt], lease_seconds: float) -> set[Receipt]:
        """Let leases last so long from now; return the receipts that still hold their request.

        A receipt whose lease ended still holds when nobody claimed the request since.
        """

    async def settle(self, receipt: Receipt, reply: Frames) -> Settled:
        """Store the reply of a claimed request; the first reply wins, any other is refused by its fence (TI-12).

        It is durable when this returns. A receipt whose lease ended may still settle when nobody claimed the request
        since. The same receipt may settle twice; the first reply stays. Raise ValueError when the reply has no frame,
        :class:`StoreFull` when there is no room: the request stays leased, and the caller may repeat.
        """

    async def release(self, receipt: Receipt, delay_seconds: float = 0) -> bool:
        """Make a claimed request pending again, due after the delay; return False when the receipt holds no longer."""

    async def fetch(self, request_id: str) -> RequestAnswer:
        """Return the state and the reply. It changes nothing: repeated calls give the same answer (TI-03).

        Any text may be asked for; upper and lower case are the same id, and what is no id is UNKNOWN (TI-06, TI-20).
        """

    async def close(self, request_id: str) -> None:
        """Forget a request and its reply; it is never executed afterwards (TI-04, TI-11). Any text may be given.

        It is durable when this returns: no restart brings the request back. A closed request counts nowhere.
        """

    async def expire(self, retention_seconds: float) -> int:
        """Forget requests that were accepted longer ago and are not leased; return how many (TI-16)."""

    async def waiting(self) -> Sequence[str]:
        """Return the services that have a request to claim at this moment, each once."""

    async def changed(self, timeout_seconds: float) -> None:
        """Return soon after a request became claimable by ``accept`` or ``release``, or after the time.

        A request that was accepted before this call counts too, unless an earlier call returned for it. Leases that
        end need not be noticed: a dispatcher looks again after each return.
        """

    async def counts(self) -> StoreCounts:
        """Return how much the store holds."""


def is_request_id(text: str) -> bool:
    """Return whether a text may be an id, in upper or lower case: 32 hexadecimal characters (TI-06, TI-20)."""
    return len(text) == _ID_CHARACTERS and _HEXADECIMAL.issuperset(text.lower())


def require_request(request: AcceptedRequest) -> None:
    """Raise ValueError for a request without a service or without a frame."""
    if not request.service:
        raise ValueError("a request needs the name of a service")
    require_frames(request.body)


def require_frames(body: Frames) -> None:
    """Raise ValueError for a body without a frame."""
    if not body:
        raise ValueError("a body needs at least one frame; it may be empty")


def require_room(stored: int, requests_max: int, has_room_for_service: bool) -> None:
    """Raise :class:`StoreFull` when no further request, or none of one more service, may be stored."""
    if not has_room_for_service:
        raise StoreFull("requests for too many services without workers wait; close those, or start their workers")
    if stored >= requests_max:
        raise StoreFull(f"{stored} requests are stored, as many as may be; close those that are done")
