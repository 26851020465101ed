"""Remnants: files of the lake that hold records but do not belong to its table.

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
from pipeline.repair.subject import SUBJECT_COLUMNS, Subject
from pipeline.storage import LakeStorage, StorageError

__all__ = ["Remnant", "remnants", "remove"]

_QUARANTINE: Final = "quarantine/"
_WRITING: Final = timedelta(days=1)
"""A file of another tool that is younger may still be committed by it."""


@dataclass(frozen=True, slots=True)
class Remnant:
    """A file outside the table. ``path`` is relative to the lake.

    ``found``: the requested columns of the subject's records; None if the file cannot be read.
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


def remnants(lake: LakeStorage, table: Table, subject: Subject, columns: Sequence[str]) -> list[Remnant]:
    """Return files that hold records of the subject, and unreadable files of its topic.

    Files of a batch that is being written now may be among them.
    """
    places = [*table.unlisted(table.snapshot()), *lake.files(f"{_QUARANTINE}{table.name}")]
    searched = (_searched(lake, path, subject, columns) for path in places if _is_of(path, subject.topic))
    return [one for one in searched if one is not None and (one.found is None or one.found.num_rows)]


def _is_of(path: str, topic: str | None) -> bool:
    """Return whether the file may hold records of this topic. A file whose folders do not say its topic may."""
    return path.endswith(".parquet") and topic in (None, folder_values(path).get("topic", topic))


def _searched(lake: LakeStorage, path: str, subject: Subject, columns: Sequence[str]) -> Remnant | None:
    """Return the file with its records; None if it is no file of the table at all."""
    try:
        with lake.open(path) as opened:
            file = pq.ParquetFile(opened)
            there = [name for name in columns if name in file.schema_arrow.names]
            read = ["key", *{*there, *SUBJECT_COLUMNS} & {*file.schema_arrow.names} - {"key"}]
            groups = [file.read_row_group(n, read) for n in range(file.num_row_groups)]
            return Remnant(path, pa.concat_tables(g.filter(subject.found_in(g)).select(there) for g in groups))
    except (ArrowException, KeyError, OSError) as error:
        if isinstance(error, OSError) and not lake.is_local:  # The store did not answer; the file may be intact.
            raise StorageError(f"{path} cannot be read: {error}") from error
        return Remnant(path, None) if folder_values(path) else None


def remove(lake: LakeStorage, gone: Iterable[Remnant], subject: Subject) -> None:
    """Delete the files. Write a readable file in quarantine again without the subject, to keep its other records."""
    for one in gone:
        kept = _without(lake, one.path, subject) if one.is_in_quarantine and one.found is not None else None
        if kept is None:
            lake.delete([one.path])
        else:
            lake.replace(one.path, kept)


def _without(lake: LakeStorage, path: str, subject: Subject) -> bytes | None:
    with lake.open(path) as opened:
        rows = pq.ParquetFile(opened).read()
    kept, draft = rows.filter(pc.invert(subject.found_in(rows))), io.BytesIO()
    # Older versions wrote times without a zone, in Parquet's old type.
    is_old = rows.schema.field("accepted_at").type.tz is None
    pq.write_table(kept, draft, compression="zstd", use_deprecated_int96_timestamps=is_old)
    return draft.getvalue() if kept.num_rows else None
