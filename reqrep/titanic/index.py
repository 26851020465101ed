"""An index of requests and their states, without I/O. The memory store and the file store share it."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from reqrep.deadlines import Deadlines
from reqrep.titanic.store import Receipt, Settled, StoreCounts

__all__ = ["IndexEntry", "RequestIndex"]

Body = TypeVar("Body")
_NO_FENCE = 0
_NEVER = float("inf")
_STALE_MIN = 16


@dataclass(slots=True, eq=False)
class IndexEntry(Generic[Body]):
    """One request.

    * ``number``: its position in the order of acceptance.
    * ``body`` and ``reply``: frames, or the place where they are stored.
    * ``fence``: of the claim that may answer, or 0 if none may.
    * ``due_at``: when the request can be claimed again; None if it can be claimed now.
    * ``resumes_at``: set while the reply is being written. If the write fails, the lease ends at this time.
    """

    id: str
    service: str
    number: int
    accepted_at: float
    body: Body
    user: str = ""
    fence: int = _NO_FENCE
    attempts: int = 0
    due_at: float | None = None
    is_leased: bool = False
    resumes_at: float | None = None
    reply: Body | None = None

    @property
    def receipt(self) -> Receipt:
        """Return the receipt of the claim that may answer."""
        return Receipt(self.id, self.fence)


class RequestIndex(Generic[Body]):
    """Entries by id, and for each service a heap of the claimable entries. The caller passes the time.

    A step costs at most the logarithm of the number of entries of one service, so a long queue stays fast (ZP-34). A
    heap may hold stale entries, which were closed, answered or leased meanwhile. They are dropped when they reach the
    top, or when they are more than half of the heap.
    """

    def __init__(self) -> None:
        self._last_fence = _NO_FENCE
        self._last_number = 0
        self._entries: dict[str, IndexEntry[Body]] = {}
        self._ready: dict[str, list[tuple[int, int, IndexEntry[Body]]]] = {}
        self._stale: Counter[str] = Counter()
        self._due: Deadlines[IndexEntry[Body]] = Deadlines()
        self._leased = 0
        self._answered = 0

    def __iter__(self) -> Iterator[IndexEntry[Body]]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def start_fences(self, above: int) -> None:
        """Start fences above a number that no earlier process exceeded."""
        self._last_fence = above

    def add(self, request_id: str, service: str, accepted_at: float, body: Body, user: str = "") -> IndexEntry[Body]:
        """Add a new request and return its entry."""
        self._last_number += 1
        entry = IndexEntry(request_id, service, self._last_number, accepted_at, body, user)
        self._entries[request_id] = entry
        self._push(entry)
        return entry

    def find(self, request_id: str) -> IndexEntry[Body] | None:
        """Return the entry of an id, or None. Upper and lower case are equal."""
        return self._entries.get(request_id.lower())

    def claim(self, now: float, limits: Mapping[str, int], lease_seconds: float) -> list[IndexEntry[Body]]:
        """Lease and return the oldest claimable entries, at most ``limits[service]`` of each service."""
        self._wake(now)
        return [
            self._lease(now, entry, lease_seconds)
            for service, limit in limits.items()
            for _ in range(limit)
            if (entry := self._pop(service)) is not None
        ]

    def extend(self, now: float, receipts: Collection[Receipt], lease_seconds: float) -> set[Receipt]:
        """Extend leases to ``lease_seconds`` from now. Return the receipts that still hold their request."""
        held = set()
        for receipt in receipts:
            entry = self._entries.get(receipt.id)
            if entry is not None and entry.reply is None and entry.receipt == receipt:
                if entry.resumes_at is None:
                    self._leave(entry)
                    self._hold(entry, now + lease_seconds)
                held.add(receipt)
        return held

    def judge(self, receipt: Receipt) -> Settled:
        """Return the outcome that a reply with this receipt would have. Change nothing."""
        entry = self._entries.get(receipt.id)
        if entry is None:
            return Settled.UNKNOWN
        return Settled.STORED if entry.receipt == receipt else Settled.STALE

    def begin_settle(self, now: float, receipt: Receipt) -> None:
        """Keep the request from being claimed while its reply is written. Call it after :meth:`judge` said STORED."""
        entry = self._entries[receipt.id]
        if entry.reply is None and entry.resumes_at is None:
            entry.resumes_at = now if entry.due_at is None else entry.due_at
            self._leave(entry)
            self._hold(entry, _NEVER)

    def abort_settle(self, receipt: Receipt) -> None:
        """Restore the lease after the reply could not be written."""
        entry = self._entries.get(receipt.id)
        if entry is not None and entry.resumes_at is not None:
            self._hold(entry, entry.resumes_at)
            entry.resumes_at = None

    def answer(self, receipt: Receipt, reply: Body) -> bool:
        """Store the reply. Return False if the request has one already, which stays. Call :meth:`judge` first."""
        entry = self._entries[receipt.id]
        if entry.reply is not None:
            return False
        self._leave(entry)
        self._free(entry)
        entry.reply, entry.due_at, entry.fence, entry.resumes_at = reply, None, receipt.fence, None
        self._answered += 1
        return True

    def release(self, now: float, receipt: Receipt, delay_seconds: float) -> bool:
        """Make a claimed request pending again and its receipt invalid. Return False for an invalid receipt."""
        entry = self._entries.get(receipt.id)
        if entry is None or entry.reply is not None or entry.resumes_at is not None or entry.receipt != receipt:
            return False
        self._leave(entry)
        self._free(entry)
        entry.fence = _NO_FENCE
        entry.due_at = now + delay_seconds
        self._due.add(entry.due_at, entry)
        return True

    def remove(self, request_id: str) -> IndexEntry[Body] | None:
        """Remove and return a request, or return None if it is unknown."""
        entry = self._entries.pop(request_id.lower(), None)
        if entry is not None:
            self._leave(entry)
            self._free(entry)
            self._answered -= entry.reply is not None
            entry.due_at = _NEVER  # marks a copy in a heap as stale
        return entry

    def expired(self, now: float, before: float) -> list[str]:
        """Return the ids of the requests that were accepted earlier than ``before`` and are not leased."""
        self._wake(now)
        found = []
        for entry in self._entries.values():  # in the order of acceptance
            if entry.accepted_at >= before:
                break
            if not entry.is_leased:
                found.append(entry.id)
        return found

    def has_room_for(self, service: str, services_max: int) -> bool:
        """Return whether a request of this service keeps within ``services_max`` services with waiting requests."""
        return service in self._ready or len(self._ready) < services_max

    def waiting(self, now: float) -> list[str]:
        """Return the services with a claimable request."""
        self._wake(now)
        return [service for service in list(self._ready) if self._top(service) is not None]

    def counts(self, now: float) -> StoreCounts:
        """Return the numbers of requests by state."""
        self._wake(now)
        return StoreCounts(len(self._entries) - self._answered, self._leased, self._answered)

    def _lease(self, now: float, entry: IndexEntry[Body], lease_seconds: float) -> IndexEntry[Body]:
        self._last_fence += 1
        entry.fence = self._last_fence
        entry.attempts += 1
        self._hold(entry, now + lease_seconds)
        return entry

    def _hold(self, entry: IndexEntry[Body], until: float) -> None:
        self._leased += not entry.is_leased
        entry.is_leased = True
        entry.due_at = until
        if until < _NEVER:
            self._due.add(until, entry)

    def _free(self, entry: IndexEntry[Body]) -> None:
        self._leased -= entry.is_leased
        entry.is_leased = False

    def _wake(self, now: float) -> None:
        """Make entries claimable again whose lease or delay has ended."""
        for at, entry in self._due.due(now):
            if entry.due_at == at and entry.reply is None:
                self._free(entry)
                entry.due_at = None
                self._push(entry)

    def _push(self, entry: IndexEntry[Body]) -> None:
        heapq.heappush(self._ready.setdefault(entry.service, []), (entry.number, id(entry), entry))

    def _leave(self, entry: IndexEntry[Body]) -> None:
        """Count a claimable entry as stale, because it is about to change. Rebuild the heap if over half is stale."""
        if entry.due_at is not None or entry.reply is not None:
            return
        heap = self._ready.get(entry.service, [])
        self._stale[entry.service] += 1
        if self._stale[entry.service] > max(_STALE_MIN, len(heap) // 2):
            kept = [each for each in heap if each[2] is not entry and _may_be_claimed(each[2])]
            heapq.heapify(kept)
            self._ready[entry.service] = kept
            del self._stale[entry.service]

    def _top(self, service: str) -> IndexEntry[Body] | None:
        """Return the oldest claimable entry of a service, or None. Drop stale entries and an empty heap."""
        heap = self._ready.get(service)
        while heap:
            entry = heap[0][2]
            if _may_be_claimed(entry):
                return entry
            heapq.heappop(heap)
        self._ready.pop(service, None)
        self._stale.pop(service, None)
        return None

    def _pop(self, service: str) -> IndexEntry[Body] | None:
        entry = self._top(service)
        if entry is not None:
            heapq.heappop(self._ready[service])
        return entry


def _may_be_claimed(entry: IndexEntry[Body]) -> bool:
    return entry.due_at is None and entry.reply is None
