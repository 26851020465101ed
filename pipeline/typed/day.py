"""Day: computes a day of a topic's typed and rejected rows from bronze; it may run any number of times.

::

    bronze, one day --each event once--> fit --+--> rejected/<topic>/<version>
                                               '--> typed/<topic>/<version>

A day is the records of one Kafka topic of one day. It is computed again if bronze has another number of its rows than
at the last computation, and if bronze has lost rows of it. A day that bronze does not have any more stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from math import ceil
from operator import attrgetter
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StringType, StructField, StructType

from pipeline.day import counts_of_days, replacing
from pipeline.delta.snapshot import DataFile, Snapshot
from pipeline.frame import arrow_schema
from pipeline.lake import LakeConflict, LakeDamaged, Table, bronze
from pipeline.retention import first_kept
from pipeline.storage import LakeStorage
from pipeline.typed.fit import PATH, REASON, fit_batches
from pipeline.typed.shape import Shape
from pipeline.typed.tables import ENVELOPE, PARTITIONS, columns_of, rejected_table, typed_table

__all__ = ["Filled", "SeenBronze", "TopicVersion", "fill", "stale_days"]

_BATCH_ROWS: Final = 1000
_BATCH_BYTES: Final = 64 * 1024 * 1024
"""What a worker's Python gets at a time: a batch of Arrow holds less than 2 GiB."""
_FILE_BYTES: Final = 128 * 1024 * 1024
_JOB: Final = "typed"
_key_of = attrgetter("day_and_topic")
_RECORD_ORDER: Final = ("archived_at", "kafka_topic_id", "partition", "offset")


@dataclass(frozen=True, slots=True)
class TopicVersion:
    """A topic of the hub with a version of its schema, and its Kafka topic.

    ``digest`` tells schemas apart: a version has one schema, unless the hub's database was restored.
    """

    topic: str
    version: int
    shape: Shape
    kafka_topic: str
    digest: str = ""

    def tables(self, lake: LakeStorage) -> tuple[Table, Table]:
        """Return the tables of its rejected and of its typed rows."""
        typed = typed_table(lake, self.topic, self.version, columns_of(self.shape))
        return rejected_table(lake, self.topic, self.version), typed


class SeenBronze:
    """Bronze, whose log is read again only after another commit."""

    def __init__(self, lake: LakeStorage) -> None:
        self.lake = lake
        self.table = bronze(lake)
        self._seen: Snapshot | None = None

    def snapshot(self) -> Snapshot:
        """Return bronze as it is. Raises LakeDamaged."""
        seen = self._seen
        if seen is None or self.table.entry(seen.version) is None or self.table.entry(seen.version + 1) is not None:
            self._seen = seen = self.table.snapshot()
        return seen

    def still_has(self, files: Sequence[DataFile], of: Snapshot) -> bool:
        """Return whether these files of a snapshot are part of bronze. Raises LakeDamaged."""
        now = self.snapshot()
        return now is of or set(files) <= set(now.files)


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


def stale_days(archived: SeenBronze, of: TopicVersion, since: date, until: date) -> dict[date, int]:
    """Return the days to compute, oldest first, each with its number of rows in bronze. Raises LakeDamaged."""
    there = counts_of_days(archived.snapshot().where(lambda file: file.values["topic"] == of.kafka_topic))
    tables = of.tables(archived.lake)
    for table in tables:
        _refuse_other_schema(table, of)
    made = [table.snapshot() for table in tables]
    first = max(first_kept(each, of.kafka_topic) for each in made)
    return {
        day: rows
        for day, rows in sorted(there.items())
        if since <= day <= until
        and day.isoformat() >= first
        and any(rows != each.state.days.get(f"{day} {of.kafka_topic}") for each in made)
    }


def _refuse_other_schema(table: Table, of: TopicVersion) -> None:
    """Raise LakeDamaged if another schema with this number has made the table."""
    digests = (commit["notes"].get("schema") for commit in table.history() if commit["job"] == _JOB)
    if next(digests, None) not in (None, of.digest):
        raise LakeDamaged(
            f"{table.name} was made by another schema than version {of.version} that the hub has: store a next "
            f"version, or delete the folder {table.name} and run hookwire pipeline accept-log --table {table.name}"
        )


def fill(spark: SparkSession, archived: SeenBronze, of: TopicVersion, day: date, run: str) -> Filled:
    """Compute a day, and replace it in both tables. The typed rows are committed last.

    Raises :class:`LakeConflict` if an erasure or another job changed bronze or a table meanwhile, and LakeDamaged.
    """
    whole = archived.snapshot()
    source = whole.where(lambda file: (file.day, file.values["topic"]) == (day, of.kafka_topic))
    if not source.files:
        raise LakeConflict(f"bronze of {day} was deleted meanwhile: run this command again")
    tables = of.tables(archived.lake)
    bases = [table.snapshot() for table in tables]
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", _BATCH_ROWS)
    spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", _BATCH_BYTES)
    judged = _judged(archived.table.read(spark, source), of.shape).persist(StorageLevel.DISK_ONLY)
    count = ceil(sum(file.bytes for file in source.files) / _FILE_BYTES)
    try:
        # Without a number, a day has a file for each task of the job.
        frames = (_rejected(judged).repartition(1), judged.where(F.col(REASON).isNull()).repartition(count))
        drafts = [
            _Draft(table, basis, table.write(frame, basis.number + 1))
            for table, basis, frame in zip(tables, bases, frames, strict=True)
        ]
    finally:
        judged.unpersist()
    for number, draft in enumerate(drafts):
        try:
            if not archived.still_has(source.files, whole):
                raise LakeConflict(f"bronze of {day} was changed meanwhile: run this command again")
            _commit(draft, f"{day} {of.kafka_topic}", source.rows, of.digest, run)
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


def _commit(draft: _Draft, key: str, rows: int, digest: str, run: str) -> None:
    """Commit a draft after a look at bronze.

    An erasure rewrites bronze first. Then it commits to each table, so that this commit fails if the look was before.
    """
    draft.table.refuse_deleted(draft.files)
    change = replacing(draft.basis, draft.files, {key: rows}, _key_of, _JOB, run)
    draft.table.commit(draft.basis, replace(change, notes={**change.notes, "schema": digest}))


def _discard(drafts: Sequence[_Draft]) -> None:
    for draft in drafts:
        draft.table.discard(draft.files)
