"""Claim record: a file in the data folder that says which claims a process holds, and by its lock whether it lives.

::

    create: lock a new file, write its head, give it its name --> note each fence --> ended: the kernel frees the lock
                                                                                        |
    another process: of this boot, of this installation, the very file? lock it --------+--> the fences of a dead one

The kernel holds the lock for as long as the process exists, also while it is stopped, and for a child that it has
forked. No process id is read: in a container the new process has the number of the old one. What was written outlives
a SIGKILL. It need not outlive the machine, so a record of another boot proves nothing.

The lock proves a death on one kernel and for one file. So a record is used only if it was written under this boot: two
hosts never share one. It must be no copy of a file, and of this database. A record is made only on a file system whose
lock is the kernel's own. A server on a network, or a program, may free a lock while the holder lives.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self
from uuid import uuid4

__all__ = ["ClaimRecord", "DeadClaims", "dead_claims"]

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_MOUNTS: Final = Path("/proc/self/mountinfo")
_DESCRIPTORS: Final = Path("/proc/self/fdinfo")
_SUFFIX: Final = ".claims"
_HEAD: Final = struct.Struct("<8s36s4xQQ64s")
"""Magic, the boot's id, the file's device and number, the name of the installation."""
_MAGIC: Final = b"hwclaim1"
_FENCE: Final = struct.Struct("q")
FENCES_MAX: Final = 65_536
"""Fences are given to whole claims and commits. So this is the work of a lease at some 3,000 commits a second; of more,
the oldest wait for the end of their lease."""
_LOCAL: Final = frozenset({"btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"})
"""File systems with locks of the kernel alone, on which no two files have the same device and number. On bcachefs a
file and its snapshot have."""
_DRAFT: Final = ".new"
_USEFUL_SECONDS: Final = 3600.0
"""Longer than any lease: what an older record names is due by itself, or has been settled."""


class ClaimRecord:
    """The record of this process. It stays locked until the process ends, whatever becomes of this object."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._place = 0
        self.is_empty = True

    @classmethod
    def create(cls, folder: Path, installation: str) -> Self | None:
        """Return a new record, locked; None where a lock proves nothing. Raise OSError."""
        if (boot := _boot_id()) is None:
            return None
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / f"{uuid4().hex}{_SUFFIX}"
        draft = path.with_suffix(_DRAFT)
        descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        record = None
        try:
            if _is_local(descriptor):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.pwrite(descriptor, _head(descriptor, boot, installation), 0)
                # Only a complete record has the name, so one that is not locked is of a process that has ended.
                os.rename(draft, path)
                record = cls(path, descriptor)
        finally:
            if record is None:
                draft.unlink(missing_ok=True)
                os.close(descriptor)
        return record

    def note(self, fences: Iterable[int]) -> None:
        """Note claims, before anything is sent or answered because of them. Raise OSError."""
        for fence in fences:
            self.is_empty = False
            os.pwrite(self._descriptor, _FENCE.pack(fence), _HEAD.size + self._place * _FENCE.size)
            self._place = (self._place + 1) % FENCES_MAX

    def remove(self) -> None:
        """Remove the record. What is left of its claims waits for the end of the lease. Raise OSError: the record is
        still there, and locked.
        """
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)


class DeadClaims:
    """The record of a process that has ended, locked by this one."""

    def __init__(self, path: Path, content: bytes) -> None:
        self._path = path
        whole = len(content) - len(content) % _FENCE.size  # a file that was cut does not end a start
        noted = (found[0] for found in _FENCE.iter_unpack(content[:whole]))
        self.fences = [fence for fence in noted if fence]

    def remove(self) -> None:
        """Remove the record, once its claims are taken over."""
        self._path.unlink(missing_ok=True)


def dead_claims(folder: Path, installation: str) -> Generator[DeadClaims]:
    """Yield each record whose process has ended, locked while it is examined. Remove what nobody can ever use."""
    boot = _boot_id()
    if boot is None or not folder.is_dir():
        return
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        with _locked(path) as descriptor:
            if descriptor is None:
                continue
            if _is_old(os.fstat(descriptor)):
                path.unlink(missing_ok=True)
            elif os.pread(descriptor, _HEAD.size, 0) == _head(descriptor, boot, installation):
                yield DeadClaims(path, os.pread(descriptor, FENCES_MAX * _FENCE.size, _HEAD.size))
    for draft in folder.glob(f"*{_DRAFT}"):
        with suppress(FileNotFoundError):  # its process has just given it its name
            if _is_old(draft.stat()):
                draft.unlink()


def _is_old(status: os.stat_result) -> bool:
    return time.time() - status.st_mtime > _USEFUL_SECONDS


@contextmanager
def _locked(path: Path) -> Iterator[int | None]:
    """Yield the open file, if nobody else has it locked and it still has its name."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        yield None
        return
    try:
        yield descriptor if _lock(descriptor) and os.fstat(descriptor).st_nlink else None
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _head(descriptor: int, boot: bytes, installation: str) -> bytes:
    """Return the head of a record. A copy of the file has another number, and so another head."""
    status = os.fstat(descriptor)
    return _HEAD.pack(_MAGIC, boot, status.st_dev, status.st_ino, installation.encode()[:64])


def _boot_id() -> bytes | None:
    try:
        return _BOOT.read_bytes().strip()
    except OSError:
        return None


def _is_local(descriptor: int) -> bool:
    """Return whether the kernel alone keeps the file and its locks.

    The mount is found by the open file: a path may be covered, and a file of a subvolume has a device of its own.
    """
    try:
        about = (_DESCRIPTORS / str(descriptor)).read_text()
        mounts = [line.split() for line in _MOUNTS.read_text(errors="replace").splitlines()]
    except OSError:
        return False
    number = next((line.split()[1] for line in about.splitlines() if line.startswith("mnt_id:")), None)
    return any(words[0] == number and words[words.index("-") + 1] in _LOCAL for words in mounts)
