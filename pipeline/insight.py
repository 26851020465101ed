"""Insight: daily jobs over a lake that return plain rows. Each transform is a module of its own."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from pipeline.anomaly import anomalies
from pipeline.deadletter import DEAD_LETTERS, clusters
from pipeline.delivery import delivery_table
from pipeline.delta.snapshot import Snapshot
from pipeline.frame import frame_of
from pipeline.lake import Table, bronze
from pipeline.report.figures import LakeAnswers
from pipeline.report.queries import OF_DAYS, answered, grain_of
from pipeline.storage import LakeStorage
from pipeline.typed.drift import schemas
from pipeline.typed.proposal import proposed
from pipeline.volume import by_hour, usage

__all__ = ["Insight", "dead_letter_clusters"]


class Insight:
    """The jobs for the days from ``since`` to ``until``, both included."""

    def __init__(self, spark: SparkSession, lake: LakeStorage, since: date, until: date) -> None:
        self._spark = spark
        self._lake = lake
        self._span = (since.isoformat(), until.isoformat())
        self._days = self._of_span(bronze(lake))

    def _files(self, table: Table) -> Snapshot:
        first, last = self._span
        return table.snapshot().where(lambda file: first <= file.values["dt"] <= last)

    def _of_span(self, table: Table, topic: str | None = None) -> DataFrame:
        days = self._files(table)
        wanted = days if topic is None else days.where(lambda file: file.values["topic"] == topic)
        return table.read(self._spark, wanted)

    def usage(self) -> list[dict[str, Any]]:
        """Return ``volume.usage``."""
        return _rows(usage(self._days).orderBy("day", "topic"))

    def schemas(self, topic: str | None) -> list[dict[str, Any]]:
        """Return ``drift.schemas``."""
        return _rows(schemas(self._of_span(bronze(self._lake), topic)).orderBy("topic", "day"))

    def proposed_schema(self, topic: str) -> dict[str, Any] | None:
        """Return ``proposal.proposed``."""
        return proposed(self._of_span(bronze(self._lake), topic))

    def answers(self, late_seconds: float) -> LakeAnswers:
        """Return the numbers of the report, by the names of its queries."""
        silver = delivery_table(self._lake)
        first, last = map(date.fromisoformat, self._span)
        days = {file.day for table in (bronze(self._lake), silver) for file in self._files(table).files}
        parameters = {"first": first, "last": last, "grain": grain_of(days), "late_seconds": late_seconds}
        tables = {"bronze": self._days, "deliveries": self._of_span(silver)}
        rows = {name: answered(self._spark, name, parameters, tables) for name in OF_DAYS}
        rows["newest_event"] = self._newest("newest_event", bronze(self._lake))
        rows["newest_attempt"] = self._newest("newest_attempt", silver)
        return LakeAnswers(parameters, rows)

    def _newest(self, name: str, table: Table) -> list[dict[str, Any]]:
        """Return the answer of a query for the newest time: from the newest day, or from more days if it has none."""
        snapshot, found = table.snapshot(), list[dict[str, Any]]()
        days = sorted({file.day for file in snapshot.files}, reverse=True)
        for oldest in dict.fromkeys((*days[:1], *days[7:8], *days[-1:])):
            found = answered(self._spark, name, {}, {table.name: table.read(self._spark, _from(snapshot, oldest))})
            if found[0]["at"] is not None:
                break
        return found

    def anomalies(self, since: datetime, until: datetime, threshold: float) -> list[dict[str, Any]]:
        """Return ``anomaly.anomalies``."""
        hours = by_hour(self._days).where(F.col("hour").between(F.lit(since), F.lit(until)))
        return _rows(anomalies(hours, since, until, threshold).orderBy("hour", "topic"))


def dead_letter_clusters(spark: SparkSession, letters: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Return ``deadletter.clusters``; the columns are those of ``deadletter.DEAD_LETTERS``."""
    return _rows(clusters(frame_of(spark, letters, DEAD_LETTERS)))


def _from(snapshot: Snapshot, day: date) -> Snapshot:
    return snapshot.where(lambda file: file.day >= day)


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [_row(row) for row in frame.collect()]


def _row(row: Row) -> dict[str, Any]:
    """Convert times to UTC: Spark returns local times without a zone."""
    return {
        name: value.astimezone(UTC) if isinstance(value, datetime) else value for name, value in row.asDict().items()
    }
