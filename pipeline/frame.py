"""Frames of rows in memory. They pass through Arrow, because a frame of tuples starts Python workers for each job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

__all__ = ["arrow_schema", "frame_of", "struct_of"]

_ARROW: Final[dict[type[DataType], pa.DataType]] = {
    BinaryType: pa.binary(),
    BooleanType: pa.bool_(),
    DateType: pa.date32(),
    DoubleType: pa.float64(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    StringType: pa.string(),
    TimestampType: pa.timestamp("us", tz="UTC"),
}


def frame_of(spark: SparkSession, rows: Sequence[Sequence[Any]], schema: StructType | str) -> DataFrame:
    """Return the rows as a frame. ``schema`` is a type or a text in Spark's syntax. Times must have a zone."""
    struct = struct_of(schema) if isinstance(schema, str) else schema
    arrow = arrow_schema(struct)
    columns = zip(*rows, strict=True) if rows else ((),) * len(arrow)
    arrays = [pa.array(list(values), field.type) for values, field in zip(columns, arrow, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=arrow), struct)


def arrow_schema(struct: StructType) -> pa.Schema:
    """Return the same columns with Arrow's types."""
    return pa.schema([pa.field(field.name, _arrow(field.dataType)) for field in struct.fields])


def _arrow(kind: DataType) -> pa.DataType:
    """Return Arrow's type. PySpark's own function for this is private and differs between 4.0 and 4.3."""
    match kind:
        case ArrayType():
            return pa.list_(_arrow(kind.elementType))
        case StructType():
            return pa.struct([pa.field(field.name, _arrow(field.dataType), field.nullable) for field in kind.fields])
        case DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
    return _ARROW[type(kind)]


def struct_of(schema: str) -> StructType:
    """Return columns such as ``"topic string, count long"`` as a type; Spark's own parser needs a session."""
    struct = StructType()
    for column in schema.split(", "):
        name, kind = column.split()
        struct.add(name, kind)
    return struct
