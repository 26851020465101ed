"""Service: computes silver and gold from attempts, day by day; a job may run any number of times (PL-02..PL-04).

::

    attempts --deliveries--> silver --metrics--> gold, by hour --slo--> gold, over 28 days

A day is computed again if its source has more rows than at the last computation. It is never computed from fewer rows,
so retention in the database removes nothing from the lake.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from pipeline.day import counts_of_days, put_days, sources_of_days, written
from pipeline.delivery import ATTEMPT, deliveries, delivery_table
from pipeline.delta.snapshot import DataFile, Snapshot
from pipeline.frame import frame_of
from pipeline.lake import Table
from pipeline.metric import metric_table, metrics
from pipeline.slo import SPAN_DAYS, slo, slo_table
from pipeline.storage import LakeStorage

__all__ = ["Service", "measured_days", "overdrawn", "rows_of", "stale_days", "wanted_days"]


def wanted_days(lake: LakeStorage, attempts: Mapping[date, int]) -> list[date]:
    """Return the days for which the database has more attempts than silver, oldest first."""
    kept = counts_of_days(delivery_table(lake).snapshot())
    return sorted(day for day, count in attempts.items() if count > kept.get(day, 0))


def stale_days(lake: LakeStorage, since: date, until: date) -> dict[date, int]:
    """Return the days whose silver has more rows than their metrics were computed from, each with its rows."""
    made_from = sources_of_days(metric_table(lake))
    counts = counts_of_days(delivery_table(lake).snapshot())
    return {day: n for day, n in counts.items() if since <= day <= until and n > made_from.get(day, 0)}


def measured_days(lake: LakeStorage, since: date, until: date) -> dict[date, int]:
    """Return the days that have metrics, each with its number of rows."""
    counts = counts_of_days(metric_table(lake).snapshot())
    return {day: n for day, n in counts.items() if since <= day <= until}


class Service:
    """The three jobs over one lake. ``run`` is the id in the table of runs."""

    def __init__(self, spark: SparkSession, lake: LakeStorage, run: str) -> None:
        self._spark = spark
        self._lake = lake
        self._run = run

    def write_attempts(self, page: Sequence[Sequence[Any]]) -> tuple[DataFile, ...]:
        """Write rows of ``ATTEMPT`` of one day into files that are not part of silver yet."""
        return written(delivery_table(self._lake), deliveries(frame_of(self._spark, page, ATTEMPT)))

    def put_attempts(self, day: date, files: tuple[DataFile, ...]) -> int:
        """Replace the day of silver by these files; return their rows, or 0 if silver has more rows.

        Raises LakeConflict and LakeDamaged.
        """
        table, rows = delivery_table(self._lake), sum(file.rows for file in files)
        if rows < counts_of_days(table.snapshot()).get(day, 0):
            return 0
        put_days(table, files, {day: rows}, "deliveries", self._run)
        return rows

    def refresh_metrics(self, since: date, until: date) -> list[date]:
        """Compute the days of :func:`stale_days` again; return them."""
        silver, gold = delivery_table(self._lake), metric_table(self._lake)
        if stale := stale_days(self._lake, since, until):
            rows = metrics(silver.read(self._spark, _of_days(silver, stale)))
            put_days(gold, written(gold, rows), stale, "metrics", self._run)
        return sorted(stale)

    def refresh_slo(self, since: date, until: date, target: float) -> list[date]:
        """Compute the days of :func:`measured_days` again; return them."""
        gold, table = metric_table(self._lake), slo_table(self._lake)
        if days := measured_days(self._lake, since, until):
            span = measured_days(self._lake, since - timedelta(days=SPAN_DAYS - 1), until)
            rows = slo(gold.read(self._spark, _of_days(gold, span)), target)
            put_days(table, written(table, rows.where(F.col("dt") >= F.lit(since))), days, "slo", self._run)
        return sorted(days)


def rows_of(spark: SparkSession, table: Table, days: Iterable[date]) -> list[dict[str, Any]]:
    """Return the rows of these days for the database, with times in UTC."""
    snapshot = _of_days(table, days)
    rows = table.read(spark, snapshot).collect() if snapshot.files else []
    return [
        {name: value.astimezone(UTC) if isinstance(value, datetime) else value for name, value in row.asDict().items()}
        for row in rows
    ]


def overdrawn(spark: SparkSession, table: Table, day: date) -> list[dict[str, Any]]:
    """Return the subscriptions whose error budget is overdrawn on this day, worst first."""
    rows = [row for row in rows_of(spark, table, [day]) if row["burn"] > 1]
    return sorted(rows, key=lambda row: (-row["burn"], row["subscription"]))


def _of_days(table: Table, days: Iterable[date]) -> Snapshot:
    names = {day.isoformat() for day in days}
    return Snapshot(files=tuple(file for file in table.snapshot().files if file.values["dt"] in names))
