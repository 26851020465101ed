"""Service levels: the share of attempts that delivered over 28 days, and the used part of the error budget."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from pipeline.frame import struct_of
from pipeline.lake import Table
from pipeline.storage import LakeStorage

__all__ = ["SLO", "SPAN_DAYS", "slo", "slo_table"]

SPAN_DAYS: Final = 28
SLO: Final = (
    "tenant string, subscription string, attempts long, delivered long, share double, "
    "target double, burn double, dt date"
)
"""``subscription`` '' stands for all of a tenant. ``burn`` is the used part of the error budget; above 1 the budget is
overdrawn."""


def slo_table(lake: LakeStorage, of: type[Table] = Table) -> Table:
    """Return the gold table, with a folder for each day; a row judges the 28 days that end with it."""
    return of(lake, "slo", struct_of(SLO), ("dt",))


def slo(metrics: DataFrame, target: float) -> DataFrame:
    """Return rows of ``SLO`` from those of ``metric.metrics``: one for each subscription and day with attempts.

    The budget is the share 1 - ``target`` of the attempts of the 28 days.
    """
    every = metrics.select("tenant", "subscription", "attempts", "delivered", "dt")
    together = every.withColumn("subscription", F.lit(""))
    daily = (
        every.unionByName(together)
        .groupBy("tenant", "subscription", "dt")
        .agg(F.sum("attempts").alias("attempts"), F.sum("delivered").alias("delivered"))
    )
    span = (
        Window.partitionBy("tenant", "subscription")
        .orderBy(F.datediff("dt", F.lit("1970-01-01").cast("date")))
        .rangeBetween(1 - SPAN_DAYS, 0)
    )
    rolling = daily.select(
        "tenant", "subscription", "dt", *(F.sum(name).over(span).alias(name) for name in ("attempts", "delivered"))
    )
    failed = F.col("attempts") - F.col("delivered")
    return rolling.withColumns(
        {
            "share": F.col("delivered") / F.col("attempts"),
            "target": F.lit(target),
            "burn": failed / (F.col("attempts") * F.lit(1 - target)),
        }
    ).select(*struct_of(SLO).names)
