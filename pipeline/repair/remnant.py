"""Remnants: files of the lake that hold records but do not belong to its table (PL-09).

::

    <lake>/bronze/data/000007-.../...     batches that were killed
    <lake>/bronze/dt=.../...              files of other tools, replaced or never committed
    <lake>/bronze/_change_data/...        rows before and after a change of another tool
    <lake>/quarantine/bronze/data/...     files that could not be read, see ``pipeline.repair.damage``

No report reads them, but they may hold records of an erased subject. They are few, so the driver searches them.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import ArrowException

from pipeline.delta.snapshot import BATCH, Snapshot, folder_values
from pipeline.lake import Table
from pipeline.storage import LakeStorage, StorageError

__all__ = ["Remnant", "remnants", "remove"]

_QUARANTINE: Final = "quarantine/"
_WRITING: Final = timedelta(days=1)
"""A file of another tool that is younger may still be committed by it."""


@dataclass(frozen=True, slots=True)
class Remnant:
    """A file outside the table. ``path`` is relative to the lake.

    ``found``: the requested columns of the records with the searched keys; None if the file cannot be read.
    """

    path: str
    found: pa.Table | None

    @property
    def is_in_quarantine(self) -> bool:
        """Return whether the file belonged to the table once, so that its records are in no other file."""
        return self.path.startswith(_QUARANTINE)

    @property
    def values(self) -> Mapping[str, str]:
        """Return the values in the folders of the path."""
        return folder_values(self.path)

    def is_pending(self, lake: LakeStorage, snapshot: Snapshot) -> bool:
        """Return whether a job of hookwire, or another tool, may still make the file part of the table."""
        batch = BATCH.search(self.path)
        if self.is_in_quarantine:
            return False
        if batch is None:
            written = lake.info(self.path).mtime
            return written is not None and written > datetime.now(UTC) - _WRITING
        # An older version named the commit's version, which other tools raise too.
        return int(batch["number"]) > (snapshot.version if batch["old"] else snapshot.number)


def remnants(
    lake: LakeStorage, table: Table, keys: Iterable[str], topic: str | None, columns: Sequence[str]
) -> list[Remnant]:
    """Return files that hold records with these keys, of one Kafka topic or of all, and unreadable files.

    Files of a batch that is being written now may be among them.
    """
    wanted = _binary(keys)
    places = [*table.unlisted(table.snapshot()), *lake.files(f"{_QUARANTINE}{table.name}")]
    searched = (_searched(lake, path, wanted, columns) for path in places if _is_of(path, topic))
    return [one for one in searched if one is not None and (one.found is None or one.found.num_rows)]


def _is_of(path: str, topic: str | None) -> bool:
    """Return whether the file may hold records of this topic. A file whose folders do not say its topic may."""
    return path.endswith(".parquet") and topic in (None, folder_values(path).get("topic", topic))


def _searched(lake: LakeStorage, path: str, keys: pa.Array, columns: Sequence[str]) -> Remnant | None:
    """Return the file with its records; None if it is no file of the table at all."""
    try:
        with lake.open(path) as opened:
            file = pq.ParquetFile(opened)
            there = [name for name in columns if name in file.schema_arrow.names]
            groups = [file.read_row_group(n, ["key", *there]) for n in range(file.num_row_groups)]
            return Remnant(path, pa.concat_tables(_with(keys, group).select(there) for group in groups))
    except (ArrowException, KeyError, OSError) as error:
        if isinstance(error, OSError) and not lake.is_local:  # The store did not answer; the file may be intact.
            raise StorageError(f"{path} cannot be read: {error}") from error
        return Remnant(path, None) if folder_values(path) else None


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
    kept, draft = rows.filter(pc.invert(_has(keys, rows))), io.BytesIO()
    # Older versions wrote times without a zone, in Parquet's old type.
    is_old = rows.schema.field("accepted_at").type.tz is None
    pq.write_table(kept, draft, compression="zstd", use_deprecated_int96_timestamps=is_old)
    return draft.getvalue() if kept.num_rows else None


def _with(keys: pa.Array, rows: pa.Table) -> pa.Table:
    return rows.filter(_has(keys, rows))


def _has(keys: pa.Array, rows: pa.Table) -> pa.Array:
    return pc.is_in(rows["key"].cast(pa.binary()), keys)


def _binary(keys: Iterable[str]) -> pa.Array:
    return pa.array([key.encode() for key in keys], pa.binary())
