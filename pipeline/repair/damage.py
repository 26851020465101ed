"""Damage: files of a table that cannot be read, or of which the log says something wrong.

The records of a file that cannot be read are in no other file of the lake. It is moved to ``<lake>/quarantine/``, and a
commit removes it from the table. The table ``quarantined`` gets a row for each file, and the audit names the events
that were in it. A file whose records can be read stays in the table, even if the log is wrong about it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

import pyarrow.parquet as pq
from pyarrow import ArrowException

from pipeline.delta.foreign import ForeignCommit
from pipeline.delta.snapshot import BATCH, Change, DataFile, Snapshot, folder_values
from pipeline.delta.statistics import hidden_column, other_type, wrong_statistics
from pipeline.frame import struct_of
from pipeline.lake import Table
from pipeline.repair.words import statistics
from pipeline.storage import LakeStorage, StorageError, is_uri
from pipeline.typed.tables import forget_days

__all__ = ["Damage", "Inspection", "inspect", "put_aside", "quarantined_table"]

QUARANTINED: Final = (
    "table string, path string, rows long, bytes long, reason string, run string, quarantined_at timestamp, dt date"
)
"""``table`` and ``path``: the former table of the file, and its path there. ``dt``: the day of ``quarantined_at``."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A file of the table, and its fault.

    ``is_lost``: its records cannot be read, or are not those that were written. ``is_unreadable``: a column has another
    type, so that no job can read the table.
    """

    file: DataFile
    reason: str
    is_lost: bool = True
    is_unreadable: bool = False


@dataclass(frozen=True, slots=True)
class Inspection:
    """The result of an inspection. ``without_hash``: files that a deep inspection found no hash for in the log.

    ``foreign``: commits of other tools that are not accepted yet, and notes.
    """

    table: Table
    files: int
    damages: list[Damage]
    without_hash: int
    foreign: tuple[ForeignCommit, ...] = field(default=())


def inspect(
    lake: LakeStorage, table: Table, *, deep: bool = False, is_wanted: Callable[[DataFile], bool] = lambda _: True
) -> Inspection:
    """Find each file that is not as the log says: its size, its rows, its statistics, its partition values.

    ``deep``: also find each file whose bytes differ from those that were written. Raises :class:`LakeDamaged`.
    """
    snapshot = table.snapshot().where(is_wanted)
    sizes = table.stored() if snapshot.files else {}
    said = statistics(table) if snapshot.files else {}
    files = {file.path: file for file in snapshot.files}
    known = _columns(table) if snapshot.files else set()
    written = _hashes(table) if deep else {}

    def looked_at(path: str) -> Damage | None:
        return _damage(lake, table, files[path], sizes, said[path], known) if path in said else None

    found = {damage.file.path: damage for damage in lake.each(list(files), looked_at) if damage is not None}
    if any(damage.is_lost for damage in found.values()):
        found = {path: _judged(lake, damage, table, written or _hashes(table)) for path, damage in found.items()}
    for path in files.keys() & written.keys() - found.keys():
        if lake.sha256(table.place(files[path])) != written[path]:
            found[path] = Damage(files[path], "its bytes differ from those that were written")
    without_hash = len(files.keys() - written.keys()) if deep else 0
    damages = [found[path] for path in sorted(found)]
    return Inspection(table, len(files), damages, without_hash, snapshot.state.foreign)


def _hashes(table: Table) -> dict[str, str]:
    """Return path and hash of each file whose commit is still in the log."""
    return {path: digest for commit in table.history() for path, digest in commit["sha256"].items() if digest}


def _columns(table: Table) -> set[str]:
    """Return the columns in the log's schema."""
    opened = table.opened()
    return set() if opened is None else {field.name for field in opened.schema().fields}


def _damage(
    lake: LakeStorage, table: Table, file: DataFile, sizes: Mapping[str, int], said: Mapping[str, Any],
    known: Collection[str],
) -> Damage | None:  # fmt: skip
    """Return the fault of a file. It is taken for lost if its size, its footer or its rows differ.

    ``known``: the columns in the log's schema.
    """
    path = lake.relative(table.place(file))
    size = sizes.get(path) if path in sizes or not is_uri(path) else lake.info(path).size
    if size is None:
        return Damage(file, "it is missing")
    metadata = _footer(lake, path)
    if isinstance(metadata, str) or size != file.bytes:
        has_size = f"it has {size} bytes and should have {file.bytes}"
        return Damage(file, has_size if size != file.bytes else str(metadata))
    if metadata.num_rows != file.rows:
        return Damage(file, f"it has {metadata.num_rows} rows and should have {file.rows}")
    if (other := other_type(metadata, table.schema)) is not None:
        return Damage(file, other, is_lost=False, is_unreadable=True)
    reason = _other_folder(file) or wrong_statistics(said, metadata) or hidden_column(metadata, table.schema, known)
    return None if reason is None else Damage(file, reason, is_lost=False)


