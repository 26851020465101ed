"""Compaction: replaces many small files of closed days by few large ones (PL-09).

An archive that runs every minute leaves 1,440 files per day and topic, and a reader opens them all. Compaction takes
one folder (day and topic) at a time. It reads the folder, sorts the records by partition and offset, and writes and
counts them. One commit replaces the files: a reader sees the old files or the new ones. The old files stay for readers
of an older version, until vacuum deletes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from math import ceil

from pyspark.sql import DataFrame, SparkSession

from pipeline.delta.snapshot import DataFile, Snapshot
from pipeline.lake import Table
from pipeline.rewrite import rewrite

__all__ = ["Folder", "compact", "crowded"]

_PLACE = ("partition", "offset")


@dataclass(frozen=True, slots=True)
class Folder:
    """The files of one day and topic."""

    day: str
    topic: str
    files: tuple[DataFile, ...]

    @property
    def rows(self) -> int:
        """Return the number of rows in all files of the folder."""
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        """Return the size of all files of the folder, in bytes."""
        return sum(file.bytes for file in self.files)


def crowded(snapshot: Snapshot, before: date, file_bytes: int) -> list[Folder]:
    """Return the folders of days before ``before`` that have more files than their bytes need."""
    places: dict[tuple[str, str], list[DataFile]] = {}
    for file in snapshot.files:
        places.setdefault((file.values["dt"], file.values["topic"]), []).append(file)
    folders = [Folder(day, topic, tuple(files)) for (day, topic), files in sorted(places.items())]
    return [f for f in folders if f.day < before.isoformat() and len(f.files) > _files(f.bytes, file_bytes)]


def compact(
    spark: SparkSession, table: Table, folders: Sequence[Folder], run: str, file_bytes: int,
    tell: Callable[[Folder], None] = lambda _: None,
) -> int:  # fmt: skip
    """Replace the files of each folder by as few as ``file_bytes`` allows; return by how many files there are fewer.

    Raises the errors of ``pipeline.rewrite.rewrite``. Earlier folders stay compacted.
    """
    fewer = 0
    for folder in folders:
        rows = table.read(spark, Snapshot(files=folder.files))
        fewer += len(folder.files) - rewrite(table, folder.files, _merged(rows, folder, file_bytes), "compact", run)
        tell(folder)
    return fewer


def _merged(rows: DataFrame, folder: Folder, file_bytes: int) -> DataFrame:
    count = _files(folder.bytes, file_bytes)
    # Ranges cost a pass over the data, and a single file needs none.
    placed = rows.coalesce(1) if count == 1 else rows.repartitionByRange(count, *_PLACE)
    return placed.sortWithinPartitions(*_PLACE)


def _files(size: int, file_bytes: int) -> int:
    return max(1, ceil(size / file_bytes))
