"""Metrics of each subscription by hour and topic.

This is a gold table. Percentiles are computed from attempts, never from other percentiles.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from pipeline.frame import struct_of
from pipeline.lake import Table
from pipeline.storage import LakeStorage

__all__ = ["METRICS", "metric_table", "metrics"]

METRICS: Final = (
    "tenant string, hour timestamp, topic string, subscription string, attempts long, delivered long, "
    "retries long, dead long, p50_seconds double, p95_seconds double, p99_seconds double, tries_to_success double, "
    "oldest_seconds double, dt date"
)
"""``tries_to_success``: the mean number of the attempt that delivered. ``oldest_seconds``: the longest time from the
acceptance of an event to the start of an attempt."""


def metric_table(lake: LakeStorage, of: type[Table] = Table) -> Table:
    """Return the gold table, with a folder for each day."""
    return of(lake, "metrics", struct_of(METRICS), ("dt",))


def metrics(deliveries: DataFrame) -> DataFrame:
    """Return rows of ``METRICS`` from those of ``delivery.deliveries``."""
    is_delivered = F.col("decision") == "delivered"
    age = F.unix_micros("started_at") - F.unix_micros("accepted_at")
    seconds = F.percentile("seconds", F.array(F.lit(0.5), F.lit(0.95), F.lit(0.99)))
    grouped = deliveries.groupBy(
        "tenant",
        F.date_trunc("hour", "started_at").alias("hour"),
        F.coalesce("topic", F.lit("")).alias("topic"),
        "subscription",
    ).agg(
        F.count("*").alias("attempts"),
        F.count_if(is_delivered).alias("delivered"),
        F.count_if(F.col("number") > 1).alias("retries"),
        F.count_if(F.col("decision") == "dead").alias("dead"),
        seconds.alias("seconds"),
        F.avg(F.when(is_delivered, F.col("number"))).alias("tries_to_success"),
        (F.max(age) / 1_000_000).alias("oldest_seconds"),
    )
    percentiles = {f"p{name}_seconds": F.col("seconds")[n] for n, name in enumerate((50, 95, 99))}
    named = grouped.withColumns({**percentiles, "dt": F.to_date("hour")})
    return named.select(*struct_of(METRICS).names)
