"""Rewriting: replaces files of a table in one commit, while the archive continues to add batches."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from pipeline.lake import LakeConflict, LakeDamaged, Table
from pipeline.snapshot import Change, DataFile, Snapshot

__all__ = ["rewrite"]


def rewrite(table: Table, old: Sequence[DataFile], rows: DataFrame, job: str, run: str, *, fewer_rows: int = 0) -> int:
    """Replace files by rows; return the number of new files. ``fewer_rows`` is the number of rows removed on purpose.

    Raises :class:`LakeDamaged` if the number of written rows is wrong. Raises :class:`LakeConflict` if another job has
    rewritten the same files. Both leave the table as it was.
    """
    added = table.write(rows, table.snapshot().number + 1)
    read, written = sum(file.rows for file in old), sum(file.rows for file in added)
    if written != read - fewer_rows:
        table.discard(added)
        raise LakeDamaged(f"{read} rows were read, {written} written, {fewer_rows} should go: the table is unchanged")
    removed = tuple(file.path for file in old)

    def change(basis: Snapshot) -> Change:
        if not set(removed) <= {file.path for file in basis.files}:
            raise LakeConflict("another job has rewritten the same files: run this one again")
        return Change(job, run, added, removed)

    try:
        table.amend(change)
    except LakeConflict:
        table.discard(added)
        raise
    return len(added)
