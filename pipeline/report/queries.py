"""Queries: the SQL behind the report's numbers. The page prints the same texts that compute them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final, Literal

from pyspark.sql import DataFrame, SparkSession

__all__ = ["OF_DAYS", "QUERIES", "Grain", "answered", "grain_of"]

Grain = Literal["hour", "day"]
_HOURLY_DAYS_MAX: Final = 7
_NAME: Final = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_PARAMETER: Final = re.compile(r":(\w+)")


def _loaded() -> dict[str, str]:
    _, *parts = _NAME.split(Path(__file__).with_name("queries.sql").read_text(encoding="utf-8"))
    return {name: text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}


QUERIES: Final[Mapping[str, str]] = _loaded()
"""Spark SQL by the name of its answer."""


OF_DAYS: Final = ("volume", "attempts", "latency", "reasons", "failing", "lateness")
"""The queries about the days of the report; the others are about the whole lake."""


def grain_of(days: Collection[date]) -> Grain:
    """Return the span of one bar of a chart, by the days that have data."""
    span = (max(days) - min(days)).days + 1 if days else 1
    return "hour" if span <= _HOURLY_DAYS_MAX else "day"


def answered(
    spark: SparkSession, name: str, parameters: Mapping[str, Any], tables: Mapping[str, DataFrame]
) -> list[dict[str, Any]]:
    """Return the rows of a query over these tables, with times in UTC."""
    text = QUERIES[name]
    for table, frame in tables.items():
        frame.createOrReplaceTempView(table)
    used = {parameter: parameters[parameter] for parameter in _PARAMETER.findall(text)}
    try:
        return _rows(spark.sql(text, used))
    finally:
        for table in tables:
            spark.catalog.dropTempView(table)


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [{name: _value(value) for name, value in row.asDict().items()} for row in frame.collect()]


def _value(value: Any) -> Any:
    """Return a time in UTC: Spark returns local times without a zone."""
    return value.astimezone(UTC) if isinstance(value, datetime) else value
