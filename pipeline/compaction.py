"""Compaction: replaces many small files by few large ones.

An archive that runs every minute would leave 1,440 files per day and topic, and a reader opens them all. So the archive
merges the small files of a topic on the present day (UTC), as soon as there are sixty. Of closed days compaction leaves
as few files as their bytes need, one folder (day and topic) at a time. Both sort the records by partition and offset,
and count them. One commit replaces the files: a reader sees the old files or the new ones. The old files stay for
readers of an older version, until vacuum deletes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from itertools import accumulate
from math import ceil
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pipeline.delta.snapshot import DataFile, Snapshot
from pipeline.failure import sentence
from pipeline.lake import LakeConflict, LakeDamaged, Table
from pipeline.rewrite import rewrite
from pipeline.storage import StorageError

__all__ = ["Folder", "Upkeep", "compact", "crowded", "merge", "scattered"]

_PLACE = ("partition", "offset")
_FOLDER = ("dt", "topic")
_SCATTERED_FILES: Final = 60
_SMALL_BYTES: Final = 8 * 1024 * 1024
_MERGED_BYTES: Final = 128 * 1024 * 1024
"""One merge makes no larger file."""
_JOB_BYTES: Final = 1024 * 1024 * 1024
"""One merge reads no more. The next batch waits for it."""
_ROUNDS_OF_REST: Final = 60


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
    folders = [Folder(day, topic, tuple(files)) for (day, topic), files in sorted(_by_folder(snapshot.files).items())]
    return [f for f in folders if f.day < before.isoformat() and len(f.files) > _files(f.bytes, file_bytes)]


def scattered(snapshot: Snapshot, since: date) -> list[DataFile]:
    """Return the small files of each folder that has many, the smallest first, as far as one merge takes them.

    Days before ``since`` are left out: compaction merges them, and an audit may have proved them.
    """
    first = since.isoformat()
    folders = _by_folder(file for file in snapshot.files if file.bytes < _SMALL_BYTES and file.values["dt"] >= first)
    found: list[DataFile] = []
    room = _JOB_BYTES
    for files in folders.values():
        if len(files) >= _SCATTERED_FILES:
            files.sort(key=lambda file: file.bytes)
            sizes = accumulate(file.bytes for file in files)
            taken = [file for file, size in zip(files, sizes, strict=True) if size <= min(room, _MERGED_BYTES)]
            if len(taken) > 1:
                found += taken
                room -= sum(file.bytes for file in taken)
    return found


class Upkeep:
    """What the archive does behind a round: it merges small files that have become many, and shortens the log.

    Records in Kafka do not wait for it, so a failure does not end the archive. The next attempt is some rounds later,
    because a file that cannot be read is still there in the next round. A checkpoint names all files, and no commit
    needs it. So a thread writes it beside the next batches.
    """

    def __init__(self, session: Callable[[], SparkSession], table: Table, run: str) -> None:
        self._session = session
        self._table = table
        self._run = run
        self._rest = 0
        self._checkpoint: Future[bool] | None = None

    def done(self, today: date) -> str | None:
        """Do it, unless an attempt failed a few rounds ago. Return in a sentence why an attempt failed, or None.

        Files of days before ``today`` are left to compaction.
        """
        if self._rest:
            self._rest -= 1
            return None
        return self._tried(lambda: self._round(today))

    def ended(self) -> str | None:
        """Wait for a checkpoint that is being written. Return in a sentence why it failed, or None."""
        return self._tried(self._written)

    def _round(self, today: date) -> None:
        if self._checkpoint is not None and self._checkpoint.done():
            self._written()
        if files := scattered(self._table.refreshed(), today):
            merge(self._session(), self._table, files, self._run)
        if self._checkpoint is None and self._table.needs_checkpoint():
            beside = ThreadPoolExecutor(1, "checkpoint")
            self._checkpoint = beside.submit(self._table.checkpoint)
            beside.shutdown(wait=False)  # the thread ends with its work

    def _written(self) -> None:
        """Wait for the checkpoint, and raise what it raised."""
        begun, self._checkpoint = self._checkpoint, None
        if begun is not None:
            begun.result()

    def _tried(self, step: Callable[[], object]) -> str | None:
        try:
            step()
        except (PySparkException, Py4JJavaError) as error:
            failure = sentence(error)
        except (LakeConflict, LakeDamaged, StorageError) as error:
            failure = str(error)
        else:
            return None
        self._rest = _ROUNDS_OF_REST
        return failure


def merge(spark: SparkSession, table: Table, files: Sequence[DataFile], run: str) -> int:
    """Replace these files by one for each folder, in one commit; return by how many files there are fewer.

    Raises the errors of ``pipeline.rewrite.rewrite``.
    """
    rows = table.read_whole(spark, files).repartition(*_FOLDER).sortWithinPartitions(*_FOLDER, *_PLACE)
    return len(files) - rewrite(table, files, rows, "compact", run)


def _by_folder(files: Iterable[DataFile]) -> dict[tuple[str, str], list[DataFile]]:
    folders: dict[tuple[str, str], list[DataFile]] = {}
    for file in files:
        folders.setdefault((file.values["dt"], file.values["topic"]), []).append(file)
    return folders


def compact(
    spark: SparkSession, table: Table, folders: Sequence[Folder], run: str, file_bytes: int,
    tell: Callable[[Folder], None] = lambda _: None,
) -> int:  # fmt: skip
    """Replace the files of each folder by as few as ``file_bytes`` allows; return by how many files there are fewer.

    Raises the errors of ``pipeline.rewrite.rewrite``. Earlier folders stay compacted.
    """
    fewer = 0
    for folder in folders:
        rows = table.read_whole(spark, folder.files)
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
