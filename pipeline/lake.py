"""A table of the lake: Parquet files, and a log that says which of them belong to it.

::

    <lake>/bronze/data/batch=000007-5e1f0c/dt=2026-01-15/topic=orders/part-....parquet
    <lake>/bronze/log/000000000007.json      what batch 7 added, what it removed, the Kafka offsets that follow it
    <lake>/runs/...                          see pipeline.runs

A batch writes files that nobody reads yet, then one entry of the log: files and offsets become part of the table in the
same instant, or not at all. So a batch that was killed is simply done again, and no record is there twice (PL-X09).
Two writers make entries of the same number: one wins, the other is told so and has changed nothing. What no entry names
is left by such batches, and is swept away later. Compaction and erasure are entries that add and remove files.

Every hundredth entry names all files, so that reading a table stays quick; an entry carries its own checksum.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pipeline.schema import BRONZE, BRONZE_PARTITIONS
from pipeline.storage import LakeStorage

__all__ = [
    "Change",
    "DataFile",
    "LakeConflict",
    "LakeDamaged",
    "Offsets",
    "Snapshot",
    "Table",
    "bronze",
    "damage_named",
    "folder_values",
]

Offsets = Mapping[str, Mapping[int, int]]
"""Kafka topic, partition: the offset that is archived next."""

_FORMAT = 1
_WHOLE_EVERY = 100
_UNREADABLE = ("FAILED_READ_FILE", "CANNOT_READ_FILE", "PATH_NOT_FOUND")  # as Spark names its errors


class LakeDamaged(Exception):
    """The log cannot be read or does not fit together; the text names the file."""


class LakeConflict(Exception):
    """Somebody else changed the table meanwhile; nothing of ours is part of it."""


def folder_values(path: str) -> dict[str, str]:
    """What the folders of a path say: ``{"batch": ..., "dt": ..., "topic": ...}``."""
    parts = (part.partition("=") for part in path.split("/")[:-1] if "=" in part)
    return {name: unquote(value) for name, _, value in parts}


@dataclass(frozen=True, slots=True)
class DataFile:
    """``path`` is relative to the table."""

    path: str
    rows: int
    bytes: int

    @property
    def values(self) -> dict[str, str]:
        """Its folders' values."""
        return folder_values(self.path)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The table after entry ``version``; 0 is the empty one. ``incarnations``: see :class:`Change`."""

    version: int = 0
    files: tuple[DataFile, ...] = ()
    offsets: Offsets = field(default_factory=dict)
    incarnations: Mapping[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Of all files."""
        return sum(file.rows for file in self.files)


@dataclass(frozen=True, slots=True)
class Change:
    """What an entry does. ``offsets``: None leaves them; ``notes`` are for people and the audit (what was lost).

    ``incarnations``: the id that Kafka gave each topic when it was made, for those whose offsets are in ``offsets``;
    one that is deleted and made again has another.
    """

    job: str
    run: str
    added: tuple[DataFile, ...] = ()
    removed: tuple[str, ...] = ()
    offsets: Offsets | None = None
    incarnations: Mapping[str, str] | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)


@contextmanager
def damage_named() -> Iterator[None]:
    """A file that Spark cannot read within is :class:`LakeDamaged`, and not a page of Java."""
    try:
        yield
    except PySparkException as error:
        if not any(name in str(error) for name in _UNREADABLE):
            raise
        raise LakeDamaged("a file of the lake cannot be read: hookwire pipeline check names it") from error


