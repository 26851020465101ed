"""Verdicts: findings of the audit, one row for each kind, place and hour (PL-A08)."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

__all__ = ["ACCEPTED", "EXAMPLES_MAX", "differences", "grouped", "latecomers", "out_of_order", "strangers"]

EXAMPLES_MAX: Final = 10
"""Ids that stand beside a count, unless more are asked for."""
ACCEPTED: Final = "id long, event_id string, topic string, key string, hour timestamp, state string, digest string"
"""What the write side knows of the events of unequal cells. ``topic`` is Kafka's; ``state`` is ``sent``, or what
explains that an event is not in Kafka: ``waiting``, ``dead``. ``digest`` is the payload's SHA-256 in hexadecimal."""


def differences(accepted: DataFrame, evidence: DataFrame) -> DataFrame:
    """Accepted events against the records of the same cells: ``lost``, ``phantom`` and ``altered``, one row each."""
    records = (
        evidence.where("id IS NOT NULL")
        .groupBy("topic", "id")
        .agg(
            F.first("event_id").alias("event_id"),
            F.min("hour").alias("hour"),
            F.collect_set("digest").alias("digests"),
            F.collect_set(F.coalesce("key", F.lit("\0"))).alias("keys"),
        )
    )
    ours, theirs = accepted.alias("a"), records.alias("r")
    both = ours.join(theirs, ["topic", "id"], "full_outer")
    is_erased = F.size("r.digests") == 0
    same = is_erased | (
        (F.col("r.digests") == F.array("a.digest")) & (F.col("r.keys") == F.array(F.coalesce("a.key", F.lit("\0"))))
    )
    fault = (
        F.when(F.col("a.event_id").isNull(), F.lit("phantom"))
        .when(F.col("r.event_id").isNull() & (F.col("state") == "sent"), F.lit("lost"))
        .when(F.col("r.event_id").isNotNull() & ~same, F.lit("altered"))
    )
    return both.select(
        "topic",
        F.coalesce("a.hour", "r.hour").alias("hour"),
        F.coalesce("a.event_id", "r.event_id").alias("event_id"),
        fault.alias("fault"),
    ).where("fault IS NOT NULL")


def strangers(evidence: DataFrame) -> DataFrame:
    """Records that this installation never accepted, by their place: ``phantom``."""
    place = F.concat_ws(":", "topic", "partition", "offset")
    return evidence.where("id IS NULL").select(
        "topic", "hour", F.coalesce("event_id", place).alias("event_id"), F.lit("phantom").alias("fault")
    )


def latecomers(evidence: DataFrame) -> DataFrame:
    """Records that reached Kafka later than was promised: ``late``."""
    place = F.concat_ws(":", "topic", "partition", "offset")
    return evidence.where("is_late").select(
        "topic", "hour", F.coalesce("event_id", place).alias("event_id"), F.lit("late").alias("fault")
    )


def out_of_order(faults: DataFrame, *, repeats_are_legal: bool) -> DataFrame:
    """The faults of lanes as findings; repeats that the sink's mode allows are named apart."""
    allowed = F.lit(repeats_are_legal) & (F.col("fault") == "duplicated") & F.col("is_legal")
    return faults.select(
        "topic", "hour", "event_id", F.when(allowed, F.lit("repeated")).otherwise(F.col("fault")).alias("fault")
    )


def grouped(faults: DataFrame, examples_max: int) -> DataFrame:
    """``fault``, ``topic``, ``hour``, ``count`` and ``examples``: the first ids by name."""
    place = ["fault", "topic", "hour"]
    numbered = faults.withColumn("number", F.row_number().over(Window.partitionBy(*place).orderBy("event_id")))
    example = F.when(F.col("number") <= examples_max, F.col("event_id"))
    return numbered.groupBy(*place).agg(
        F.count("*").alias("count"), F.sort_array(F.collect_list(example)).alias("examples")
    )
