"""Rewriting: files of a table for others, in one commit, while the archive goes on adding batches."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from pipeline.lake import Change, DataFile, LakeConflict, LakeDamaged, Snapshot, Table

__all__ = ["rewrite"]


def rewrite(table: Table, old: Sequence[DataFile], rows: DataFrame, job: str, run: str, *, fewer_rows: int = 0) -> int:
    """Put rows in the place of files; the number of files that were written. ``fewer_rows`` were removed on purpose.

    Raises :class:`LakeDamaged` when the rows that were written are not as many as they should be, and
    :class:`LakeConflict` when another job has rewritten the same files; both leave the table as it was.
    """
    added = table.write(rows, table.snapshot().version + 1)
    read, written = sum(file.rows for file in old), sum(file.rows for file in added)
    if written != read - fewer_rows:
        table.discard(added)
        raise LakeDamaged(f"{read} rows were read and {written} written, {fewer_rows} fewer were meant: left as it was")
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
