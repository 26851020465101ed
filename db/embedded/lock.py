"""Locks on files. The kernel ties each lock to the processes that have the file open.

No pid, clock or namespace is involved. So a lock that can be taken proves that no process holds it, even after a kill.
A child that inherits the descriptor keeps the lock, and so do its own children. From that :mod:`db.embedded.server`
knows whether a server still runs (RR-14).
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

__all__ = ["FileLock"]


class FileLock:
    """An exclusive ``flock`` on a file that is created when missing and never deleted.

    The file holds the pid of the last holder, for people and for error messages only.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    @property
    def held(self) -> bool:
        """Return whether this object has the lock."""
        return self._descriptor is not None

    def fileno(self) -> int:
        """Return the locked descriptor, to pass it to a child; only while held."""
        assert self._descriptor is not None
        return self._descriptor

    def acquire(self) -> bool:
        """Take the lock without waiting; return False when another process holds it.

        Raise OSError when the file cannot be opened.
        """
        assert not self.held
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return True

    def holder_pid(self) -> int | None:
        """Return the pid that the holder wrote, or None when it has not written one yet."""
        text = self.path.read_text(encoding="ascii", errors="replace").strip()
        return int(text) if text.isdigit() else None

    def close(self) -> None:
        """Release the lock here. A child that has the descriptor keeps it. Without effect when not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
