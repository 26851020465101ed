"""An append-only file of records that survives a crash at any byte.

::

    header   magic, salt, checksum          written to a second file that is renamed, so never incomplete
    record   magic, kind, length, checksum, start of its batch, payload
    ...
    zeros    allocated in advance, so that a full disk is noticed before a record is written

Records are appended in batches, and each batch is synced before the next is written. The valid records end at the first
byte that does not begin a valid record. The bytes from there on have one of three causes:

* They are zeros, allocated in advance.
* A crash interrupted the last batch. That batch is cut off.
* Stored records were damaged later. Then a valid record follows whose batch *starts* behind the first invalid byte.
  That batch was written after a sync of all earlier records, so these were valid once. The file is refused.

The checksum includes the file's salt, so the body of a request cannot imitate a record.
"""

from __future__ import annotations

import errno
import logging
import mmap
import os
import secrets
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from reqrep.titanic.record import RecordKind
from reqrep.titanic.store import StoreError, StoreFull

__all__ = ["RECORD_BYTES", "LogFile", "LogPlace", "LogRecord"]

_LOG = logging.getLogger(__name__)
_MAGIC: Final = b"hwtitan1"
_HEADER: Final = struct.Struct("<8sQI")
_MARK: Final = b"\xd7T"
_RECORD: Final = struct.Struct("<2sHIIQ")
RECORD_BYTES: Final = _RECORD.size
"""Bytes of a record beside its payload."""
_SUMMED: Final = struct.Struct("<HIQ")
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_ALLOCATE_BYTES: Final = 4 * 1024 * 1024
_CHECKSUM_BYTES: Final = 4
_WRITE_BYTES: Final = 1024 * 1024


class LogPlace(NamedTuple):
    """The position of a record in the file. ``length`` includes the record's header."""

    at: int
    length: int


class LogRecord(NamedTuple):
    """A record read from the file."""

    kind: RecordKind
    payload: bytes
    place: LogPlace


