"""Head: the newest commit of a table, as the process knows it that made it. The next commit needs no other.

``deltalake`` reads the words on all files for each commit and for each look at a table. A table of 100,000 files takes
it a second each time. Nothing can conflict with a commit that only adds files directly behind one's own last commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pipeline.delta.actions import commit_of
from pipeline.delta.log import OURS, DeltaLog, LogEntry
from pipeline.delta.snapshot import Change, Snapshot, State
from pipeline.storage import LakeStorage

__all__ = ["LogHead", "commits_between"]

_FILES_PER_COMMIT: Final = 100


def commits_between(interval: int, files: int) -> int:
    """Return after how many commits a checkpoint is due: ``interval``, or more if it names many files.

    A checkpoint names all files. It is written so rarely that a commit pays for a hundred of them.
    """
    return max(interval, files // _FILES_PER_COMMIT)


class LogHead:
    """The head of the log of a table. It knows its commit by the digest of all bytes, and is empty without one."""

    def __init__(self, lake: LakeStorage, log: DeltaLog, partitions: Sequence[str]) -> None:
        self._lake = lake
        self._log = log
        self._partitions = partitions
        self._last: tuple[Snapshot, str] | None = None

    def snapshot(self) -> Snapshot | None:
        """Return the table after the last commit of this process; None if that is not the newest commit any more."""
        if self._last is None:
            return None
        snapshot, digest = self._last
        return snapshot if self._log.is_newest(snapshot.version, digest) else None

    def moved(self, snapshot: Snapshot, commit_id: str) -> bool:
        """Note the table after our commit of this id, which another program made; return whether it is the newest."""
        entry = self._log.entry(snapshot.version)
        is_ours = entry is not None and (entry.ours or {}).get("id") == commit_id
        self._last = (snapshot, entry.digest) if entry is not None and is_ours else None
        return self.snapshot() is not None

    def forget(self) -> None:
        """Empty the head: another tool committed at the same time, and may have set other rules for writers."""
        self._last = None

    def lost(self, basis: Snapshot) -> str | None:
        """Return in words that the commit of this process that made ``basis`` is no longer in the log, or None.

        Where a store does not exclude two writers, the other one may have put its commit in the place of ours.
        """
        if self._last is None or self._last[0] is not basis or self._log.holds(basis.version, self._last[1]):
            return None
        entry = self._log.entry(basis.version)
        said = "which was removed" if entry is None else f"in whose place is {entry.author}"
        return f"our commit {basis.version}, {said}"

    def add(self, basis: Snapshot, change: Change, state: State, ours: Mapping[str, Any], now: int) -> Snapshot | None:
        """Add the next commit to the log of a folder of this machine, if it only adds files behind our own last commit.

        Return the table after it, or None if it is not done. ``state`` is that after the commit, and ``ours`` are our
        notes on it; ``now`` is in milliseconds.
        """
        is_known = self._last is not None and self._last[0] is basis
        if change.removed or not is_known or not self._lake.is_local or self.snapshot() is None:
            return None
        entry = LogEntry(basis.version + 1, commit_of(ours, change.added, self._partitions, OURS, now))
        if not self._log.add(entry):
            return None
        after = basis.after(change, state)
        self._last = after, entry.digest
        return after

    def needs_checkpoint(self, interval: int) -> bool:
        """Return whether :func:`commits_between` were made since the newest checkpoint."""
        if self._last is None:
            return False
        snapshot, _ = self._last
        return snapshot.version - self._log.checkpoint() >= commits_between(interval, len(snapshot.files))
