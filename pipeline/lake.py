"""Lake: a table of the lake is a Delta table, so that every tool that reads Delta counts the same rows (ADR 44).

::

    <lake>/bronze/data/batch=000007-5e1f0c/dt=2026-01-15/topic=orders/part-....parquet
    <lake>/bronze/_delta_log/00000000000000000007.json    what commit 7 added, what it removed, and our state after it
    <lake>/runs/...                                       see pipeline.runs

Spark writes files that no reader sees yet. Then ``deltalake`` makes one commit: files and Kafka's offsets become part
of the table at the same time, or not at all. A batch that was killed is repeated, and no record is in the table twice
(PL-X09). All our commits carry the same application transaction. So of two writers that began with the same version,
one commits. The other one gets :class:`LakeConflict` and has changed nothing. Commits of other tools, such as
``VACUUM``, do not conflict with ours.

The metadata of each of our commits holds our complete state: offsets, incarnations, the bounds of retention, the source
counts of days. The number of our newest commit in the log is compared with the table's transaction number, which
checkpoints keep. If they differ, the log has lost its newest commits. That is an error; the table never begins anew.
"""

from __future__ import annotations

import io
import json
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import takewhile
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pipeline.frame import arrow_schema
from pipeline.schema import BRONZE, BRONZE_PARTITIONS
from pipeline.storage import LakeStorage, reached

__all__ = [
    "Change",
    "DataFile",
    "LakeConflict",
    "LakeDamaged",
    "Offsets",
    "Snapshot",
    "State",
    "Table",
    "bronze",
    "folder_values",
]

Offsets = Mapping[str, Mapping[int, int]]
"""By Kafka topic and partition: the next offset to archive."""

_OURS: Final = "hookwire"
"""The name of our member of a commit's metadata, and the id of our application transaction."""
_CONFIGURATION: Final = {"delta.checkpointInterval": "100", "delta.logRetentionDuration": "interval 90 days"}
_NUMBER: Final = "event_number"
_TRIES = 5


class LakeDamaged(Exception):
    """The log cannot be read or is inconsistent; the text names the table."""


class LakeConflict(Exception):
    """Another job changed the table meanwhile; this job has changed nothing."""


def folder_values(path: str) -> dict[str, str]:
    """Return the values in the folders of a path: ``{"batch": ..., "dt": ..., "topic": ...}``."""
    parts = (part.partition("=") for part in path.split("/")[:-1] if "=" in part)
    return {name: unquote(value) for name, _, value in parts}


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a table. ``path`` is relative to the table. ``sha256`` is known for files that were just written.

    ``numbers``: the least and the greatest event number in the file; None if they are unknown.
    """

    path: str
    rows: int
    bytes: int
    sha256: str = field(default="", compare=False)
    numbers: tuple[int, int] | None = field(default=None, compare=False)

    @property
    def values(self) -> dict[str, str]:
        """Return the values in the folders of the path."""
        return folder_values(self.path)


@dataclass(frozen=True, slots=True)
class State:
    """The state that each of our commits carries besides files.

    ``incarnations``: the id that Kafka gave each topic; a topic that is created again has another id. ``kept``: the
    first day that retention kept, by Kafka topic; "" stands for all. ``days``: the number of source rows of each day,
    in a table of days.
    """

    offsets: Offsets = field(default_factory=dict)
    incarnations: Mapping[str, str] = field(default_factory=dict)
    kept: Mapping[str, str] = field(default_factory=dict)
    days: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> State:
        """Return the state in the JSON of a commit, in which partitions are strings."""
        offsets = {topic: {int(p): o for p, o in of.items()} for topic, of in stored["offsets"].items()}
        return cls(offsets, stored["incarnations"], stored["kept"], stored["days"])


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The table after commit ``version``; ``number`` counts our commits. An empty table has version 0."""

    version: int = 0
    files: tuple[DataFile, ...] = ()
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