class LogFile:
    """An open log file. All records before ``end`` are durable."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            self._salt = self._read_salt()
            self.end = self._sound_end()
            os.ftruncate(self._descriptor, self.end)
            os.fsync(self._descriptor)
        except BaseException:
            os.close(self._descriptor)
            raise
        self._allocated = self.end

    @classmethod
    def create(cls, path: Path, records: Iterable[tuple[RecordKind, bytes]], opened: bytes) -> LogFile:
        """Write a new file with these records, and replace the file at the path by it atomically.

        The record ``opened`` follows as a batch of its own, so that later damage to the records is detected. Raise
        :class:`StoreError` if the new file cannot be written; the old file stays. Raise OSError if the folder cannot be
        synced: after a crash either file may be there.
        """
        beside = path.with_name(f"{path.name}.new")
        with ExitStack() as undo:
            undo.callback(beside.unlink, missing_ok=True)
            try:
                _write_new(beside, records)
                log = cls(beside)
                undo.callback(log.close)
                log.append([(RecordKind.OPENED, opened)])
                beside.replace(path)
            except OSError as error:
                raise _explained(error, beside) from error
            undo.pop_all()
        _sync_folder(path.parent)
        log.path = path
        return log

    def records(self) -> Iterator[LogRecord]:
        """Yield all records in order."""
        if self.end > _HEADER.size:
            with mmap.mmap(self._descriptor, self.end, access=mmap.ACCESS_READ) as content:
                at = _HEADER.size
                while (found := _record_at(content, at, self._salt)) is not None:
                    yield found[0]
                    at += found[0].place.length

    def read(self, place: LogPlace) -> bytes:
        """Return the payload of a record. Raise :class:`StoreError` if it is damaged."""
        raw = os.pread(self._descriptor, place.length, place.at)
        found = _record_at(raw, 0, self._salt)
        if found is None:
            raise StoreError(f"{self.path}: the record at byte {place.at} is damaged; restore the file from a backup")
        return found[0].payload

    def room(self, wanted_bytes: int) -> int:
        """Try to allocate ``wanted_bytes`` behind the end. Return how many bytes are allocated there."""
        if self.end + wanted_bytes > self._allocated:
            self._allocate(self.end + wanted_bytes)
        return self._allocated - self.end

    def append(self, batch: Sequence[tuple[RecordKind, bytes]]) -> list[LogPlace]:
        """Write and sync records. Return their places.

        Raise :class:`StoreFull` on a full disk and :class:`StoreError` on another failure. The file then keeps its end.
        """
        packed = [_packed(kind, payload, self._salt, self.end) for kind, payload in batch]
        try:
            _write_all(self._descriptor, b"".join(packed), self.end)
            os.fdatasync(self._descriptor)
        except OSError as error:
            self._undo()
            raise _explained(error, self.path) from error
        places = []
        for raw in packed:
            places.append(LogPlace(self.end, len(raw)))
            self.end += len(raw)
        self._allocated = max(self._allocated, self.end)
        return places

    def trim(self) -> None:
        """Free the space that was allocated in advance."""
        os.ftruncate(self._descriptor, self.end)
        self._allocated = self.end

    def close(self) -> None:
        """Free the space that was allocated in advance, and close the file."""
        self.trim()
        os.close(self._descriptor)

    def _allocate(self, wanted: int) -> None:
        for size in (wanted + _ALLOCATE_BYTES, wanted):
            try:
                os.posix_fallocate(self._descriptor, self._allocated, size - self._allocated)
            except OSError as error:
                if error.errno not in _FULL:
                    raise StoreError(f"cannot allocate room in {self.path}: {error}") from error
            else:
                self._allocated = size
                return

    def _undo(self) -> None:
        """Cut off the bytes of a failed append, and sync, so that they do not reappear after a crash."""
        try:
            os.ftruncate(self._descriptor, self.end)
            self._allocated = self.end
            os.fsync(self._descriptor)
        except OSError as error:
            raise _explained(error, self.path) from error

    def _read_salt(self) -> int:
        raw = os.pread(self._descriptor, _HEADER.size, 0)
        if len(raw) < _HEADER.size or raw[:8] != _MAGIC or zlib.crc32(raw[:16]) != _HEADER.unpack(raw)[2]:
            raise StoreError(f"{self.path} is no file of Titanic, or its first bytes are damaged; use another folder")
        return int(_HEADER.unpack(raw)[1])

    def _sound_end(self) -> int:
        """Return the end of the valid records. Raise :class:`StoreError` if stored records are damaged."""
        size = os.fstat(self._descriptor).st_size
        with mmap.mmap(self._descriptor, size, access=mmap.ACCESS_READ) as content:
            end = _HEADER.size
            while (found := _record_at(content, end, self._salt)) is not None:
                end += found[0].place.length
            at = content.find(_MARK, end)
            is_torn = at >= 0
            while at >= 0:
                later = _record_at(content, at, self._salt)
                if later is not None and later[1] > end:
                    raise StoreError(
                        f"{self.path} is damaged at byte {end}: a stored record cannot be read, and "
                        f"valid records follow at byte {at}; restore the file from a backup"
                    )
                at = content.find(_MARK, at + 1)
        if is_torn:
            _LOG.warning("%s: cut off an incomplete batch at byte %d; no call of it had returned", self.path, end)
        return end


def _packed(kind: RecordKind, payload: bytes, salt: int, batch_at: int) -> bytes:
    return _RECORD.pack(_MARK, kind, len(payload), _sum(kind, payload, salt, batch_at), batch_at) + payload


def _sum(kind: int, payload: bytes, salt: int, batch_at: int) -> int:
    head = _SUMMED.pack(kind, len(payload), batch_at)
    return zlib.crc32(payload, zlib.crc32(head, zlib.crc32(salt.to_bytes(8, "little"))))


def _record_at(content: bytes | mmap.mmap, at: int, salt: int) -> tuple[LogRecord, int] | None:
    """Return the record that starts at ``at``, and the start of its batch, or None if there is no valid record."""
    if len(content) - at < _RECORD.size:
        return None
    mark, kind, length, checksum, batch_at = _RECORD.unpack_from(content, at)
    if mark != _MARK or length > len(content) - at - _RECORD.size:
        return None
    payload = content[at + _RECORD.size : at + _RECORD.size + length]
    if checksum != _sum(kind, payload, salt, batch_at):
        return None
    return LogRecord(RecordKind(kind), payload, LogPlace(at, _RECORD.size + length)), batch_at


def _write_new(path: Path, records: Iterable[tuple[RecordKind, bytes]]) -> None:
    salt = secrets.randbits(64)
    head = _HEADER.pack(_MAGIC, salt, 0)[:-_CHECKSUM_BYTES]
    with path.open("wb", buffering=_WRITE_BYTES) as file:
        file.write(head + zlib.crc32(head).to_bytes(_CHECKSUM_BYTES, "little"))
        for kind, payload in records:
            file.write(_packed(kind, payload, salt, _HEADER.size))
        file.flush()
        os.fsync(file.fileno())


def _write_all(descriptor: int, content: bytes, at: int) -> None:
    view = memoryview(content)
    while view:
        written = os.pwrite(descriptor, view, at)
        view, at = view[written:], at + written


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _explained(error: OSError, path: Path) -> StoreError:
    if error.errno in _FULL:
        return StoreFull(f"no space for {path}: {error.strerror}; free space on its disk; nothing was lost")
    return StoreError(f"cannot write {path}: {error}")
