"""Deliveries: one row for each attempt at a webhook, with the class of a failure.

This is a silver table. It has no keys, payloads or answers, so erasure does not touch it.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from pipeline.frame import struct_of
from pipeline.lake import Table
from pipeline.storage import LakeStorage

__all__ = ["ATTEMPT", "deliveries", "delivery_table"]

ATTEMPT: Final = (
    "tenant string, event_id long, topic string, accepted_at timestamp, subscription string, protocol string, "
    "number integer, trigger string, started_at timestamp, connect_seconds double, first_byte_seconds double, "
    "seconds double, status integer, outcome string, decision string"
)
"""An attempt as the hub stores it; ``topic`` is the hub's topic, ``subscription`` is the public id."""

_COLUMNS: Final = f"{ATTEMPT}, error_class string, dt date"


def delivery_table(lake: LakeStorage, of: type[Table] = Table) -> Table:
    """Return the silver table, with a folder for each day on which attempts began."""
    return of(lake, "deliveries", struct_of(_COLUMNS), ("dt",))


def deliveries(attempts: DataFrame) -> DataFrame:
    """Add ``error_class`` (null if delivered) and ``dt``, the UTC day of the start, to rows of ``ATTEMPT``."""
    return attempts.withColumns({"error_class": _error_class(), "dt": F.to_date("started_at")})


def _error_class() -> Column:
    """Return the part that failed: the address, the network, the endpoint's rules, or its load."""
    status = F.col("status")
    return (
        F.when(F.col("outcome") == "delivered", None)
        .when(status.isin(401, 403), F.lit("credentials"))
        .when(status.isin(404, 410), F.lit("gone"))
        .when((status == 429) | (F.col("outcome") == "throttled"), F.lit("throttled"))
        .when(status.between(300, 399), F.lit("redirect"))
        .when(status.between(400, 499), F.lit("refused"))
        .when(status >= 500, F.lit("failing"))
        .when(F.col("outcome") == "timeout", F.lit("timeout"))
        .when(F.col("outcome").isin("dns", "connect", "tls", "blocked"), F.lit("unreachable"))
        .otherwise(F.lit("other"))
    )
