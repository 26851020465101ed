"""Erasure: deletes every record of one subject from the lake, and searches the lake again as a proof.

::

    1. find the files that hold records of the subject
    2. note the event numbers of these records
    3. write the files again without the records, and replace them in one commit
    4. vacuum: delete the old files, and those that compaction had replaced
    5. search the table again
    6. search files that do not belong to the table, and remove the records from them
    7. commit to each table of typed and of rejected rows, which are made of bronze: then no older draft becomes
       part of it
    8. do 1 and 3 to 6 for each of these tables

Erasure deletes whole rows of bronze. It covers present and replaced files of the table, files in quarantine and files
of killed batches. Unreadable files of the latter two kinds are deleted, because their records are unknown. The table
``erased`` keeps the event's number, topic, place and hour, so that the audit does not report it as lost. It holds
neither key nor content. Erasure does not touch the hub's database, Kafka or copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pipeline.delta.reading import FILE
from pipeline.delta.snapshot import Change, DataFile, Snapshot
from pipeline.lake import Table
from pipeline.repair.remnant import Remnant, remnants, remove
from pipeline.repair.subject import Subject
from pipeline.rewrite import rewrite
from pipeline.schema import BRONZE
from pipeline.storage import LakeStorage, is_uri
from pipeline.typed.tables import forget_days, made_tables

__all__ = ["Erased", "Subject", "erase", "erased_table", "find", "find_beside", "ids_of", "noted_ids"]

_NUMBERS = ("event_id", "event_number", "kafka_topic_id", "partition", "offset", "accepted_at")
_ERASED = (*_NUMBERS, "dt", "topic")


@dataclass(frozen=True, slots=True)
class Erased:
    """Counts of an erasure.

    ``records`` were deleted from ``files`` files of the table. ``replaced`` counts deleted older versions of files.
    ``remnants`` counts files outside the table that held such records or could not be read. ``remaining`` counts the
    records that the second search found. It is 0 unless another job wrote records meanwhile; a file that cannot be
    searched because it is being written counts as one record. ``typed`` counts rows that were deleted from tables of
    typed and rejected rows; the other counts are of all tables.
    """

    records: int
    files: int
    replaced: int
    remnants: int
    remaining: int
    typed: int = 0

    def with_copy(self, copy: Erased) -> Erased:
        """Return these counts with those of a table that was made of bronze."""
        return Erased(
            self.records, self.files + copy.files, self.replaced + copy.replaced, self.remnants + copy.remnants,
            self.remaining + copy.remaining, self.typed + copy.records,
        )  # fmt: skip


def erased_table(lake: LakeStorage, of: type[Table] = Table) -> Table:
    """Return the table of erased records, which the audit must not report as lost."""
    fields = [field for name in _ERASED for field in BRONZE.fields if field.name == name]
    return of(lake, "erased", StructType(fields), ("dt", "topic"))


def find(spark: SparkSession, table: Table, subject: Subject) -> dict[DataFile, int]:
    """Return the files of bronze, or of a table made of it, with records of the subject, and the number of these."""
    files = {file.path: file for file in table.snapshot().files}
    if not files:
        return {}
    rows = table.read_with_files(spark, list(files.values())).where(subject.matches())
    return {files[row[FILE]]: row["count"] for row in rows.groupBy(FILE).count().collect()}


def find_beside(lake: LakeStorage, table: Table, subject: Subject) -> list[Remnant]:
    """Return files outside the table that hold records of the subject, or that cannot be read."""
    return remnants(lake, table, subject, _NUMBERS)


def ids_of(spark: SparkSession, lake: LakeStorage, table: Table, subject: Subject) -> list[str]:
    """Return the ids of the subject's events, in the table and in quarantine, each once.

    A note of an erasure is made of these files only, so the ids are those that an erasure would note.
    """
    files = tuple(find(spark, table, subject))
    rows = table.read(spark, Snapshot(files=files)).where(subject.matches()).select("event_id") if files else None
    found = {row["event_id"] for row in rows.distinct().collect()} if rows is not None else set()
    for one in find_beside(lake, table, subject):
        if one.is_in_quarantine and one.found is not None and "event_id" in one.found.column_names:
            found |= {*one.found["event_id"].to_pylist()}
    return sorted(found - {None})


def noted_ids(spark: SparkSession, lake: LakeStorage) -> list[str]:
    """Return the ids that the lake notes as erased, each once."""
    table = erased_table(lake)
    if not table.snapshot().files:
        return []
    rows = table.read(spark).where("event_id IS NOT NULL").select("event_id").distinct().collect()
    return sorted(row["event_id"] for row in rows)


def erase(spark: SparkSession, lake: LakeStorage, table: Table, subject: Subject, run: str) -> Erased:
    """Erase the subject's records and search again. Run it again after :class:`LakeConflict`.

    ``table`` is bronze. The tables that are made of it come after it, so that nothing can be made of erased records.
    Raises :class:`LakeConflict` and :class:`LakeDamaged`.
    """
    found = find(spark, table, subject)
    erased = _erase(spark, lake, table, found, subject, run, erased_table(lake))
    # A job that has read bronze before now fails to commit. So none commits between the two searches of a table.
    forget_days(lake, found, "erase", run)
    for copy in made_tables(lake):
        erased = erased.with_copy(_erase(spark, lake, copy, find(spark, copy, subject), subject, run, None))
    return erased


def _erase(
    spark: SparkSession, lake: LakeStorage, table: Table, found: Mapping[DataFile, int], subject: Subject, run: str,
    notes: Table | None,
) -> Erased:  # fmt: skip
    records = sum(found.values())
    if files := tuple(found):
        rows = table.read_whole(spark, files)
        if notes is not None:
            _note(notes, rows.where(subject.matches()), run)
        rewrite(table, files, rows.where(~subject.matches()), "erase", run, fewer_rows=records)
        table.discard(file for file in files if is_uri(file.path))  # vacuum deletes in the table's folder only
    replaced = table.vacuum(0, unnamed=False)
    remaining = sum(find(spark, table, subject).values())
    gone = [] if remaining else _erase_beside(spark, lake, table, subject, run, notes)
    remaining += sum(1 if one.found is None else one.found.num_rows for one in find_beside(lake, table, subject))
    return Erased(records, len(files), replaced, len(gone), remaining)


def _erase_beside(
    spark: SparkSession, lake: LakeStorage, table: Table, subject: Subject, run: str, notes: Table | None
) -> list[Remnant]:
    """Erase records from files that cannot become part of the table, because another commit has their batch's number.

    A job that is writing now fails to commit and reads its records again. A compaction fails too, because the
    files that it read are no longer in the table. A young file of another tool stays, and counts as remaining.
    """
    found = find_beside(lake, table, subject)
    if any(one.is_pending(lake, table.snapshot()) for one in found):
        table.amend(lambda _: Change("erase", run))
    snapshot = table.snapshot()
    unlisted = set(table.unlisted(snapshot))
    pending = {one.path for one in found if one.is_pending(lake, snapshot)}
    gone = [one for one in found if one.is_in_quarantine or one.path in unlisted - pending]
    known = [_numbers(one) for one in gone if one.is_in_quarantine and one.found is not None] if notes else []
    if notes is not None and known:
        _note(notes, spark.createDataFrame(pa.concat_tables(known), notes.schema), run)
    remove(lake, gone, subject)
    return gone


def _numbers(one: Remnant) -> pa.Table:
    """Return the columns to note for the records of the file, with times in UTC. Spark wrote times without a zone."""
    assert one.found is not None, "it can be read"
    rows, place = one.found, one.values
    at = rows["accepted_at"].cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    rows = rows.set_column(rows.schema.get_field_index("accepted_at"), "accepted_at", at)
    rows = rows.append_column("dt", pa.repeat(date.fromisoformat(place["dt"]), rows.num_rows))
    rows = rows.append_column("topic", pa.repeat(place["topic"], rows.num_rows))
    for name in {*_ERASED} - {*rows.column_names}:  # an older version did not write it
        rows = rows.append_column(name, pa.nulls(rows.num_rows, pa.string()))
    return rows.select(list(_ERASED))


def _note(table: Table, rows: DataFrame, run: str) -> None:
    """Note records before they are removed. A repeated run notes them twice, which is harmless."""
    added = table.write(rows, table.snapshot().number + 1)
    table.amend(lambda _: Change("erase", run, added))
