"""Lanes: the records of one key in the order of their offsets, and the faults of that order.

In a correct lane the ids rise and the terms never fall. So a comparison with the record before decides most records,
and only lanes with a suspect record are examined again::

    ids       1  2  3  1  2  3  4      a re-run: legal where the sink is at least once
    ids       1  2  3  1  3  4         3 repeated without its neighbour: illegal
    ids       1  3  2  4               2 is reordered
    terms     7  7  8  7               the last term is stale: its sender had lost leadership

Records without a key have no order; their lane is one event and its repeats.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

__all__ = ["ORDER", "faults", "lanes", "suspects", "with_order"]

ORDER: Final = ("topic", "key", "id", "event_id", "term", "hour", "partition", "offset", "archived_at")
"""The columns of evidence that tell the order of a key."""


def with_order(evidence: DataFrame, before: DataFrame | None) -> DataFrame:
    """Return the records, and those of the day before, of which only the columns ``ORDER`` are known."""
    return evidence if before is None else evidence.unionByName(before, allowMissingColumns=True)


def lanes(evidence: DataFrame) -> DataFrame:
    """Return the records with the columns ``lane``, ``is_repeat`` and ``is_stale``.

    ``lane`` is a hash; two keys that share a hash only cause a second examination. ``is_repeat``: the record before has
    an id at least as high. ``is_stale``: the record before has a higher term.
    """
    lane = (
        F.when(F.col("id").isNull(), F.xxhash64("topic", "partition", "offset"))
        .when(F.col("key").isNull(), F.xxhash64("topic", "id"))
        .otherwise(F.xxhash64("topic", "key"))
    )
    # A topic that was created again repeats its offsets. Records that were archived earlier came first.
    place = F.shiftleft(F.col("partition").cast("long"), 48) + F.col("offset")
    by_offset = Window.partitionBy("lane").orderBy("archived_at", "place")
    term = F.coalesce("term", F.lit(0))
    return (
        evidence.withColumn("place", place)
        .withColumn("lane", lane)
        .select(
            "*",
            F.coalesce(F.lag("id").over(by_offset) >= F.col("id"), F.lit(False)).alias("is_repeat"),
            F.coalesce(F.lag(term).over(by_offset) > term, F.lit(False)).alias("is_stale"),
        )
    )


def suspects(lanes: DataFrame) -> DataFrame:
    """Return all records of the lanes that have a repeat or a stale record."""
    odd = lanes.where("is_repeat OR is_stale").select("lane").distinct()
    return lanes.join(odd, "lane", "left_semi")


def faults(suspects: DataFrame) -> DataFrame:
    """Return a row for each fault: ``fault``, ``topic``, ``hour``, ``event_id``, ``is_legal`` (of a duplicate).

    A record whose seal is broken is named as altered. What it says of its order accuses no other record.
    """
    is_whole = ~F.col("seal_state").eqNullSafe("broken")
    key = F.coalesce("key", F.concat(F.lit("\0"), "event_id"))
    by_offset = Window.partitionBy("topic", "name", "partition").orderBy("archived_at", "offset")
    of_event = Window.partitionBy("topic", "id").orderBy("archived_at", "partition", "offset")
    before = by_offset.rowsBetween(Window.unboundedPreceding, -1)
    judged = (
        suspects.where("id IS NOT NULL")
        .withColumn("name", key)
        .withColumn("rank", F.dense_rank().over(Window.partitionBy("topic", "name").orderBy("id")))
        .withColumn("copy", F.row_number().over(of_event))
        .withColumn("previous_rank", F.lag("rank").over(by_offset))
        .withColumn("previous_offset", F.lag("offset").over(by_offset))
        .withColumn("top", F.max(F.when(is_whole, F.col("id"))).over(before))
        .withColumn("top_term", F.max(F.when(is_whole, F.col("term"))).over(before))
    )
    is_first = F.col("copy") == 1
    return judged.select(
        "topic", "hour", "event_id",
        _is_legal_repeat().alias("is_legal"),
        F.explode(
            F.filter(
                F.array(
                    F.when(~is_first, F.lit("duplicated")),
                    F.when(is_first & is_whole & (F.col("id") < F.col("top")), F.lit("reordered")),
                    F.when(is_whole & (F.col("term") < F.col("top_term")), F.lit("stale term")),
                ),
                lambda fault: fault.isNotNull(),
            )
        ).alias("fault"),
    )  # fmt: skip


def _is_legal_repeat() -> Column:
    """Return whether the record belongs to a re-run: ids go back once, then rise in steps of one, at new offsets."""
    step = F.col("rank") - F.col("previous_rank")
    same_place = F.coalesce(F.col("offset") == F.col("previous_offset"), F.lit(False))
    return F.coalesce(step <= 1, F.lit(True)) & ~same_place
