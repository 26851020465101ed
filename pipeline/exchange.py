"""Exchange: files of a table for others, in one entry of its log, while the archive goes on adding batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from pyspark.sql import DataFrame

from pipeline.lake import Change, DataFile, LakeConflict, LakeDamaged, Snapshot, Table
from pipeline.storage import LakeStorage

__all__ = ["amend", "delete_replaced", "exchange"]

_TRIES = 5


def exchange(table: Table, old: Sequence[DataFile], rows: DataFrame, job: str, run: str, *, fewer_rows: int = 0) -> int:
    """Put rows in the place of files; the number of files that were written. ``fewer_rows`` are gone on purpose.

    Raises :class:`LakeDamaged` when the rows that were written are not as many as they should be, and
    :class:`LakeConflict` when another job has exchanged the same files; both leave the table as it was.
    """
    added = table.write(rows, table.snapshot().version + 1)
    read, written = sum(file.rows for file in old), sum(file.rows for file in added)
    if written != read - fewer_rows:
        table.discard(added)
        raise LakeDamaged(f"{read} rows were read and {written} written, {fewer_rows} fewer were meant: left as it was")
    removed = tuple(file.path for file in old)

    def change(basis: Snapshot) -> Change:
        if not set(removed) <= {file.path for file in basis.files}:
            raise LakeConflict("another job has exchanged the same files: run this one again")
        return Change(job, run, added, removed)

    try:
        amend(table, change)
    except LakeConflict:
        table.discard(added)
        raise
    return len(added)


def amend(table: Table, change: Callable[[Snapshot], Change | None]) -> None:
    """Commit what ``change`` makes of the present snapshot (None: nothing), again when somebody else was quicker."""
    for tries_left in reversed(range(_TRIES)):
        basis = table.snapshot()
        made = change(basis)
        if made is None:
            return
        try:
            table.commit(basis, made)
        except LakeConflict:
            if not tries_left:
                raise
        else:
            return


def delete_replaced(lake: LakeStorage, table: Table, before: datetime | None = None) -> int:
    """Delete the files that an entry of the log, of before that moment, has taken out; how many were still there."""
    present = {file.path for file in table.snapshot().files}
    entries = (entry for entry in table.entries() if before is None or datetime.fromisoformat(entry["at"]) < before)
    taken_out = {path for entry in entries for path in entry["removed"]} - present
    there = {f"{table.name}/{path}" for path in taken_out} & set(lake.files(f"{table.name}/data"))
    lake.delete(there)
    return len(there)
