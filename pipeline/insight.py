"""Insight: daily jobs over a lake that return plain rows. Each transform is a module of its own."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from pipeline.anomaly import anomalies
from pipeline.deadletter import DEAD_LETTERS, clusters
from pipeline.drift import schemas
from pipeline.frame import frame_of
from pipeline.lake import Table, bronze
from pipeline.metric import metric_table
from pipeline.storage import LakeStorage
from pipeline.volume import by_hour, usage

__all__ = ["Insight", "dead_letter_clusters"]


class Insight:
    """The jobs for the days from ``since`` to ``until``, both included."""

    def __init__(self, spark: SparkSession, lake: LakeStorage, since: date, until: date) -> None:
        self._spark = spark
        self._lake = lake
        self._span = (since.isoformat(), until.isoformat())
        self._days = self._of_span(bronze(lake))

    def _of_span(self, table: Table, topic: str | None = None) -> DataFrame:
        first, last = self._span
        days = table.snapshot().where(lambda file: first <= file.values["dt"] <= last)
        wanted = days if topic is None else days.where(lambda file: file.values["topic"] == topic)
        return table.read(self._spark, wanted)

    def usage(self) -> list[dict[str, Any]]:
        """Return ``volume.usage``."""
        return _rows(usage(self._days).orderBy("day", "topic"))

    def schemas(self, topic: str | None) -> list[dict[str, Any]]:
        """Return ``drift.schemas``."""
        return _rows(schemas(self._of_span(bronze(self._lake), topic)).orderBy("topic", "day"))

    def volume(self) -> list[dict[str, Any]]:
        """Return ``volume.by_hour``."""
        return _rows(by_hour(self._days).orderBy("topic", "hour"))

    def failing(self, limit: int) -> list[dict[str, Any]]:
        """Return the subscriptions of gold with the largest failed ``share``.

        The columns are ``subscription``, ``attempts``, ``failed``, ``dead`` and ``share``.
        """
        gold = self._of_span(metric_table(self._lake))
        sums = gold.groupBy("subscription").agg(
            F.sum("attempts").alias("attempts"),
            (F.sum("attempts") - F.sum("delivered")).alias("failed"),
            F.sum("dead").alias("dead"),
        )
        worst = sums.where("failed > 0").withColumn("share", F.col("failed") / F.col("attempts"))
        return _rows(worst.orderBy(F.desc("failed"), "subscription").limit(limit))

    def anomalies(self, since: datetime, until: datetime, threshold: float) -> list[dict[str, Any]]:
        """Return ``anomaly.anomalies``."""
        hours = by_hour(self._days).where(F.col("hour").between(F.lit(since), F.lit(until)))
        return _rows(anomalies(hours, since, until, threshold).orderBy("hour", "topic"))


def dead_letter_clusters(spark: SparkSession, letters: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Return ``deadletter.clusters``; the columns are those of ``deadletter.DEAD_LETTERS``."""
    return _rows(clusters(frame_of(spark, letters, DEAD_LETTERS)))


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [_row(row) for row in frame.collect()]


def _row(row: Row) -> dict[str, Any]:
    """Convert times to UTC: Spark returns local times without a zone."""
    return {
        name: value.astimezone(UTC) if isinstance(value, datetime) else value for name, value in row.asDict().items()
    }
