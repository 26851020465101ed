"""Cells: the records of one topic, hour and quarter of the ids, summed up as in the ledger."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from pipeline.audit.evidence import BUCKETS, hash_number, ledger_hash

__all__ = ["LEDGER", "cells", "compared", "summed_hours"]

LEDGER: Final = (
    "topic string, hour timestamp, bucket long, owed long, owed_sum decimal(20,0), owed_low long, owed_high long, "
    "owed_content decimal(20,0)"
)
"""The ledger's columns. ``topic`` is Kafka's. ``owed_content`` is null if the ledger has no contents."""


_SEALS: Final = {"broken": "broken", "unsealed": "unsealed", "other_key": "other key", "unproved": "unproved"}
"""The counts of a cell by the state of the seals (see ``seal.with_seal_state``)."""


def summed_hours(ledger: DataFrame, evidence: DataFrame) -> list[datetime]:
    """Return the hours with a cell whose contents cannot be compared, so that its ids have to be summed.

    Such a cell was begun by the ledger before it had contents, or some of its records were erased.
    """
    unknown = ledger.where("owed_content IS NULL").select("hour")
    erased = evidence.where("is_erased").select("hour")
    rows = unknown.unionByName(erased).distinct().collect()
    return sorted(row["hour"].astimezone(UTC) for row in rows)  # Spark returns times in this machine's zone


def cells(evidence: DataFrame, summed: Collection[datetime]) -> DataFrame:
    """Return a row for each ``topic``, ``hour`` and ``bucket``.

    The row has ``records``, ``sum``, ``content``, ``low``, ``high``. It also counts erased, misfiled and late records,
    and those of each state of a seal.
    A content's hash covers the id, so ``sum``, the checksum of the ids, is computed only in the hours of ``summed``.
    Records that are not ours have no id; they stand in cells whose bucket is null.
    """
    hashed = evidence.withColumns(
        {
            "bucket": F.col("id").bitwiseAND(F.lit(BUCKETS - 1)),
            "number": F.when(F.col("hour").isin(list(summed)), ledger_hash(F.col("id"))),
            "content": hash_number(F.col("digest")),
        }
    )
    return (
        hashed.groupBy("topic", "hour", "bucket")
        .agg(
            F.count("*").alias("records"),
            *_halves_summed("number"),
            *_halves_summed("content"),
            F.min("id").alias("low"),
            F.max("id").alias("high"),
            F.count_if("is_late").alias("late"),
            F.count_if("is_misfiled").alias("misfiled"),
            F.count_if("is_erased").alias("erased"),
            *(F.count_if(F.col("seal_state") == state).alias(name) for name, state in _SEALS.items()),
        )
        .withColumns({"sum": _joined("number"), "content": _joined("content")})
        .drop("number_high", "number_low", "content_high", "content_low")
    )


def _halves_summed(name: str) -> tuple[Column, Column]:
    """Return the sums of the upper and the lower 32 bits, which fit into a long up to 2**31 records."""
    number = F.col(name)
    high, low = F.shiftrightunsigned(number, 32), number.bitwiseAND(F.lit(0xFFFFFFFF))
    return F.sum(high).alias(f"{name}_high"), F.sum(low).alias(f"{name}_low")


def _joined(name: str) -> Column:
    """Return the sum of both halves, modulo 2**64."""
    high, low = F.col(f"{name}_high"), F.col(f"{name}_low")
    shifted = F.pmod(high, F.lit(2**32)).cast("decimal(20,0)") * F.lit(Decimal(2**32))
    return F.pmod(shifted + low.cast("decimal(20,0)"), F.lit(Decimal(2**64))).cast("decimal(20,0)")


def compared(ledger: DataFrame, cells: DataFrame, summed: Collection[datetime]) -> DataFrame:
    """Return every cell of either side, with the columns of ``inquiry.Cell``. ``ledger`` has the columns ``LEDGER``."""
    sides = cells.join(ledger, ["topic", "hour", "bucket"], "full_outer")
    is_equal = F.lit(True)
    for ours, theirs in (("records", "owed"), ("low", "owed_low"), ("high", "owed_high")):
        is_equal = is_equal & F.col(ours).eqNullSafe(F.col(theirs))
    is_summed = F.col("hour").isin(list(summed))
    is_equal = is_equal & (~is_summed | F.col("sum").eqNullSafe(F.col("owed_sum")))
    return sides.select(
        "topic",
        "hour",
        "bucket",
        F.coalesce("owed", F.lit(0)).alias("owed"),
        "owed_low",
        "owed_high",
        F.coalesce("records", F.lit(0)).alias("records"),
        *(F.coalesce(name, F.lit(0)).alias(name) for name in ("late", "misfiled", "erased", *_SEALS)),
        is_equal.alias("is_equal"),
        F.when(F.coalesce("erased", F.lit(0)) == 0, F.col("content") == F.col("owed_content")).alias("has_contents"),
    )
