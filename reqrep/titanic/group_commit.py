"""Writes that share a sync: while one batch is written in a thread, the next one collects (TI-15).

After a batch, its callers get their answers and may call again. The next batch waits for as many as were there, half
the time of a sync at most: otherwise batches of one and of all the others would alternate.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from reqrep.titanic.log_file import RECORD_BYTES, LogFile, LogPlace
from reqrep.titanic.record import RecordKind
from reqrep.titanic.store import StoreError, StoreFull, StoreUnavailable

__all__ = ["Chore", "GroupCommit"]

_GATHER_SECONDS_MAX = 0.002
Apply = Callable[[LogPlace], Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Chore:
    """Work on the file between two batches: ``run`` in the thread, then ``apply`` in the loop, with its result."""

    run: Callable[[], Any]
    apply: Callable[[Any], None]


@dataclass(slots=True)
class _Write:
    """A record that waits for its sync. ``apply`` takes its place in the file; ``refuse`` is called after a failure."""

    kind: RecordKind
    payload: bytes
    apply: Apply
    refuse: Callable[[], None]
    done: asyncio.Future[Any]

    def finish(self, outcome: LogPlace | Exception) -> None:
        """Let the change take effect, then answer the caller, who may have been cancelled meanwhile."""
        if isinstance(outcome, LogPlace):
            result = self.apply(outcome)
            if not self.done.done():
                self.done.set_result(result)
            return
        self.refuse()
        if not self.done.done():
            self.done.set_exception(outcome)


class GroupCommit:
    """The one writer of a log file. ``chore``: asked before each batch for work that comes first, or None.

    ``had_no_room``: a record was refused. ``reserve_bytes``: room that requests leave to all other records.
    ``file_bytes_max``: the file grows no further.
    """

    def __init__(
        self,
        log: LogFile,
        chore: Callable[[], Chore | None],
        collect_seconds: float,
        reserve_bytes: int,
        file_bytes_max: int,
    ) -> None:
        self.log = log
        self.had_no_room = False
        self._chore = chore
        self._collect_seconds = collect_seconds
        self._reserve_bytes = reserve_bytes
        self._file_bytes_max = file_bytes_max
        self._waiting: list[_Write] = []
        self._batch_records = 0
        self._sync_seconds = 0.0
        self._wanted = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_writing = False
        self._is_closed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="titanic-file")

    async def write(
        self, kind: RecordKind, payload: bytes, apply: Apply, refuse: Callable[[], None] = lambda: None
    ) -> Any:
        """Return what ``apply`` returned after the sync. Raise :class:`StoreFull` or :class:`StoreError`.

        Records take effect in the order of these calls, also when a caller is cancelled.
        """
        loop = asyncio.get_running_loop()
        if self._is_closed:
            raise _closed()
        write = _Write(kind, payload, apply, refuse, loop.create_future())
        self._waiting.append(write)
        if not self._is_writing:
            self._is_writing = True
            self._timer = loop.call_later(self._collect_seconds, self._begin, loop)
        elif self._timer is not None and not self._collect_seconds and len(self._waiting) == self._wanted:
            self._timer.cancel()
            self._begin(loop)
        return await write.done

    def close(self) -> None:
        """Finish the batch in progress; calls that wait for a later one are refused."""
        self._thread.shutdown(wait=True)
        self._refuse_all()
        self.log.close()

    def _refuse_all(self) -> None:
        self._is_closed = True
        waiting, self._waiting = self._waiting, []
        for write in waiting:
            write.finish(_closed())

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give the thread its next work."""
        self._timer = None
        if self._is_closed:
            return
        if (chore := self._chore()) is not None:
            self._submit(loop, chore.run, chore.apply)
        elif self._waiting:
            batch, self._waiting = self._waiting, []
            self._submit(loop, lambda: self._append(batch), lambda outcomes: _finish(batch, outcomes))
        else:
            self._is_writing = False

    def _submit(self, loop: asyncio.AbstractEventLoop, work: Callable[[], T], apply: Callable[[T], None]) -> None:
        """Run the work in the thread, its consequence in the loop, and begin again."""

        def finish(future: Future[T]) -> None:
            try:
                apply(future.result())
            except BaseException:  # what the file holds is not known: nothing may be written or answered any more
                self._refuse_all()
                raise
            self._gather(loop)

        def finished(future: Future[T]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(finish, future)

        self._thread.submit(work).add_done_callback(finished)

    def _gather(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin when the callers of the last batch are back, or after half the time of its sync."""
        self._wanted = self._batch_records + len(self._waiting)
        patience = min(self._sync_seconds / 2, _GATHER_SECONDS_MAX) if self._wanted > 1 else 0.0
        self._timer = loop.call_later(max(self._collect_seconds, patience), self._begin, loop)

    def _append(self, batch: Sequence[_Write]) -> list[LogPlace | Exception]:
        """Write what has room, in the thread; return the place or the failure of each record."""
        began = time.monotonic()
        try:
            fitting = self._fitting(batch)
            places = iter(self.log.append([(write.kind, write.payload) for write in fitting]) if fitting else ())
        except Exception as error:  # noqa: BLE001 - handed to each caller, who raises it
            return [error for _ in batch]
        self._batch_records, self._sync_seconds = len(batch), time.monotonic() - began
        has_room = {id(write) for write in fitting}
        return [next(places) if id(write) in has_room else self._full() for write in batch]

    def _fitting(self, batch: Sequence[_Write]) -> Sequence[_Write]:
        """Return all records, or without the requests when those would use the reserve, or none."""
        wanted = _size(batch)
        room = min(self.log.room(wanted + self._reserve_bytes), self._file_bytes_max - self.log.end)
        if wanted + self._reserve_bytes <= room:
            return batch
        urgent = [write for write in batch if write.kind is not RecordKind.REQUEST]
        return urgent if _size(urgent) <= room else []

    def _full(self) -> StoreError:
        self.had_no_room = True
        return StoreFull(
            f"no room in {self.log.path}: free some space on its disk, or close requests; the file may have "
            f"{self._file_bytes_max} bytes; nothing was lost"
        )


def _closed() -> StoreUnavailable:
    return StoreUnavailable("the store of Titanic is closed; the log says why when nobody closed it")


def _size(batch: Sequence[_Write]) -> int:
    return sum(RECORD_BYTES + len(write.payload) for write in batch)


def _finish(batch: Sequence[_Write], outcomes: Sequence[LogPlace | Exception]) -> None:
    for write, outcome in zip(batch, outcomes, strict=True):
        write.finish(outcome)
