"""The tables of a topic: one of typed rows, one of rejected rows, for each version of its schema.

::

    <lake>/typed/<topic>/<version>       event_id ... ce_subject, the columns of the payload, dt, topic
    <lake>/rejected/<topic>/<version>    event_id ... ce_subject, reason, path, dt, topic

Both have the columns by which an erasure finds a subject. The column ``topic`` is the Kafka topic, as in bronze. A
version never changes, so the columns of a table never do.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pipeline.delta.reading import READERS_OWN
from pipeline.delta.snapshot import Change, DataFile
from pipeline.lake import LakeDamaged, Table
from pipeline.schema import BRONZE_PARTITIONS
from pipeline.storage import LakeStorage
from pipeline.typed.fit import PATH, REASON
from pipeline.typed.shape import Kind, Shape

__all__ = [
    "ENVELOPE", "PARTITIONS", "TAKEN", "columns_of", "forget_days", "made_tables", "named_table", "newest",
    "rejected_table", "typed_table",
]  # fmt: skip

ENVELOPE: Final = (
    StructField("event_id", StringType()),
    StructField("event_number", LongType()),
    StructField("accepted_at", TimestampType()),
    StructField("key", StringType()),
    StructField("sequence", LongType()),
    StructField("ce_type", StringType()),
    StructField("ce_subject", StringType()),
)
"""Columns that come from bronze. The key is text, and null if it is not UTF-8."""
PARTITIONS: Final = (StructField("dt", DateType()), StructField("topic", StringType()))
TAKEN: Final = (*(field.name for field in (*ENVELOPE, *PARTITIONS)), REASON, PATH, *READERS_OWN)
"""Names that no column of a payload may have."""
_FOLDERS: Final = ("typed", "rejected")
_PLACES: Final = ("", "quarantine/")
_NAME: Final = re.compile(r"(typed|rejected)/[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*/[0-9]+")

_TYPES: Final[dict[Kind, DataType]] = {
    "boolean": BooleanType(), "date": DateType(), "integer": LongType(), "json": StringType(),
    "moment": TimestampType(), "number": DoubleType(), "text": StringType(),
}  # fmt: skip


def columns_of(shape: Shape) -> StructType:
    """Return the columns of an object's members."""
    return StructType([StructField(member.column, _type(member.shape)) for member in shape.members])


def _type(shape: Shape) -> DataType:
    if shape.kind == "object":
        return columns_of(shape)
    if shape.kind == "array":
        assert shape.item is not None, "an array has items"
        return ArrayType(_type(shape.item))
    return _TYPES[shape.kind]


def typed_table(lake: LakeStorage, topic: str, version: int, columns: StructType) -> Table:
    """Return the table of the rows that fit this version."""
    return _table(lake, f"typed/{topic}/{version}", columns)


def rejected_table(lake: LakeStorage, topic: str, version: int) -> Table:
    """Return the table of the rows that do not fit, with ``reason``, a key of ``fit.REASONS``, and ``path``.

    It holds no value of the payload.
    """
    columns = StructType([StructField("reason", StringType()), StructField("path", StringType())])
    return _table(lake, f"rejected/{topic}/{version}", columns)


def _table(lake: LakeStorage, name: str, columns: StructType) -> Table:
    return Table(lake, name, StructType([*ENVELOPE, *columns.fields, *PARTITIONS]), BRONZE_PARTITIONS)


def made_tables(lake: LakeStorage, of: type[Table] = Table) -> list[Table]:
    """Return the tables of all topics and versions that lie in the lake, with the columns that their logs name.

    A table of which only files in quarantine are left is among them; it is empty. Raises :class:`StorageError`.
    """
    topics = (folder for name in _FOLDERS for place in _PLACES for folder in lake.folders(f"{place}{name}"))
    names = (name.removeprefix(_PLACES[1]) for topic in topics for name in sorted(lake.folders(topic)))
    return [_made(lake, name, of) for name in dict.fromkeys(names) if _NAME.fullmatch(name)]


def named_table(lake: LakeStorage, name: str, of: type[Table] = Table) -> Table | None:
    """Return the table of this name, also if it was deleted; None if no topic and version can have it."""
    return _made(lake, name, of) if _NAME.fullmatch(name) else None


def forget_days(lake: LakeStorage, files: Collection[DataFile], job: str, run: str) -> None:
    """Let the days of these files of bronze be computed again, because it has lost rows of them.

    It commits to each table, so that a job which computes a day now does not. Raises LakeConflict and LakeDamaged.
    """
    for table in made_tables(lake):
        if table.opened() is not None:
            table.amend(lambda basis: Change(job, run, state=basis.state.without_days(files)))


def _made(lake: LakeStorage, name: str, of: type[Table]) -> Table:
    """Return a table as its log describes it. Whoever reads a table with a damaged log learns of the damage."""
    table = of(lake, name, StructType([*ENVELOPE, *PARTITIONS]), BRONZE_PARTITIONS)
    with suppress(LakeDamaged):
        table.schema = table.columns() or table.schema
    return table


def newest(tables: Iterable[Table]) -> dict[str, Table]:
    """Return of each topic the newest table with a commit, by ``typed/<topic>`` and ``rejected/<topic>``."""
    found: dict[str, Table] = {}
    for table in sorted(tables, key=lambda table: int(table.name.rpartition("/")[2])):
        if table.is_made():
            found[table.name.rpartition("/")[0]] = table
    return dict(sorted(found.items()))