class Table:
    """A table of the lake. ``schema``: all columns; ``partitions``: the columns that are folders, outermost first."""

    def __init__(self, lake: LakeStorage, name: str, schema: StructType, partitions: tuple[str, ...]) -> None:
        self.name = name
        self.schema = schema
        self._lake = lake
        self._partitions = partitions
        self._uri = lake.spark_path(name)

    def is_made(self) -> bool:
        """Return whether our first commit exists, so that an older version's log is obsolete."""
        return self._opened() is not None and next(self.history(), None) is not None

    def snapshot(self) -> Snapshot:
        """Return the present state of the table. Raises :class:`LakeDamaged`."""
        table = self._opened()
        if table is None:
            self._refuse_lost_log()
            return Snapshot()
        with self._damage_named():
            rows = pa.table(table.get_add_actions(flatten=True)).to_pylist()
            files = tuple(sorted(map(self._file, rows), key=lambda file: file.path))
            number = table.transaction_version(_OURS) or 0
            newest = next(self._commits(table), None)
        if number != (0 if newest is None else newest["number"]):
            raise LakeDamaged(f"{self._log} lacks our newest commits: restore it from a backup")
        if newest is None:
            return Snapshot(table.version(), files)
        if newest["version"] == table.version() and newest["files"] != len(files):
            raise LakeDamaged(
                f"{self._log} names {len(files)} files and should name {newest['files']}: restore it from a backup"
            )
        return Snapshot(table.version(), files, State.of(newest["state"]), number)

    def read(self, spark: SparkSession, snapshot: Snapshot | None = None) -> DataFrame:
        """Return the rows of a snapshot, by default the present one."""
        files = (snapshot or self.snapshot()).files
        if not files:
            return spark.createDataFrame([], self.schema)
        paths = [f"{self._uri}/{file.path}" for file in files]
        frame = spark.read.schema(self.schema).option("basePath", f"{self._uri}/data").parquet(*paths)
        return frame.select(*self.schema.names)

    def write(self, frame: DataFrame, version: int) -> tuple[DataFile, ...]:
        """Write rows into files that no commit names yet; ``version`` is the number of the commit to come."""
        self._ensure()
        folder = f"{self.name}/data/batch={version:06d}-{secrets.token_hex(3)}"
        frame.select(*self.schema.names).write.partitionBy(*self._partitions).parquet(self._lake.spark_path(folder))
        found = {path: size for path, size in self._lake.files(folder).items() if path.endswith(".parquet")}
        self._lake.make_durable(found)
        return tuple(self._lake.each(sorted(found), lambda path: self._described(path, found[path])))

    def write_rows(self, rows: Sequence[Mapping[str, Any]], folders: Mapping[str, str], version: int) -> DataFile:
        """Write a few rows into one file without Spark; ``folders`` are the values of the table's partitions."""
        self._ensure()
        place = "/".join(f"{name}={folders[name]}" for name in self._partitions)
        path = f"{self.name}/data/batch={version:06d}-{secrets.token_hex(3)}/{place}/part-0.parquet"
        whole = arrow_schema(self.schema)
        schema = pa.schema([each for each in whole if each.name not in self._partitions])
        draft = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(list(rows), schema), draft, compression="zstd")
        self._lake.replace(path, draft.getvalue())
        return self._described(path, draft.tell())

    def commit(self, basis: Snapshot, change: Change) -> Snapshot:
        """Make the next commit and return its snapshot. Raises :class:`LakeConflict` if ``basis`` is not the latest."""
        present = {file.path: file for file in basis.files}
        assert present.keys() >= set(change.removed), "removed files are part of the table"
        version = self._version_of(basis)
        number = basis.number + 1
        ours = {
            "id": (commit_id := secrets.token_hex(8)), "number": number, "job": change.job, "run": change.run,
            "files": len(basis.files) - len(change.removed) + len(change.added),
            "state": asdict(change.state or basis.state), "notes": change.notes,
            "sha256": {file.path: file.sha256 for file in change.added},
        }  # fmt: skip
        now = int(time.time() * 1000)
        removals = [self._removal(present[path], now) for path in change.removed]
        actions: list[AddAction | RemoveAction] = [*removals, *(self._addition(file, now) for file in change.added)]
        properties = CommitProperties(json.loads(json.dumps({_OURS: ours})), None, [Transaction(_OURS, number)])
        try:
            with reached():
                table = DeltaTable(self._uri, version=version, storage_options=self._lake.delta_options)
                table.create_write_transaction(
                    actions, "append", table.schema(), list(self._partitions), commit_properties=properties
                )
        except (CommitFailedError, TableNotFoundError) as error:
            # The store may have stored the commit and lost its answer. The client's repeated request then conflicts.
            if not self._has(commit_id, basis.version):
                raise LakeConflict(f"another job changed {self.name} at the same time: run this one again") from error
        self._make_log_durable(basis.version)
        return self.snapshot()

    def _has(self, commit_id: str, after: int) -> bool:
        """Return whether one of our commits after version ``after`` has this id."""
        newer = takewhile(lambda commit: commit["version"] > after, self.history())
        return any(commit.get("id") == commit_id for commit in newer)

    def amend(self, change: Callable[[Snapshot], Change | None]) -> None:
        """Commit the change that ``change`` returns for the present snapshot, unless it is None.

        Repeat both after a conflict.
        """
        for tries_left in reversed(range(_TRIES)):
            basis = self.snapshot()
            made = change(basis)
            if made is None:
                return
            try:
                self.commit(basis, made)
            except LakeConflict:
                if not tries_left:
                    raise
            else:
                return

    def vacuum(self, kept_hours: int, *, unnamed: bool) -> int:
        """Delete files that were removed at least ``kept_hours`` ago; return the number of deleted Parquet files.

        ``unnamed``: also delete files of that age that no commit names, such as those of killed batches.
        """
        table = self._opened()
        if table is None:
            return 0
        with self._damage_named():
            found = table.vacuum(kept_hours, enforce_retention_duration=False, full=unnamed)
            there = {f"{self.name}/{path}" for path in found} & self._lake.files(f"{self.name}/data").keys()
            if there:
                table.vacuum(kept_hours, dry_run=False, enforce_retention_duration=False, full=unnamed)
        return sum(path.endswith(".parquet") for path in there)

    def discard(self, files: Iterable[DataFile]) -> None:
        """Delete files that :meth:`write` has written and that no commit will name."""
        self._lake.delete(f"{self.name}/{file.path}" for file in files)

    def unlisted(self, snapshot: Snapshot) -> list[str]:
        """Return files that the snapshot does not name: replaced ones, and those of killed batches."""
        listed = {f"{self.name}/{file.path}" for file in snapshot.files}
        return [path for path in self._lake.files(f"{self.name}/data") if path not in listed]

    def history(self) -> Iterator[dict[str, Any]]:
        """Yield our commits that are still in the log, newest first, each with ``version`` and ``at``."""
        table = self._opened()
        if table is not None:
            with self._damage_named():
                yield from self._commits(table)

    def adopt(self, files: Sequence[DataFile], state: State, run: str) -> None:
        """Add the files of an older version's table to this empty table (see ``pipeline.conversion``)."""
        self.commit(Snapshot(), Change("convert", run, tuple(files), state=state))

    @property
    def _log(self) -> str:
        return f"{self.name}/_delta_log"

    def _opened(self) -> DeltaTable | None:
        try:
            with reached():
                return DeltaTable(self._uri, storage_options=self._lake.delta_options)
        except TableNotFoundError:
            return None
        except DeltaError as error:
            raise self._damaged(error) from error

    def _refuse_lost_log(self) -> None:
        if self._lake.files(f"{self.name}/log"):
            raise LakeDamaged(f"{self.name} is a table of an older version: run hookwire pipeline convert once")
        has_files = any("batch" in folder_values(path) for path in self._lake.files(f"{self.name}/data"))
        if has_files and self._opened() is None:  # Another process may have created the table in the meantime.
            raise LakeDamaged(f"{self.name} has files and no log ({self._log}): restore the log from a backup")

    def _version_of(self, basis: Snapshot) -> int:
        """Create the table if it does not exist, and return the version that the next commit follows.

        Of two jobs that create the table at the same time, the second adds an empty version.
        """
        self._ensure()
        if basis.number or basis.files:
            return basis.version
        present = self.snapshot()
        return basis.version if present.number or present.files else present.version

    def _ensure(self) -> None:
        """Create the table before its first file, so that files without a log always mean damage."""
        if self._opened() is None:
            schema = Schema.from_json(self.schema.json())
            with reached():
                DeltaTable.create(
                    self._uri, schema, "ignore", list(self._partitions), self.name, configuration=dict(_CONFIGURATION),
                    storage_options=self._lake.delta_options,
                )  # fmt: skip

    def _commits(self, table: DeltaTable) -> Iterator[dict[str, Any]]:
        """Yield our commits up to the table's version, newest first.

        ``DeltaTable.history`` also lists commits made after the table was opened, and then numbers all of them wrongly.
        """
        for version in range(table.version(), -1, -1):
            try:
                info = _commit_info(self._lake.read(f"{self._log}/{version:020d}.json"))
            except FileNotFoundError:  # A checkpoint has replaced this commit and those before it.
                return
            except (json.JSONDecodeError, UnicodeDecodeError) as error:
                raise self._damaged(error) from error
            if _OURS in info:
                at = datetime.fromtimestamp(info["timestamp"] / 1000, UTC).isoformat()
                yield {**info[_OURS], "version": version, "at": at}

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        try:
            with reached():
                yield
        except DeltaError as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> LakeDamaged:
        reason = str(error).partition("\n")[0]
        return LakeDamaged(f"{self._log} is damaged or cannot be read ({reason[:300]}): restore it from a backup")

    def _file(self, row: Mapping[str, Any]) -> DataFile:
        path = unquote(row["path"])
        if row["num_records"] is None:  # another tool wrote it
            return self._described(f"{self.name}/{path}", row["size_bytes"])
        low, high = row.get(f"min.{_NUMBER}"), row.get(f"max.{_NUMBER}")
        numbers = None if low is None or high is None else (low, high)
        return DataFile(path, row["num_records"], row["size_bytes"], numbers=numbers)

    def _addition(self, file: DataFile, now: int) -> AddAction:
        low, high = file.numbers or (None, None)
        bounds = {} if low is None else {"minValues": {_NUMBER: low}, "maxValues": {_NUMBER: high}}
        stats = json.dumps({"numRecords": file.rows, **bounds})
        return AddAction(file.path, file.bytes, self._values(file), now, True, stats)

    def _removal(self, file: DataFile, now: int) -> RemoveAction:
        return RemoveAction(file.path, True, now, size=file.bytes, partition_values=self._values(file))

    def _values(self, file: DataFile) -> dict[str, str | None]:
        return {name: file.values[name] for name in self._partitions}

    def _make_log_durable(self, after: int) -> None:
        """Flush new commits to disk, so that they survive a crash of the machine, as their files do."""
        commits = (path for path in self._lake.files(self._log) if path.endswith(".json"))
        self._lake.make_durable(path for path in commits if int(path.rpartition("/")[2].partition(".")[0]) > after)

    def _described(self, path: str, size: int) -> DataFile:
        """Return a file's description from its footer and bytes; ``path`` is relative to the lake."""
        with self._lake.open(path) as file:
            metadata = pq.read_metadata(file)
        digest, numbers = self._lake.sha256(path), _numbers(metadata)
        return DataFile(path.removeprefix(f"{self.name}/"), metadata.num_rows, size, digest, numbers)


def _commit_info(content: bytes) -> dict[str, Any]:
    """Return the metadata of a commit; empty if it has none."""
    lines = (json.loads(line) for line in content.splitlines() if line.startswith(b'{"commitInfo"'))
    return next((line["commitInfo"] for line in lines), {})


def _numbers(metadata: pq.FileMetaData) -> tuple[int, int] | None:
    """Return the least and the greatest event number, if each row group has them."""
    groups = [metadata.row_group(n) for n in range(metadata.num_row_groups)]
    columns = [group.column(n) for group in groups for n in range(metadata.num_columns)]
    found = [column.statistics for column in columns if column.path_in_schema == _NUMBER]
    if not found or not all(statistics is not None and statistics.has_min_max for statistics in found):
        return None
    return min(statistics.min for statistics in found), max(statistics.max for statistics in found)


def bronze(lake: LakeStorage) -> Table:
    """Return the table of archived Kafka records."""
    return Table(lake, "bronze", BRONZE, BRONZE_PARTITIONS)
