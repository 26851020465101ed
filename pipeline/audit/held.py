"""Held: a lake as an audit finds it. Each table is opened once, and each part of the audit judges the same state.

A log of S3 is read over the network, and each look at a table reads all of its commits behind the checkpoint. A job may
commit during an audit. What it commits is for the next audit. But nobody can judge a state whose files a job deletes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from deltalake import DeltaTable

from pipeline.audit.mark import LogMark
from pipeline.delta.log import LogEntry
from pipeline.delta.snapshot import Snapshot
from pipeline.lake import Table
from pipeline.storage import LakeStorage
from pipeline.tables import gone_tables, lake_tables

__all__ = ["HeldLake", "HeldTable"]


class HeldTable(Table):
    """A table that is opened once, also if it does not exist. Nobody commits by it.

    Its number and its newest commit are read directly after that. So a mark is that of the state that was judged. Each
    commit that is asked for by its version is read once.
    """

    _held_number = 0

    @cached_property
    def _held(self) -> DeltaTable | None:
        table = super()._found()
        if table is not None:
            self._held_number = super()._number(table)
            with self._damage_named():
                self._log.hold(table.version())
        return table

    @cached_property
    def _held_snapshot(self) -> Snapshot:
        return super().snapshot()

    def snapshot(self) -> Snapshot:
        """Return the state of the table at the first look. Raises :class:`LakeDamaged`."""
        return self._held_snapshot

    def entry(self, version: int) -> LogEntry | None:
        """Return a commit as it was at the first question about it; None if it was not in the log."""
        with self._damage_named():
            self._log.hold(version)
        return super().entry(version)

    def has_lost_files(self) -> bool:
        """Return whether a commit behind the first look removed files of that state, and one of them is deleted.

        Raises :class:`LakeDamaged`.
        """
        if self._held is None or not self._log.has(self._held.version() + 1):
            return False
        present = Table(self._lake, self.name, self.schema, self._partitions).snapshot()
        named = {file.path for file in present.files}
        dropped = [self.place(file) for file in self.snapshot().files if file.path not in named]
        return None in self._lake.each(dropped, lambda path: self._lake.info(path).size)

    def _found(self, version: int | None = None) -> DeltaTable | None:
        is_held = version is None or (self._held is not None and self._held.version() == version)
        return self._held if is_held else super()._found(version)

    def _number(self, table: DeltaTable) -> int:
        return self._held_number if table is self._held else super()._number(table)


class HeldLake:
    """The tables of a lake as an audit finds them. A table is opened at the first question about it.

    ``marks``: what the database knew of the logs before. A typed table that it knows is among ``tables``, also if it is
    gone.
    """

    def __init__(self, storage: LakeStorage, marks: Mapping[str, LogMark] | None = None) -> None:
        self.storage = storage
        self.marks = marks or {}
        tables = lake_tables(storage, HeldTable)
        self.tables = (*tables, *gone_tables(storage, tables, self.marks, HeldTable))
        self.bronze, self.erased, *_ = self.tables

    def has_lost_files(self) -> bool:
        """Return whether a job has deleted files that an audit would read. Raises :class:`LakeDamaged`."""
        return any(table.has_lost_files() for table in self.tables[:2] if isinstance(table, HeldTable))
