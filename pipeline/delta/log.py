"""Log: the commits of a table, one JSON file each, those of hookwire and those of other tools."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import unquote

from pipeline.delta.foreign import ForeignCommit, foreign_commit
from pipeline.delta.snapshot import DataFile
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

    def entry(self, version: int) -> LogEntry | None:
        """Return a commit; None if it is not there, or if a checkpoint has replaced it."""
        try:
            return LogEntry(version, self._lake.read(f"{self._folder}/{version:020d}.json"))
        except FileNotFoundError:
            return None

    def back_from(self, version: int) -> Iterator[LogEntry]:
        """Yield the commits from this one down to the oldest that no checkpoint has replaced."""
        for number in range(version, -1, -1):
            if (found := self.entry(number)) is None:
                return
            yield found


def _file(action: Mapping[str, Any]) -> DataFile:
    stats = json.loads(action.get("stats") or "{}")
    values = {name: value or "" for name, value in (action.get("partitionValues") or {}).items()}
    return DataFile(unquote(action["path"]), stats.get("numRecords", 0), action.get("size") or 0, partition=values)
