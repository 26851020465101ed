"""Held: a table as an audit finds it. Its log is read once, and each part of the audit judges the same state."""

from __future__ import annotations

from typing import NamedTuple

from deltalake import DeltaTable

from pipeline.lake import Table
from pipeline.storage import LakeStorage
from pipeline.tables import lake_tables

__all__ = ["HeldTable", "HeldTables"]


class HeldTable(Table):
    """A table that is opened once. Commits that are made later are not part of it."""

    _held: DeltaTable | None = None

    def opened(self, version: int | None = None) -> DeltaTable | None:
        """Return the table as it was at the first call, or at another version. Raises :class:`LakeDamaged`."""
        if version is not None and (self._held is None or self._held.version() != version):
            return super().opened(version)
        if self._held is None:
            self._held = super().opened()
        return self._held


class HeldTables(NamedTuple):
    """The archived records, the notes on erased ones, and all tables of the lake, of which these are the first."""

    bronze: Table
    erased: Table
    every: tuple[Table, ...]

    @classmethod
    def of(cls, lake: LakeStorage) -> HeldTables:
        """Return the tables of a lake, which nobody has opened yet. Raises StorageError."""
        bronze, erased, *others = lake_tables(lake, HeldTable)
        return cls(bronze, erased, (bronze, erased, *others))
