"""Renaming: gives files of an older version a folder that every reader of Delta understands (GP-07).

Folders once began with ``batch=``. Polars takes such a folder for a partition column, which the table does not have.
The files keep their bytes. On a disk they are linked, on other stores the store copies them; vacuum deletes the old
names.
"""

from __future__ import annotations

from dataclasses import replace

from pipeline.delta.snapshot import BATCH, Change, DataFile, Snapshot
from pipeline.lake import Table
from pipeline.storage import LakeStorage

__all__ = ["rename"]

_AT_ONCE = 1_000


def rename(lake: LakeStorage, table: Table, run: str) -> int:
    """Rename the table's files of an older version, many in one commit; return their number.

    Raises LakeConflict and LakeDamaged. Earlier commits stay.
    """
    renamed = 0
    while old := [file for file in table.snapshot().files if file.is_of_before][:_AT_ONCE]:
        _rename(lake, table, old, run)
        renamed += len(old)
    return renamed


def _rename(lake: LakeStorage, table: Table, old: list[DataFile], run: str) -> None:
    number = table.snapshot().number + 1
    written = {path: digest for commit in table.history() for path, digest in commit["sha256"].items()}
    new = {file.path: replace(file, path=_named(file.path, number), sha256=written.get(file.path, "")) for file in old}
    targets = {table.place(file): table.place(new[file.path]) for file in old}
    lake.each(list(targets), lambda path: lake.copy(path, targets[path]))

    def change(basis: Snapshot) -> Change:
        there = tuple(file.path for file in basis.files if file.path in new)
        return Change("compact", run, tuple(new[path] for path in there), there)

    table.amend(change)


def _named(path: str, number: int) -> str:
    """Return the new name, in which the old folder still is, so that no two files get the same one."""
    batch = BATCH.match(path)
    assert batch is not None, "it is a file of an older version"
    folder = batch[0].removeprefix("data/batch=").rstrip("/").replace("-", "")
    return f"data/{number:06d}-{folder}/{path[batch.end() :]}"
