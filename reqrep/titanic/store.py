"""The port for Titanic's stores: requests that survive the caller, the worker and the broker (9/TSP, TI-01 to TI-20).

A request is accepted once, executed at least once and answered once::

                accept              claim                settle
    (nothing) ---------> pending ----------> leased ---------------> answered
                            ^                   |                        |
                            '-- release, or ----'                        |
                                the lease ends                           |
    (unknown) <----------------- close, or expire (not while leased) ----'

The adapters:

* :mod:`reqrep.titanic.memory_store`: in memory; the requests end with the process.
* :mod:`reqrep.titanic.file_store`: one append-only file; a broker needs no database.
* ``reqrep.titanic.postgresql_store``: the hub's database, whose tables also hold the requests of HTTP and SQL. Only the
  composition in ``app`` imports it.

``tests/contract/test_request_store_port.py`` tests each adapter; ``tests/contract/request_stores.py`` lists them.

**Durability.** ``accept``, ``settle`` and ``close`` return after the change is as durable as the adapter promises. A
call that raises has changed nothing, with one exception: after :class:`StoreUnavailable` the outcome may be unknown.
The caller may then repeat ``settle`` and ``close`` with the same arguments.

**Order.** Requests of one service are claimed in the order in which they were accepted, except released requests.
Services do not delay each other (TI-19).

Opening and closing belong to the adapters. Methods are coroutines of one event loop and may run concurrently; an
adapter may let concurrent calls share one commit. The outcome of a cancelled call is unknown.
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
    """The call failed; no stored request was lost. TSP answers 500, HTTP 503. The message names a remedy."""


class StoreFull(StoreError):
    """No space for a new request: the disk is full, or a limit is reached. Accepted requests stay stored."""


class StoreUnavailable(StoreError):
    """The store does not answer at present, for example because a database restarts. A repetition may succeed."""


class RequestState(StrEnum):
    """The state of a request. PENDING includes leased requests. UNKNOWN: never accepted, closed, or expired (TI-05)."""

    PENDING = "pending"
    ANSWERED = "answered"
    UNKNOWN = "unknown"


class Settled(StrEnum):
    """The outcome of a reply.

    * STORED: the request has its reply, from this call or an earlier call with the same receipt.
    * STALE: another claim holds or has answered the request, so this reply was discarded (TI-12).
    * UNKNOWN: the request was closed or has expired, so this reply was discarded; the id stays unknown (TI-17).
    """

    STORED = "stored"
    STALE = "stale"
    UNKNOWN = "unknown"


class Receipt(NamedTuple):
    """The right of one claim to answer. ``fence`` rises with each claim of a request and is never reused."""

    id: str
    fence: int


@dataclass(frozen=True, slots=True)
class AcceptedRequest:
    """A request to store.

    ``service`` is not empty. ``body`` has at least one frame; frames may be empty (TI-14). ``user`` is the
    authenticated client, or empty.
    """

    service: str
    body: Frames
    user: str = ""


@dataclass(frozen=True, slots=True)
class ClaimedRequest:
    """A request that the caller may execute until its lease ends. ``attempts`` includes this claim."""

    receipt: Receipt
    request: AcceptedRequest
    attempts: int


@dataclass(frozen=True, slots=True)
class RequestAnswer:
    """The state of a request, and the frames of its reply (empty unless it is answered)."""

    state: RequestState
    reply: Frames = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """The numbers of stored requests by state. ``pending`` includes ``leased``."""

    pending: int
    leased: int
    answered: int


class RequestStore(Protocol):
    """Requests and their replies. Each method raises :class:`StoreUnavailable` if the store does not answer."""

    async def accept(self, request: AcceptedRequest) -> str:
        """Store a request and return its id: 32 random lower-case hexadecimal characters, never reused.

        Storing and queueing are one atomic step (TI-09), durable when this returns (TI-07). Raise ValueError if the
        service is empty or the body has no frame. Raise :class:`StoreFull` if there is no space.
        """

    async def claim(self, limits: Mapping[str, int], lease_seconds: float) -> list[ClaimedRequest]:
        """Lease and return at most ``limits[service]`` pending requests of each service, the oldest first.

        A request whose lease ended can be claimed again, before younger requests. No other call returns a leased
        request until its lease ends or it is released. Never wait: return an empty list if nothing is due.
        """

    async def extend(self, receipts: Collection[Receipt], lease_seconds: float) -> set[Receipt]:
        """Extend leases to ``lease_seconds`` from now. Return the receipts that still hold their request.

        A receipt also holds its request after the lease ended, until another claim.
        """

    async def settle(self, receipt: Receipt, reply: Frames) -> Settled:
        """Store the reply of a claimed request durably. The first reply wins; the fence excludes all others (TI-12).

        A receipt may also settle after its lease ended, until another claim. It may settle twice; the first reply
        stays. Raise ValueError if the reply has no frame. Raise :class:`StoreFull` if there is no space: the request
        stays leased, and the caller may repeat.
        """

    async def release(self, receipt: Receipt, delay_seconds: float = 0) -> bool:
        """Make a claimed request pending again, due after the delay. Return False if the receipt is invalid."""

    async def fetch(self, request_id: str) -> RequestAnswer:
        """Return the state and the reply. Change nothing, so that the call can be repeated (TI-03).

        Upper and lower case of an id are equal. Text that is not an id is UNKNOWN (TI-06, TI-20).
        """

    async def close(self, request_id: str) -> None:
        """Delete a request and its reply durably; it is never executed afterwards (TI-04, TI-11).

        Text that is not a stored id has no effect. A closed request is not counted.
        """

    async def expire(self, retention_seconds: float) -> int:
        """Delete requests that are older than the retention and not leased. Return how many (TI-16)."""

    async def waiting(self) -> Sequence[str]:
        """Return the services with a claimable request, each once."""

    async def changed(self, timeout_seconds: float) -> None:
        """Return soon after ``accept`` or ``release`` made a request claimable, or after the time.

        A request that was accepted before this call counts too, unless an earlier call returned for it. The end of a
        lease need not end the wait.
        """

    async def counts(self) -> StoreCounts:
        """Return the numbers of stored requests."""


def is_request_id(text: str) -> bool:
    """Return whether a text has the form of an id: 32 hexadecimal characters, upper or lower case (TI-06, TI-20)."""
    return len(text) == _ID_CHARACTERS and _HEXADECIMAL.issuperset(text.lower())


def require_request(request: AcceptedRequest) -> None:
    """Raise ValueError for a request without a service or without a frame."""
    if not request.service:
        raise ValueError("a request must name a service")
    require_frames(request.body)


def require_frames(body: Frames) -> None:
    """Raise ValueError for a body without a frame."""
    if not body:
        raise ValueError("a body must have at least one frame, which may be empty")


def require_room(stored: int, requests_max: int, has_room_for_service: bool) -> None:
    """Raise :class:`StoreFull` if the number of requests or of services has reached its limit."""
    if not has_room_for_service:
        raise StoreFull("requests of too many services wait; close requests, or start workers for the services")
    if stored >= requests_max:
        raise StoreFull(f"{stored} requests are stored, which is the limit; close answered requests")
