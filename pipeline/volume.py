"""Volume: records, events and bytes of each Kafka topic, by hour and by day (PL-10)."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

__all__ = ["by_hour", "usage"]


def by_hour(bronze: DataFrame) -> DataFrame:
    """Return ``topic``, ``hour`` and ``records``, which counts all records, including repeats."""
    hour = F.date_trunc("hour", F.coalesce("accepted_at", "archived_at"))
    return bronze.groupBy("topic", hour.alias("hour")).agg(F.count("*").alias("records"))


def usage(bronze: DataFrame) -> DataFrame:
    """Return ``day``, ``topic``, ``events``, ``bytes``, ``repeats``, ``quarantined``; each event counts once.

    The same files yield the same rows on each run, so that the rows can be used for billing.
    """
    size = F.coalesce(F.length("value"), F.lit(0)) + F.coalesce(F.length("key"), F.lit(0))
    # A record without an event id counts as one event.
    name = F.coalesce("event_id", F.concat_ws(":", "topic", "kafka_topic_id", "partition", "offset"))
    events = bronze.groupBy("dt", "topic", name.alias("name")).agg(
        F.max(size).alias("bytes"),
        F.count("*").alias("records"),
        F.max(F.col("quarantine").isNotNull().cast("long")).alias("quarantined"),
    )
    return events.groupBy(F.col("dt").cast("string").alias("day"), "topic").agg(
        F.count("*").alias("events"),
        F.sum("bytes").alias("bytes"),
        (F.sum("records") - F.count("*")).alias("repeats"),
        F.sum("quarantined").alias("quarantined"),
    )
