"""Lake: a table of the lake is a Delta table, so that every tool that reads Delta counts the same rows (ADR 44).

::

    <lake>/bronze/data/000007-5e1f0c/dt=2026-01-15/topic=orders/part-....parquet
    <lake>/bronze/_delta_log/00000000000000000007.json    what commit 7 added, what it removed, and our state after it
    <lake>/runs/...                                       see pipeline.runs

Spark writes files that no reader sees yet. Then one commit is made, by ``deltalake`` or behind our own last commit by
``pipeline.delta.head``. Files and Kafka's offsets become part of the table at the same time, or not at all. A batch
that was killed is repeated, and no record is in the table twice. All our commits carry the same application
transaction. So of two writers that began with the same version, one commits. The other one gets
:class:`LakeConflict` and has changed nothing. Commits of other tools, such as ``VACUUM``, do not conflict with ours.
The log alone says which files are part of the table, where they lie and which values their partition columns have.

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
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from itertools import takewhile
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from pyarrow import ArrowException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pipeline.delta.actions import actions_of, listed
from pipeline.delta.columns import columns_of, missing, whole
from pipeline.delta.foreign import remembered
from pipeline.delta.head import LogHead
from pipeline.delta.log import COLUMNS, OURS, DeltaLog, LogEntry
from pipeline.delta.protocol import refused_for_reading, refused_for_writing
from pipeline.delta.reading import named_rows, rows_of
from pipeline.delta.snapshot import Change, DataFile, Snapshot, State, batch_folder, folder_values
from pipeline.delta.statistics import event_numbers
from pipeline.frame import arrow_schema
from pipeline.schema import BRONZE, BRONZE_PARTITIONS
from pipeline.storage import LakeStorage, is_uri, reached

__all__ = ["LakeConflict", "LakeDamaged", "Table", "bronze"]

_CONFIGURATION: Final = {"delta.checkpointInterval": "100", "delta.logRetentionDuration": "interval 90 days"}
_TRIES = 5
_NAMED_MAX: Final = 3


class LakeDamaged(Exception):
    """The log cannot be read or is inconsistent; the text names the table."""


class LakeConflict(Exception):
    """Another job changed the table meanwhile; this job has changed nothing."""


class Table:
    """A table of the lake. ``schema``: all columns; ``partitions``: the columns that the log holds for each file."""

    def __init__(self, lake: LakeStorage, name: str, schema: StructType, partitions: tuple[str, ...]) -> None:
        self.name = name
        self.schema = schema
        self._lake = lake
        self._partitions = partitions
        self._uri = lake.spark_path(name)
        self._log = DeltaLog(lake, f"{name}/_delta_log")
        self._head = LogHead(lake, self._log, partitions)
        self._is_ready = False

    def is_made(self) -> bool:
        """Return whether our first commit exists, so that an older version's log is obsolete."""
        return self.opened() is not None and next(self.history(), None) is not None

    def snapshot(self) -> Snapshot:
        """Return the present state of the table. Raises :class:`LakeDamaged`."""
        table = self.opened()
        if table is None:
            self._refuse_lost_log()
            return Snapshot()
        with self._damage_named():
            files = tuple(sorted(listed(table, self._partitions, self._rows_in), key=lambda file: file.path))
            number = self._number(table)
            newest, foreign = self._log.walked_from(table.version())
        if number != (0 if newest is None else newest["number"]):
            raise LakeDamaged(f"{self._log_name} lacks our newest commits: restore it from a backup")
        if newest is None:
            return Snapshot(table.version(), files, State(foreign=foreign))
        is_last = newest["version"] == table.version() == newest["basis"] + 1
        if is_last and newest["files"] != len(files):
            raise LakeDamaged(
                f"{self._log_name} names {len(files)} files and should name {newest['files']}: restore it from a backup"
            )
        return Snapshot(table.version(), files, replace(State.of(newest["state"]), foreign=foreign), number)

    def refreshed(self) -> Snapshot:
        """Return the present state of the table. If nobody has committed since this object did, no file is looked at.

        Raises :class:`LakeDamaged`.
        """
        with self._damage_named():
            return self._head.snapshot() or self.snapshot()

    def newest(self) -> tuple[int, int] | None:
        """Return the version of the newest commit and the number of our newest one; None if there is no table.

        Raises :class:`LakeDamaged`.
        """
        with self._damage_named():
            last = self._head.snapshot()
        if last is not None:
            return last.version, last.number
        opened = self.opened()
        return None if opened is None else (opened.version(), self._number(opened))

    def read(self, spark: SparkSession, snapshot: Snapshot | None = None) -> DataFrame:
        """Return the rows of a snapshot, by default the present one."""
        files = (snapshot or self.snapshot()).files
        if not files:
            return spark.createDataFrame([], self.schema)
        return rows_of(spark, self.schema, self._partitions, self._by_name(files))

    def read_with_files(self, spark: SparkSession, files: Sequence[DataFile]) -> DataFrame:
        """Return the rows of these files, at least one, and the column ``FILE`` with the path of each row's file."""
        return named_rows(spark, self.schema, self._partitions, self._by_name(files))

    def read_whole(self, spark: SparkSession, files: Sequence[DataFile]) -> DataFrame:
        """Return the rows of these files, at least one, with the columns that a newer version or another tool added."""
        return rows_of(spark, whole(self.opened(), self.schema), self._partitions, self._by_name(files))

    def write_whole(self, frame: DataFrame, number: int) -> tuple[DataFile, ...]:
        """Write rows of :meth:`read_whole` as :meth:`write` does."""
        return self._write(frame, number, whole(self.opened(), self.schema))

    def write(self, frame: DataFrame, number: int) -> tuple[DataFile, ...]:
        """Write rows into files that no commit names yet; ``number`` is that of our commit to come."""
        return self._write(frame, number, self.schema)

    def _write(self, frame: DataFrame, number: int, columns: StructType) -> tuple[DataFile, ...]:
        self._ensure()
        folder = f"{self.name}/{batch_folder(number)}"
        frame.select(*columns.names).write.partitionBy(*self._partitions).parquet(self._lake.spark_path(folder))
        found = {path: size for path, size in self._lake.files(folder).items() if path.endswith(".parquet")}
        self._lake.make_durable(found)
        return tuple(self._lake.each(sorted(found), lambda path: self._hashed(path, found[path])))

    def write_rows(self, rows: Sequence[Mapping[str, Any]], folders: Mapping[str, str], number: int) -> DataFile:
        """Write a few rows into one file without Spark; ``folders`` are the values of the table's partitions."""
        self._ensure()
        place = "/".join(f"{name}={folders[name]}" for name in self._partitions)
        path = f"{self.name}/{batch_folder(number)}/{place}/part-0.parquet"
        whole = arrow_schema(self.schema)
        schema = pa.schema([each for each in whole if each.name not in self._partitions])
        draft = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(list(rows), schema), draft, compression="zstd")
        self._lake.replace(path, draft.getvalue())
        self._lake.make_durable([path])  # its folders are new, too
        return self._hashed(path, draft.tell())

    def commit(self, basis: Snapshot, change: Change) -> Snapshot:
        """Make the next commit and return its snapshot. Raises :class:`LakeConflict` if ``basis`` is not the latest.

        Raises :class:`LakeDamaged` if the table has a rule that the commit would break.
        """
        present = {file.path: file for file in basis.files} if change.removed else {}
        assert present.keys() >= set(change.removed), "removed files are part of the table"
        version = self._version_of(basis)
        number = basis.number + 1
        state = change.state or basis.state
        state = replace(state, foreign=remembered(state.foreign))
        ours = {
            "id": (commit_id := secrets.token_hex(8)), "number": number, "basis": version, "job": change.job,
            "run": change.run, "files": len(basis.files) - len(change.removed) + len(change.added),
            "state": asdict(state), "notes": change.notes,
            "sha256": {file.path: file.sha256 for file in change.added},
        }  # fmt: skip
        now = int(time.time() * 1000)
        actions = actions_of(change.added, [present[path] for path in change.removed], self._partitions, now)
        properties = CommitProperties(json.loads(json.dumps({OURS: ours})), None, [Transaction(OURS, number)])
        with self._damage_named():
            after = self._head.add(basis, change, state, ours, now)
            lost = None if after is not None else self._head.lost(basis)
        if lost is not None:
            raise LakeConflict(f"{self._log_name} lacks {lost}: run this command again")
        if after is not None:
            return after
        try:
            with reached():
                table = DeltaTable(self._uri, version=version, storage_options=self._lake.delta_options)
                self._refuse(refused_for_writing(table))
                table.create_write_transaction(
                    actions, "append", table.schema(), list(self._partitions), commit_properties=properties
                )
        except DeltaError as error:
            # The store may have stored the commit and lost its answer. The client's repeated request then conflicts.
            if not self._has(commit_id, basis.version):
                raise self._conflict(version, error) from error
        self._log.make_durable(basis.version)
        after = basis.after(change, state)
        if basis.version == version and self._head.moved(after, commit_id):
            return after
        self._head.forget()
        return self.snapshot()

    def needs_checkpoint(self) -> bool:
        """Return whether this object has committed, and a checkpoint is due."""
        with self._damage_named():
            return self._head.needs_checkpoint(int(_CONFIGURATION["delta.checkpointInterval"]))

    def checkpoint(self) -> bool:
        """Write a checkpoint, and delete commits before it whose time is over; return whether there is a table."""
        opened = self.opened()
        if opened is not None:
            with self._damage_named():
                opened.create_checkpoint()
                self._log.make_checkpoint_durable(opened.version())
                opened.cleanup_metadata()
        return opened is not None

    def _has(self, commit_id: str, after: int) -> bool:
        """Return whether one of our commits after version ``after`` has this id."""
        newer = takewhile(lambda commit: commit["version"] > after, self.history())
        return any(commit.get("id") == commit_id for commit in newer)

    def authors_since(self, version: int) -> str:
        """Return the jobs and tools that committed after this version, for a sentence; "" if there are none."""
        table = self.opened()
        entries = self._log.back_from(table.version()) if table is not None else iter(())
        newer = [entry.author for entry in takewhile(lambda entry: entry.version > version, entries)]
        return "; ".join(reversed(newer[-_NAMED_MAX:]))

    def _conflict(self, version: int, error: DeltaError) -> Exception:
        authors = self.authors_since(version)
        if not authors:
            return LakeDamaged(f"{self.name} takes no commit: {_first_line(error)}")
        return LakeConflict(f"{self.name} was changed at the same time ({authors}): run this command again")

    def amend(self, change: Callable[[Snapshot], Change | None]) -> None:
        """Commit the change that ``change`` returns for the present snapshot, unless it is None.

        Repeat both after a conflict.
        """
        for tries_left in reversed(range(_TRIES)):
            basis = self.refreshed()
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

    def upgrade(self) -> None:
        """Add the columns that an older version's table lacks. Its rows keep null there.

        Do not look again while only this object commits. Raises :class:`LakeDamaged`.
        """
        with self._damage_named():
            if self._is_ready and self._head.snapshot() is not None:
                return
        for _ in range(_TRIES):
            table = self.opened()
            lacking = [] if table is None else missing(table, self.schema)
            self._is_ready = table is not None and not lacking
            if table is None or not lacking:
                return
            with self._damage_named(), suppress(CommitFailedError):  # another job may add them at the same time
                properties = CommitProperties({COLUMNS: [field.name for field in lacking]})
                table.alter.add_columns(lacking, commit_properties=properties)
                self._log.make_durable(table.version() - 1)

    def vacuum(self, kept_hours: int, *, unnamed: bool) -> int:
        """Delete files that were removed at least ``kept_hours`` ago; return the number of deleted Parquet files.

        ``unnamed``: also delete files of that age that no commit names, such as those of killed batches.
        """
        table = self.opened()
        if table is None:
            return 0
        with self._damage_named():
            found = table.vacuum(kept_hours, enforce_retention_duration=False, full=unnamed)
            there = {f"{self.name}/{path}" for path in found} & self.stored().keys() if found else set()
            if there:
                table.vacuum(kept_hours, dry_run=False, enforce_retention_duration=False, full=unnamed)
        return sum(path.endswith(".parquet") for path in there)

    def refuse_deleted(self, added: Sequence[DataFile]) -> None:
        """Raise :class:`LakeConflict` if a vacuum of another tool deleted files before their commit."""
        for file in added:
            if self._lake.info(self.place(file)).size is None:
                self.discard(added)
                raise LakeConflict(
                    f"{self.place(file)} was deleted before its commit, as by a VACUUM that keeps files for less time "
                    "than a batch takes: run this command again"
                )

    def discard(self, files: Iterable[DataFile]) -> None:
        """Delete files that no commit names, or none any more."""
        self._lake.delete(map(self.place, files))

    def place(self, file: DataFile) -> str:
        """Return the path of a file in the lake, or its URI if the log has one."""
        return file.path if is_uri(file.path) else f"{self.name}/{file.path}"

    def stored(self) -> dict[str, int]:
        """Return path and size of every file in the folder of the table, except its log."""
        folders = [path for path in self._lake.folders(self.name) if not path.endswith("/_delta_log")]
        found = self._lake.files(self.name, recursive=False)
        for part in self._lake.each(folders, self._lake.files):
            found |= part
        return found

    def unlisted(self, snapshot: Snapshot) -> list[str]:
        """Return files that the snapshot does not name: replaced ones, and those of killed batches."""
        listed = {self._lake.relative(self.place(file)) for file in snapshot.files}
        return [path for path in self.stored() if path not in listed]

    def history(self) -> Iterator[dict[str, Any]]:
        """Yield our commits that are still in the log, newest first, each with ``version`` and ``at``."""
        table = self.opened()
        if table is not None:
            with self._damage_named():
                # ``DeltaTable.history`` also lists commits made after the table was opened, and numbers all wrongly.
                yield from filter(None, (entry.ours for entry in self._log.back_from(table.version())))

    def entry(self, version: int) -> LogEntry | None:
        """Return a commit of this table; None if it is not in the log any more."""
        with self._damage_named():
            return self._log.entry(version)

    def opened(self, version: int | None = None) -> DeltaTable | None:
        """Return the table as ``deltalake`` opens it; None if it does not exist. Raises :class:`LakeDamaged`."""
        with self._damage_named():
            if (table := self._found(version)) is not None:
                self._refuse(refused_for_reading(table, self.schema, self._partitions))
        return table

    def columns(self) -> StructType | None:
        """Return the columns that the log names; None if the table does not exist. Raises :class:`LakeDamaged`."""
        table = self._found()
        with self._damage_named():
            return None if table is None else columns_of(table)

    def _found(self, version: int | None = None) -> DeltaTable | None:
        with self._damage_named(), suppress(TableNotFoundError):
            return DeltaTable(self._uri, version=version, storage_options=self._lake.delta_options)
        return None

    def _number(self, table: DeltaTable) -> int:
        """Return the number of our newest commit, which checkpoints keep. The log is read for it."""
        with self._damage_named():
            return table.transaction_version(OURS) or 0

    @property
    def _log_name(self) -> str:
        return f"{self.name}/_delta_log"

    def _by_name(self, files: Iterable[DataFile]) -> dict[str, DataFile]:
        return {self._lake.spark_path(self.place(file)): file for file in files}

    def _refuse(self, reason: str | None) -> None:
        if reason is not None:
            raise LakeDamaged(f"{self.name} {reason}")

    def _refuse_lost_log(self) -> None:
        if self._lake.files(f"{self.name}/log"):
            raise LakeDamaged(f"{self.name} is a table of an older version: run hookwire pipeline convert once")
        has_files = any(set(self._partitions) <= folder_values(path).keys() for path in self.stored())
        if has_files and Table._found(self) is None:  # Another process may have created the table in the meantime.
            raise LakeDamaged(f"{self.name} has files and no log ({self._log_name}): restore the log from a backup")

    def _version_of(self, basis: Snapshot) -> int:
        """Create the table if it does not exist, and return the version that the next commit follows.

        Of two jobs that create the table at the same time, the second adds an empty version.
        """
        if basis.number or basis.files:
            return basis.version
        self._create()
        present = self.snapshot()
        return basis.version if present.number or present.files else present.version

    def _ensure(self) -> None:
        """Create the table before its first file, or add the columns that it lacks."""
        self.upgrade()
        if not self._is_ready:
            self._create()

    def _create(self) -> None:
        """Create the table without a file, so that files without a log always mean damage."""
        if self.opened() is None:
            schema = Schema.from_json(self.schema.json())
            with reached():
                DeltaTable.create(
                    self._uri, schema, "ignore", list(self._partitions), self.name, configuration=dict(_CONFIGURATION),
                    storage_options=self._lake.delta_options,
                )  # fmt: skip

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        try:
            with reached():
                yield
        except (json.JSONDecodeError, UnicodeDecodeError, DeltaError) as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> LakeDamaged:
        reason = _first_line(error)
        if "Unsupported" in reason:
            return LakeDamaged(f"{self.name} needs a feature of Delta that hookwire does not read ({reason})")
        return LakeDamaged(f"{self._log_name} is damaged or cannot be read ({reason}): restore it from a backup")

    def _rows_in(self, file: DataFile) -> int:
        """Return the rows of a file of which the log does not say it; 0 if it cannot be read, which a check names."""
        try:
            with self._lake.open(self.place(file)) as opened:
                rows: int = pq.read_metadata(opened).num_rows
                return rows
        except (ArrowException, FileNotFoundError):
            return 0

    def _hashed(self, path: str, size: int) -> DataFile:
        """Return a file's description from its footer and bytes; ``path`` is relative to the lake."""
        with self._lake.open(path) as file:
            metadata = pq.read_metadata(file)
        digest, numbers = self._lake.sha256(path), event_numbers(metadata)
        return DataFile(path.removeprefix(f"{self.name}/"), metadata.num_rows, size, digest, numbers)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:300]


def bronze(lake: LakeStorage, of: type[Table] = Table) -> Table:
    """Return the table of archived Kafka records."""
    return of(lake, "bronze", BRONZE, BRONZE_PARTITIONS)
