"""Writes that share a sync: while a thread writes one batch, calls collect for the next (TI-15).

After a batch, its callers get their answers and may call again. The next batch therefore waits for as many calls as
the last one had, but at most for half the time of a sync. Without this wait, the first caller to return would be synced
alone while all others waited.
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
    """Work on the file between two batches: ``run`` runs in the thread; ``apply`` gets its result in the event loop."""

    run: Callable[[], Any]
    apply: Callable[[Any], None]


@dataclass(slots=True)
class _Write:
    """A record that waits for its sync. Then ``apply`` gets its place in the file, or ``refuse`` is called."""

    kind: RecordKind
    payload: bytes
    apply: Apply
    refuse: Callable[[], None]
    done: asyncio.Future[Any]

    def finish(self, outcome: LogPlace | Exception) -> None:
        """Apply the change or refuse it, then answer the caller unless it was cancelled."""
        if isinstance(outcome, LogPlace):
            result = self.apply(outcome)
            if not self.done.done():
                self.done.set_result(result)
            return
        self.refuse()
        if not self.done.done():
            self.done.set_exception(outcome)


class GroupCommit:
    """The only writer of a log file.

    * ``had_no_room``: a record was refused for lack of space.
    * ``chore`` is called before each batch and returns work to do first, or None.
    * ``collect_seconds``: how long a batch waits for more calls.
    * ``reserve_bytes``: space that requests leave free for all other records.
    * ``file_bytes_max``: the largest size of the file.
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
        """Write a record, call ``apply`` after the sync, and return its result.

        Records take effect in the order of these calls, even if a caller is cancelled. Raise :class:`StoreFull` or
        :class:`StoreError`.
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
        """Finish the batch in progress and refuse all later writes."""
        self._thread.shutdown(wait=True)
        self._refuse_all()
        self.log.close()

    def _refuse_all(self) -> None:
        self._is_closed = True
        waiting, self._waiting = self._waiting, []
        for write in waiting:
            write.finish(_closed())

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the next work of the thread: a chore or a batch."""
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
        """Run ``work`` in the thread, then ``apply`` in the event loop, then gather the next batch."""

        def finish(future: Future[T]) -> None:
            try:
                apply(future.result())
            except BaseException:  # The file's content is unknown, so nothing more may be written or answered.
                self._refuse_all()
                raise
            self._gather(loop)

        def finished(future: Future[T]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(finish, future)

        self._thread.submit(work).add_done_callback(finished)

    def _gather(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin when as many calls wait as the last batch had, or after half the time of its sync."""
        self._wanted = self._batch_records + len(self._waiting)
        patience = min(self._sync_seconds / 2, _GATHER_SECONDS_MAX) if self._wanted > 1 else 0.0
        self._timer = loop.call_later(max(self._collect_seconds, patience), self._begin, loop)

    def _append(self, batch: Sequence[_Write]) -> list[LogPlace | Exception]:
        """Write the records that fit, in the thread. Return the place or the failure of each record."""
        began = time.monotonic()
        try:
            fitting = self._fitting(batch)
            places = iter(self.log.append([(write.kind, write.payload) for write in fitting]) if fitting else ())
        except Exception as error:  # noqa: BLE001 - each caller raises it
            return [error for _ in batch]
        self._batch_records, self._sync_seconds = len(batch), time.monotonic() - began
        has_room = {id(write) for write in fitting}
        return [next(places) if id(write) in has_room else self._full() for write in batch]

    def _fitting(self, batch: Sequence[_Write]) -> Sequence[_Write]:
        """Return the records that fit: all, or all but the requests if these would use the reserve, or none."""
        wanted = _size(batch)
        room = min(self.log.room(wanted + self._reserve_bytes), self._file_bytes_max - self.log.end)
        if wanted + self._reserve_bytes <= room:
            return batch
        urgent = [write for write in batch if write.kind is not RecordKind.REQUEST]
        return urgent if _size(urgent) <= room else []

    def _full(self) -> StoreError:
        self.had_no_room = True
        return StoreFull(
            f"no space for a record in {self.log.path}: free space on its disk or close requests; the file may have "
            f"{self._file_bytes_max} bytes; nothing was lost"
        )


def _closed() -> StoreUnavailable:
    return StoreUnavailable("Titanic's store is closed; if you did not stop the broker, its log holds the reason")


def _size(batch: Sequence[_Write]) -> int:
    return sum(RECORD_BYTES + len(write.payload) for write in batch)


def _finish(batch: Sequence[_Write], outcomes: Sequence[LogPlace | Exception]) -> None:
    for write, outcome in zip(batch, outcomes, strict=True):
        write.finish(outcome)
