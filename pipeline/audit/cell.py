"""Cells: the records of one topic, hour and quarter of the ids, summed up as in the ledger (PL-A03)."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from pipeline.audit.evidence import BUCKETS, hash_halves, ledger_hash_halves

__all__ = ["LEDGER", "cells", "compared"]

LEDGER: Final = (
    "topic string, hour timestamp, bucket long, owed long, owed_sum decimal(20,0), owed_low long, owed_high long, "
    "owed_content decimal(20,0)"
)
"""The ledger's columns. ``topic`` is Kafka's. ``owed_content`` is null if the ledger has no contents."""


def cells(evidence: DataFrame) -> DataFrame:
    """Return a row for each ``topic``, ``hour`` and ``bucket``.

    The row has ``records``, ``sum``, ``content``, ``low``, ``high``. It also counts erased, misfiled and late records.
    Records that are not ours have no id; they stand in cells whose bucket is null.
    """
    high, low = ledger_hash_halves(F.col("id"))
    content_high, content_low = hash_halves(F.col("digest"))
    return (
        evidence.groupBy("topic", "hour", F.col("id").bitwiseAND(F.lit(BUCKETS - 1)).alias("bucket"))
        .agg(
            F.count("*").alias("records"),
            F.sum(high).alias("sum_high"),
            F.sum(low).alias("sum_low"),
            F.sum(content_high).alias("content_high"),
            F.sum(content_low).alias("content_low"),
            F.min("id").alias("low"),
            F.max("id").alias("high"),
            F.count_if("is_late").alias("late"),
            F.count_if("is_misfiled").alias("misfiled"),
            F.count_if("is_erased").alias("erased"),
        )
        .withColumn("sum", _joined(F.col("sum_high"), F.col("sum_low")))
        .withColumn("content", _joined(F.col("content_high"), F.col("content_low")))
        .drop("sum_high", "sum_low", "content_high", "content_low")
    )


def _joined(high: Column, low: Column) -> Column:
    """Return the sum of both halves, modulo 2**64."""
    shifted = F.pmod(high, F.lit(2**32)).cast("decimal(20,0)") * F.lit(Decimal(2**32))
    return F.pmod(shifted + low.cast("decimal(20,0)"), F.lit(Decimal(2**64))).cast("decimal(20,0)")


def compared(ledger: DataFrame, cells: DataFrame) -> DataFrame:
    """Return every cell of either side, with the columns of ``inquiry.Cell``. ``ledger`` has the columns ``LEDGER``."""
    sides = cells.join(ledger, ["topic", "hour", "bucket"], "full_outer")
    pairs = (("records", "owed"), ("sum", "owed_sum"), ("low", "owed_low"), ("high", "owed_high"))
    is_equal = F.lit(True)
    for ours, theirs in pairs:
        is_equal = is_equal & F.col(ours).eqNullSafe(F.col(theirs))
    return sides.select(
        "topic",
        "hour",
        "bucket",
        F.coalesce("owed", F.lit(0)).alias("owed"),
        "owed_low",
        "owed_high",
        F.coalesce("records", F.lit(0)).alias("records"),
        *(F.coalesce(name, F.lit(0)).alias(name) for name in ("late", "misfiled", "erased")),
        is_equal.alias("is_equal"),
        F.when(F.coalesce("erased", F.lit(0)) == 0, F.col("content") == F.col("owed_content")).alias("has_contents"),
    )
