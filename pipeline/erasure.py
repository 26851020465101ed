"""Erasure: every record of one subject's keys leaves the lake, and the lake is searched again to show it (PL-09).

::

    find the files that hold them -> note which event numbers go -> write the files anew without them
         -> one entry of the log -> delete the old files, also those that compaction had replaced -> search again

What is erased: the rows of bronze whose key is one of those given, whole, in every file of the lake's table, present or
replaced. What stays: an event's number, topic, place and hour, in the table ``erased``, so that the audit does not take
it for lost; it has neither key nor content. What is elsewhere is not touched: the hub's database, Kafka, copies.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from pipeline.exchange import amend, delete_replaced, exchange
from pipeline.lake import Change, DataFile, Snapshot, Table
from pipeline.schema import BRONZE
from pipeline.storage import Storage

__all__ = ["Erased", "Subject", "erase", "erased_table", "find"]

_ERASED = ("event_id", "event_number", "partition", "offset", "accepted_at", "dt", "topic")


@dataclass(frozen=True, slots=True)
class Subject:
    """``keys``: the ordering keys of somebody's events; ``topic``: of this Kafka topic alone."""

    keys: tuple[str, ...]
    topic: str | None = None

    def matches(self) -> Column:
        """Whether a row of bronze is one of the subject's."""
        of_keys = F.col("key").isin([bytearray(key.encode()) for key in self.keys])
        is_theirs = F.coalesce(of_keys, F.lit(False))
        return is_theirs & (F.col("topic") == self.topic) if self.topic is not None else is_theirs


@dataclass(frozen=True, slots=True)
class Erased:
    """``records`` left ``files`` files; ``replaced`` older versions of files were deleted; ``remaining`` records were
    found by the search afterwards, which is none unless another job wrote some meanwhile.
    """

    records: int
    files: int
    replaced: int
    remaining: int


def erased_table(lake: Storage) -> Table:
    """What the audit has to know of records that were erased."""
    fields = [field for name in _ERASED for field in BRONZE.fields if field.name == name]
    return Table(lake, "erased", StructType(fields), ("dt", "topic"))


def find(spark: SparkSession, table: Table, subject: Subject) -> dict[DataFile, int]:
    """The table's files that hold records of the subject's, and how many."""
    snapshot = table.snapshot()
    name = F.input_file_name().alias("file")
    rows = table.read(spark, snapshot).where(subject.matches()).select(name).groupBy("file").count().collect()
    counts = {unquote(row["file"]): row["count"] for row in rows}
    return {
        file: count for path, count in counts.items() for file in snapshot.files if path.endswith(unquote(file.path))
    }


def erase(spark: SparkSession, lake: Storage, table: Table, subject: Subject, run: str) -> Erased:
    """Erase, delete and search again. Raises :class:`LakeConflict` and :class:`LakeDamaged`; then run it again."""
    found = find(spark, table, subject)
    records = sum(found.values())
    if files := tuple(found):
        rows = table.read(spark, Snapshot(files=files))
        _note(erased_table(lake), rows.where(subject.matches()), run)
        exchange(table, files, rows.where(~subject.matches()), "erase", run, fewer_rows=records)
    deleted = delete_replaced(lake, table)
    return Erased(records, len(files), deleted, sum(find(spark, table, subject).values()))


def _note(table: Table, rows: DataFrame, run: str) -> None:
    """Before the records go: what was noted twice by a run that did not come to its end does no harm."""
    added = table.write(rows, table.snapshot().version + 1)
    amend(table, lambda _: Change("erase", run, added))