def _footer(lake: LakeStorage, path: str) -> pq.FileMetaData | str:
    """Return the footer of a file, or the reason why it has none."""
    try:
        with lake.open(path) as opened:
            return pq.read_metadata(opened)
    except (ArrowException, OSError) as error:
        if isinstance(error, OSError) and not lake.is_local:  # The store did not answer; the file may be intact.
            raise StorageError(f"{path} cannot be read: {error}") from error
        return f"it is not a Parquet file: {str(error).partition(chr(10))[0]}"


def _other_folder(file: DataFile) -> str | None:
    """Return which partition value of a file is not that of its folder; folders need not have values."""
    folders = folder_values(file.path)
    wrong = [name for name, value in file.values.items() if folders.get(name, value) != value]
    return f"the log says {wrong[0]} {file.values[wrong[0]]}, and its folder {folders[wrong[0]]}" if wrong else None


def _judged(lake: LakeStorage, damage: Damage, table: Table, written: Mapping[str, str]) -> Damage:
    """Return whether a file is lost indeed. It is not if the log alone is wrong, and all its records can be read."""
    path = table.place(damage.file)
    if not damage.is_lost or lake.info(path).size is None:
        return damage
    if damage.file.path in written:
        is_whole = lake.sha256(path) == written[damage.file.path]
    else:
        is_whole = _is_readable(lake, path)
    return replace(damage, is_lost=not is_whole)


def _is_readable(lake: LakeStorage, path: str) -> bool:
    try:
        with lake.open(path) as opened:
            file = pq.ParquetFile(opened)
            return all(file.read_row_group(number).num_rows for number in range(file.num_row_groups))
    except (ArrowException, OSError):
        return False


def put_aside(lake: LakeStorage, table: Table, found: list[Damage], run: str) -> int:
    """Move lost files to quarantine and remove them from the table; return how many records they should have.

    The order is note, files, commit. A run that is killed in between leaves files missing. The next run notes them
    again and continues. A day that lost a file is computed again, also in the tables that are made of bronze. Raises
    LakeConflict and LakeDamaged.
    """
    lost = [damage for damage in found if damage.is_lost]
    if not lost:
        return 0
    _note(quarantined_table(lake), table, lost, run)
    for damage in lost:
        lake.move(table.place(damage.file), _aside(table, damage.file))
    notes = {"quarantined": [[damage.file.path, damage.file.rows, damage.reason] for damage in lost]}
    files = [damage.file for damage in lost]
    removed = {file.path for file in files}

    def change(basis: Snapshot) -> Change | None:
        there = tuple(file.path for file in basis.files if file.path in removed)
        state = basis.state.without_days(files)
        return Change("check", run, removed=there, state=state, notes=notes) if there else None

    table.amend(change)
    if table.name == "bronze":
        forget_days(lake, files, "check", run)
    return sum(damage.file.rows for damage in lost)


def _aside(table: Table, file: DataFile) -> str:
    """Return the place of a file in quarantine. Its folders name its partition values, wherever the file was."""
    if BATCH.match(file.path):
        return f"quarantine/{table.name}/{file.path}"
    folders = "/".join(f"{name}={quote(value, safe='')}" for name, value in file.values.items())
    return f"quarantine/{table.name}/data/{folders}/{file.path.rpartition('/')[2]}"


def _note(quarantined: Table, table: Table, found: list[Damage], run: str) -> None:
    now = datetime.now(UTC)
    rows = [
        {"table": table.name, "path": damage.file.path, "rows": damage.file.rows, "bytes": damage.file.bytes,
         "reason": damage.reason, "run": run, "quarantined_at": now}
        for damage in found
    ]  # fmt: skip
    added = quarantined.write_rows(rows, {"dt": now.date().isoformat()}, quarantined.snapshot().number + 1)
    quarantined.amend(lambda _: Change("check", run, (added,)))


def quarantined_table(lake: LakeStorage, of: type[Table] = Table) -> Table:
    """Return the table of files in quarantine, each with its reason."""
    return of(lake, "quarantined", struct_of(QUARANTINED), ("dt",))
