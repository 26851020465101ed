"""Clusters of dead letters: receiver, kind, times, count, and the action that helps."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

__all__ = ["DEAD_LETTERS", "clusters"]

DEAD_LETTERS: Final = (
    "receiver string, topic string, kind string, status long, outcome string, detail string, died_at timestamp"
)
"""``receiver``: a subscription's id, or the name of a broker's sink."""


def clusters(dead_letters: DataFrame) -> DataFrame:
    """Return clusters, largest first: ``receiver``, ``kind``, ``status``, ``outcome``, ``count``, ``first``, ``last``,
    ``topics``, ``detail`` (the latest) and ``action``.
    """
    grouped = dead_letters.groupBy("receiver", "kind", "status", "outcome").agg(
        F.count("*").alias("count"),
        F.min("died_at").alias("first"),
        F.max("died_at").alias("last"),
        F.sort_array(F.collect_set("topic")).alias("topics"),
        F.max_by("detail", "died_at").alias("detail"),
    )
    return grouped.withColumn("action", _action()).orderBy(F.desc("count"), "receiver", "kind", "status", "outcome")


def _action() -> Column:
    status = F.col("status")
    return (
        F.when(
            F.col("kind") == "refused", F.lit("the broker refuses these records: see detail, then deadletters retry")
        )
        .when(F.col("kind") == "given_up", F.lit("a person gave these up: nothing is owed"))
        .when(F.col("kind") == "too_late", F.lit("their time ended first: allow more time, then replay"))
        .when((F.col("kind") == "gone") | status.isin(404, 410), F.lit("the endpoint is gone: correct or delete it"))
        .when(status.isin(401, 403), F.lit("the endpoint wants other credentials: correct it, then replay"))
        .when(status == 413, F.lit("events are larger than the endpoint takes"))
        .when(status == 429, F.lit("the endpoint is too slow for this rate: replay with --rate"))
        .when(status.between(400, 499), F.lit("the endpoint refuses these events: see detail, then skip or correct"))
        .when(status >= 500, F.lit("the endpoint was failing: replay when it works again"))
        .otherwise(F.lit("the endpoint was not reached: check address and network, then replay"))
    )
