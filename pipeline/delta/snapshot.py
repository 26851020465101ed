"""Snapshot: the contents of a table of the lake after a commit, and the changes of the next commit.

The Delta log says where a file lies and which values its partition columns have, to us as to every other reader.
Files that hookwire writes have these values in their folders too, so that a file without a log can still be judged.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from operator import attrgetter
from typing import Any, Final
from urllib.parse import unquote

from pipeline.delta.foreign import ForeignCommit
from pipeline.delta.growing import GrowingList

__all__ = ["BATCH", "Change", "DataFile", "Offsets", "Snapshot", "State", "batch_folder", "folder_values"]

Offsets = Mapping[str, Mapping[int, int]]
"""By Kafka topic and partition: the next offset to archive."""

BATCH: Final = re.compile(r"data/(?P<old>batch=)?(?P<number>\d{6,})-[0-9a-f]+/")
"""The beginning of the path of a file that hookwire wrote. Older versions wrote the word ``batch=``, which readers that
look at folders take for a column."""
_path = attrgetter("path")
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


def batch_folder(number: int) -> str:
    """Return a new folder for the files of our next commit. Some readers would take a "=" in it for a column."""
    return f"data/{number:06d}-{secrets.token_hex(3)}"


def folder_values(path: str) -> dict[str, str]:
    """Return the values in the folders of a path: ``{"dt": ..., "topic": ...}``; "" stands for null, as in the log."""
    parts = (part.partition("=") for part in path.split("/")[:-1] if "=" in part)
    return {name: "" if value == _NULL else unquote(value) for name, _, value in parts if name != "batch"}


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a table. ``path`` is relative to the table, or a URI. ``sha256`` is known for files just written.

    ``numbers``: the least and the greatest event number in the file; None if they are unknown. ``partition``: the
    values that the log gives the partition columns; None for a file that is not in the log yet.
    """

    path: str
    rows: int
    bytes: int
    sha256: str = field(default="", compare=False)
    numbers: tuple[int, int] | None = field(default=None, compare=False)
    partition: Mapping[str, str] | None = field(default=None, compare=False)

    @property
    def values(self) -> Mapping[str, str]:
        """Return the values of the partition columns as texts; "" stands for null."""
        return folder_values(self.path) if self.partition is None else self.partition

    @property
    def day(self) -> date:
        """Return the day of the file; the first of all days if another tool gave it none."""
        return date.fromisoformat(self.values.get("dt") or date.min.isoformat())

    @property
    def day_and_topic(self) -> str:
        """Return the key of the file's day in ``State.days`` of a table whose days are computed topic by topic."""
        return f"{self.values.get('dt', '')} {self.values.get('topic', '')}"

    @property
    def is_of_before(self) -> bool:
        """Return whether an older version named the file's folder, so that Polars cannot read it."""
        batch = BATCH.match(self.path)
        return batch is not None and batch["old"] is not None


@dataclass(frozen=True, slots=True)
class State:
    """The state that each of our commits carries besides files.

    ``incarnations``: the id that Kafka gave each topic; a topic that is created again has another id. ``kept``: the
    first day that retention kept, by Kafka topic; "" stands for all. ``days``: the number of source rows of each day,
    in a table of days. Tables of typed and rejected rows have it for each Kafka topic, as "2026-01-15 orders".
    ``foreign``: commits of other tools: those that changed rows until they are accepted, and the newest of the others.
    """

    offsets: Offsets = field(default_factory=dict)
    incarnations: Mapping[str, str] = field(default_factory=dict)
    kept: Mapping[str, str] = field(default_factory=dict)
    days: Mapping[str, int] = field(default_factory=dict)
    foreign: tuple[ForeignCommit, ...] = ()

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> State:
        """Return the state in the JSON of a commit, in which partitions are strings."""
        offsets = {topic: {int(p): o for p, o in of.items()} for topic, of in stored["offsets"].items()}
        foreign = tuple(ForeignCommit(**commit) for commit in stored.get("foreign", ()))
        return cls(offsets, stored["incarnations"], stored["kept"], stored["days"], foreign)

    def without_days(self, files: Iterable[DataFile]) -> State:
        """Return the state without the source counts of the days of these files, so that they are computed again."""
        gone = {key for file in files for key in (file.values.get("dt", ""), file.day_and_topic)}
        return replace(self, days={key: rows for key, rows in self.days.items() if key not in gone})


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The table after commit ``version``; ``number`` counts our commits. An empty table has version 0."""

    version: int = 0
    files: Sequence[DataFile] = ()
    state: State = field(default_factory=State)
    number: int = 0

    @property
    def rows(self) -> int:
        """Return the number of rows in all files."""
        return sum(file.rows for file in self.files)

    @property
    def offsets(self) -> Offsets:
        """Return the offsets at which the archive continues."""
        return self.state.offsets

    def after(self, change: Change, state: State) -> Snapshot:
        """Return the snapshot that the next commit of the table makes of this one; ``state`` is that after it."""
        gone = set(change.removed)
        kept = tuple(file for file in self.files if file.path not in gone) if gone else self.files
        added = sorted((replace(file, partition=file.values) for file in change.added), key=_path)
        files: Sequence[DataFile] = GrowingList.of(kept).followed_by(added)
        if kept and added and added[0].path < kept[-1].path:  # a new batch has the greatest number
            files = tuple(sorted(files, key=_path))
        return Snapshot(self.version + 1, files, state, self.number + 1)

    def where(self, is_wanted: Callable[[DataFile], bool]) -> Snapshot:
        """Return a snapshot of the wanted files only, so that a reader opens no others."""
        return replace(self, files=tuple(file for file in self.files if is_wanted(file)))


@dataclass(frozen=True, slots=True)
class Change:
    """The content of a commit. ``state`` None keeps the state. ``notes`` tell people and the audit about losses."""

    job: str
    run: str
    added: tuple[DataFile, ...] = ()
    removed: tuple[str, ...] = ()
    state: State | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
