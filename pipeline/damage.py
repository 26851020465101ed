"""Damage: files of a table that cannot be read, or that differ from their commit (FP-06).

The records of such a file are in no other file of the lake. It is moved to ``<lake>/quarantine/``, and a commit removes
it from the table. The table ``quarantined`` gets a row for each file, and the audit names the events that were in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import pyarrow.parquet as pq
from pyarrow import ArrowException

from pipeline.frame import struct_of
from pipeline.lake import Change, DataFile, Snapshot, State, Table
from pipeline.storage import LakeStorage, StorageError

__all__ = ["Damage", "Inspection", "inspect", "put_aside", "quarantined_table"]

QUARANTINED: Final = (
    "table string, path string, rows long, bytes long, reason string, run string, quarantined_at timestamp, dt date"
)
"""``table`` and ``path``: the former table of the file, and its path there. ``dt``: the day of ``quarantined_at``."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A file of the table, and the reason why it cannot be used."""

    file: DataFile
    reason: str


@dataclass(frozen=True, slots=True)
class Inspection:
    """The result of an inspection. ``without_hash``: files that a deep inspection found no hash for in the log."""

    table: Table
    files: int
    damages: list[Damage]
    without_hash: int


def inspect(lake: LakeStorage, table: Table, *, deep: bool = False) -> Inspection:
    """Find each file whose size, footer or number of rows differs from its commit.

    ``deep``: also find each file whose bytes differ from those that were written. Raises :class:`LakeDamaged`.
    """
    files = {file.path: file for file in table.snapshot().files}
    sizes = lake.files(f"{table.name}/data") if files else {}
    written = _hashes(table) if deep else {}

    def looked_at(path: str) -> Damage | None:
        reason = _reason(lake, table, files[path], sizes) or _altered(lake, f"{table.name}/{path}", written.get(path))
        return None if reason is None else Damage(files[path], reason)

    found = [damage for damage in lake.each(list(files), looked_at) if damage is not None]
    return Inspection(table, len(files), found, len(files.keys() - written.keys()) if deep else 0)


def _hashes(table: Table) -> dict[str, str]:
    """Return path and hash of each file whose commit is still in the log."""
    return {path: digest for commit in table.history() for path, digest in commit["sha256"].items() if digest}


def _reason(lake: LakeStorage, table: Table, file: DataFile, sizes: dict[str, int]) -> str | None:
    path = f"{table.name}/{file.path}"
    if path not in sizes:
        return "it is missing"
    if sizes[path] != file.bytes:
        return f"it has {sizes[path]} bytes and should have {file.bytes}"
    try:
        with lake.open(path) as opened:
            rows = pq.read_metadata(opened).num_rows
    except (ArrowException, OSError) as error:
        if isinstance(error, OSError) and not lake.is_local:  # The store did not answer; the file may be intact.
            raise StorageError(f"{path} cannot be read: {error}") from error
        return f"it is not a Parquet file: {str(error).partition(chr(10))[0]}"
    return None if rows == file.rows else f"it has {rows} rows and should have {file.rows}"


def _altered(lake: LakeStorage, path: str, written: str | None) -> str | None:
    is_as_written = written is None or lake.sha256(path) == written
    return None if is_as_written else "its bytes differ from those that were written"


def put_aside(lake: LakeStorage, table: Table, found: list[Damage], run: str) -> int:
    """Move files to quarantine and remove them from the table; return how many records they should have.

    The order is note, files, commit. A run that is killed in between leaves files missing. The next run notes them
    again and continues. Raises LakeConflict and LakeDamaged.
    """
    if not found:
        return 0
    _note(quarantined_table(lake), table, found, run)
    for damage in found:
        path = f"{table.name}/{damage.file.path}"
        lake.move(path, f"quarantine/{path}")
    notes = {"quarantined": [[damage.file.path, damage.file.rows, damage.reason] for damage in found]}
    removed = {damage.file.path for damage in found}

    def change(basis: Snapshot) -> Change | None:
        there = tuple(file.path for file in basis.files if file.path in removed)
        return Change("check", run, removed=there, state=_without_days(basis, found), notes=notes) if there else None

    table.amend(change)
    return sum(damage.file.rows for damage in found)


def _note(quarantined: Table, table: Table, found: list[Damage], run: str) -> None:
    now = datetime.now(UTC)
    rows = [
        {"table": table.name, "path": damage.file.path, "rows": damage.file.rows, "bytes": damage.file.bytes,
         "reason": damage.reason, "run": run, "quarantined_at": now}
        for damage in found
    ]  # fmt: skip
    added = quarantined.write_rows(rows, {"dt": now.date().isoformat()}, quarantined.snapshot().version + 1)
    quarantined.amend(lambda _: Change("check", run, (added,)))


def quarantined_table(lake: LakeStorage) -> Table:
    """Return the table of files in quarantine, each with its reason."""
    return Table(lake, "quarantined", struct_of(QUARANTINED), ("dt",))


def _without_days(basis: Snapshot, found: list[Damage]) -> State:
    """Return the state without the source counts of these days, so that a day that lost a file is computed again."""
    lost = {damage.file.values["dt"] for damage in found}
    state = basis.state
    days = {day: rows for day, rows in state.days.items() if day not in lost}
    return State(state.offsets, state.incarnations, state.kept, days)
