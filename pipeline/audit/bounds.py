"""Bounds: the least and the greatest values that a file really holds, beside those that its footer and the log say.

Every reader skips files by the log's bounds, and parts of a file by those of its footer. If both are forged alike, they
agree with each other, and queries with a condition leave rows out. So Spark computes the real ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow.parquet as pq
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import ArrayType, BinaryType, StringType, StructField, TimestampType

from pipeline.delta.reading import FILE
from pipeline.delta.snapshot import DataFile, Snapshot
from pipeline.delta.statistics import EARLIEST, LATEST, ValueBounds, wrong_bounds
from pipeline.lake import Table
from pipeline.repair.words import statistics
from pipeline.storage import LakeStorage

__all__ = ["wrong_files"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_FILES_AT_ONCE: Final = 1_000
"""The driver holds the bounds of so many files, each of some 60 values."""
_UNREAD: Final = "value"
"""Payloads are most of a lake, and nobody looks for a range of them."""


def wrong_files(spark: SparkSession, lake: LakeStorage, table: Table, read: Snapshot) -> list[str]:
    """Return in sentences which files have other bounds than their footers or the log say. All can be read."""
    said = statistics(table, {file.path for file in read.files}) if read.files else {}
    starts = range(0, len(read.files), _FILES_AT_ONCE)
    parts = (_wrong(spark, lake, table, read.files[start : start + _FILES_AT_ONCE], said) for start in starts)
    return [text for part in parts for text in part]


def _wrong(
    spark: SparkSession, lake: LakeStorage, table: Table, read: Sequence[DataFile],
    said: Mapping[str, Mapping[str, Any]],
) -> list[str]:  # fmt: skip
    files = {file.path: file for file in read}
    real = _real(spark, table, read)

    def looked_at(path: str) -> str | None:
        with lake.open(table.place(files[path])) as opened:
            return wrong_bounds(said[path], pq.read_metadata(opened), real.get(path, {}))

    paths = [path for path in files if path in said]
    reasons = zip(paths, lake.each(paths, looked_at), strict=True)
    return [f"{table.name}/{path}: {reason}" for path, reason in reasons if reason is not None]


def _real(spark: SparkSession, table: Table, read: Sequence[DataFile]) -> dict[str, Mapping[str, ValueBounds]]:
    partitions = read[0].values
    fields = [
        field for field in table.schema.fields
        if field.name not in partitions and field.name != _UNREAD and not isinstance(field.dataType, ArrayType)
    ]  # fmt: skip
    columns = [
        made(_plain(field)).alias(f"{word}.{field.name}")
        for field in fields
        for word, made in (("min", F.min), ("max", F.max), ("nulls", lambda column: F.count_if(column.isNull())))
    ]
    rows = table.read_with_files(spark, read).groupBy(FILE).agg(*columns).collect()
    return {row[FILE]: {field.name: _bounds(row, field) for field in fields} for row in rows}


def _plain(field: StructField) -> Column:
    """Return the values as Spark returns them in any zone of this machine, and in any text."""
    column = F.col(field.name)
    if isinstance(field.dataType, TimestampType):
        return F.unix_micros(column)
    return column.cast("binary") if isinstance(field.dataType, StringType) else column


def _bounds(row: Any, field: StructField) -> ValueBounds:
    low, high = (_value(row[f"{word}.{field.name}"], field) for word in ("min", "max"))
    return ValueBounds(low, high, row[f"nulls.{field.name}"])


def _value(value: Any, field: StructField) -> Any:
    if value is None:
        return None
    if isinstance(field.dataType, TimestampType):
        return min(max(value, _micros(EARLIEST)), _micros(LATEST)) * _MICROSECOND + _EPOCH
    return bytes(value) if isinstance(field.dataType, (BinaryType, StringType)) else value


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND
