"""Anomalies of volume: hours in which a topic carried far more or fewer records than usual, or none (PL-08).

The measure is the distance from the topic's median in robust standard deviations. A robust standard deviation is 1.4826
times the median distance. It is at least the square root of the median, because rare events cluster by chance.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

__all__ = ["HABIT_HOURS", "SILENCE_MEDIAN", "anomalies"]

SILENCE_MEDIAN: Final = 5
"""An hour without events is silence if the topic's median is at least this number of records per hour."""

HABIT_HOURS: Final = 12
"""A topic that carried records in fewer hours is not judged, because its usual volume is not known yet."""


def anomalies(by_hour: DataFrame, since: datetime, until: datetime, threshold: float) -> DataFrame:
    """Return ``topic``, ``hour``, ``records``, ``median``, ``distance`` and ``kind``: spike, drop or silence.

    Every hour from ``since`` until ``until`` counts, even if it has no record.
    """
    step = F.expr("INTERVAL 1 HOUR")
    hours = F.sequence(F.lit(since), F.lit(until) - step, step)
    known = by_hour.where("records > 0").groupBy("topic").count().where(F.col("count") >= HABIT_HOURS)
    grid = known.select("topic").withColumn("hour", F.explode(hours))
    filled = grid.join(by_hour, ["topic", "hour"], "left").fillna(0, ["records"])
    medians = filled.groupBy("topic").agg(F.median("records").alias("median"))
    apart = filled.join(medians, "topic").withColumn("apart", F.abs(F.col("records") - F.col("median")))
    spreads = apart.groupBy("topic").agg(F.median("apart").alias("spread"))
    width = F.greatest(F.col("spread") * 1.4826, F.sqrt("median"), F.lit(1.0))
    distance = (F.col("records") - F.col("median")) / width
    kind = (
        F.when((F.col("records") == 0) & (F.col("median") >= SILENCE_MEDIAN), F.lit("silence"))
        .when(distance >= threshold, F.lit("spike"))
        .when(distance <= -threshold, F.lit("drop"))
    )
    judged = apart.join(spreads, "topic").select(
        "topic", "hour", "records", "median", F.round(distance, 1).alias("distance"), kind.alias("kind")
    )
    return judged.where("kind IS NOT NULL")
