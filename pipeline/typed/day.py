"""Day: computes a day of a topic's typed and rejected rows from bronze; it may run any number of times.

::

    bronze, one day --each event once--> fit --+--> rejected/<topic>/<version>
                                               '--> typed/<topic>/<version>

A day is computed again if bronze has another number of rows of it than at the last computation, and after an erasure.
A day that bronze does not have any more stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StringType, StructField, StructType

from pipeline.day import counts_of_days, replacing
from pipeline.delta.snapshot import DataFile, Snapshot
from pipeline.frame import arrow_schema
from pipeline.lake import LakeConflict, Table, bronze
from pipeline.retention import first_kept
from pipeline.storage import LakeStorage
from pipeline.typed.fit import PATH, REASON, fit_batches
from pipeline.typed.shape import Shape
from pipeline.typed.tables import ENVELOPE, PARTITIONS, columns_of, rejected_table, typed_table

__all__ = ["Filled", "TopicVersion", "fill", "stale_days"]

_BATCH_ROWS: Final = "1000"
"""Rows that a worker's Python gets at a time: a batch of Arrow holds less than 2 GiB."""
_RECORD_ORDER: Final = ("archived_at", "kafka_topic_id", "partition", "offset")


@dataclass(frozen=True, slots=True)
class TopicVersion:
    """A topic of the hub with a version of its schema, and its Kafka topic."""

    topic: str
    version: int
    shape: Shape
    kafka_topic: str

    def tables(self, lake: LakeStorage) -> tuple[Table, Table]:
        """Return the tables of its rejected and of its typed rows."""
        typed = typed_table(lake, self.topic, self.version, columns_of(self.shape))
        return rejected_table(lake, self.topic, self.version), typed


@dataclass(frozen=True, slots=True)
class Filled:
    """The numbers of events that fit, and that were rejected."""

    rows: int
    rejected: int


@dataclass(frozen=True, slots=True)
class _Draft:
    """Files that are to replace a day of a table, and the snapshot that their commit follows."""

    table: Table
    basis: Snapshot
    files: tuple[DataFile, ...]

    @property
    def rows(self) -> int:
        """Return the number of rows in all files."""
        return sum(file.rows for file in self.files)


def stale_days(lake: LakeStorage, of: TopicVersion, since: date, until: date) -> dict[date, int]:
    """Return the days to compute, oldest first, each with its number of rows in bronze. Raises LakeDamaged."""
    there = counts_of_days(bronze(lake).snapshot().where(lambda file: file.values["topic"] == of.kafka_topic))
    made = [table.snapshot() for table in of.tables(lake)]
    first = max(first_kept(each, of.kafka_topic) for each in made)
    return {
        day: rows
        for day, rows in sorted(there.items())
        if since <= day <= until
        and day.isoformat() >= first
        and any(rows != each.state.days.get(day.isoformat()) for each in made)
    }


def fill(spark: SparkSession, lake: LakeStorage, of: TopicVersion, day: date, run: str) -> Filled:
    """Compute a day, and replace it in both tables. The typed rows are committed last.

    Raises :class:`LakeConflict` if an erasure or another job changed bronze or a table meanwhile, and LakeDamaged.
    """
    archived = bronze(lake)
    source = archived.snapshot().where(lambda file: (file.day, file.values["topic"]) == (day, of.kafka_topic))
    if not source.files:
        raise LakeConflict(f"bronze of {day} was deleted meanwhile: run this command again")
    tables = of.tables(lake)
    bases = [table.snapshot() for table in tables]
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", _BATCH_ROWS)
    judged = _judged(archived.read(spark, source), of.shape).persist(StorageLevel.DISK_ONLY)
    try:
        frames = (_rejected(judged), judged.where(F.col(REASON).isNull()))
        drafts = [
            _Draft(table, basis, table.write(frame, basis.number + 1))
            for table, basis, frame in zip(tables, bases, frames, strict=True)
        ]
    finally:
        judged.unpersist()
    for number, draft in enumerate(drafts):
        try:
            _commit(archived, source, draft, day, run)
        except LakeConflict:
            _discard(drafts[number:])
            raise
    rejected, typed = drafts
    return Filled(typed.rows, rejected.rows)


def _judged(rows: DataFrame, shape: Shape) -> DataFrame:
    """Return each event once, by its first record, with its columns, or with the reason why it has none."""
    place = F.row_number().over(Window.partitionBy("event_id").orderBy(*_RECORD_ORDER))
    key = F.try_validate_utf8(F.col("key").cast("string"))
    first = rows.where("event_number IS NOT NULL").withColumn("place", place).where("place = 1")
    names = [field.name for field in (*ENVELOPE, *PARTITIONS)]
    reasons = [StructField(name, StringType()) for name in (REASON, PATH)]
    made = StructType([*ENVELOPE, *columns_of(shape).fields, *reasons, *PARTITIONS])
    fit = partial(fit_batches, shape=shape, schema=arrow_schema(made))
    return first.withColumn("key", key).select(*names, "value").mapInArrow(fit, made)


def _rejected(judged: DataFrame) -> DataFrame:
    reasons = [F.col(REASON).alias("reason"), F.col(PATH).alias("path")]
    names = [field.name for field in (*ENVELOPE, *PARTITIONS)]
    return judged.where(F.col(REASON).isNotNull()).select(*names, *reasons)


def _commit(archived: Table, source: Snapshot, draft: _Draft, day: date, run: str) -> None:
    """Commit a draft, unless an erasure may have removed rows that are in it.

    An erasure rewrites bronze first. Then it searches the tables, also for drafts, whose commit it makes fail.
    """
    if not set(source.files) <= set(archived.snapshot().files):
        raise LakeConflict(f"bronze of {day} was changed meanwhile: run this command again")
    draft.table.refuse_deleted(draft.files)
    draft.table.commit(draft.basis, replacing(draft.basis, draft.files, {day: source.rows}, "typed", run))


def _discard(drafts: Sequence[_Draft]) -> None:
    for draft in drafts:
        draft.table.discard(draft.files)
