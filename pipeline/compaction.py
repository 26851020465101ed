"""Compaction: small files of closed days become few large ones (PL-09).

An archive that runs every minute leaves 1,440 files a day and topic, and a reader opens them all. One folder (day and
topic) at a time is read, sorted by the records' places, written, counted, and exchanged in one commit: a
reader sees the old files or the new ones. The old ones stay for readers of an older version, until they are vacuumed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from math import ceil

from pyspark.sql import DataFrame, SparkSession

from pipeline.lake import DataFile, Snapshot, Table
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
        """Return the rows of all its files."""
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        """Return the bytes of all its files."""
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
    """Exchange the files of each folder for as few as ``file_bytes`` allows; the number of files that are less.

    Raises what ``pipeline.rewrite.rewrite`` raises; folders before are compacted then.
    """
    fewer = 0
    for folder in folders:
        rows = table.read(spark, Snapshot(files=folder.files))
        fewer += len(folder.files) - rewrite(table, folder.files, _merged(rows, folder, file_bytes), "compact", run)
        tell(folder)
    return fewer


def _merged(rows: DataFrame, folder: Folder, file_bytes: int) -> DataFrame:
    count = _files(folder.bytes, file_bytes)
    # One file needs no ranges, which cost a pass over the data.
    placed = rows.coalesce(1) if count == 1 else rows.repartitionByRange(count, *_PLACE)
    return placed.sortWithinPartitions(*_PLACE)


def _files(size: int, file_bytes: int) -> int:
    return max(1, ceil(size / file_bytes))