class Table:
    """``schema``: all columns; ``partitions``: those of them that are folders, outermost first."""

    def __init__(self, lake: LakeStorage, name: str, schema: StructType, partitions: tuple[str, ...]) -> None:
        self.name = name
        self.schema = schema
        self._lake = lake
        self._partitions = partitions

    def snapshot(self) -> Snapshot:
        """The table as it is now. Raises :class:`LakeDamaged`."""
        names = self._entries()
        if not names:
            return Snapshot()
        missing = set(range(names[0], names[-1] + 1)) - set(names)
        if missing or (names[0] != 1 and not self._entry(names[0])["whole"]):
            raise LakeDamaged(f"{self._log(min(missing, default=names[0] - 1))} is missing: restore it from a backup")
        return self._replayed(names)

    def read(self, spark: SparkSession, snapshot: Snapshot | None = None) -> DataFrame:
        """The rows of a snapshot, by default of the present one."""
        files = (snapshot or self.snapshot()).files
        if not files:
            return spark.createDataFrame([], self.schema)
        paths = [self._lake.spark_path(f"{self.name}/{file.path}") for file in files]
        base = self._lake.spark_path(f"{self.name}/data")
        frame = spark.read.schema(self.schema).option("basePath", base).parquet(*paths)
        return frame.select(*self.schema.names)

    def write(self, frame: DataFrame, version: int) -> tuple[DataFile, ...]:
        """Write rows into files that are no part of the table yet; ``version`` is the entry that shall name them."""
        folder = f"{self.name}/data/batch={version:06d}-{secrets.token_hex(3)}"
        frame.select(*self.schema.names).write.partitionBy(*self._partitions).parquet(self._lake.spark_path(folder))
        found = {path: size for path, size in self._lake.files(folder).items() if path.endswith(".parquet")}
        self._lake.make_durable(found)
        start = len(self.name) + 1
        return tuple(DataFile(path[start:], self._rows(path), size) for path, size in sorted(found.items()))

    def commit(self, basis: Snapshot, change: Change) -> Snapshot:
        """Make the next entry. Raises :class:`LakeConflict` when the table has moved on from ``basis``."""
        removed = set(change.removed)
        files = (*(file for file in basis.files if file.path not in removed), *change.added)
        assert len(files) == len(basis.files) - len(removed) + len(change.added), "removed files are part of the table"
        offsets = basis.offsets if change.offsets is None else change.offsets
        incarnations = basis.incarnations if change.incarnations is None else change.incarnations
        after = Snapshot(basis.version + 1, files, offsets, incarnations)
        whole = after.version % _WHOLE_EVERY == 0
        entry = {
            "format": _FORMAT, "version": after.version, "whole": whole, "at": datetime.now(UTC).isoformat(),
            "job": change.job, "run": change.run, "offsets": _as_texts(offsets),
            "incarnations": dict(incarnations), "notes": change.notes,
            "added": [asdict(file) for file in (files if whole else change.added)], "removed": sorted(removed),
        }  # fmt: skip
        try:
            self._lake.create(self._log(after.version), _sealed(entry))
        except FileExistsError:
            raise LakeConflict(f"another job changed {self.name} at the same time: run this one again") from None
        return after

    def discard(self, files: Iterable[DataFile]) -> None:
        """Delete files that :meth:`write` has written and no entry will ever name."""
        self._lake.delete(f"{self.name}/{file.path}" for file in files)

    def unlisted(self, snapshot: Snapshot) -> list[str]:
        """Files that no entry up to now names: of batches that were killed, or that lost. Relative to the lake."""
        listed = {f"{self.name}/{file.path}" for file in snapshot.files}
        return [path for path in self._lake.files(f"{self.name}/data") if path not in listed]

    def entries(self) -> Iterable[dict[str, Any]]:
        """Every entry of the log, oldest first."""
        return (self._entry(number) for number in self._entries())

    def _entries(self) -> list[int]:
        paths = (path.rpartition("/")[2] for path in self._lake.files(f"{self.name}/log"))
        return sorted(int(name.partition(".")[0]) for name in paths if not name.startswith("."))

    def _replayed(self, numbers: list[int]) -> Snapshot:
        later: list[dict[str, Any]] = []
        for number in reversed(numbers):
            later.append(self._entry(number))
            if later[-1]["whole"]:
                break
        files: dict[str, DataFile] = {}
        for entry in reversed(later):
            for path in () if entry["whole"] else entry["removed"]:
                del files[path]
            files |= {file["path"]: DataFile(**file) for file in entry["added"]}
        offsets = {topic: {int(p): o for p, o in of.items()} for topic, of in later[0]["offsets"].items()}
        # Entries of before there were incarnations have none.
        return Snapshot(numbers[-1], tuple(files.values()), offsets, later[0].get("incarnations", {}))

    def _entry(self, number: int) -> dict[str, Any]:
        path = self._log(number)
        try:
            sealed = json.loads(self._lake.read(path))
            entry: dict[str, Any] = sealed["entry"]
            if _sealed(entry) != _sealed(entry, sealed["sha256"]):
                raise ValueError("its checksum is another")
            if (entry["format"], entry["version"]) != (_FORMAT, number):
                raise ValueError(f"it is entry {entry['version']} in format {entry['format']}")
        except (ValueError, KeyError, TypeError) as error:
            raise LakeDamaged(f"{path} is damaged ({error}): restore it from a backup") from error
        return entry

    def _log(self, number: int) -> str:
        return f"{self.name}/log/{number:012d}.json"

    def _rows(self, path: str) -> int:
        with self._lake.open(path) as file:
            rows: int = pq.read_metadata(file).num_rows
            return rows


def bronze(lake: LakeStorage) -> Table:
    """What was archived from Kafka."""
    return Table(lake, "bronze", BRONZE, BRONZE_PARTITIONS)


def _as_texts(offsets: Offsets) -> dict[str, dict[str, int]]:
    """As JSON reads it back: with integers as keys the checksum would depend on their order."""
    return {topic: {str(partition): offset for partition, offset in of.items()} for topic, of in offsets.items()}


def _sealed(entry: Mapping[str, Any], checksum: str | None = None) -> bytes:
    text = json.dumps(entry, sort_keys=True)
    found = checksum or hashlib.sha256(text.encode()).hexdigest()
    return f'{{"entry": {text}, "sha256": "{found}"}}\n'.encode()
