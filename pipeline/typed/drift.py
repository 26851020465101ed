"""Drift: the schema of a topic's JSON by day, and the days on which it changed."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

__all__ = ["schemas"]


def schemas(bronze: DataFrame) -> DataFrame:
    """Return ``topic``, ``day``, ``schema``, ``events``, ``not_json`` and ``before``.

    ``schema`` covers all JSON of the day, in Spark's syntax: ``OBJECT<id: BIGINT, note: STRING>``. It contains each
    field that any event has. ``events`` and ``not_json`` count the events with and without JSON. ``before`` is the
    previous day's schema if it was different, else null.
    """
    parsed = F.try_parse_json(F.col("value").cast("string"))
    days = (
        bronze.select("topic", F.col("dt").cast("string").alias("day"), parsed.alias("json"))
        .groupBy("topic", "day")
        .agg(
            F.schema_of_variant_agg("json").alias("schema"),
            F.count("json").alias("events"),
            F.count_if(F.col("json").isNull()).alias("not_json"),
        )
    )
    earlier = F.lag("schema").over(Window.partitionBy("topic").orderBy("day"))
    return days.withColumn("earlier", earlier).select(
        "topic", "day", "schema", "events", "not_json",
        F.when(F.col("earlier") != F.col("schema"), F.col("earlier")).alias("before"),
    )  # fmt: skip
