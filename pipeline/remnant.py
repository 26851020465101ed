"""Remnants: files of the lake that hold records but do not belong to its table (PL-09).

::

    <lake>/bronze/data/batch=000007-.../...    batches that were killed
    <lake>/quarantine/bronze/data/...          files that could not be read, see ``pipeline.damage``

No report reads them, but they may hold records of an erased subject. They are few, so the driver searches them.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import ArrowException

from pipeline.lake import Table, folder_values
from pipeline.storage import LakeStorage, StorageError

__all__ = ["Remnant", "remnants", "remove"]

_QUARANTINE: Final = "quarantine/"


@dataclass(frozen=True, slots=True)
class Remnant:
    """A file outside the table. ``path`` is relative to the lake; ``batch`` is the number of its intended commit.

    ``found``: the requested columns of the records with the searched keys; None if the file cannot be read.
    """

    path: str
    batch: int
    found: pa.Table | None

    @property
    def is_in_quarantine(self) -> bool:
        """Return whether the file belonged to the table once, so that its records are in no other file."""
        return self.path.startswith(_QUARANTINE)

    @property
    def values(self) -> dict[str, str]:
        """Return the values in the folders of the path."""
        return folder_values(self.path)


def remnants(
    lake: LakeStorage, table: Table, keys: Iterable[str], topic: str | None, columns: Sequence[str]
) -> list[Remnant]:
    """Return files that hold records with these keys, of one Kafka topic or of all, and unreadable files.

    Files of a batch that is being written now may be among them.
    """
    wanted = _binary(keys)
    places = [*table.unlisted(table.snapshot()), *lake.files(f"{_QUARANTINE}{table.name}/data")]
    searched = (_searched(lake, path, wanted, columns) for path in places if _is_of(path, topic))
    return [one for one in searched if one.found is None or one.found.num_rows]


def _is_of(path: str, topic: str | None) -> bool:
    """Return whether one of our batches wrote the file for this topic; other files are skipped."""
    values = folder_values(path)
    return path.endswith(".parquet") and {"batch", "topic"} <= values.keys() and topic in (None, values["topic"])


def _searched(lake: LakeStorage, path: str, keys: pa.Array, columns: Sequence[str]) -> Remnant:
    batch = int(folder_values(path)["batch"].partition("-")[0])
    try:
        with lake.open(path) as opened:
            file = pq.ParquetFile(opened)
            groups = [file.read_row_group(n, ["key", *columns]) for n in range(file.num_row_groups)]
            return Remnant(path, batch, pa.concat_tables(_with(keys, group).select(columns) for group in groups))
    except (ArrowException, KeyError, OSError) as error:
        if isinstance(error, OSError) and not lake.is_local:  # The store did not answer; the file may be intact.
            raise StorageError(f"{path} cannot be read: {error}") from error
        return Remnant(path, batch, None)


def remove(lake: LakeStorage, gone: Iterable[Remnant], keys: Iterable[str]) -> None:
    """Delete the files. Write a readable file in quarantine again without these keys, to keep its other records."""
    wanted = _binary(keys)
    for one in gone:
        kept = _without(lake, one.path, wanted) if one.is_in_quarantine and one.found is not None else None
        if kept is None:
            lake.delete([one.path])
        else:
            lake.replace(one.path, kept)


def _without(lake: LakeStorage, path: str, keys: pa.Array) -> bytes | None:
    with lake.open(path) as opened:
        rows = pq.ParquetFile(opened).read()
    kept, draft = rows.filter(pc.invert(pc.is_in(rows["key"], keys))), io.BytesIO()
    # Older versions wrote times without a zone, in Parquet's old type.
    is_old = rows.schema.field("accepted_at").type.tz is None
    pq.write_table(kept, draft, compression="zstd", use_deprecated_int96_timestamps=is_old)
    return draft.getvalue() if kept.num_rows else None


def _with(keys: pa.Array, rows: pa.Table) -> pa.Table:
    return rows.filter(pc.is_in(rows["key"], keys))


def _binary(keys: Iterable[str]) -> pa.Array:
    return pa.array([key.encode() for key in keys], pa.binary())
