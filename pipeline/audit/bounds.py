"""Bounds: the least and the greatest values that a file really holds, beside those that its footer and the log say.

Every reader skips files by the log's bounds, and parts of a file by those of its footer. If both are forged alike, they
agree with each other, and queries with a condition leave rows out. So Spark computes the real ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow.parquet as pq
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import ArrayType, BinaryType, StructField, TimestampType

from pipeline.delta.snapshot import Snapshot
from pipeline.delta.statistics import ValueBounds, wrong_bounds
from pipeline.lake import Table
from pipeline.repair.words import statistics
from pipeline.storage import LakeStorage

__all__ = ["wrong_files"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNREAD: Final = "value"
"""Payloads are most of a lake, and nobody looks for a range of them."""


def wrong_files(spark: SparkSession, lake: LakeStorage, table: Table, read: Snapshot) -> list[str]:
    """Return in sentences which files have other bounds than their footers or the log say. All can be read."""
    if not read.files:
        return []
    said, real = statistics(table), _real(spark, table, read)

    def looked_at(path: str) -> str | None:
        with lake.open(table.place(files[path])) as opened:
            return wrong_bounds(said[path], pq.read_metadata(opened), real.get(path, {}))

    files = {file.path: file for file in read.files if file.path in said}
    reasons = zip(files, lake.each(list(files), looked_at), strict=True)
    return [f"{table.name}/{path}: {reason}" for path, reason in reasons if reason is not None]


def _real(spark: SparkSession, table: Table, read: Snapshot) -> dict[str, Mapping[str, ValueBounds]]:
    partitions = read.files[0].values
    fields = [
        field for field in table.schema.fields
        if field.name not in partitions and field.name != _UNREAD and not isinstance(field.dataType, ArrayType)
    ]  # fmt: skip
    columns = [
        made(_plain(field)).alias(f"{word}.{field.name}")
        for field in fields
        for word, made in (("min", F.min), ("max", F.max), ("nulls", lambda column: F.count_if(column.isNull())))
    ]
    rows = table.read_with_files(spark, read.files).groupBy("file").agg(*columns).collect()
    return {row["file"]: {field.name: _bounds(row, field) for field in fields} for row in rows}


def _plain(field: StructField) -> Column:
    """Return the values as Spark returns them in any zone of this machine."""
    column = F.col(field.name)
    return F.unix_micros(column) if isinstance(field.dataType, TimestampType) else column


def _bounds(row: Any, field: StructField) -> ValueBounds:
    low, high = (_value(row[f"{word}.{field.name}"], field) for word in ("min", "max"))
    return ValueBounds(low, high, row[f"nulls.{field.name}"])


def _value(value: Any, field: StructField) -> Any:
    if value is None:
        return None
    if isinstance(field.dataType, TimestampType):
        return _EPOCH + timedelta(microseconds=value)
    return bytes(value) if isinstance(field.dataType, BinaryType) else value
