"""Seen: whether every other reader sees the same lake as the audit.

The audit reads rows. Other readers skip files by the log's statistics, and count by them. So the log's words on each
file are compared with the file. A second reader counts the same days, and commits of other tools are named.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.delta.snapshot import Snapshot
from pipeline.lake import LakeDamaged, Table
from pipeline.repair.damage import inspect
from pipeline.repair.foreign_rows import changes
from pipeline.repair.words import counted_by_deltalake
from pipeline.storage import LakeStorage

__all__ = ["differences_seen"]


def differences_seen(lake: LakeStorage, table: Table, read: Snapshot, examples_max: int) -> list[str]:
    """Return each fault of the log's words on the files of ``read`` as a sentence; each is a finding.

    Raises :class:`LakeDamaged` if a column of a file has another type, because no job can read such a table.
    """
    return list(_differences(lake, table, read, examples_max))


def _differences(lake: LakeStorage, table: Table, read: Snapshot, examples_max: int) -> Iterator[str]:
    paths = {file.path for file in read.files}
    found = inspect(lake, table, is_wanted=lambda file: file.path in paths)
    if other := [f"{table.name}/{one.file.path}: {one.reason}" for one in found.damages if one.is_unreadable]:
        raise LakeDamaged("; ".join(other))
    for damage in found.damages:
        yield f"{table.name}/{damage.file.path}: {damage.reason}"
    for change in changes(lake, table, found.foreign, examples_max):
        yield f"{table.name}: {change.sentence}"
    # A second reader cannot count files that are damaged, and these are named already.
    counted = read.rows if found.damages else counted_by_deltalake(table, read)
    if counted != read.rows:
        yield f"{table.name}: deltalake counts {counted:,} rows of these days, and the log says {read.rows:,}"
