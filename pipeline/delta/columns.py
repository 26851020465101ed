"""Columns: those of ours that the log's schema lacks, and those that it has beside ours."""

from __future__ import annotations

import json

from deltalake import DeltaTable, Field, Schema
from pyspark.sql.types import StructType

__all__ = ["columns_of", "missing", "whole"]


def columns_of(table: DeltaTable) -> StructType:
    """Return the columns in the log's schema."""
    return StructType.fromJson(json.loads(table.schema().to_json()))


def missing(table: DeltaTable, ours: StructType) -> list[Field]:
    """Return our columns that the table lacks, as an older version made it."""
    present = {field.name for field in table.schema().fields}
    return [field for field in Schema.from_json(ours.json()).fields if field.name not in present]


def whole(table: DeltaTable | None, ours: StructType) -> StructType:
    """Return our columns, and those that a newer version or another tool added."""
    found = [] if table is None else columns_of(table).fields
    names = {name.lower() for name in ours.names}
    return StructType([*ours.fields, *(field for field in found if field.name.lower() not in names)])
