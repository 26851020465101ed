"""Verdicts: findings of the audit, one row for each kind, place and hour."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

__all__ = [
    "ACCEPTED",
    "EXAMPLES_MAX",
    "differences",
    "grouped",
    "in_state",
    "latecomers",
    "malformed",
    "misfiled",
    "out_of_order",
    "strangers",
    "strays",
]

EXAMPLES_MAX: Final = 10
"""The default limit of example ids beside a count."""
ACCEPTED: Final = "id long, event_id string, topic string, hour timestamp, state string, digest string"
"""The accepted events of unequal cells. ``topic`` is Kafka's. ``state`` is ``sent``; ``waiting`` and ``dead`` explain
why an event is not in Kafka. ``digest``: see ``content.content``."""


def differences(accepted: DataFrame, evidence: DataFrame) -> DataFrame:
    """Compare accepted events with records; return ``lost``, ``phantom``, ``altered`` and ``misplaced``.

    ``evidence`` holds the records of the cells in question, and all other records of the same events. A misplaced event
    has a row in its hour of acceptance, and a row in each hour in which a record of it stands.
    """
    is_there = ~F.col("is_erased")
    records = (
        evidence.where("id IS NOT NULL")
        .groupBy("topic", "id")
        .agg(
            F.first("event_id").alias("event_id"),
            F.array_sort(F.collect_set("hour")).alias("hours"),
            F.bool_and("is_erased").alias("is_erased"),
            F.collect_set(F.when(is_there, F.coalesce("digest", F.lit("\0")))).alias("digests"),
        )
    )
    both = accepted.alias("a").join(records.alias("r"), ["topic", "id"], "full_outer")
    is_known, is_here = F.col("a.event_id").isNotNull(), F.col("r.event_id").isNotNull()
    same = F.col("is_erased") | (F.col("r.digests") == F.array("a.digest"))
    is_elsewhere = F.when(is_known, F.col("hours") != F.array("a.hour")).otherwise(F.size("hours") > 1)
    faults = (
        F.when(~is_known & ~is_elsewhere, F.lit("phantom")),
        F.when(is_known & ~is_here & (F.col("state") == "sent"), F.lit("lost")),
        F.when(is_known & is_here & ~same, F.lit("altered")),
        F.when(is_here & is_elsewhere, F.lit("misplaced")),
    )
    found = both.select(
        "topic",
        "hours",
        F.coalesce("a.hour", F.element_at("hours", 1)).alias("hour"),
        F.coalesce("a.event_id", "r.event_id").alias("event_id"),
        F.explode(F.array_compact(F.array(*faults))).alias("fault"),
    )
    alone = F.array("hour")
    places = F.when(F.col("fault") == "misplaced", F.array_union(alone, "hours")).otherwise(alone)
    return found.select("topic", F.explode(places).alias("hour"), "event_id", "fault")


def misfiled(evidence: DataFrame) -> DataFrame:
    """Return records that are not in the folder of their day: ``misplaced``."""
    return _named(evidence.where("is_misfiled"), "misplaced")


def strays(beyond: DataFrame, evidence: DataFrame) -> DataFrame:
    """Return records outside the judged hours whose events have a record in a judged hour: ``duplicated``."""
    return _named(beyond.join(evidence.where("id IS NOT NULL"), ["topic", "id"], "left_semi"), "duplicated")


def strangers(evidence: DataFrame) -> DataFrame:
    """Return records that this installation never accepted, by their place: ``phantom``."""
    return _named(evidence.where("id IS NULL"), "phantom")


def latecomers(evidence: DataFrame) -> DataFrame:
    """Return records that reached Kafka too late: ``late``."""
    return _named(evidence.where("is_late"), "late")


def in_state(evidence: DataFrame, state: str, fault: str) -> DataFrame:
    """Return records whose seal has this state (see ``seal.with_seal_state``) as rows of the fault."""
    return _named(evidence.where(F.col("seal_state") == state), fault)


def malformed(evidence: DataFrame) -> DataFrame:
    """Return records whose content type says JSON but whose value is not JSON: ``malformed``."""
    return _named(evidence.where("is_malformed"), "malformed")


def _named(evidence: DataFrame, fault: str) -> DataFrame:
    """Return these records as rows of the fault, named by event id or by place."""
    place = F.concat_ws(":", "topic", "partition", "offset")
    return evidence.select(
        "topic", "hour", F.coalesce("event_id", place).alias("event_id"), F.lit(fault).alias("fault")
    )


def out_of_order(faults: DataFrame, *, repeats_are_legal: bool) -> DataFrame:
    """Return the faults of lanes as findings. Repeats that the sink's mode allows are called ``repeated``."""
    allowed = F.lit(repeats_are_legal) & (F.col("fault") == "duplicated") & F.col("is_legal")
    return faults.select(
        "topic", "hour", "event_id", F.when(allowed, F.lit("repeated")).otherwise(F.col("fault")).alias("fault")
    )


def grouped(faults: DataFrame, examples_max: int) -> DataFrame:
    """Return ``fault``, ``topic``, ``hour``, ``count`` and ``examples``, the first ids in alphabetical order."""
    place = ["fault", "topic", "hour"]
    numbered = faults.withColumn("number", F.row_number().over(Window.partitionBy(*place).orderBy("event_id")))
    example = F.when(F.col("number") <= examples_max, F.col("event_id"))
    return numbered.groupBy(*place).agg(
        F.count("*").alias("count"), F.sort_array(F.collect_list(example)).alias("examples")
    )
