"""Reading: rows of Parquet files together with the partition values that the log gives each file.

Spark can take partition values from folders only. The log may name a file in any folder, and its word counts. So
rows get their values by a join on the file's name. If all files have the same values, these are constants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from pipeline.delta.snapshot import DataFile
from pipeline.frame import frame_of

__all__ = ["FILE", "READERS_OWN", "named_rows", "rows_of"]

FILE: Final = "_hookwire_file"
"""The column with the path of each row's file in its table."""
_JAVA_KEEPS: Final = "/_-!.~'()*,;:$&+=@"
_NAME: Final = "_hookwire_name"
_IN_LOG: Final = "_hookwire_name_in_log"
READERS_OWN: Final = (FILE, _NAME, _IN_LOG, "_metadata")
"""Columns that reading needs, so that no table may have them."""


def rows_of(
    spark: SparkSession, schema: StructType, partitions: Sequence[str], files: Mapping[str, DataFile]
) -> DataFrame:
    """Return all columns of the files, by the full name of each."""
    values = {tuple(file.values.get(name, "") for name in partitions) for file in files.values()}
    if len(values) > 1:
        return named_rows(spark, schema, partitions, files).select(*schema.names)
    [same] = values
    columns = {
        name: F.lit(value or None).cast(schema[name].dataType) for name, value in zip(partitions, same, strict=True)
    }
    return _read(spark, schema, partitions, files).withColumns(columns).select(*schema.names)


def named_rows(
    spark: SparkSession, schema: StructType, partitions: Sequence[str], files: Mapping[str, DataFile]
) -> DataFrame:
    """Return all columns of the files, and the column ``FILE``."""
    held = _read(spark, schema, partitions, files).withColumn(_NAME, F.col("_metadata.file_path"))
    columns = [_IN_LOG, FILE, *partitions]
    rows = [
        [name, file.path, *(file.values.get(column) or None for column in partitions)]
        for uri, file in files.items()
        for name in _names(uri)
    ]
    named = frame_of(spark, rows, ", ".join(f"{column} string" for column in columns))
    # A row whose file is not found must never be left out in silence.
    found = held.join(F.broadcast(named), held[_NAME] == named[_IN_LOG], "left")
    unknown = F.raise_error(F.concat(F.lit("no file of the log: "), F.col(_NAME))).cast("string")
    typed = {name: F.col(name).cast(schema[name].dataType) for name in partitions}
    return found.withColumns(typed | {FILE: F.coalesce(F.col(FILE), unknown)}).drop(_NAME, _IN_LOG)


def _read(
    spark: SparkSession, schema: StructType, partitions: Sequence[str], files: Mapping[str, DataFile]
) -> DataFrame:
    held = StructType([field for field in schema.fields if field.name not in partitions])
    return spark.read.schema(held).parquet(*files)


def _names(uri: str) -> list[str]:
    """Return the names by which Spark knows a file. For local ones they depend on its version."""
    name = "".join(letter if ord(letter) > 127 else quote(letter, safe=_JAVA_KEEPS) for letter in uri)
    return [name] if not name.startswith("file:///") else [name, name.replace("file:///", "file:/", 1)]
