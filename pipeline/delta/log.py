"""Log: the commits of a table, one JSON file each, those of hookwire and those of other tools."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from itertools import count, takewhile
from typing import Any, Final
from urllib.parse import unquote

from pipeline.delta.foreign import ForeignCommit, foreign_commit
from pipeline.delta.snapshot import DataFile, State
from pipeline.storage import LakeStorage

__all__ = ["COLUMNS", "OURS", "DeltaLog", "LogEntry"]

OURS: Final = "hookwire"
"""The name of our member of a commit's metadata, and the id of our application transaction."""
COLUMNS: Final = "hookwireColumns"
"""The mark of our commits that only add columns, which an older version did not have."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A commit. ``content`` is its file in the log."""

    version: int
    content: bytes

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the content, in hexadecimal."""
        return sha256(self.content).hexdigest()

    @property
    def info(self) -> dict[str, Any]:
        """Return the metadata of the commit; empty if it has none."""
        lines = (json.loads(line) for line in self.content.splitlines() if line.startswith(b'{"commitInfo"'))
        return next((line["commitInfo"] for line in lines), {})

    @property
    def ours(self) -> dict[str, Any] | None:
        """Return the notes of our commit, with ``version`` and ``at``; None for a commit of another tool."""
        info = self.info
        if OURS not in info:
            return None
        at = datetime.fromtimestamp(info["timestamp"] / 1000, UTC).isoformat()
        return {"basis": self.version - 1, **info[OURS], "version": self.version, "at": at}

    @property
    def foreign(self) -> ForeignCommit | None:
        """Return the commit of another tool; None for our commit."""
        info = self.info
        return None if OURS in info or COLUMNS in info else foreign_commit(self.version, self._actions())

    @property
    def author(self) -> str:
        """Return the name of the commit with its job or tool, for a sentence."""
        ours = self.ours
        if ours is not None:
            return f"commit {self.version}, {ours['job']} of run {ours['run']}"
        return self.foreign.name if self.foreign else f"commit {self.version}, an upgrade of the table"

    def files(self, action: str) -> list[DataFile]:
        """Return the files of all actions ``add`` or ``remove``. The rows of removed files are unknown."""
        return [_file(each[action]) for each in self._actions() if each.get(action)]

    def _actions(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.content.splitlines() if line.strip()]


class DeltaLog:
    """The folder of a table's commits."""

    def __init__(self, lake: LakeStorage, folder: str) -> None:
        self._lake = lake
        self._folder = folder
        self._held: dict[int, LogEntry | None] = {}

    def hold(self, version: int) -> None:
        """Read a commit, unless it is held. From now on :meth:`entry` returns it as it is now."""
        self._held[version] = self.entry(version)

    def entry(self, version: int) -> LogEntry | None:
        """Return a commit; None if it is not there, or if a checkpoint has replaced it."""
        if version in self._held:
            return self._held[version]
        try:
            return LogEntry(version, self._lake.read(self._path(version)))
        except FileNotFoundError:
            return None

    def has(self, version: int) -> bool:
        """Return whether a commit is there."""
        return self._lake.info(self._path(version)).size is not None

    def is_newest(self, version: int, digest: str) -> bool:
        """Return whether this commit is as it was and the newest one, without a look at the others.

        No reader sees a commit that lies before a checkpoint which somebody made ahead of it.
        """
        return self.holds(version, digest) and not self.has(version + 1) and self.checkpoint() <= version

    def holds(self, version: int, digest: str) -> bool:
        """Return whether this commit has this digest."""
        entry = self.entry(version)
        return entry is not None and entry.digest == digest

    def make_durable(self, after: int) -> None:
        """Flush the commits after this one to disk, so that they survive a crash of the machine, as their files do."""
        self._lake.make_durable(map(self._path, takewhile(self.has, count(after + 1))))

    def add(self, entry: LogEntry) -> bool:
        """Add a commit to the log of a folder of this machine; return whether it was added, as ``LakeStorage.add``."""
        return self._lake.add(self._path(entry.version), entry.content)

    def checkpoint(self) -> int:
        """Return the version of the newest checkpoint; 0 if there is none, or if nobody can read its number."""
        try:
            said = json.loads(self._lake.read(self._newest_checkpoint))
        except (FileNotFoundError, ValueError):
            return 0
        version = said.get("version") if isinstance(said, dict) else None
        return version if isinstance(version, int) else 0

    def make_checkpoint_durable(self, version: int) -> None:
        """Flush a checkpoint to disk. Old commits may be deleted after it, and nothing but it names their files."""
        paths = f"{self._folder}/{version:020d}.checkpoint.parquet", self._newest_checkpoint
        self._lake.make_durable(path for path in paths if self._lake.info(path).size is not None)

    @property
    def _newest_checkpoint(self) -> str:
        return f"{self._folder}/_last_checkpoint"

    def _path(self, version: int) -> str:
        return f"{self._folder}/{version:020d}.json"

    def back_from(self, version: int) -> Iterator[LogEntry]:
        """Yield the commits from this one down to the oldest that no checkpoint has replaced."""
        for number in range(version, -1, -1):
            if (found := self.entry(number)) is None:
                return
            yield found

    def walked_from(self, version: int) -> tuple[dict[str, Any] | None, tuple[ForeignCommit, ...]]:
        """Return our newest commit up to this version, and the commits of other tools that are remembered.

        Our commit carries those that its job knew. Another tool may have made one while the job worked.
        """
        newest: dict[str, Any] | None = None
        found: list[ForeignCommit] = []
        known_to = -1
        for entry in self.back_from(version):
            ours = entry.ours
            newest = newest or ours
            if ours is None:
                found += filter(None, [entry.foreign])
            elif "foreign" in ours["state"] and known_to < 0:
                known_to = ours["basis"]
                found += State.of(ours["state"]).foreign
            if entry.version - 1 <= known_to:
                break
        return newest, tuple(sorted(found, key=lambda commit: commit.version))


def _file(action: Mapping[str, Any]) -> DataFile:
    stats = json.loads(action.get("stats") or "{}")
    values = {name: value or "" for name, value in (action.get("partitionValues") or {}).items()}
    return DataFile(unquote(action["path"]), stats.get("numRecords", 0), action.get("size") or 0, partition=values)
