"""Sweeping: files that are left from killed batches, and files of a table that cannot be read (issue 7, bad input).

What no entry of the log ever named was written by a batch that was killed, and that batch was done again from the same
offsets: its files go after a day. A file that an entry names and that is missing, cut short or no Parquet is another
matter, because its records are nowhere else in the lake: it is put into ``<lake>/quarantine/``, an entry takes it out
of the table and says why, and the audit names what was in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import pyarrow.parquet as pq
from pyarrow import ArrowException

from pipeline.exchange import amend
from pipeline.lake import Change, DataFile, Snapshot, Table
from pipeline.storage import LakeStorage

__all__ = ["Damage", "damages", "put_aside", "sweep_killed"]


@dataclass(frozen=True, slots=True)
class Damage:
    """A file of the table, and why it cannot be read."""

    file: DataFile
    reason: str


def sweep_killed(lake: LakeStorage, table: Table, before: datetime) -> int:
    """Delete the batches that no entry has ever named and nobody has written to since ``before``; how many files."""
    entries = [path for entry in table.entries() for path in (*entry["removed"], *(f["path"] for f in entry["added"]))]
    kept = {None, *map(_batch, entries), *(_batch(file.path) for file in table.snapshot().files)}
    found = {path: at for path, at in lake.written_at(f"{table.name}/data").items() if _batch(path) not in kept}
    young = {_batch(path) for path, at in found.items() if at >= before}
    left = [path for path in found if _batch(path) not in young]
    lake.delete(left)
    return sum(path.endswith(".parquet") for path in left)


def _batch(path: str) -> str | None:
    """The folder of a batch, of a path relative to the table or to the lake; None: the file is somebody else's."""
    return next((part for part in path.split("/") if part.startswith("batch=")), None)


def damages(lake: LakeStorage, table: Table, snapshot: Snapshot) -> list[Damage]:
    """Every file of the snapshot whose size, end or number of rows is not what its entry says."""
    sizes = lake.files(f"{table.name}/data")
    found = ((file, _reason(lake, table, file, sizes)) for file in snapshot.files)
    return [Damage(file, reason) for file, reason in found if reason is not None]


def _reason(lake: LakeStorage, table: Table, file: DataFile, sizes: dict[str, int]) -> str | None:
    path = f"{table.name}/{file.path}"
    if path not in sizes:
        return "it is not there"
    if sizes[path] != file.bytes:
        return f"it has {sizes[path]} bytes and should have {file.bytes}"
    try:
        with lake.open(path) as opened:
            rows = pq.read_metadata(opened).num_rows
    except (ArrowException, OSError) as error:
        return f"it is no Parquet: {str(error).partition(chr(10))[0]}"
    return None if rows == file.rows else f"it has {rows} rows and should have {file.rows}"


def put_aside(lake: LakeStorage, table: Table, found: list[Damage], run: str) -> int:
    """Into quarantine with them, and out of the table; how many records their entries said they have.

    First the files, then the entry: whoever is killed between finds them missing and goes on.
    Raises LakeConflict and LakeDamaged.
    """
    for damage in found:
        path = f"{table.name}/{damage.file.path}"
        lake.move(path, f"quarantine/{path}")
    notes = {"quarantined": [[damage.file.path, damage.file.rows, damage.reason] for damage in found]}
    removed = {damage.file.path for damage in found}

    def change(basis: Snapshot) -> Change | None:
        there = tuple(file.path for file in basis.files if file.path in removed)
        return Change("check", run, removed=there, notes=notes) if there else None

    amend(table, change)
    return sum(damage.file.rows for damage in found)
