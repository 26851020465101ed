"""Titanic's store in memory: fast, and empty after a restart (TI-15)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping

from typing_extensions import override

from reqrep.frames import Frames
from reqrep.titanic.index import IndexEntry
from reqrep.titanic.indexed_store import IndexedRequestStore
from reqrep.titanic.store import (
    AcceptedRequest,
    ClaimedRequest,
    Receipt,
    Settled,
    StoreFull,
    require_frames,
    require_request,
    require_room,
)  # fmt: skip

__all__ = ["MemoryRequestStore"]


class MemoryRequestStore(IndexedRequestStore[Frames]):
    """The requests in memory. New requests are refused at each limit; replies are always stored.

    * ``requests_max``: the most stored requests, including answered ones.
    * ``services_max``: the most services with waiting requests.
    * ``bytes_max``: the most bytes of all requests and replies.
    * ``clock``: monotonic, in seconds.
    """

    def __init__(
        self,
        requests_max: int = 1_000_000,
        services_max: int = 1_000,
        bytes_max: int = 1024**3,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(clock)
        self._requests_max = requests_max
        self._services_max = services_max
        self._bytes_max = bytes_max
        self._bytes = 0

    @override
    async def accept(self, request: AcceptedRequest) -> str:
        require_request(request)
        has_room = self._index.has_room_for(request.service, self._services_max)
        require_room(len(self._index), self._requests_max, has_room)
        size = _size(request.body)
        if self._bytes + size > self._bytes_max:
            raise StoreFull(f"{self._bytes} bytes of requests are stored, near the limit; close answered requests")
        self._bytes += size
        request_id = secrets.token_hex(16)
        self._index.add(request_id, request.service, self._clock(), request.body, request.user)
        self._change.notify()
        return request_id

    @override
    async def claim(self, limits: Mapping[str, int], lease_seconds: float) -> list[ClaimedRequest]:
        return [_claimed(entry) for entry in self._index.claim(self._clock(), limits, lease_seconds)]

    @override
    async def settle(self, receipt: Receipt, reply: Frames) -> Settled:
        require_frames(reply)
        settled = self._index.judge(receipt)
        if settled is Settled.STORED and self._index.answer(receipt, reply):
            self._bytes += _size(reply)
        return settled

    @override
    async def close(self, request_id: str) -> None:
        entry = self._index.remove(request_id)
        if entry is not None:
            self._bytes -= _size(entry.body) + _size(entry.reply or [])

    @override
    async def expire(self, retention_seconds: float) -> int:
        now = self._clock()
        gone = self._index.expired(now, now - retention_seconds)
        for request_id in gone:
            await self.close(request_id)
        return len(gone)

    @override
    def _frames(self, reply: Frames) -> Frames:
        return list(reply)


def _size(frames: Frames) -> int:
    return sum(map(len, frames))


def _claimed(entry: IndexEntry[Frames]) -> ClaimedRequest:
    request = AcceptedRequest(entry.service, list(entry.body), entry.user)
    return ClaimedRequest(entry.receipt, request, entry.attempts)
