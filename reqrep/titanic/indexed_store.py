"""Base of the stores that keep an index of their requests in memory: the file and the memory store."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Generic, TypeVar

from typing_extensions import override

from reqrep.frames import Frames
from reqrep.titanic.change import ChangeSignal
from reqrep.titanic.index import RequestIndex
from reqrep.titanic.store import Receipt, RequestAnswer, RequestState, RequestStore, StoreCounts

__all__ = ["IndexedRequestStore"]

_Body = TypeVar("_Body")


class IndexedRequestStore(RequestStore, Generic[_Body]):
    """Implements the methods that need only the index. Subclasses store the bodies; entries hold bodies or places."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._index: RequestIndex[_Body] = RequestIndex()
        self._change = ChangeSignal()

    @override
    async def fetch(self, request_id: str) -> RequestAnswer:
        entry = self._index.find(request_id)
        if entry is None:
            return RequestAnswer(RequestState.UNKNOWN)
        if entry.reply is None:
            return RequestAnswer(RequestState.PENDING)
        return RequestAnswer(RequestState.ANSWERED, self._frames(entry.reply))

    @override
    async def extend(self, receipts: Collection[Receipt], lease_seconds: float) -> set[Receipt]:
        return self._index.extend(self._clock(), receipts, lease_seconds)

    @override
    async def release(self, receipt: Receipt, delay_seconds: float = 0) -> bool:
        held = self._index.release(self._clock(), receipt, delay_seconds)
        if held:
            self._change.notify()
        return held

    @override
    async def waiting(self) -> Sequence[str]:
        return self._index.waiting(self._clock())

    @override
    async def changed(self, timeout_seconds: float) -> None:
        await self._change.wait(timeout_seconds)

    @override
    async def counts(self) -> StoreCounts:
        return self._index.counts(self._clock())

    @abstractmethod
    def _frames(self, reply: _Body) -> Frames:
        """Return the frames of a stored reply."""
