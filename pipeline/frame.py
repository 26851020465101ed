"""Frames of rows at hand, handed over by Arrow: each job on one made of tuples would start Python workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

__all__ = ["frame_of", "struct_of"]


def frame_of(spark: SparkSession, rows: Sequence[Sequence[Any]], schema: StructType | str) -> DataFrame:
    """``schema`` as a type or in Spark's words; moments need their zone."""
    struct = struct_of(schema) if isinstance(schema, str) else schema
    arrow = to_arrow_schema(struct)
    columns = zip(*rows, strict=True) if rows else ((),) * len(arrow)
    arrays = [pa.array(list(values), field.type) for values, field in zip(columns, arrow, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=arrow), struct)


def struct_of(schema: str) -> StructType:
    """Columns such as ``"topic string, count long"`` as a type; Spark's own reading of them needs a session."""
    struct = StructType()
    for column in schema.split(", "):
        name, kind = column.split()
        struct.add(name, kind)
    return struct
