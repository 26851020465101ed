"""Titanic's store in one append-only file: durable without a database (TI-07, TI-15).

A call returns after the sync of its record; concurrent calls share a sync. Leases are not written, because only this
process could use them. Bodies stay in the file; memory holds an index entry for each request.

When more than half of the file is unused, the used records are copied to a new file. The new file replaces the old one
atomically. Writes wait meanwhile.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from typing_extensions import override

from reqrep.frames import Frames
from reqrep.titanic.group_commit import Chore, GroupCommit
from reqrep.titanic.index import IndexEntry
from reqrep.titanic.indexed_store import IndexedRequestStore
from reqrep.titanic.log_file import LogFile, LogPlace, LogRecord
from reqrep.titanic.record import (
    RecordKind,
    StoredReply,
    StoredRequest,
    pack_closed,
    pack_opened,
    pack_reply,
    pack_request,
    read_closed,
    read_opened,
    read_reply,
    read_request,
)  # fmt: skip
from reqrep.titanic.store import (
    AcceptedRequest,
    ClaimedRequest,
    Receipt,
    Settled,
    StoreError,
    require_frames,
    require_request,
    require_room,
)  # fmt: skip

__all__ = ["FileRequestStore", "FileStoreOptions", "open_file_store"]

_LOG = logging.getLogger(__name__)
_NAME: Final = "requests.titanic"
_FENCE_BITS: Final = 40


@dataclass(frozen=True, slots=True)
class FileStoreOptions:
    """Place and limits of the store. New requests are refused at each limit.

    * ``folder``: used by this broker alone.
    * ``requests_max``: the most stored requests, including answered ones. Each has an index entry in memory.
    * ``services_max``: the most services with waiting requests.
    * ``file_bytes_max``: the largest size of the file.
    * ``collect_seconds``: how long a batch waits for more calls before its sync (TI-15).
    * ``reserve_bytes``: space that new requests leave free for replies and closing when the disk is nearly full.
    * ``compact_bytes_min``: smaller files are not compacted.
    * ``wall_clock``: for the age of requests, which also counts the time between two processes.
    * ``clock``: monotonic, for leases.
    """

    folder: Path
    requests_max: int = 1_000_000
    services_max: int = 1_000
    file_bytes_max: int = 16 * 1024**3
    collect_seconds: float = 0.0
    reserve_bytes: int = 1024 * 1024
    compact_bytes_min: int = 64 * 1024 * 1024
    wall_clock: Callable[[], float] = time.time
    clock: Callable[[], float] = time.monotonic


@asynccontextmanager
async def open_file_store(options: FileStoreOptions) -> AsyncIterator[FileRequestStore]:
    """Open the store of a folder: create the folder if it is absent, read the file, cut off an incomplete last batch.

    Raise :class:`StoreError` if another broker uses the folder, or if the file is damaged or cannot be written.
    """
    with _locked(options.folder):
        store = FileRequestStore(options)
        try:
            yield store
        finally:
            store.close_file()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the folder's lock file; the kernel unlocks it when the process ends. Raise :class:`StoreError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / f"{_NAME}.lock").open("wb")
    except OSError as error:
        raise StoreError(f"cannot use the folder {folder}: {error}; name another one") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreError(f"{folder} is in use by another broker; give each broker its own folder") from error
        yield


class FileRequestStore(IndexedRequestStore[LogPlace]):
    """The requests in a file. Open it with :func:`open_file_store`, which also locks the folder."""

    def __init__(self, options: FileStoreOptions) -> None:
        super().__init__(options.clock)
        path = options.folder / _NAME
        self._log = LogFile(path) if path.exists() else LogFile.create(path, (), pack_opened(0))
        self._wall_clock = options.wall_clock
        self._requests_max, self._services_max = options.requests_max, options.services_max
        self._epoch = 0
        self._live_bytes = 0
        for record in self._log.records():
            self._replay(record)
        self._epoch += 1
        self._index.start_fences(self._epoch << _FENCE_BITS)
        self._log.append([(RecordKind.OPENED, pack_opened(self._epoch))])
        self._compact_bytes_min = options.compact_bytes_min
        self._failed_at = self._failed_live_bytes = 0
        self._commit = GroupCommit(
            self._log, self._chore, options.collect_seconds, options.reserve_bytes, options.file_bytes_max
        )

    def close_file(self) -> None:
        """Finish the write in progress and close the file."""
        self._commit.close()

    # --- requests -----------------------------------------------------------------------------------------------

    @override
    async def accept(self, request: AcceptedRequest) -> str:
        require_request(request)
        has_room = self._index.has_room_for(request.service, self._services_max)
        require_room(len(self._index), self._requests_max, has_room)
        stored = StoredRequest(secrets.token_hex(16), self._wall_clock(), request.service, request.user, request.body)
        await self._commit.write(RecordKind.REQUEST, pack_request(stored), lambda place: self._add(stored, place))
        self._change.notify()
        return stored.id

    @override
    async def close(self, request_id: str) -> None:
        entry = self._index.find(request_id)
        if entry is not None:
            await self._commit.write(RecordKind.CLOSED, pack_closed(entry.id), lambda _: self._remove(entry.id))

    @override
    async def expire(self, retention_seconds: float) -> int:
        gone = self._index.expired(self._clock(), self._wall_clock() - retention_seconds)
        await asyncio.gather(*map(self.close, gone))
        return len(gone)

    # --- claims -------------------------------------------------------------------------------------------------

    @override
    async def claim(self, limits: Mapping[str, int], lease_seconds: float) -> list[ClaimedRequest]:
        claimed = []
        for entry in self._index.claim(self._clock(), limits, lease_seconds):
            try:
                stored = read_request(self._log.read(entry.body))
            except StoreError as error:  # Execute the others. This request is claimed again after its lease.
                _LOG.error("request %s cannot be read: %s", entry.id, error)
                continue
            request = AcceptedRequest(stored.service, stored.body, stored.user)
            claimed.append(ClaimedRequest(entry.receipt, request, entry.attempts))
        return claimed

    @override
    async def settle(self, receipt: Receipt, reply: Frames) -> Settled:
        require_frames(reply)
        settled = self._index.judge(receipt)
        if settled is not Settled.STORED:
            return settled
        self._index.begin_settle(self._clock(), receipt)
        payload = pack_reply(StoredReply(receipt.id, receipt.fence, reply))
        written: Settled = await self._commit.write(
            RecordKind.REPLY,
            payload,
            lambda place: self._answer(receipt, place),
            lambda: self._index.abort_settle(receipt),
        )
        return written

    @override
    def _frames(self, reply: LogPlace) -> Frames:
        return read_reply(self._log.read(reply)).body

    # --- the index follows the file -----------------------------------------------------------------------------

    def _replay(self, record: LogRecord) -> None:
        """Apply a record of the file to the index, as when it was written."""
        match record.kind:
            case RecordKind.OPENED:
                self._epoch = read_opened(record.payload)
            case RecordKind.REQUEST:
                self._add(read_request(record.payload), record.place)
            case RecordKind.REPLY:
                reply = read_reply(record.payload)
                if self._index.find(reply.id) is not None:
                    self._answer(Receipt(reply.id, reply.fence), record.place)
            case RecordKind.CLOSED:
                self._remove(read_closed(record.payload))

    def _add(self, request: StoredRequest, place: LogPlace) -> None:
        self._index.add(request.id, request.service, request.accepted_at, place, request.user)
        self._live_bytes += place.length

    def _answer(self, receipt: Receipt, place: LogPlace) -> Settled:
        """Store the reply in the index unless the request has a reply already. UNKNOWN: it was closed meanwhile."""
        if self._index.find(receipt.id) is None:
            return Settled.UNKNOWN
        if self._index.answer(receipt, place):
            self._live_bytes += place.length
        return Settled.STORED

    def _remove(self, request_id: str) -> None:
        entry = self._index.remove(request_id)
        if entry is not None:
            self._live_bytes -= entry.body.length + (0 if entry.reply is None else entry.reply.length)

    # --- compaction ---------------------------------------------------------------------------------------------

    def _chore(self) -> Chore | None:
        """Return the compaction if at least half of the file is unused, else None.

        A small file is compacted only after a record found no space. After a failed compaction, wait until the file has
        grown by half or the used part has halved.
        """
        is_due = self._commit.had_no_room or self._log.end >= self._compact_bytes_min
        may_retry = self._log.end >= self._failed_at * 1.5 or self._live_bytes * 2 <= self._failed_live_bytes
        if not is_due or not may_retry or self._live_bytes * 2 > self._log.end:
            return None
        entries = list(self._index)
        return Chore(lambda: self._copied(entries), lambda copied: self._replace(entries, copied))

    def _copied(self, entries: list[IndexEntry[LogPlace]]) -> tuple[LogFile, list[LogPlace]] | None:
        """Write the used records to a new file, in the thread. Return it and the new places, or None on failure."""
        try:
            self._log.trim()
            log = LogFile.create(self._log.path, self._useful(entries), pack_opened(self._epoch))
        except StoreError as error:
            _LOG.warning("Titanic's file could not be compacted and stays as it is: %s", error)
            return None
        return log, [record.place for record in log.records()]

    def _useful(self, entries: list[IndexEntry[LogPlace]]) -> Iterator[tuple[RecordKind, bytes]]:
        for entry in entries:
            yield RecordKind.REQUEST, self._log.read(entry.body)
            if entry.reply is not None:
                yield RecordKind.REPLY, self._log.read(entry.reply)

    def _replace(self, entries: list[IndexEntry[LogPlace]], copied: tuple[LogFile, list[LogPlace]] | None) -> None:
        if copied is None:
            self._failed_at, self._failed_live_bytes = self._log.end, self._live_bytes
            return
        log, places = copied
        following = iter(places)
        for entry in entries:
            entry.body = next(following)
            if entry.reply is not None:
                entry.reply = next(following)
        self._log.close()
        self._log = self._commit.log = log
        self._failed_at = self._failed_live_bytes = 0
        self._commit.had_no_room = False
