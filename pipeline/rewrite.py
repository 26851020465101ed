"""Rewriting: replaces files of a table in one commit, while the archive continues to add batches."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from pipeline.delta.snapshot import Change, DataFile, Snapshot
from pipeline.lake import LakeConflict, LakeDamaged, Table

__all__ = ["rewrite"]


def rewrite(table: Table, old: Sequence[DataFile], rows: DataFrame, job: str, run: str, *, fewer_rows: int = 0) -> int:
    """Replace files by rows of ``Table.read_whole``; return the number of new files.

    ``fewer_rows`` is the number of rows removed on purpose.

    In a table of days, a day that loses rows is computed again.

    Raises :class:`LakeDamaged` if the number of written rows is wrong. Raises :class:`LakeConflict` if another job has
    rewritten the same files. Both leave the table as it was.
    """
    before = table.refreshed()
    added = table.write_whole(rows, before.number + 1)
    read, written = sum(file.rows for file in old), sum(file.rows for file in added)
    if written != read - fewer_rows:
        table.discard(added)
        raise LakeDamaged(
            f"{table.name}: {read} rows were to be read from {len(old)} files such as {old[0].path}, {written} were "
            f"written, {fewer_rows} should go: the table is unchanged; hookwire pipeline check names a wrong file"
        )
    removed = tuple(file.path for file in old)
    short = old if fewer_rows else ()

    def change(basis: Snapshot) -> Change:
        if not set(removed) <= {file.path for file in basis.files}:
            authors = table.authors_since(before.version)
            raise LakeConflict(f"the same files were replaced ({authors}): run this command again")
        return Change(job, run, added, removed, basis.state.without_days(short))

    table.refuse_deleted(added)
    try:
        table.amend(change)
    except LakeConflict:
        table.discard(added)
        raise
    return len(added)
