"""Erasure: every record of one subject's keys leaves the lake, and the lake is searched again to show it (PL-09).

::

    find the files that hold them -> note which event numbers go -> write the files anew without them
         -> one commit -> vacuum: delete the old files, also those that compaction had replaced
         -> search again -> search the files that are no part of the table -> take them out of these, too

Whole rows of bronze with one of the given keys are erased: from present and replaced files of the table, from
quarantine and from files that killed batches left. A file of the latter two that cannot be read is deleted, because its
records are unknown. The table ``erased`` keeps an event's number, topic, place and hour, so that the audit does not
take it for lost. It has neither key nor content. The hub's database, Kafka and copies are not touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from pipeline.lake import Change, DataFile, Snapshot, Table
from pipeline.remnant import Remnant, remnants, remove
from pipeline.rewrite import rewrite
from pipeline.schema import BRONZE
from pipeline.storage import LakeStorage

__all__ = ["Erased", "Subject", "erase", "erased_table", "find", "find_beside"]

_NUMBERS = ("event_id", "event_number", "partition", "offset", "accepted_at")
_ERASED = (*_NUMBERS, "dt", "topic")


@dataclass(frozen=True, slots=True)
class Subject:
    """``keys``: the ordering keys of the subject's events; ``topic``: of this Kafka topic alone."""

    keys: tuple[str, ...]
    topic: str | None = None

    def matches(self) -> Column:
        """Return whether a row of bronze is the subject's."""
        of_keys = F.col("key").isin([bytearray(key.encode()) for key in self.keys])
        is_theirs = F.coalesce(of_keys, F.lit(False))
        return is_theirs & (F.col("topic") == self.topic) if self.topic is not None else is_theirs


@dataclass(frozen=True, slots=True)
class Erased:
    """``records`` left ``files`` files of the table; ``replaced`` older versions of files were deleted, and
    ``remnants`` are files beside the table that they were taken out of, or that could not be read.

    ``remaining`` records were found by the search afterwards: none unless another job wrote some meanwhile. A file that
    is being written and cannot be searched yet counts as one.
    """

    records: int
    files: int
    replaced: int
    remnants: int
    remaining: int


def erased_table(lake: LakeStorage) -> Table:
    """Return the table of erased records, which the audit must not take for lost."""
    fields = [field for name in _ERASED for field in BRONZE.fields if field.name == name]
    return Table(lake, "erased", StructType(fields), ("dt", "topic"))


def find(spark: SparkSession, table: Table, subject: Subject) -> dict[DataFile, int]:
    """Return the table's files that hold records of the subject, and how many."""
    snapshot = table.snapshot()
    name = F.input_file_name().alias("file")
    rows = table.read(spark, snapshot).where(subject.matches()).select(name).groupBy("file").count().collect()
    counts = {unquote(row["file"]): row["count"] for row in rows}
    return {
        file: count for path, count in counts.items() for file in snapshot.files if path.endswith(unquote(file.path))
    }


def find_beside(lake: LakeStorage, table: Table, subject: Subject) -> list[Remnant]:
    """Return files that are not part of the table and hold records of the subject, or may."""
    return remnants(lake, table, subject.keys, subject.topic, _NUMBERS)


def erase(spark: SparkSession, lake: LakeStorage, table: Table, subject: Subject, run: str) -> Erased:
    """Erase, delete and search again. Raises :class:`LakeConflict` and :class:`LakeDamaged`; then run it again."""
    found = find(spark, table, subject)
    records = sum(found.values())
    if files := tuple(found):
        rows = table.read(spark, Snapshot(files=files))
        _note(erased_table(lake), rows.where(subject.matches()), run)
        rewrite(table, files, rows.where(~subject.matches()), "erase", run, fewer_rows=records)
    replaced = table.vacuum(0, unnamed=False)
    remaining = sum(find(spark, table, subject).values())
    gone = [] if remaining else _erase_beside(spark, lake, table, subject, run)
    remaining += sum(1 if one.found is None else one.found.num_rows for one in find_beside(lake, table, subject))
    return Erased(records, len(files), replaced, len(gone), remaining)


def _erase_beside(spark: SparkSession, lake: LakeStorage, table: Table, subject: Subject, run: str) -> list[Remnant]:
    """Erase from files that cannot become part of the table: those of a batch whose number another commit has.

    An archive that is writing at this moment cannot make its commit then, and its records are read once more. A
    compaction cannot either: the files that it read the subject's records from are not in the table any more.
    """
    found = find_beside(lake, table, subject)
    if any(one.batch > table.snapshot().version for one in found):
        table.amend(lambda _: Change("erase", run))
    snapshot = table.snapshot()
    listed = {f"{table.name}/{file.path}" for file in snapshot.files}
    gone = [one for one in found if one.batch <= snapshot.version and one.path not in listed]
    if noted := [_numbers(one) for one in gone if one.is_in_quarantine and one.found is not None]:
        erased = erased_table(lake)
        _note(erased, spark.createDataFrame(pa.concat_tables(noted), erased.schema), run)
    remove(lake, gone, subject.keys)
    return gone


def _numbers(one: Remnant) -> pa.Table:
    """Return what is noted of its records, in UTC; Spark wrote moments without a zone."""
    assert one.found is not None, "it can be read"
    rows, place = one.found, one.values
    at = rows["accepted_at"].cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    rows = rows.set_column(rows.schema.get_field_index("accepted_at"), "accepted_at", at)
    rows = rows.append_column("dt", pa.repeat(date.fromisoformat(place["dt"]), rows.num_rows))
    return rows.append_column("topic", pa.repeat(place["topic"], rows.num_rows))


def _note(table: Table, rows: DataFrame, run: str) -> None:
    """Note records before they are removed. A run that is repeated notes them twice, which does no harm."""
    added = table.write(rows, table.snapshot().version + 1)
    table.amend(lambda _: Change("erase", run, added))
