"""Proposal: a JSON Schema of a topic, inferred from its events in the lake. A person stores it in the hub."""

from __future__ import annotations

import re
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    StringType,
    StructType,
)

__all__ = ["json_schema", "proposed"]

_WORDS: Final[dict[type[DataType], str]] = {
    BooleanType: "boolean", DecimalType: "number", DoubleType: "number", FloatType: "number", LongType: "integer",
    StringType: "string",
}  # fmt: skip

_OBJECT: Final = re.compile(r"(`(?:[^`]|``)*`)|OBJECT<")


def proposed(bronze: DataFrame) -> dict[str, Any] | None:
    """Return a JSON Schema that all JSON objects of these rows fit, or None if there is no JSON object.

    Nothing in it is required. A member that has values of several types may have any value.
    """
    parsed = F.try_parse_json(F.col("value").cast("string"))
    objects = bronze.select(parsed.alias("json")).where(F.schema_of_variant("json").startswith("OBJECT<"))
    row = objects.select(F.schema_of_variant_agg("json").alias("schema"), F.count("json").alias("events")).first()
    assert row is not None, "an aggregate has one row"
    if not row["events"]:
        return None
    # Spark's parser of types knows this one by another word. A name in backticks may hold the word, too.
    text = _OBJECT.sub(lambda found: found[1] or "STRUCT<", row["schema"])
    return json_schema(bronze.sparkSession.createDataFrame([], f"json {text}").schema["json"].dataType)


def json_schema(kind: DataType) -> dict[str, Any]:
    """Return the JSON Schema of a type of Spark."""
    if isinstance(kind, StructType):
        return {"type": "object", "properties": {field.name: json_schema(field.dataType) for field in kind.fields}}
    if isinstance(kind, ArrayType):
        return {"type": "array", "items": json_schema(kind.elementType)}
    return {"type": _WORDS[type(kind)]} if type(kind) in _WORDS else {}
